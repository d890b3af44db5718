//! Two stores and a directory between them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::store::manifest::{Computed, Manifest};
use crate::store::{Claim, Store};
use pipe_core::key::KeyParts;

struct Lab {
    directory: tempfile::TempDir,
    alice: SigningKey,
}

const MANY: usize = 20;

impl Lab {
    fn new() -> Self {
        let lab =
            Self { directory: tempfile::tempdir().unwrap(), alice: SigningKey::generate("alice").unwrap() };
        fs::create_dir(lab.remote_path()).unwrap();
        lab
    }

    fn remote_path(&self) -> PathBuf {
        self.directory.path().join("remote")
    }

    fn store(&self, name: &str) -> Store {
        Store::open(&self.directory.path().join(name)).unwrap()
    }

    fn settings(&self, trusted: &[&SigningKey]) -> RemoteSettings {
        let trusted = trusted.iter().map(|key| key.public().to_string()).collect();
        let url = self.remote_path().display().to_string();
        RemoteSettings { trusted: TrustedWriters::Keys(trusted), ..RemoteSettings::of_url(url) }
    }

    fn open(&self, settings: &RemoteSettings, writer: Option<&SigningKey>) -> Remote {
        let writer = writer.map(|key| key.secret_text().parse().unwrap());
        Remote::open(settings, Path::new("/"), &|_| None, writer, Stop::new()).unwrap()
    }

    fn writer(&self, key: &SigningKey) -> Remote {
        self.open(&RemoteSettings { write: Policy::Always, ..self.settings(&[]) }, Some(key))
    }

    fn reader(&self) -> Remote {
        self.open(&self.settings(&[&self.alice]), None)
    }

    /// Computes a result with a file and a directory, and uploads it.
    fn publish(&self, store: &Store, name: &str, writer: &SigningKey) -> Manifest {
        let manifest = compute(store, name, "text");
        assert_eq!(self.writer(writer).upload(store, &manifest), Outcome::Uploaded);
        manifest
    }

    fn file(&self, path: &str) -> PathBuf {
        self.remote_path().join(path)
    }
}

fn parts(name: &str) -> KeyParts {
    KeyParts::new(BTreeMap::from([("params.name".to_owned(), name.to_owned())]))
}

fn compute(store: &Store, name: &str, text: &str) -> Manifest {
    let Some(Claim::Miss(right)) = store.try_claim(&parts(name).key()).unwrap() else { panic!("{name}") };
    let scratch = store.scratch().unwrap();
    fs::write(scratch.join("out"), text).unwrap();
    fs::create_dir(scratch.join("many")).unwrap();
    for number in 0..MANY {
        fs::write(scratch.join("many").join(number.to_string()), format!("{name} {number}")).unwrap();
    }
    let outputs = ["out", "many"].map(|output| (output.to_owned(), scratch.join(output)));
    let draft = Computed {
        kind: "test".to_owned(),
        instance: name.to_owned(),
        parts: parts(name),
        outputs: outputs.into(),
        volatile: [].into(),
        stdout: None,
        stderr: None,
        metrics: BTreeMap::new(),
        seconds: 0.0,
        cpu_seconds: 0.0,
        max_rss_bytes: 0,
        environment: BTreeMap::new(),
        warnings: Vec::new(),
    };
    right.commit(draft).unwrap()
}

fn take(remote: &Remote, store: &Store, name: &str) -> Option<Manifest> {
    let Some(Claim::Miss(mut right)) = store.try_claim(&parts(name).key()).unwrap() else { panic!("{name}") };
    remote.take(store, &mut right, name)
}

/// Takes a result that must be refused, and returns the reason.
#[track_caller]
fn refusal(remote: &Remote, store: &Store, name: &str) -> String {
    assert_eq!(take(remote, store, name), None);
    let summary = remote.summary();
    assert_eq!((summary.taken, summary.refused.len(), summary.unreachable), (0, 1, None));
    summary.refused[0].reason.clone()
}

#[test]
fn a_result_of_a_trusted_writer_is_taken_with_everything_that_belongs_to_it() {
    let lab = Lab::new();
    let (here, there) = (lab.store("here"), lab.store("there"));
    let published = lab.publish(&here, "a", &lab.alice);
    let remote = lab.reader();
    let taken = take(&remote, &there, "a").unwrap();
    assert_eq!(taken.computed, published.computed);
    assert_eq!(taken.taken_from.as_deref(), Some("alice"));
    assert_eq!(there.read(&taken.outputs["out"]).unwrap(), b"text");
    assert_eq!(there.examine(taken.key).0, crate::store::Condition::Sound);
    assert!(matches!(there.try_claim(&taken.key).unwrap(), Some(Claim::Hit(_))));
    assert_eq!(remote.summary().taken, 1);
    assert_eq!(take(&remote, &there, "b"), None, "nobody has computed it");
    assert_eq!(remote.summary().refused, []);
}

