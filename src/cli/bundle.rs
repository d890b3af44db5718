//! `pipe export` and `pipe import`: packs a pipeline with its results into one file for another machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::args::{ExportArgs, ImportArgs};
use super::exit::{Exit, Failure, Outcome};
use super::lock::read;
use super::pipeline_selection::PipelineSelection;
use super::project::{Opened, Project, select};
use super::{key, text};
use pipe_core::digest::{BlobId, Digest};
use pipe_engine::bundle::{
    self, BundleContent, BundleError, BundleIndex, IndexedFile, ReadBundle, visible_path,
};
use pipe_engine::lock::{path_of, witnesses_path_of};
use pipe_engine::remote::{Trust, is_signed, signatures_of};
use pipe_engine::spec::pipeline::{InputSource, Pipeline, UnlocatedFile};
use pipe_engine::store::{Condition, Store, write_atomically};

/// Reads a project file.
fn read_file(path: &Path) -> std::io::Result<(IndexedFile, Vec<u8>)> {
    let executable = fs::metadata(path)?.permissions().mode() & 0o111 != 0;
    let content = fs::read(path)?;
    Ok((IndexedFile { blake3: BlobId::new(Digest::of(&content)), executable }, content))
}

/// Runs `pipe export`.
pub(super) fn export(project: &Project, args: &ExportArgs) -> Outcome {
    let Opened { plan, store, .. } = project.open(&PipelineSelection::of_file(&args.file), &[])?;
    let pipeline = plan.pipeline();
    let path = path_of(&args.file);
    let lock = read(&path)?.ok_or_else(|| {
        let file = args.file.display();
        Failure::bad_input(format!("there is no {}; `pipe lock {file}` writes it", path.display()))
    })?;
    let with_content: BTreeSet<String> = if args.with.is_empty() {
        lock.stages.keys().cloned().collect()
    } else {
        let chosen = select(pipeline, &args.with)?;
        chosen.iter().map(|index| pipeline.instances[index.0].id.to_string()).collect()
    };
    let key = key::own(&|name| std::env::var(name).ok()).unwrap_or_else(|failure| {
        project.warn(&format!("the results in the bundle are not signed: {}", failure.text));
        None
    });
    let mut records = BTreeMap::new();
    let mut signatures = BTreeMap::new();
    let mut blobs = BTreeSet::new();
    for (name, record) in &lock.stages {
        let missing = || {
            Failure::bad_input(format!("the result of `{name}` is not in the cache; run the pipeline first"))
        };
        let text = store.sealed_record(record.key).ok_or_else(missing)?;
        // A key signs only what its owner computed.
        let is_ours = store.record(record.key).is_some_and(|manifest| manifest.taken_from.is_none());
        if let Some(key) = key.as_ref().filter(|_| is_ours) {
            signatures.insert(record.key, signatures_of(&text, key));
        }
        records.insert(record.key, text);
        if with_content.contains(name) {
            match store.examine(record.key) {
                (Condition::Sound, Some(manifest)) => blobs.extend(store.blobs_of(&manifest)?),
                (Condition::Damaged(what), _) => {
                    return Err(Failure::new(Exit::CacheDamage, format!("`{name}`: {what}")));
                }
                (Condition::Missing(what), _) => return Err(Failure::bad_input(format!("`{name}`: {what}"))),
                (Condition::Sound, None) => return Err(missing()),
            }
        }
    }
    let files = project_files(project, pipeline, &path)?;
    let content =
        BundleContent { pipeline: args.file.display().to_string(), files, records, blobs, signatures };
    pack(&args.output, &content, &store)
        .map_err(|error| Failure::bad_input(format!("cannot write {}: {error}", args.output.display())))?;
    let size = fs::metadata(&args.output).map_or(0, |file| file.len());
    project.status(&format!(
        "wrote {} ({}) with {} and {}",
        args.output.display(),
        text::bytes(size),
        text::count(content.records.len(), "result"),
        text::count(content.files.len(), "file")
    ));
    Ok(Exit::Done)
}

/// Returns the pipeline, the files that it extends, its lock with its witnesses, and the project files that its stages read.
///
/// Registered data sets are left out: the other machine downloads them and checks their digests.
fn project_files(
    project: &Project,
    pipeline: &Pipeline<UnlocatedFile>,
    lock: &Path,
) -> Result<BTreeMap<String, (IndexedFile, Vec<u8>)>, Failure> {
    let mut files = BTreeMap::new();
    let paths =
        pipeline.instances.iter().flat_map(|instance| &instance.inputs).flat_map(|input| &input.sources);
    let sources = paths.filter_map(|source| match source {
        InputSource::File(UnlocatedFile::User(path)) => Some(path.clone()),
        _ => None,
    });
    let witnesses = Some(witnesses_path_of(&pipeline.file)).filter(|path| path.exists());
    let own = pipeline.files.iter().cloned().chain([lock.to_owned()]).chain(witnesses);
    let mut pending: Vec<PathBuf> = own.chain(sources).collect();
    while let Some(path) = pending.pop() {
        let Some(name) = visible_path(&path) else {
            let sentence = "is outside the project and was left out; copy it to the other machine yourself";
            project.status(&format!("`{}` {sentence}", path.display()));
            continue;
        };
        let cannot = |error| Failure::bad_input(format!("cannot read {}: {error}", path.display()));
        if fs::metadata(&path).map_err(cannot)?.is_dir() {
            for entry in fs::read_dir(&path).map_err(cannot)? {
                let entry = entry.map_err(cannot)?;
                if entry.file_type().map_err(cannot)?.is_symlink() {
                    let sentence = "is a symbolic link and was left out; stages that read it will run again";
                    project.status(&format!("`{}` {sentence}", entry.path().display()));
                } else {
                    pending.push(entry.path());
                }
            }
        } else {
            files.insert(name, read_file(&path).map_err(cannot)?);
        }
    }
    Ok(files)
}

