//! `pipe whence`: says which computation a file comes from, and what that depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use super::cache::warn_of_damage;
use super::exit::{Exit, Failure, Outcome};
use super::history::PastRun;
use super::project::Project;
use super::table::Grid;
use super::variant_files::set_arguments;
use super::{print_json, print_text, text};
use pipe_core::captured::captured;
use pipe_core::digest::{BlobId, StageKey};
use pipe_core::suggest;
use pipe_engine::store::Store;
use pipe_engine::store::manifest::Manifest;

/// How many digits of a digest are shown.
const DIGITS: usize = 10;

/// Where a file comes from.
#[derive(Debug, Serialize)]
struct Origin {
    file: String,
    digest: BlobId,
    stage: String,
    kind: String,
    output: String,
    /// Other outputs with the same content.
    others: BTreeSet<String>,
    key: StageKey,
    computed: String,
    seconds: f64,
    /// The run that computed it, if its log is still there.
    run: Option<String>,
    set: Vec<String>,
    commit: Option<OriginCommit>,
    /// Every stage that it depends on, nearest first.
    stages: Vec<Ancestor>,
    /// Inputs of these stages that no result in the cache gave: most often, files of the user.
    files: Vec<UnknownInput>,
}

/// The commit that a result belongs to.
#[derive(Debug, Serialize)]
struct OriginCommit {
    /// As `git log` shows it: its id, its date and its subject.
    commit: String,
    /// What it has to do with the result.
    role: &'static str,
}

#[derive(Debug, Serialize)]
struct Ancestor {
    stage: String,
    kind: String,
    key: StageKey,
    computed: String,
}

#[derive(Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct UnknownInput {
    stage: String,
    input: String,
    digest: String,
}

/// Runs `pipe whence`.
pub(super) fn whence(project: &Project, file: &Path, as_json: bool) -> Outcome {
    let store = project.store_to_read()?;
    let digest = store.digest_user_file(file).map_err(|error| {
        let similar = (!file.exists()).then(|| suggest::similar_file(file, &[], &[])).flatten();
        let hint = similar.map(|similar| format!("; did you mean `{}`?", similar.display()));
        let mut failure = Failure::from(error);
        failure.text.push_str(&hint.unwrap_or_default());
        failure
    })?;
    let digest = digest.blob;
    let manifests: Vec<Manifest> = store.list()?.into_iter().map(|listed| listed.manifest).collect();
    warn_of_damage(project, &store);
    let found = producers(&store, &manifests, digest)?;
    let Some(&(manifest, output)) = found.first() else {
        let name = file.display();
        return Err(Failure::new(
            Exit::StageFailed,
            format!(
                "no result in the cache has the content of {name}: it was edited, it comes from another cache, \
                 or its result was removed by `pipe cache gc`"
            ),
        ));
    };
    let (stages, files) = ancestors(&store, &manifests, manifest);
    let others =
        found[1..].iter().map(|(manifest, output)| format!("{}.{output}", manifest.instance)).collect();
    let run = computing_run(&store, manifest.key)?;
    let origin = Origin {
        file: file.display().to_string(),
        digest,
        stage: manifest.instance.clone(),
        kind: manifest.kind.clone(),
        output: output.to_owned(),
        others,
        key: manifest.key,
        computed: manifest.finished.clone(),
        seconds: manifest.seconds,
        set: run.as_ref().map(|run| run.set().to_vec()).unwrap_or_default(),
        commit: origin_commit(digest, file, run.as_ref()),
        run: run.map(|run| run.record.id),
        stages,
        files,
    };
    if as_json { print_json(&origin) } else { print_text(&described(&origin)) }
}

/// An output of a result.
type Output<'m> = (&'m Manifest, &'m str);

/// Returns the outputs that have this content, or that contain a file with this content; newest first.
fn producers<'m>(
    store: &Store,
    manifests: &'m [Manifest],
    digest: BlobId,
) -> Result<Vec<Output<'m>>, Failure> {
    let (mut equal, mut containing) = (Vec::new(), Vec::new());
    for manifest in manifests {
        for (name, stored) in &manifest.outputs {
            if stored.blob == digest {
                equal.push((manifest, name.as_str()));
            } else if stored.directory
                && equal.is_empty()
                // A directory whose content was removed cannot have the file.
                && store.has_blob(stored.blob)
                && store.files_of(stored)?.iter().any(|(blob, _)| *blob == digest)
            {
                containing.push((manifest, name.as_str()));
            }
        }
    }
    Ok(if equal.is_empty() { containing } else { equal })
}