#[test]
fn a_result_of_another_writer_is_never_signed_again() {
    let lab = Lab::new();
    let (here, there) = (lab.store("here"), lab.store("there"));
    lab.publish(&here, "a", &lab.alice);
    let taken = take(&lab.reader(), &there, "a").unwrap();
    let bob = SigningKey::generate("bob").unwrap();
    assert_eq!(lab.writer(&bob).upload(&there, &taken), Outcome::NotOurs);
    assert_eq!(lab.writer(&bob).upload_missing(&there, &taken), Outcome::NotOurs);
    assert!(!lab.file(&manifest_path(taken.key, "bob")).exists());
}

#[test]
fn a_result_of_an_untrusted_writer_is_refused_unless_the_project_trusts_anyone() {
    let lab = Lab::new();
    let (here, there) = (lab.store("here"), lab.store("there"));
    let mallory = SigningKey::generate("mallory").unwrap();
    lab.publish(&here, "a", &mallory);
    let reason = refusal(&lab.reader(), &there, "a");
    assert!(reason.contains("not among the `trusted:` keys"), "{reason}");
    let anyone = RemoteSettings { trusted: TrustedWriters::Anyone(Anyone::Anyone), ..lab.settings(&[]) };
    assert!(take(&lab.open(&anyone, None), &there, "a").is_some());
}

#[test]
fn every_way_to_forge_a_manifest_is_refused() {
    let lab = Lab::new();
    let (here, there) = (lab.store("here"), lab.store("there"));
    let published = lab.publish(&here, "a", &lab.alice);
    let other = lab.publish(&here, "b", &lab.alice);
    let mallory = SigningKey::generate("alice").unwrap();
    let path = lab.file(&manifest_path(published.key, "alice"));
    let good = fs::read(&path).unwrap();
    let sealed = here.sealed_record(published.key).unwrap();
    let first = good.iter().position(|&byte| byte == b'\n').unwrap();
    let forgeries: [(&str, Vec<u8>); 7] = [
        ("signature is wrong", signed::sign(&sealed, &mallory)),
        (
            "signature is wrong",
            [&good[..first + 1], here.sealed_record(other.key).unwrap().as_slice()].concat(),
        ),
        ("result of another key", fs::read(lab.file(&manifest_path(other.key, "alice"))).unwrap()),
        ("not signed by its writer", [&br#"{"signatures":{}}"#[..], &good[first..]].concat()),
        ("no signatures", sealed.clone()),
        ("signature is wrong", good[..good.len() - 1].to_vec()),
        ("cut short", Vec::new()),
    ];
    for (expected, forgery) in forgeries {
        fs::remove_file(&path).unwrap();
        fs::write(&path, forgery).unwrap();
        let reason = refusal(&lab.reader(), &there, "a");
        assert!(reason.contains(expected), "{expected}: {reason}");
    }
    fs::write(&path, good).unwrap();
    assert!(take(&lab.reader(), &there, "a").is_some());
}

#[test]
fn a_blob_that_is_damaged_is_refused_and_replaced_by_the_next_upload() {
    let lab = Lab::new();
    let here = lab.store("here");
    let published = lab.publish(&here, "a", &lab.alice);
    let path = lab.file(&blob_path(published.outputs["out"].blob));
    let good = fs::read(&path).unwrap();
    let longer = zstd::encode_all(&vec![b'x'; 1 << 20][..], 0).unwrap();
    let damages: [(&str, Option<Vec<u8>>); 5] = [
        ("is missing", None),
        ("is damaged", Some(good[..good.len() - 2].to_vec())),
        ("is damaged", Some(b"not compressed".to_vec())),
        ("has another content", Some(zstd::encode_all(&b"evil"[..], 0).unwrap())),
        ("has another content", Some(longer)),
    ];
    for (number, (expected, content)) in damages.into_iter().enumerate() {
        fs::remove_file(&path).unwrap();
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let there = lab.store(&format!("there {number}"));
        let settings = RemoteSettings { write: Policy::Always, ..lab.settings(&[]) };
        let remote = lab.open(&settings, Some(&lab.alice));
        let reason = refusal(&remote, &there, "a");
        assert!(reason.contains(expected), "{expected}: {reason}");
        let again = compute(&there, "a", "text");
        assert_eq!(remote.upload(&there, &again), Outcome::Uploaded);
        assert_eq!(fs::read(&path).unwrap(), good);
    }
}

#[test]
fn a_remote_that_fails_is_reported_once_and_soon_left_alone() {
    let lab = Lab::new();
    let store = lab.store("here");
    let remote = lab.reader();
    fs::remove_dir(lab.remote_path()).unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(take(&remote, &store, name), None);
    }
    let warnings = remote.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("there is no directory"), "{warnings:?}");
    assert_eq!(remote.warnings(), [""; 0]);
    fs::create_dir(lab.remote_path()).unwrap();
    lab.publish(&lab.store("other"), "f", &lab.alice);
    assert_eq!(take(&remote, &store, "f"), None, "it is not asked any more");
}