fn pack(output: &Path, content: &BundleContent, store: &Store) -> anyhow::Result<()> {
    write_atomically(output, |file| {
        bundle::write(file, content, store)?;
        Ok(())
    })
}

/// Runs `pipe import`. Changes no project file before every member has been read and matches its digest.
pub(super) fn import(project: &Project, args: &ImportArgs) -> Outcome {
    let refuse = |what: String| Failure::bad_input(format!("{}: {what}", args.bundle.display()));
    let file = File::open(&args.bundle).map_err(|error| refuse(format!("it cannot be read: {error}")))?;
    let store = project.store()?;
    let ReadBundle { index, records } = bundle::read(file, &store).map_err(|error| match error {
        BundleError::Refused(what) => refuse(what),
        BundleError::Store(error) => Failure::from(error),
        BundleError::Io(error) => refuse(error.to_string()),
    })?;
    let new = new_files(&index, project, &store, args.overwrite)?;
    check_signatures(project, &index, &records).map_err(refuse)?;
    let mut complete = 0;
    for text in &records {
        let adopted = store.adopt_record(text).map_err(|error| refuse(error.to_string()))?;
        complete += usize::from(adopted.is_some());
    }
    for (path, file) in &new {
        let (mut content, _) = store.open_blob(file.blake3)?;
        write_file(Path::new(path), &mut content, file.executable)
            .map_err(|error| Failure::bad_input(format!("cannot write {path}: {error}")))?;
    }
    let without = records.len() - complete;
    let without = match without {
        0 => String::new(),
        n => format!(" ({} without content, which `pipe run` computes)", text::count(n, "more result")),
    };
    project.status(&format!(
        "imported {}: {}{without}, {} written; `pipe run {}` uses them",
        args.bundle.display(),
        text::count(complete, "result"),
        text::count(new.len(), "file"),
        index.pipeline
    ));
    Ok(Exit::Done)
}

/// Refuses a bundle with a wrong signature, and names the results that no trusted key signed. Does nothing if the project has no list of
/// trusted keys.
fn check_signatures(project: &Project, index: &BundleIndex, records: &[Vec<u8>]) -> Result<(), String> {
    let trust = project.trust().map_err(|failure| failure.text)?;
    if trust == Trust::Anyone {
        return Ok(());
    }
    let mut unsigned = Vec::new();
    for text in records {
        let manifest = Store::read_record(text).map_err(|error| error.to_string())?;
        let signatures = index.signatures.get(&manifest.key).cloned().unwrap_or_default();
        let refused = |reason| format!("the result of `{}` was refused: {reason}", manifest.instance);
        if !is_signed(text, &signatures, &trust).map_err(refused)? {
            unsigned.push(format!("`{}`", manifest.instance));
        }
    }
    if !unsigned.is_empty() {
        unsigned.sort();
        let (count, names) = (text::count(unsigned.len(), "result"), unsigned.join(", "));
        project.warn(&format!(
            "no key under `trusted:` in `pipe.yaml` has signed {count} of the bundle: {names}"
        ));
    }
    Ok(())
}

/// Returns the files to write. Fails if other files are in their places, unless they may be overwritten.
fn new_files<'a>(
    index: &'a BundleIndex,
    project: &Project,
    store: &Store,
    overwrite: bool,
) -> Result<Vec<(&'a String, &'a IndexedFile)>, Failure> {
    let mut new = Vec::new();
    let mut in_the_way = Vec::new();
    for (name, file) in &index.files {
        let path = Path::new(name);
        if path.starts_with(&project.cache_dir) || store.owns(path) || crosses_link(path) {
            return Err(Failure::bad_input(format!("`{name}` would be written outside of the project")));
        }
        let metadata = path.symlink_metadata();
        let found = store.digest_user_file(path).ok().filter(|found| !found.directory);
        match found {
            Some(found) if found.blob == file.blake3 => {}
            Some(_) if !overwrite => in_the_way.push(format!("`{name}`")),
            None if metadata.is_ok() => in_the_way.push(format!("`{name}`")),
            _ => new.push((name, file)),
        }
    }
    if in_the_way.is_empty() {
        return Ok(new);
    }
    Err(Failure::bad_input(format!(
        "not the same as in the bundle: {}. Nothing was changed; `--overwrite` replaces {}",
        in_the_way.join(", "),
        text::them(in_the_way.len())
    )))
}

/// Returns whether the path or one of its parents is a symbolic link.
fn crosses_link(path: &Path) -> bool {
    let mut parent = PathBuf::new();
    path.components().any(|component| {
        parent.push(component);
        parent.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink())
    })
}

/// Writes a file of the project.
fn write_file(path: &Path, content: &mut File, executable: bool) -> std::io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    write_atomically(path, |file| {
        std::io::copy(content, file)?;
        if executable {
            let mode = file.metadata()?.permissions().mode();
            file.set_permissions(fs::Permissions::from_mode(mode | (mode & 0o444) >> 2))?;
        }
        Ok(())
    })
}
