//! Directories as artifacts: a listing, which is a blob itself, names the blob of every file.
//!
//! ```text
//! pipe tree 1
//! -<TAB>12<TAB><blob id><TAB>data/part.csv      a file, its size in bytes
//! x<TAB>40<TAB><blob id><TAB>run.sh             an executable file
//! l<TAB>data/part.csv<TAB>latest                a symbolic link, its target first
//! d<TAB>empty                                   a directory with nothing in it
//! ```
//!
//! Sorted by path, component by component, one line each; directories that hold something follow from the paths. Control
//! characters, backslashes and bytes that are not UTF-8 are written as `\xNN`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use pipe_core::digest::BlobId;

const HEAD: &str = "pipe tree 1\n";
/// How many links Linux follows on the way to one file.
const MOST_LINKS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeEntry {
    /// The path relative to the directory.
    pub(super) path: PathBuf,
    pub(super) node: TreeNode,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TreeNode {
    File { executable: bool, bytes: u64, blob: BlobId },
    Link { target: PathBuf },
    EmptyDirectory,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tree {
    entries: Vec<TreeEntry>,
}

impl Tree {
    pub(super) fn new(mut entries: Vec<TreeEntry>) -> Self {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Self { entries }
    }

    pub(super) fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, BlobId, u64)> {
        self.entries.iter().filter_map(|entry| match entry.node {
            TreeNode::File { bytes, blob, .. } => Some((entry.path.as_path(), blob, bytes)),
            _ => None,
        })
    }

    /// Returns the size of all files together.
    pub(super) fn bytes(&self) -> u64 {
        self.files().map(|(_, _, bytes)| bytes).sum()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut text = String::from(HEAD);
        for TreeEntry { path, node } in &self.entries {
            match node {
                TreeNode::File { executable, bytes, blob } => {
                    let mode = if *executable { 'x' } else { '-' };
                    // Writing to a String cannot fail.
                    let _ = write!(text, "{mode}\t{bytes}\t{blob}\t");
                }
                TreeNode::Link { target } => {
                    text.push_str("l\t");
                    escape(target, &mut text);
                    text.push('\t');
                }
                TreeNode::EmptyDirectory => text.push_str("d\t"),
            }
            escape(path, &mut text);
            text.push('\n');
        }
        text.into_bytes()
    }

    /// Reads a listing. Refuses everything that [`Tree::encode`] does not write, above all paths and links that leave the
    /// directory.
    pub(super) fn decode(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|_| "the listing is not text")?;
        let lines = text.strip_prefix(HEAD).ok_or("the listing's first line is unknown")?;
        if !lines.is_empty() && !lines.ends_with('\n') {
            return Err("the listing is cut short".into());
        }
        let entries: Vec<TreeEntry> = lines
            .lines()
            .map(|line| decode_line(line).ok_or_else(|| format!("`{line}` is no entry of a listing")))
            .collect::<Result<_, _>>()?;
        for pair in entries.windows(2) {
            let (before, after) = (&pair[0].path, &pair[1].path);
            if before >= after || after.starts_with(before) {
                return Err(format!("`{}` is not in order", after.display()));
            }
        }
        let tree = Self { entries };
        match tree.link_that_leads_out() {
            Some(link) => Err(format!("the symbolic link `{}` leads out of the directory", link.display())),
            None => Ok(tree),
        }
    }

    /// Returns a link whose target is not inside the directory, if there is one. Links on the way are followed, because
    /// `..` behind a link leads to the parent of what it points to.
    fn link_that_leads_out(&self) -> Option<&Path> {
        let as_link = |entry: &'_ TreeEntry| match &entry.node {
            TreeNode::Link { target } => Some((entry.path.clone(), target.clone())),
            TreeNode::File { .. } | TreeNode::EmptyDirectory => None,
        };
        let links: HashMap<PathBuf, PathBuf> = self.entries.iter().filter_map(as_link).collect();
        let leads_out =
            |path: &Path| links.get(path).is_some_and(|target| !stays_inside(path, target, &links));
        self.entries.iter().map(|entry| entry.path.as_path()).find(|path| leads_out(path))
    }
}

/// Returns whether every step from a link to its target is inside the directory.
fn stays_inside(link: &Path, target: &Path, links: &HashMap<PathBuf, PathBuf>) -> bool {
    let mut at = link.parent().unwrap_or(Path::new("")).to_owned();
    let mut followed = 0;
    // The steps that are still to be taken, the next one last.
    let mut steps: Vec<Component> = target.components().rev().collect();
    while let Some(step) = steps.pop() {
        match step {
            Component::CurDir => {}
            Component::ParentDir => {
                if !at.pop() {
                    return false;
                }
            }
            Component::Normal(name) => {
                at.push(name);
                if let Some(next) = links.get(&at) {
                    at.pop();
                    steps.extend(next.components().rev());
                    followed += 1;
                }
            }
            Component::RootDir | Component::Prefix(_) => return false,
        }
        // The system gives up as well, so such a link leads nowhere.
        if followed > MOST_LINKS {
            return true;
        }
    }
    true
}

fn decode_line(line: &str) -> Option<TreeEntry> {
    let (kind, rest) = line.split_once('\t')?;
    let (node, path) = match kind {
        "-" | "x" => {
            let (bytes, rest) = rest.split_once('\t')?;
            let (blob, path) = rest.split_once('\t')?;
            let (bytes, blob) = (bytes.parse().ok()?, blob.parse().ok()?);
            (TreeNode::File { executable: kind == "x", bytes, blob }, path)
        }
        "l" => {
            let (target, path) = rest.split_once('\t')?;
            (TreeNode::Link { target: unescape(target)? }, path)
        }
        "d" => (TreeNode::EmptyDirectory, rest),
        _ => return None,
    };
    let path = unescape(path)?;
    is_plain(&path).then_some(TreeEntry { path, node })
}

