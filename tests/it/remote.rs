//! A remote: two clones that share results through a directory, a web server or a bucket, and everything that may be
//! wrong with it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{PipelineTest, Ran};

/// `data` reads a file that its key does not know, so that two machines can get different results.
const PIPELINE: &str = "
name: small
stages:
  data: { command: { run: cat SECRET > data.txt, outputs: [data.txt] } }
  split: { command: { run: mkdir parts; cat in/data > parts/a; echo b > parts/b, inputs: { data: data }, outputs: [parts] } }
  table: { command: { run: cat in/parts/* > table.tex, inputs: { parts: split }, outputs: [table.tex] } }
outputs: [table]
";

/// A directory with a remote, the keys of several people, and the file that `data` reads.
struct Lab {
    dir: tempfile::TempDir,
}

/// The clone of one person.
struct Clone<'a> {
    test: PipelineTest,
    lab: &'a Lab,
    person: &'static str,
    environment: Vec<(&'static str, String)>,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(lab.remote()).unwrap();
        lab.set_secret("right\n");
        lab
    }

    fn remote(&self) -> PathBuf {
        self.dir.path().join("remote")
    }

    fn set_secret(&self, text: &str) {
        fs::write(self.dir.path().join("secret"), text).unwrap();
    }

    /// Creates the clone of a person, with a key of that name, in a project whose remote is `url`.
    fn clone_of(&self, person: &'static str, url: &str, trusted: &[&str]) -> Clone<'_> {
        let secret = self.dir.path().join("secret");
        let test = PipelineTest::new(&PIPELINE.replace("SECRET", secret.to_str().unwrap()));
        let clone = Clone { test, lab: self, person, environment: Vec::new() };
        let trusted: Vec<String> = trusted.iter().map(|name| self.public_key(name)).collect();
        let trusted = if trusted.is_empty() {
            String::new()
        } else {
            format!(", trusted: [\"{}\"]", trusted.join("\", \""))
        };
        clone.test.write("pipe.yaml", format!("remote: {{ url: \"{url}\"{trusted} }}\n"));
        clone
    }

    fn writer(&self, person: &'static str) -> Clone<'_> {
        self.public_key(person);
        let mut clone = self.clone_of(person, self.remote().to_str().unwrap(), &[]);
        clone.set("PIPE_REMOTE_WRITE", "always");
        clone
    }

    fn reader(&self, trusted: &[&str]) -> Clone<'_> {
        self.clone_of("reader", self.remote().to_str().unwrap(), trusted)
    }

    /// Returns the public key of a person, who gets one with the first call.
    fn public_key(&self, person: &str) -> String {
        let anywhere = PipelineTest::empty();
        let run = |args: &[&str]| {
            let mut command = anywhere.command(args);
            command.env("XDG_CONFIG_HOME", self.config(person));
            Ran::finish(command)
        };
        let shown = run(&["key", "show", person]);
        let shown = if shown.code == Some(0) { shown } else { run(&["key", "new", person]).ok() };
        shown.stdout.trim().to_owned()
    }

    fn config(&self, person: &str) -> PathBuf {
        self.dir.path().join("config").join(person)
    }

    /// Returns the only manifest of a writer for a stage that the store of a clone has.
    fn manifest(&self, writer: &str, instance: &str) -> PathBuf {
        let found = files_below(&self.remote().join("actions")).into_iter().find(|path| {
            path.file_name().unwrap() == format!("{writer}.json").as_str()
                && fs::read_to_string(path).unwrap().contains(&format!("\"instance\":\"{instance}\""))
        });
        found.expect("there is such a manifest")
    }
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

impl Clone<'_> {
    fn set(&mut self, name: &'static str, value: &str) {
        self.environment.push((name, value.to_owned()));
    }

    fn pipe(&self, args: &[&str]) -> Ran {
        let mut command = self.test.command(args);
        command.env("XDG_CONFIG_HOME", self.lab.config(self.person));
        command.envs(self.environment.iter().cloned());
        Ran::finish(command)
    }

    fn typed(&self, line: &str) -> Ran {
        self.pipe(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn run(&self) -> Ran {
        self.typed("run pipeline.yaml --json")
    }
}

/// Returns what the last event of a run says about the remote.
fn remote_summary(run: &Ran) -> Value {
    run.events().last().unwrap()["summary"]["remote"].clone()
}

#[test]
fn the_second_clone_computes_nothing() {
    let lab = Lab::new();
    let alice = lab.writer("alice");
    let first = alice.run().ok();
    assert_eq!(first.computed(), ["data", "split", "table"]);
    assert_eq!(remote_summary(&first)["uploaded"], 3);

    let reader = lab.reader(&["alice"]);
    let run = reader.run().ok();
    assert_eq!(run.computed(), [""; 0]);
    assert_eq!(run.instances("started"), [""; 0]);
    assert_eq!(run.instances("hit"), ["data", "split", "table"]);
    assert_eq!(remote_summary(&run)["taken"], 3);
    assert_eq!(remote_summary(&run)["refused"], serde_json::json!([]));
    assert_eq!(reader.test.read("results/small/table.tex"), alice.test.read("results/small/table.tex"));
    reader.typed("cache fsck").ok();
    reader.typed("runs show").ok().says("taken from alice");
    reader.typed("show pipeline.yaml data").ok().prints("by alice, and taken from the remote");
    let shown = lab.reader(&["alice"]).typed("run pipeline.yaml").ok();
    shown.reports("taken").reports("from alice").reports("remote: 3 taken");
}

#[test]
fn a_run_without_work_makes_no_request() {
    let lab = Lab::new();
    lab.writer("alice").run().ok();
    let reader = lab.reader(&["alice"]);
    reader.run().ok();
    fs::rename(lab.remote(), lab.dir.path().join("gone")).unwrap();
    let again = reader.run().ok().reports_nothing();
    assert_eq!(remote_summary(&again), Value::Null);
    assert_eq!(again.instances("hit").len(), 3);
}

#[test]
fn nothing_is_uploaded_unless_the_settings_say_so() {
    let lab = Lab::new();
    lab.public_key("alice");
    let alice = lab.clone_of("alice", lab.remote().to_str().unwrap(), &[]);
    alice.run().ok();
    assert_eq!(files_below(&lab.remote()), Vec::<PathBuf>::new());
}

#[test]
fn what_is_faster_to_compute_than_to_fetch_is_uploaded_only_on_request() {
    let lab = Lab::new();
    let alice = lab.writer("alice");
    alice.test.edit("pipe.yaml", "{ url", "{ bandwidth: 0.001, url");
    alice.test.edit("pipeline.yaml", "echo b > parts/b", "head -c 2000000 /dev/zero > parts/b");
    let run = alice.run().ok();
    assert_eq!((&remote_summary(&run)["uploaded"], &remote_summary(&run)["cheap"]), (&1.into(), &2.into()));
    assert_eq!(files_below(&lab.remote().join("actions")).len(), 1);
    alice.typed("cache push").ok().prints("2 results uploaded");

    alice.test.edit("pipe.yaml", "bandwidth: 0.001", "bandwidth: 1e6");
    alice.test.edit("pipeline.yaml", "2000000", "2000001");
    let run = alice.run().ok();
    assert_eq!((&remote_summary(&run)["uploaded"], &remote_summary(&run)["cheap"]), (&2.into(), &0.into()));
}

#[test]
fn a_poisoned_result_is_refused_and_the_stage_is_computed() {
    let lab = Lab::new();
    lab.set_secret("poison\n");
    lab.writer("mallory").run().ok();
    lab.set_secret("right\n");
    lab.writer("alice").run().ok();
    fs::remove_file(lab.manifest("alice", "data")).unwrap();

    let reader = lab.reader(&["alice"]);
    let run = reader.run().ok();
    assert_eq!(run.computed(), ["data"], "the others are taken from alice");
    assert_eq!(reader.test.read("results/small/table.tex"), "right\nb\n");
    let refused = remote_summary(&run)["refused"].clone();
    assert_eq!((&refused[0]["instance"], &refused[0]["writer"]), (&"data".into(), &"mallory".into()));
    let shown = lab.reader(&["alice"]).typed("run pipeline.yaml").ok();
    shown
        .reports("the result of `mallory` for `data`")
        .reports("not among the `trusted:` keys")
        .reports("1 refused");
}

#[test]
fn a_result_under_the_name_of_a_trusted_writer_needs_its_signature() {
    let lab = Lab::new();
    lab.set_secret("poison\n");
    lab.writer("mallory").run().ok();
    let forged = lab.manifest("mallory", "data");
    fs::rename(&forged, forged.with_file_name("alice.json")).unwrap();
    lab.set_secret("right\n");
    let reader = lab.reader(&["alice"]);
    let run = reader.run().ok();
    assert_eq!(run.computed(), ["data", "split", "table"]);
    let reason = remote_summary(&run)["refused"][0]["reason"].to_string();
    assert!(reason.contains("not signed by its writer"), "{reason}");
    assert_eq!(reader.test.read("results/small/table.tex"), "right\nb\n");
}

#[test]
fn a_blob_that_was_cut_short_is_refused_and_replaced() {
    let lab = Lab::new();
    lab.writer("alice").run().ok();
    let largest = files_below(&lab.remote().join("blobs"))
        .into_iter()
        .max_by_key(|path| path.metadata().unwrap().len());
    let largest = largest.unwrap();
    let content = fs::read(&largest).unwrap();
    fs::remove_file(&largest).unwrap();
    fs::write(&largest, &content[..content.len() / 2]).unwrap();

    let mut bob = lab.reader(&["alice"]);
    lab.public_key("reader");
    bob.set("PIPE_REMOTE_WRITE", "always");
    let run = bob.run().ok();
    assert_eq!(run.computed().len(), 1, "only the stage with the damaged blob");
    let reason = remote_summary(&run)["refused"][0]["reason"].to_string();
    assert!(reason.contains("is damaged on the remote"), "{reason}");
    assert_eq!(fs::read(&largest).unwrap(), content, "the upload replaced it");
}

#[test]
fn a_damaged_copy_of_a_result_that_is_faster_to_compute_is_replaced() {
    let lab = Lab::new();
    let secret: String = (0..300_000).map(|number| format!("{number}\n")).collect();
    lab.set_secret(&secret);
    let alice = lab.writer("alice");
    alice.run().ok();
    alice.typed("cache push").ok();
    let blob = blake3::hash(secret.as_bytes()).to_hex();
    let blob = lab.remote().join("blobs").join(&blob[..2]).join(blob.as_str());
    let content = fs::read(&blob).unwrap();
    fs::remove_file(&blob).unwrap();
    fs::write(&blob, &content[..content.len() / 2]).unwrap();

    lab.public_key("reader");
    let mut bob = lab.reader(&["alice"]);
    bob.test.edit("pipe.yaml", "{ url", "{ bandwidth: 0.001, url");
    bob.set("PIPE_REMOTE_WRITE", "always");
    bob.run().ok();
    assert_eq!(fs::read(&blob).unwrap(), content, "the upload replaced it");
    let reader = lab.reader(&["alice"]);
    assert_eq!(reader.run().ok().computed(), [""; 0]);
}

/// Lets three people write to a remote at the same time, and asserts that everything can be taken from each of them.
fn three_write_at_once(lab: &Lab, url: &str, configure: &dyn Fn(&mut Clone<'_>)) {
    lab.set_secret(&(0..500_000).map(|number| format!("{number}\n")).collect::<String>());
    let people = ["alice", "bob", "carol"];
    let clones = people.map(|person| {
        lab.public_key(person);
        let mut clone = lab.clone_of(person, url, &[]);
        clone.test.edit("pipe.yaml", "{ url", "{ write: always, read: never, bandwidth: 1e6, url");
        configure(&mut clone);
        clone
    });
    let runs = std::thread::scope(|scope| {
        let runs: Vec<_> = clones.iter().map(|clone| scope.spawn(move || clone.run())).collect();
        runs.into_iter().map(|run| run.join().unwrap().ok()).collect::<Vec<_>>()
    });
    for run in runs {
        assert_eq!(remote_summary(&run)["uploaded"], 3, "{}", run.stdout);
        assert_eq!(remote_summary(&run)["unreachable"], Value::Null);
    }
    for person in people {
        let mut reader = lab.clone_of("reader", url, &[person]);
        configure(&mut reader);
        let run = reader.run().ok();
        assert_eq!(run.computed(), [""; 0], "{person}: {}", run.stdout);
        assert_eq!(remote_summary(&run)["taken"], 3);
    }
}

#[test]
fn several_people_can_write_to_a_directory_at_the_same_time() {
    let lab = Lab::new();
    three_write_at_once(&lab, lab.remote().to_str().unwrap(), &|_| {});
    let left: Vec<PathBuf> = files_below(&lab.remote())
        .into_iter()
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with('.'))
        .collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "no temporary file is left");
}

#[test]
fn several_people_can_write_to_a_bucket_at_the_same_time() {
    let Some(moto) = Moto::start() else { return };
    moto.create_bucket("lab");
    three_write_at_once(&Lab::new(), "s3://lab", &|clone| moto.configure(clone));
}

#[test]
fn a_remote_without_room_costs_a_warning_and_keeps_no_half_results() {
    let lab = Lab::new();
    lab.set_secret(&"0123456789abcdef\n".repeat(2000));
    let mut alice = lab.writer("alice");
    alice.test.edit("pipeline.yaml", "echo b > parts/b", "head -c 300000 /dev/urandom > parts/b");
    alice.set("XDG_CONFIG_HOME", lab.config("alice").to_str().unwrap());
    let kept = lab.dir.path().join("kept");
    let script = "mount -t tmpfs -o size=200k none \"$1\" || exit 77\n\
                  from=$1; to=$2; shift 2; \"$@\"; code=$?; cp -a \"$from\" \"$to\"; exit $code";
    let within = |pipe: &Command| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).args([&lab.remote(), &kept]);
        command.arg(pipe.get_program()).args(pipe.get_args());
        command.envs(pipe.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.envs(alice.environment.iter().cloned());
        if let Some(directory) = pipe.get_current_dir() {
            command.current_dir(directory);
        }
        command
    };
    let mut command = within(&alice.test.command(&["run", "pipeline.yaml"]));
    let Ok(output) = command.output() else { return println!("skipped: unshare is not installed") };
    if output.status.code() != Some(0) && !kept.exists() {
        return println!("skipped: a file system can be mounted only by root");
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("warning:").count(), 1, "{said}");
    assert!(said.contains("No space left on device") && said.contains("cache gc --remote"), "{said}");
    let reader = lab.clone_of("reader", kept.to_str().unwrap(), &["alice"]);
    reader.test.write("pipeline.yaml", alice.test.read("pipeline.yaml"));
    let run = reader.run().ok();
    assert_eq!(remote_summary(&run)["refused"], serde_json::json!([]), "{}", run.stdout);
    assert_eq!(run.computed(), ["split", "table"], "what there was room for is taken");
}

#[test]
fn push_pull_and_repair_need_no_run() {
    let lab = Lab::new();
    lab.public_key("alice");
    let alice = lab.clone_of("alice", lab.remote().to_str().unwrap(), &[]);
    alice.run().ok();
    alice.typed("cache push pipeline.yaml").ok().prints("3 results uploaded");
    alice.typed("cache push").ok().prints("0 results uploaded").prints("3 there already");

    let reader = lab.reader(&["alice"]);
    reader.typed("cache pull pipeline.yaml").ok().prints("3 results fetched");
    assert_eq!(reader.run().ok().computed(), [""; 0]);
    lab.public_key("reader");
    let bob = lab.clone_of("reader", lab.remote().to_str().unwrap(), &["alice"]);
    bob.typed("cache pull pipeline.yaml").ok();
    bob.typed("cache push").ok().prints("0 results uploaded").prints("3 computed by others");

    let blobs = files_below(&reader.test.file("cache/v2/blobs"));
    let original = fs::read(&blobs[0]).unwrap();
    for blob in [&blobs[0], &blobs[1]] {
        fs::set_permissions(blob, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(blob, "damage").unwrap();
    }
    fs::remove_file(&blobs[2]).unwrap();
    reader.typed("cache fsck").exits_with(3);
    reader.typed("cache fsck --repair").ok().prints("3 damaged blobs fetched again").prints("no damage");
    assert_eq!(fs::read(&blobs[0]).unwrap(), original);
    assert_eq!(reader.run().ok().computed(), [""; 0]);
}

#[test]
fn verify_counts_the_writers_that_agree() {
    let lab = Lab::new();
    let alice = lab.writer("alice");
    alice.run().ok();
    alice.typed("lock pipeline.yaml").ok();
    let mut bob = lab.clone_of("bob", lab.remote().to_str().unwrap(), &["alice"]);
    lab.public_key("bob");
    bob.set("PIPE_REMOTE_WRITE", "always");
    bob.set("PIPE_REMOTE_READ", "never");
    bob.run().ok();
    let reader = lab.reader(&["alice", "bob"]);
    for name in ["pipeline.lock", "pipeline.yaml"] {
        fs::copy(alice.test.file(name), reader.test.file(name)).unwrap();
    }
    let verified = reader.typed("verify pipeline.yaml --remote --allow-missing").ok();
    verified
        .prints("data: 2 of 2 writers agree with the lock, on 1 machine class")
        .prints("table: 2 of 2 writers agree");

    lab.set_secret("another machine\n");
    fs::remove_file(lab.manifest("bob", "data")).unwrap();
    let mut other = lab.clone_of("bob", lab.remote().to_str().unwrap(), &[]);
    other.set("PIPE_REMOTE_WRITE", "always");
    other.set("PIPE_REMOTE_READ", "never");
    other.run().ok();
    let verified = reader.typed("verify pipeline.yaml --remote --allow-missing").exits_with(1);
    verified.prints("drift  data: 1 of 2 writers agree with the lock; `bob` got another");
}

/// Copies the lock of a clone and its witnesses, if there are any.
fn copy_lock(from: &Clone<'_>, to: &Clone<'_>) {
    for name in ["pipeline.lock", "pipeline.witnesses"] {
        if from.test.file(name).exists() {
            fs::copy(from.test.file(name), to.test.file(name)).unwrap();
        }
    }
}

#[test]
fn a_machine_is_a_witness_of_a_lock_only_if_it_got_the_same_bytes() {
    let lab = Lab::new();
    let nowhere = lab.remote().to_str().unwrap().to_owned();
    lab.public_key("alice");
    let alice = lab.clone_of("alice", &nowhere, &[]);
    alice.run().ok();
    alice.typed("lock pipeline.yaml").ok();
    let lock = alice.test.read("pipeline.lock");
    alice
        .typed("lock pipeline.yaml --witness")
        .ok()
        .reports("3 results computed with this cache, signed by `alice`");
    assert_eq!(alice.test.read("pipeline.lock"), lock);
    let witnesses = alice.test.read("pipeline.witnesses");
    alice.typed("lock pipeline.yaml --witness").ok().reports("pipeline.witnesses is up to date");
    assert_eq!(alice.test.read("pipeline.witnesses"), witnesses);
    alice.typed("verify pipeline.yaml").ok().prints("reproduced on 1 machine class\n");

    let bob = lab.clone_of("bob", &nowhere, &["alice"]);
    copy_lock(&alice, &bob);
    bob.typed("run pipeline.yaml --locked").ok();
    assert_eq!(bob.test.read("pipeline.witnesses"), witnesses, "a run does not change them");
    bob.typed("lock pipeline.yaml --witness").ok().reports("3 results computed with this cache, not signed");
    assert_eq!(bob.test.read("pipeline.lock"), lock);
    bob.typed("verify pipeline.yaml").ok().prints("3 results, unsigned, by `alice`");
    let both = bob.test.read("pipeline.witnesses");
    assert!(witnesses.lines().all(|line| both.contains(line)), "{both}");

    // The line of another machine, as `pipe` would write it there.
    let line = both.lines().find(|line| line.contains(" -:")).unwrap();
    let words: Vec<&str> = line.splitn(5, ' ').collect();
    let statement = format!("{} {} 2026-11-18 riscv64 threads=1", words[0], words[1]);
    let seal = &blake3::hash(statement.as_bytes()).to_hex()[..16];
    let elsewhere = format!("{} {} 2026-11-18 -:{seal} riscv64 threads=1\n", words[0], words[1]);
    bob.test.write("pipeline.witnesses", format!("{both}{elsewhere}"));
    bob.typed("verify pipeline.yaml").ok().prints("reproduced on 1 to 2 machine classes");
    bob.test.write("pipeline.witnesses", both.replacen("threads=", "threads=9", 1));
    bob.typed("verify pipeline.yaml").exits_with(1).prints("drift").prints("was refused");

    lab.set_secret("another machine\n");
    let carol = lab.clone_of("carol", &nowhere, &[]);
    carol.run().ok();
    copy_lock(&alice, &carol);
    let refused = carol.typed("lock pipeline.yaml --witness").exits_with(1);
    refused.reports("`data` is the first stage that differs: its `data`");
    assert_eq!(carol.test.read("pipeline.witnesses"), witnesses);
}

#[test]
fn whoever_took_a_result_is_no_witness_of_it() {
    let lab = Lab::new();
    let alice = lab.writer("alice");
    alice.run().ok();
    alice.typed("lock pipeline.yaml").ok();
    let reader = lab.reader(&["alice"]);
    copy_lock(&alice, &reader);
    reader.run().ok();
    reader.typed("lock pipeline.yaml --witness").refuses("every result was taken from others");
    assert!(!reader.test.file("pipeline.witnesses").exists());
}

#[test]
fn the_signatures_in_a_bundle_are_checked_by_a_project_that_trusts_keys() {
    let lab = Lab::new();
    let nowhere = lab.remote().to_str().unwrap().to_owned();
    lab.public_key("alice");
    let alice = lab.clone_of("alice", &nowhere, &[]);
    alice.run().ok();
    alice.typed("lock pipeline.yaml").ok();
    alice.typed("export pipeline.yaml -o bundle").ok();
    let bundle = alice.test.file("bundle").display().to_string();
    let import = |clone: &Clone<'_>, bundle: &str| clone.pipe(&["import", bundle, "--overwrite"]);

    let trusting = lab.reader(&["alice"]);
    let imported = import(&trusting, &bundle).ok();
    assert!(!imported.stderr.contains("warning"), "{}", imported.stderr);
    assert_eq!(trusting.run().ok().computed(), [""; 0]);
    let other = lab.reader(&["bob"]);
    import(&other, &bundle).ok().reports("has signed 3 results of the bundle").reports("`split`");
    import(&lab.reader(&[]), &bundle).ok();

    let signature = "\"alice\": \"";
    let mut forged = zstd::decode_all(fs::File::open(&bundle).unwrap()).unwrap();
    let at = forged.windows(signature.len()).position(|found| found == signature.as_bytes()).unwrap();
    let first = &mut forged[at + signature.len()];
    *first = if *first == b'A' { b'B' } else { b'A' };
    let path = lab.dir.path().join("forged");
    fs::write(&path, zstd::encode_all(forged.as_slice(), 0).unwrap()).unwrap();
    let victim = lab.reader(&["alice"]);
    import(&victim, path.to_str().unwrap()).refuses("was refused: its signature is wrong");
    assert!(!victim.test.file("pipeline.lock").exists());
}

#[test]
fn garbage_on_the_remote_is_removed_only_on_request() {
    let lab = Lab::new();
    let alice = lab.writer("alice");
    alice.run().ok();
    let before = files_below(&lab.remote());
    alice.typed("cache gc --remote --older-than 0 --grace 0").ok().prints("nothing was changed");
    assert_eq!(files_below(&lab.remote()), before);
    alice.typed("cache gc --remote --yes").ok();
    assert_eq!(files_below(&lab.remote()), before, "they are not old enough");
    alice.typed("cache gc --remote --older-than 0 --grace 0 --yes").ok();
    assert_eq!(files_below(&lab.remote()), Vec::<PathBuf>::new());
    alice.typed("cache gc --older-than 5").exits_with(2);
}

#[test]
fn a_key_is_private_and_never_replaced() {
    let lab = Lab::new();
    let line = lab.public_key("alice");
    assert!(line.starts_with("alice:"), "{line}");
    let file = lab.config("alice").join("pipe/keys/alice.key");
    let secret = fs::read_to_string(&file).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_ne!(secret.trim(), line);
    let alice = lab.clone_of("alice", "/nowhere", &[]);
    alice.typed("key new alice").refuses("there is a key `alice` already");
    alice.typed("key new Alice").refuses("lower-case letters");
    assert_eq!(fs::read_to_string(&file).unwrap(), secret);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    alice.typed("key show alice").refuses("other users can read this secret key");
}

#[test]
fn two_writers_cannot_have_the_same_name() {
    let lab = Lab::new();
    let known = lab.public_key("alice");
    let mut other = lab.clone_of("other", lab.remote().to_str().unwrap(), &["alice"]);
    other.typed("key new alice").ok();
    other.set("PIPE_REMOTE_WRITE", "always");
    other.typed("run pipeline.yaml").refuses("each writer needs a name of its own");
    let own = other.typed("key show alice").ok().stdout;
    other.test.edit("pipe.yaml", &known, &format!("{known}\", \"{}", own.trim()));
    assert_eq!(remote_summary(&other.run().ok())["uploaded"], 3, "both keys are in the list");
}

#[test]
fn a_mistake_in_the_settings_is_reported_before_anything_runs() {
    let lab = Lab::new();
    let reader = lab.reader(&[]);
    reader.test.write("pipe.yaml", "remote: { ulr: /lab }\n");
    reader.typed("run pipeline.yaml").refuses("did you mean `url`?");
    assert!(!reader.test.file("cache").exists());
    reader.test.write("pipe.yaml", "remote: { url: /lab, write: always }\n");
    reader.typed("run pipeline.yaml").refuses("`pipe key new NAME` creates one");
    reader.test.remove("pipe.yaml");
    reader.typed("cache push").refuses("this project has no remote");
}

/// A web server for the files of a directory. If there is a file `slow`, blobs never end.
struct StaticServer {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl StaticServer {
    /// Starts a server that answers this many requests, and then closes every connection at once.
    fn start(root: PathBuf, answers: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        // Ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (root, counter) = (root.clone(), Arc::clone(&counter));
                std::thread::spawn(move || {
                    if counter.fetch_add(1, Ordering::SeqCst) < answers {
                        let _ = answer(&stream, &root);
                    }
                });
            }
        });
        Self { url, requests }
    }
}

fn answer(stream: &TcpStream, root: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
    let (status, body) = match fs::read(root.join(path)) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let mut out = stream;
    if root.join("slow").exists() && !body.is_empty() && !body.starts_with(b"{") {
        write!(out, "HTTP/1.1 {status}\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n")?;
        for byte in body.iter().cycle() {
            out.write_all(&[*byte])?;
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    write!(out, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    out.write_all(&body)
}

#[test]
fn a_static_web_site_can_serve_a_remote() {
    let lab = Lab::new();
    lab.writer("alice").run().ok();
    let server = StaticServer::start(lab.remote(), usize::MAX);
    let reader = lab.clone_of("reader", &server.url, &["alice"]);
    let run = reader.run().ok();
    assert_eq!(run.computed(), [""; 0]);
    assert_eq!(remote_summary(&run)["taken"], 3);
    let requests = server.requests.load(Ordering::SeqCst);
    assert_eq!(reader.run().ok().instances("hit").len(), 3);
    assert_eq!(server.requests.load(Ordering::SeqCst), requests, "a run without work makes no request");
    let mut writer = lab.clone_of("alice", &server.url, &[]);
    writer.set("PIPE_REMOTE_WRITE", "always");
    writer.typed("run pipeline.yaml").refuses("can only be read");
}

#[test]
fn a_server_that_stops_in_the_middle_costs_one_warning() {
    let lab = Lab::new();
    lab.writer("alice").run().ok();
    let mut seen = Vec::new();
    for answers in 0..6 {
        let server = StaticServer::start(lab.remote(), answers);
        let reader = lab.clone_of("reader", &server.url, &["alice"]);
        let run = reader.run().ok();
        let warnings = run.events().iter().filter(|event| event["level"] == "warning").count();
        assert_eq!(warnings, 1, "{}", run.stdout);
        assert_eq!(reader.test.read("results/small/table.tex"), "right\nb\n");
        assert!(remote_summary(&run)["unreachable"].is_string(), "{}", run.stdout);
        seen.push(run.computed().len());
    }
    assert_eq!((seen[0], seen[5]), (3, 1), "{seen:?}");
    let nobody = lab.clone_of("reader", "http://127.0.0.1:1", &["alice"]);
    nobody.typed("run pipeline.yaml").ok().reports("the remote failed").reports("unreachable");
}

#[test]
fn a_stop_does_not_wait_for_a_server_that_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let lab = Lab::new();
    let reader = lab.clone_of("reader", &url, &["alice"]);
    let (asked, was_asked) = std::sync::mpsc::channel();
    // Ends with the process of the tests, and keeps the connections open until then.
    std::thread::spawn(move || {
        let connections: Vec<TcpStream> =
            listener.incoming().flatten().inspect(|_| asked.send(()).unwrap()).collect();
        drop(connections);
    });
    let mut command = reader.test.command(&["run", "pipeline.yaml"]);
    command.env("XDG_CONFIG_HOME", lab.config("reader")).stderr(Stdio::piped()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    was_asked.recv_timeout(Duration::from_secs(20)).expect("the remote was asked");
    interrupt(&child);
    let stopped = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(stopped.elapsed() < Duration::from_secs(2), "{:?}", stopped.elapsed());
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("the remote failed"), "{said}");
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

#[test]
fn a_stop_does_not_wait_for_a_slow_server() {
    let lab = Lab::new();
    lab.writer("alice").run().ok();
    fs::write(lab.remote().join("slow"), "").unwrap();
    let server = StaticServer::start(lab.remote(), usize::MAX);
    let reader = lab.clone_of("reader", &server.url, &["alice"]);
    let mut command = reader.test.command(&["run", "pipeline.yaml"]);
    command.env("XDG_CONFIG_HOME", lab.config("reader")).stderr(Stdio::piped()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let begin = Instant::now();
    while server.requests.load(Ordering::SeqCst) < 2 {
        assert!(begin.elapsed() < Duration::from_secs(20), "the blob was not asked for");
        std::thread::sleep(Duration::from_millis(10));
    }
    interrupt(&child);
    let stopped = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("the remote failed"), "{said}");
}

/// A server that speaks the protocol of S3, with the credentials of the tests.
struct Moto {
    child: Child,
    endpoint: String,
}

impl Moto {
    /// Starts `moto_server` on any free port, or prints that it is not installed.
    fn start() -> Option<Self> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join(".moto/bin/moto_server");
        let program = if own.is_file() { own } else { PathBuf::from("moto_server") };
        let begin = Instant::now();
        loop {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = Command::new(&program);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let Ok(child) = started else {
                assert!(std::env::var_os("PIPE_CI").is_none(), "moto_server is missing: run scripts/moto");
                println!("skipped: moto_server is not installed (scripts/moto installs it)");
                return None;
            };
            let mut moto = Self { child, endpoint: format!("http://127.0.0.1:{port}") };
            // It ends if another test was faster and has the port.
            while moto.child.try_wait().unwrap().is_none() {
                if ureq::get(format!("{}/moto-api/data.json", moto.endpoint)).call().is_ok() {
                    return Some(moto);
                }
                assert!(begin.elapsed() < Duration::from_secs(60), "moto_server does not answer");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    fn create_bucket(&self, name: &str) {
        let url = format!("{}/{name}", self.endpoint);
        assert!(ureq::put(&url).send_empty().is_ok());
    }

    fn configure(&self, clone: &mut Clone<'_>) {
        clone.set("AWS_ENDPOINT_URL", &self.endpoint);
        clone.set("AWS_ACCESS_KEY_ID", "tests");
        clone.set("AWS_SECRET_ACCESS_KEY", "of pipe");
        clone.set("AWS_REGION", "us-east-1");
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn content_of_any_length_goes_through_a_bucket() {
    let Some(moto) = Moto::start() else { return };
    moto.create_bucket("lab");
    let lab = Lab::new();
    lab.public_key("alice");
    // Half of each byte is random, so that it shrinks to more than one part of an upload.
    let mut state = 1_u64;
    let text = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b"0123456789abcdef"[(state >> 60) as usize]
    });
    fs::write(lab.dir.path().join("secret"), text.take(40_000_000).collect::<Vec<u8>>()).unwrap();
    let mut alice = lab.clone_of("alice", "s3://lab", &[]);
    moto.configure(&mut alice);
    alice.run().ok();
    alice.typed("cache push").ok().prints("3 results uploaded");
    let mut reader = lab.clone_of("reader", "s3://lab", &["alice"]);
    moto.configure(&mut reader);
    let run = reader.run().ok();
    assert_eq!(run.computed(), [""; 0], "{}", run.stdout);
    assert!(reader.test.file("results/small/table.tex").metadata().unwrap().len() > 40_000_000);
}

#[test]
fn a_bucket_is_shared_like_a_directory() {
    let Some(moto) = Moto::start() else { return };
    moto.create_bucket("lab");
    let lab = Lab::new();
    lab.public_key("alice");
    let mut alice = lab.clone_of("alice", "s3://lab/our cache", &[]);
    moto.configure(&mut alice);
    alice.set("PIPE_REMOTE_WRITE", "always");
    let first = alice.run().ok().reports_nothing();
    assert_eq!(remote_summary(&first)["uploaded"], 3);
    let mut reader = lab.clone_of("reader", "s3://lab/our cache", &["alice"]);
    moto.configure(&mut reader);
    let run = reader.run().ok();
    assert_eq!(run.computed(), [""; 0], "{}", run.stdout);
    assert_eq!(remote_summary(&run)["taken"], 3);
    alice.typed("cache push").ok().prints("3 there already");
    alice.typed("cache gc --remote --older-than 0 --grace 0 --yes").ok();
    let mut late = lab.clone_of("reader", "s3://lab/our cache", &["alice"]);
    moto.configure(&mut late);
    assert_eq!(late.run().ok().computed().len(), 3, "everything was removed");

    let mut lost = lab.clone_of("reader", "s3://no-such-bucket", &["alice"]);
    moto.configure(&mut lost);
    lost.typed("run pipeline.yaml").ok().reports("NoSuchBucket").reports("create the bucket");
}
