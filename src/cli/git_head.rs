//! The commit that is checked out, read without git: starting it would take as long as a run without work.

use std::fs::read_to_string;
use std::path::Path;

/// Returns the id of the commit that is checked out in the repository around a directory.
pub(super) fn checked_out(directory: &Path) -> Option<String> {
    let dot_git = directory.ancestors().map(|parent| parent.join(".git")).find(|path| path.exists())?;
    let git = if dot_git.is_dir() {
        dot_git
    } else {
        // A worktree or a submodule.
        dot_git.parent()?.join(read_to_string(&dot_git).ok()?.strip_prefix("gitdir:")?.trim())
    };
    let head = read_to_string(git.join("HEAD")).ok()?;
    let Some(branch) = head.strip_prefix("ref:").map(str::trim) else { return id(&head) };
    let common =
        read_to_string(git.join("commondir")).map_or_else(|_| git.clone(), |path| git.join(path.trim()));
    let loose = [&git, &common].into_iter().find_map(|at| read_to_string(at.join(branch)).ok());
    if let Some(text) = loose {
        return id(&text);
    }
    let packed = read_to_string(common.join("packed-refs")).ok()?;
    packed.lines().find_map(|line| line.strip_suffix(branch)?.strip_suffix(' ').and_then(id))
}

fn id(text: &str) -> Option<String> {
    let id = text.trim();
    (id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_commit_is_found_in_every_layout_that_git_uses() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        fs::create_dir_all(at("a/.git/refs/heads")).unwrap();
        fs::create_dir_all(at("a/sub")).unwrap();
        assert_eq!(checked_out(&at("a/sub")), None, "no commit yet");
        fs::write(at("a/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(
            at("a/.git/packed-refs"),
            format!("# pack-refs\n{two} refs/heads/old-main\n{one} refs/heads/main\n"),
        )
        .unwrap();
        assert_eq!(checked_out(&at("a/sub")), Some(one.clone()), "packed");
        fs::write(at("a/.git/refs/heads/main"), format!("{two}\n")).unwrap();
        assert_eq!(checked_out(&at("a/sub")), Some(two.clone()), "loose");
        fs::create_dir_all(at("a/.git/worktrees/b")).unwrap();
        fs::create_dir(at("b")).unwrap();
        fs::write(at("b/.git"), format!("gitdir: {}\n", at("a/.git/worktrees/b").display())).unwrap();
        fs::write(at("a/.git/worktrees/b/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(at("a/.git/worktrees/b/commondir"), "../..\n").unwrap();
        assert_eq!(checked_out(&at("b")), Some(two), "a worktree");
        fs::write(at("a/.git/HEAD"), format!("{one}\n")).unwrap();
        assert_eq!(checked_out(&at("a")), Some(one), "detached");
    }
}