/// Returns whether a path is relative, not empty, without `.` or `..`, and in normal form.
fn is_plain(path: &Path) -> bool {
    let rebuilt: PathBuf = path.components().filter(|c| matches!(c, Component::Normal(_))).collect();
    path_bytes(&rebuilt) == path_bytes(path) && !path.as_os_str().is_empty()
}

fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn escape(path: &Path, text: &mut String) {
    let hex = |bytes: &[u8], text: &mut String| {
        for byte in bytes {
            let _ = write!(text, "\\x{byte:02x}");
        }
    };
    for chunk in path_bytes(path).utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                hex(character.encode_utf8(&mut [0; 4]).as_bytes(), text);
            } else {
                text.push(character);
            }
        }
        hex(chunk.invalid(), text);
    }
}

fn unescape(text: &str) -> Option<PathBuf> {
    let mut parts = text.split('\\');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.strip_prefix('x')?;
        bytes.push(u8::from_str_radix(digits.get(..2)?, 16).ok()?);
        bytes.extend(&digits.as_bytes()[2..]);
    }
    Some(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::digest::Digest;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>().prop_filter("a name", |b| *b != 0 && *b != b'/'), 1..8)
            .prop_filter("not special", |name| name != b"." && name != b"..")
    }

    fn node() -> impl Strategy<Value = TreeNode> {
        prop_oneof![
            (any::<bool>(), any::<u64>(), any::<[u8; 32]>()).prop_map(|(executable, bytes, id)| {
                TreeNode::File { executable, bytes, blob: BlobId::new(Digest::from_bytes(id)) }
            }),
            name().prop_map(|name| TreeNode::Link { target: OsString::from_vec(name).into() }),
            Just(TreeNode::EmptyDirectory),
        ]
    }

    /// Leaves below one or two directories, so that no path is the directory of another.
    fn tree() -> impl Strategy<Value = Tree> {
        let entry = (name(), name(), node());
        proptest::collection::btree_map(name(), proptest::collection::vec(entry, 0..4), 0..6).prop_map(
            |directories| {
                let mut seen = std::collections::BTreeSet::new();
                let entries = directories.iter().flat_map(|(top, leaves)| {
                    leaves.iter().map(move |(middle, leaf, node)| {
                        let path = [top.as_slice(), middle, leaf].join(&b'/');
                        TreeEntry { path: OsString::from_vec(path).into(), node: node.clone() }
                    })
                });
                Tree::new(entries.filter(|entry| seen.insert(entry.path.clone())).collect())
            },
        )
    }

    proptest! {
        #[test]
        fn a_listing_survives_its_text(tree in tree()) {
            let text = tree.encode();
            prop_assert_eq!(Tree::decode(&text), Ok(tree));
        }

        #[test]
        fn any_text_is_read_or_refused(text: Vec<u8>) {
            let _ = Tree::decode(&[HEAD.as_bytes(), text.as_slice()].concat());
        }
    }

    #[test]
    fn the_text_is_pinned() {
        let file = |path: &str, executable| TreeEntry {
            path: path.into(),
            node: TreeNode::File { executable, bytes: 3, blob: BlobId::new(Digest::of(b"abc")) },
        };
        let tree = Tree::new(vec![
            file("run.sh", true),
            TreeEntry { path: "latest".into(), node: TreeNode::Link { target: "a b".into() } },
            file("a b", false),
            TreeEntry { path: "empty\n".into(), node: TreeNode::EmptyDirectory },
        ]);
        let id = Digest::of(b"abc");
        let expected =
            format!("pipe tree 1\n-\t3\t{id}\ta b\nd\tempty\\x0a\nl\ta b\tlatest\nx\t3\t{id}\trun.sh\n");
        assert_eq!(String::from_utf8(tree.encode()).unwrap(), expected);
    }

    #[test]
    fn a_path_that_leaves_the_directory_is_refused() {
        for path in ["../x", "/x", "a/../x", "./x", "", "a//x", "a/", "a\\x2", "\\y00"] {
            assert!(Tree::decode(format!("{HEAD}d\t{path}\n").as_bytes()).is_err(), "{path}");
        }
        for lines in ["d\tb\nd\ta\n", "d\ta\nd\ta\n", "d\ta\nd\ta/b\n", "d\ta\nd\ta/b\nd\ta b\n", "d\ta"] {
            assert!(Tree::decode(format!("{HEAD}{lines}").as_bytes()).is_err(), "{lines:?}");
        }
        assert_eq!(Tree::decode(HEAD.as_bytes()), Ok(Tree::default()));
    }

    #[test]
    fn a_link_that_leaves_the_directory_is_refused() {
        let decode = |lines: &str| Tree::decode(format!("{HEAD}{lines}").as_bytes());
        for lines in [
            "l\t/etc/passwd\tx\n",
            "l\t../x\tx\n",
            "l\t../../x\ta/b\n",
            "l\ta/../../x\tx\n",
            // Inside by its spelling; but `d/e/up` is the directory itself, and `..` behind it is outside.
            "l\td/e/up/..\tb\nl\t../..\td/e/up\n",
        ] {
            let error = decode(lines).unwrap_err();
            assert!(error.contains("leads out of the directory"), "{lines:?}: {error}");
        }
        for lines in ["l\t../b\ta/l\n", "l\t./b\tl\n", "l\tl\tl\n", "l\td/e/up/b\tb\nl\t../..\td/e/up\n"] {
            assert!(decode(lines).is_ok(), "{lines:?}");
        }
    }
}
