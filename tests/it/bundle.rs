//! `pipe export` and `pipe import`: complete bundles, and bundles that were tampered with.

use std::io::Read;

use crate::support::{PipelineTest, Ran};

const SMALL: &str = "
name: small
extends: base.yaml
stages:
  data: { command: { run: cat in/tool/add.sh in/raw > data.txt, inputs: { raw: { file: raw.csv }, tool: { file: tool } }, outputs: [data.txt] } }
  split: { command: { run: mkdir parts; tr 1 3 < in/data > parts/a; echo b > parts/b, inputs: { data: data }, outputs: [parts] } }
  table: { command: { run: cat in/parts/* > table.tex, inputs: { parts: split }, outputs: [table.tex] } }
outputs: [table]
";

fn exported(args: &[&str]) -> PipelineTest {
    use std::os::unix::fs::PermissionsExt;
    let test = PipelineTest::new(SMALL);
    test.write("base.yaml", "vars: {}\n").write("raw.csv", "1,2\n").write("tool/add.sh", "echo\n");
    std::fs::set_permissions(test.file("tool/add.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    test.run().ok();
    test.pipe(&["lock", "pipeline.yaml"]).ok();
    test.pipe(&[&["export", "pipeline.yaml", "-o", "bundle.tar.zst"], args].concat()).ok();
    test
}

fn import(to: &PipelineTest, bundle: &std::path::Path) -> Ran {
    to.pipe(&["import", bundle.to_str().unwrap()])
}

#[test]
fn on_another_machine_the_pipeline_is_fully_cached() {
    let (here, there) = (exported(&[]), PipelineTest::empty());
    import(&there, &here.file("bundle.tar.zst")).ok().says("3 results");
    let run = there.run_with(&["--locked"]).ok();
    assert_eq!(run.computed(), [""; 0]);
    assert_eq!(run.instances("hit").len(), 3);
    assert_eq!(there.read("results/small/table.tex"), here.read("results/small/table.tex"));
    there.pipe(&["verify", "pipeline.yaml", "--lock", "--cache"]).ok();
    there.pipe(&["cache", "fsck"]).ok();
    import(&there, &here.file("bundle.tar.zst")).ok().says("0 files written");
}

#[test]
fn the_same_results_give_the_same_bundle() {
    let test = exported(&[]);
    let first = std::fs::read(test.file("bundle.tar.zst")).unwrap();
    test.pipe(&["export", "pipeline.yaml", "-o", "again.tar.zst"]).ok();
    assert_eq!(std::fs::read(test.file("again.tar.zst")).unwrap(), first);
}

#[test]
fn some_stages_may_be_packed_without_their_content() {
    let (here, there) = (exported(&["--with", "table", "split"]), PipelineTest::empty());
    import(&there, &here.file("bundle.tar.zst")).ok().says("2 results (1 more result without content");
    assert_eq!(there.run().ok().computed(), ["data"]);
}

#[test]
fn a_file_that_differs_is_replaced_only_on_request() {
    let (here, there) = (exported(&[]), PipelineTest::empty());
    there.write("raw.csv", "mine\n");
    let bundle = here.file("bundle.tar.zst");
    import(&there, &bundle).exits_with(2).says("`raw.csv`").says("--overwrite");
    assert!(!there.file("pipeline.yaml").exists(), "no project file was changed");
    there.pipe(&["import", bundle.to_str().unwrap(), "--overwrite"]).ok();
    assert_eq!(there.read("raw.csv"), "1,2\n");
}

#[test]
fn an_export_needs_a_lock_and_its_results() {
    let test = exported(&[]);
    std::fs::remove_dir_all(test.file("cache")).unwrap();
    test.pipe(&["export", "pipeline.yaml", "-o", "b"]).exits_with(2).says("not in the cache");
    std::fs::remove_file(test.file("pipeline.lock")).unwrap();
    test.pipe(&["export", "pipeline.yaml", "-o", "b"]).exits_with(2).says("pipe lock pipeline.yaml");
    assert!(!test.file("b").exists());
}

/// One member of a bundle: its name, its type and its content.
type Member = (String, u8, Vec<u8>);

fn unpacked(test: &PipelineTest) -> Vec<Member> {
    let file = std::fs::File::open(test.file("bundle.tar.zst")).unwrap();
    let mut bytes = Vec::new();
    zstd::Decoder::new(file).unwrap().read_to_end(&mut bytes).unwrap();
    let mut members = Vec::new();
    let mut at = 0;
    while bytes[at] != 0 {
        let text = |range: std::ops::Range<usize>| {
            String::from_utf8(bytes[at..][range].to_vec()).unwrap().trim_end_matches('\0').to_owned()
        };
        let size = usize::from_str_radix(text(124..135).trim(), 8).unwrap();
        members.push((text(0..100), bytes[at + 156], bytes[at + 512..][..size].to_vec()));
        at += 512 + size.div_ceil(512) * 512;
    }
    members
}

/// Writes a tar by hand, because no library would write what these tests need.
fn packed(test: &PipelineTest, name: &str, members: &[Member]) {
    let mut bytes = Vec::new();
    for (name, kind, content) in members {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[136..147].copy_from_slice(b"00000000000");
        header[148..156].copy_from_slice(b"        ");
        header[156] = *kind;
        if *kind == b'2' {
            header[157..168].copy_from_slice(b"/etc/passwd");
        }
        header[257..263].copy_from_slice(b"ustar\0");
        header[263..265].copy_from_slice(b"00");
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().div_ceil(512) * 512, 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    test.write(name, zstd::encode_all(&bytes[..], 0).unwrap());
}

fn refused(members: &[Member], because: &str) {
    let there = PipelineTest::empty();
    packed(&there, "bad.tar.zst", members);
    import(&there, &there.file("bad.tar.zst")).exits_with(2).says(because);
    assert!(!there.file("pipeline.yaml").exists(), "no project file was changed");
    assert!(!there.path().parent().unwrap().join("escaped.txt").exists());
    let actions = there.files_below("cache/v2/actions");
    assert!(actions.is_empty(), "no result was accepted: {actions:?}");
}

fn position(members: &[Member], prefix: &str) -> usize {
    members.iter().position(|(name, ..)| name.starts_with(prefix)).unwrap()
}

#[test]
fn a_bundle_that_was_repacked_unchanged_is_accepted() {
    let (here, there) = (exported(&[]), PipelineTest::empty());
    packed(&there, "copy.tar.zst", &unpacked(&here));
    import(&there, &there.file("copy.tar.zst")).ok();
}

#[test]
fn a_tampered_member_is_refused() {
    let here = exported(&[]);
    let good = unpacked(&here);
    for (prefix, because) in [
        ("blobs/", "content"),
        ("actions/", "seal"),
        ("project/pipeline.yaml", "does not have the digest that the index records"),
    ] {
        let mut bad = good.clone();
        let at = position(&bad, prefix);
        let last = bad[at].2.len() - 2;
        bad[at].2[last] ^= 1;
        refused(&bad, because);
    }
    let mut short = good.clone();
    short.remove(position(&short, "blobs/"));
    refused(&short, "incomplete");
    refused(&good[1..], "its first member is not `bundle.json`");
}

#[test]
fn members_that_leave_the_project_are_refused() {
    let here = exported(&[]);
    let good = unpacked(&here);
    for outside in ["../escaped.txt", "/tmp/escaped.txt", "a/../../escaped.txt", ".git/hooks/post-checkout"] {
        let mut bad = good.clone();
        let index = String::from_utf8(bad[0].2.clone()).unwrap();
        bad[0].2 = index.replace("\"raw.csv\"", &format!("\"{outside}\"")).into_bytes();
        let at = position(&bad, "project/raw.csv");
        bad[at].0 = format!("project/{outside}");
        refused(&bad, "outside of the project");
    }
    let mut unknown = good.clone();
    unknown.push(("project/../../escaped.txt".into(), b'0', b"x".to_vec()));
    refused(&unknown, "is not in the index");
}

/// Returns the members with `raw.csv` under another path.
fn moved_to(good: &[Member], path: &str) -> Vec<Member> {
    let mut moved = good.to_vec();
    let index = String::from_utf8(moved[0].2.clone()).unwrap();
    moved[0].2 = index.replace("\"raw.csv\"", &format!("\"{path}\"")).into_bytes();
    let at = position(&moved, "project/raw.csv");
    moved[at].0 = format!("project/{path}");
    moved
}

#[test]
fn no_spelling_of_the_cache_directory_lets_a_bundle_write_into_the_cache() {
    let good = unpacked(&exported(&[]));
    for cache in ["cache", "./cache", "a/../cache", "absolute"] {
        let there = PipelineTest::empty();
        there.write("a/x", "");
        let absolute = there.file("cache").display().to_string();
        let cache = if cache == "absolute" { &absolute } else { cache };
        packed(&there, "bad.tar.zst", &moved_to(&good, "cache/v2/stat"));
        there
            .pipe(&["--cache-dir", cache, "import", "bad.tar.zst"])
            .exits_with(2)
            .says("outside of the project");
    }
    let there = PipelineTest::empty();
    packed(&there, "good.tar.zst", &moved_to(&good, "beside/notes"));
    there.pipe(&["--cache-dir", ".", "import", "good.tar.zst"]).ok();
}

#[test]
fn members_that_are_small_in_the_bundle_and_large_in_memory_are_refused() {
    let mut bad = unpacked(&exported(&[]));
    let index = String::from_utf8(bad[0].2.clone()).unwrap();
    let keys: Vec<String> = (0..3).map(|digit| format!("{digit}").repeat(64)).collect();
    let listed: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
    bad[0].2 =
        index.replacen("\"results\": [", &format!("\"results\": [{}, ", listed.join(", ")), 1).into_bytes();
    for key in keys {
        bad.push((format!("actions/{key}.json"), b'0', vec![b' '; 100 << 20]));
    }
    refused(&bad, "its index and its manifests are too large");
}

#[test]
fn links_are_refused_in_the_bundle_and_in_the_project() {
    let here = exported(&[]);
    let good = unpacked(&here);
    for kind in [b'1', b'2', b'5'] {
        let mut bad = good.clone();
        let at = position(&bad, "project/raw.csv");
        bad[at] = ("project/raw.csv".into(), kind, Vec::new());
        refused(&bad, "is not a plain file");
    }
    let there = PipelineTest::empty();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), there.file("tool")).unwrap();
    import(&there, &here.file("bundle.tar.zst")).exits_with(2).says("outside of the project");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}