/// Follows inputs by their content: a result depends on the results that gave the content of its inputs. If several
/// gave the same content, such as an empty file, it is one of the same pipeline, and of these the last before the result.
fn ancestors(store: &Store, manifests: &[Manifest], of: &Manifest) -> (Vec<Ancestor>, Vec<UnknownInput>) {
    let mut producers: BTreeMap<String, Vec<&Manifest>> = BTreeMap::new();
    for manifest in manifests {
        for stored in manifest.outputs.values() {
            producers.entry(stored.blob.to_string()).or_default().push(manifest);
        }
    }
    let companions = store.companions(of.key);
    let (mut stages, mut unknown) = (Vec::new(), BTreeSet::new());
    let mut seen = BTreeSet::from([of.key]);
    let mut pending = vec![of];
    let mut at = 0;
    while let Some(&manifest) = pending.get(at) {
        at += 1;
        for (part, value) in manifest.parts.iter() {
            let Some(input) = part.strip_prefix("inputs.") else { continue };
            if input.ends_with(".order") || input.ends_with(".form") {
                continue;
            }
            let candidates = producers.get(value).into_iter().flatten().filter(|it| it.key != manifest.key);
            let producer = candidates.max_by_key(|producer| {
                let is_earlier = producer.finished <= manifest.finished;
                (companions.contains(&producer.key), is_earlier, &producer.finished)
            });
            match producer {
                Some(producer) if seen.insert(producer.key) => {
                    pending.push(producer);
                    stages.push(Ancestor {
                        stage: producer.instance.clone(),
                        kind: producer.kind.clone(),
                        key: producer.key,
                        computed: producer.finished.clone(),
                    });
                }
                Some(_) => {}
                None => {
                    unknown.insert(UnknownInput {
                        stage: manifest.instance.clone(),
                        input: input.to_owned(),
                        digest: value.to_owned(),
                    });
                }
            }
        }
    }
    (stages, unknown.into_iter().collect())
}

/// Returns the run that computed a key.
fn computing_run(store: &Store, key: StageKey) -> Result<Option<PastRun>, Failure> {
    for record in store.runs()? {
        let past = PastRun::read(store, record)?;
        let computed = |instance: &super::history::PastInstance| {
            instance.outcome == "computed" && instance.key == Some(key)
        };
        if past.instances().iter().any(computed) {
            return Ok(Some(past));
        }
    }
    Ok(None)
}

/// Returns the commit that recorded the content in a lock, or else the one that contains the file, or else the one that was
/// checked out when the content was computed; `None` without git.
fn origin_commit(digest: BlobId, file: &Path, run: Option<&PastRun>) -> Option<OriginCommit> {
    let git = |arguments: &[&str]| {
        let output = captured(Command::new("git").args(arguments)).ok()?;
        let text = output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())?;
        Some(text.lines().next()?.to_owned())
    };
    let first = |condition: &str, files: &[&str]| {
        git(&[&["log", "--reverse", "--format=%h %cs %s", condition], files].concat())
    };
    let recorded = || first(&format!("-S{digest}"), &["--", "*.lock"]);
    let contained = || {
        let blob = git(&["hash-object", "--", file.to_str()?]).filter(|_| file.is_file())?;
        first(&format!("--find-object={blob}"), &["--all"])
    };
    let checked_out = || git(&["log", "-1", "--format=%h %cs %s", run?.commit()?, "--"]);
    let found: [(&'static str, &dyn Fn() -> Option<String>); 3] = [
        ("the first whose lock records it", &recorded),
        ("the first that contains it", &contained),
        ("checked out when it was computed; what was not committed then is not in it", &checked_out),
    ];
    found.into_iter().find_map(|(role, find)| Some(OriginCommit { commit: find()?, role }))
}

fn short(digest: &str) -> &str {
    digest.get(..DIGITS).unwrap_or(digest)
}

fn described(origin: &Origin) -> String {
    let Origin { file, stage, kind, output, key, computed, .. } = origin;
    let mut shown = format!("{file} is the output `{output}` of `{stage}` ({kind})\n");
    if !origin.others.is_empty() {
        let others: Vec<&str> = origin.others.iter().map(String::as_str).collect();
        shown.push_str(&format!("the same content: {}\n", others.join(", ")));
    }
    let mut line = |name: &str, value: &str| shown.push_str(&format!("{name:<10}{value}\n"));
    line("digest", &origin.digest.to_string());
    line("key", &key.to_string());
    line("computed", &format!("{computed}, in {}", text::duration(origin.seconds)));
    if let Some(run) = &origin.run {
        line("run", &format!("{run}{}", set_arguments(&origin.set)));
    }
    if let Some(OriginCommit { commit, role }) = &origin.commit {
        line("commit", &format!("{commit} ({role})"));
    }
    if !origin.stages.is_empty() {
        let mut grid = Grid::new(&["depends on", "kind", "computed", "key"]).wrapped(&[0]).optional(&[3, 2]);
        for Ancestor { stage, kind, key, computed } in &origin.stages {
            grid.row([stage.clone(), kind.clone(), computed.clone(), short(&key.to_string()).to_owned()]);
        }
        shown.push_str(&format!("\n{grid}"));
    }
    if !origin.files.is_empty() {
        let mut grid = Grid::new(&["input that no result gave", "read by", "digest"]).wrapped(&[0, 1]);
        for UnknownInput { stage, input, digest } in &origin.files {
            grid.row([input.clone(), stage.clone(), short(digest).to_owned()]);
        }
        shown.push_str(&format!("\n{grid}"));
    }
    shown
}