#[test]
fn writers_that_got_different_results_are_told_apart() {
    let lab = Lab::new();
    let bob = SigningKey::generate("bob").unwrap();
    let first = lab.publish(&lab.store("here"), "a", &lab.alice);
    let there = lab.store("there");
    let second = compute(&there, "a", "other");
    lab.writer(&bob).upload(&there, &second);
    let remote = lab.open(&lab.settings(&[&lab.alice]), None);
    let witnesses = remote.witnesses(first.key).unwrap();
    assert_eq!(witnesses.testimonies, [Testimony::of("alice", &first)]);
    assert_eq!(witnesses.refused.len(), 1);
    let remote = lab.open(&lab.settings(&[&lab.alice, &bob]), None);
    let testimonies = remote.witnesses(first.key).unwrap().testimonies;
    assert_eq!(testimonies.len(), 2);
    assert_eq!(testimonies[0].difference(&testimonies[1].outputs), Some("out"));
}

#[test]
fn old_results_are_removed_and_what_others_need_stays() {
    let lab = Lab::new();
    let here = lab.store("here");
    let [old, new] = ["old", "new"].map(|name| lab.publish(&here, name, &lab.alice));
    let day = std::time::Duration::from_secs(24 * 3600);
    let age = |path: PathBuf| {
        let time = std::time::SystemTime::now() - 10 * day;
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    };
    for file in lab.writer(&lab.alice).backend.list("blobs").unwrap() {
        age(lab.file(&file.path));
    }
    age(lab.file(&manifest_path(old.key, "alice")));
    let remote = lab.reader();
    let request = RemoteGcRequest { dry_run: true, max_age: 5 * day, grace: 20 * day };
    let report = remote.collect_garbage(&request).unwrap();
    assert_eq!((report.results.items, report.blobs.items), (1, 0), "the blobs are in their grace period");
    let request = RemoteGcRequest { grace: 5 * day, ..request };
    let planned = remote.collect_garbage(&request).unwrap();
    // The listing and the files of the old directory; both share the content of `out`.
    assert_eq!((planned.results.items, planned.blobs.items), (1, 1 + MANY as u64));
    assert!(lab.file(&manifest_path(old.key, "alice")).exists(), "nothing was removed yet");
    let done = remote.collect_garbage(&RemoteGcRequest { dry_run: false, ..request }).unwrap();
    assert_eq!(RemoteGcReport { dry_run: true, ..done }, planned);
    let there = lab.store("there");
    assert!(take(&lab.reader(), &there, "new").is_some());
    assert_eq!(take(&lab.reader(), &there, "old"), None);
    assert_eq!(there.examine(new.key).0, crate::store::Condition::Sound);
}

#[test]
fn settings_that_cannot_work_are_refused_before_anything_runs() {
    let open = |settings: &RemoteSettings, environment: &dyn Fn(&str) -> Option<String>| {
        Remote::open(settings, Path::new("/"), environment, None, Stop::new()).unwrap_err()
    };
    let url = |url: &str| RemoteSettings::of_url(url.to_owned());
    let nothing = |_: &str| None;
    let refused = open(&url("ftp://host/x"), &nothing);
    assert!(refused.contains("`https://...`"), "{refused}");
    let refused = open(&RemoteSettings { write: Policy::Always, ..url("/lab") }, &nothing);
    assert!(refused.contains("pipe key new NAME"), "{refused}");
    let refused = open(&RemoteSettings { write: Policy::Always, ..url("https://host") }, &nothing);
    assert!(refused.contains("can only be read"), "{refused}");
    let anyone = TrustedWriters::Anyone(Anyone::Anyone);
    let refused = open(&RemoteSettings { trusted: anyone, ..url("https://host") }, &nothing);
    assert!(refused.contains("can be listed"), "{refused}");
    let trusted = TrustedWriters::Keys(vec!["alice".to_owned()]);
    let refused = open(&RemoteSettings { trusted, ..url("/lab") }, &nothing);
    assert!(refused.contains("entry 1 of `trusted`"), "{refused}");
    let half = |name: &str| (name == "AWS_ACCESS_KEY_ID").then(|| "id".to_owned());
    let refused = open(&url("s3://bucket"), &half);
    assert!(refused.contains("AWS_SECRET_ACCESS_KEY"), "{refused}");
    let endpoint = |name: &str| (name == "AWS_ENDPOINT_URL").then(|| "localhost".to_owned());
    let refused = open(&url("s3://bucket"), &endpoint);
    assert!(refused.contains("AWS_ENDPOINT_URL"), "{refused}");
}

/// A server that answers questions, and fails whenever something is written to it.
struct ReadOnly {
    writes: Arc<AtomicUsize>,
}

impl Backend for ReadOnly {
    fn get(&self, _path: &str) -> Result<Option<Box<dyn Read + Send>>, BackendError> {
        Ok(None)
    }

    fn put(&self, _path: &str, _content: &dyn outgoing::Outgoing) -> Result<u64, BackendError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        Err(BackendError("no answer".to_owned()))
    }

    fn exists(&self, _path: &str) -> Result<bool, BackendError> {
        Ok(false)
    }

    fn list(&self, _folder: &str) -> Result<Vec<backend::Listed>, BackendError> {
        Ok(Vec::new())
    }

    fn remove(&self, _path: &str) -> Result<(), BackendError> {
        Ok(())
    }
}

#[test]
fn uploads_are_given_up_after_a_few_failures_although_the_server_answers_questions() {
    let lab = Lab::new();
    let store = lab.store("here");
    let writes = Arc::<AtomicUsize>::default();
    let remote =
        Remote { backend: Box::new(ReadOnly { writes: Arc::clone(&writes) }), ..lab.writer(&lab.alice) };
    let mut tried = Vec::new();
    for number in 0..6 {
        let manifest = compute(&store, &format!("a{number}"), "text");
        let before = writes.load(Ordering::SeqCst);
        assert_eq!(remote.upload_missing(&store, &manifest), Outcome::Failed);
        tried.push(writes.load(Ordering::SeqCst) > before);
    }
    assert_eq!(tried, [true, true, true, false, false, false]);
    assert_eq!(take(&remote, &store, "another"), None);
    assert_eq!(remote.summary().unreachable.as_deref(), Some("no answer"));
}

#[test]
fn what_is_damaged_or_missing_of_an_upload_is_uploaded_again() {
    let lab = Lab::new();
    let store = lab.store("here");
    let manifest = lab.publish(&store, "a", &lab.alice);
    let upload = || lab.writer(&lab.alice).upload_missing(&store, &manifest);
    assert_eq!(upload(), Outcome::Present);
    let path = lab.file(&manifest_path(manifest.key, "alice"));
    let content = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, &content[..content.len() / 2]).unwrap();
    assert_eq!(upload(), Outcome::Uploaded);
    assert_eq!(fs::read(&path).unwrap(), content);
    fs::remove_file(lab.file(&blob_path(manifest.outputs["out"].blob))).unwrap();
    assert_eq!(upload(), Outcome::Uploaded);
    assert_eq!(upload(), Outcome::Present);
    assert!(take(&lab.reader(), &lab.store("there"), "a").is_some());
}

#[test]
fn a_tilde_in_the_address_is_the_home_directory() {
    let open = |url: &str, home: Option<&str>| {
        let settings = RemoteSettings::of_url(url.to_owned());
        let environment = |name: &str| home.filter(|_| name == "HOME").map(str::to_owned);
        Remote::open(&settings, Path::new("/project"), &environment, None, Stop::new())
            .map(|remote| remote.witnesses(parts("a").key()).unwrap_err())
    };
    assert!(open("~/cache", Some("/no/home")).unwrap().contains("`/no/home/cache`"));
    assert!(open("~", Some("/no/home")).unwrap().contains("`/no/home"));
    for (url, home) in [("~bob/cache", Some("/no/home")), ("~/cache", None)] {
        assert!(open(url, home).unwrap_err().contains("write the whole path"));
    }
}
