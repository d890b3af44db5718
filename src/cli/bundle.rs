//! `pipe export` and `pipe import`: packs a pipeline with its results into one file for another machine.
//!
//! A bundle is a zstd-compressed tar. Its first member is the index; a member that the index does not name is
//! refused. The same results give the same bundle, byte for byte.
//!
//! ```text
//! bundle.json               what is in it
//! project/<path>            the pipeline, its lock, and the user's files that stages read
//! blobs/<blob id>           content
//! actions/<key>.json        sealed manifests
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::args::{ExportArgs, ImportArgs};
use super::exit::{Exit, Failure, Outcome};
use super::lock::read;
use super::pipeline_selection::PipelineSelection;
use super::project::{Opened, Project, select};
use super::text;
use pipe_core::digest::{BlobId, Digest, StageKey};
use pipe_engine::lock::path_of;
use pipe_engine::spec::pipeline::{InputSource, Pipeline, UnlocatedFile};
use pipe_engine::store::{Condition, Store, StoreError};

const INDEX: &str = "bundle.json";
const FORMAT: u32 = 1;
/// The largest size of an index, a manifest or a project file, because these are read into memory.
const LARGEST_IN_MEMORY: u64 = 256 << 20;

/// The first member of a bundle.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BundleIndex {
    format: u32,
    pipeline: String,
    /// The project files, by path.
    files: BTreeMap<String, IndexedFile>,
    results: BTreeSet<StageKey>,
    blobs: BTreeSet<BlobId>,
}

/// What the index says about a project file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexedFile {
    blake3: BlobId,
    /// The digest of a directory depends on whether its files are executable.
    executable: bool,
}

/// The content of a project file.
struct ProjectFile {
    content: Vec<u8>,
    executable: bool,
}

impl ProjectFile {
    fn read(path: &Path) -> std::io::Result<Self> {
        let executable = fs::metadata(path)?.permissions().mode() & 0o111 != 0;
        Ok(Self { content: fs::read(path)?, executable })
    }

    fn indexed(&self) -> IndexedFile {
        IndexedFile { blake3: BlobId::new(Digest::of(&self.content)), executable: self.executable }
    }
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
    let mut records = BTreeMap::new();
    let mut blobs = BTreeSet::new();
    for (name, record) in &lock.stages {
        let missing = || {
            Failure::bad_input(format!("the result of `{name}` is not in the cache; run the pipeline first"))
        };
        let text = store.sealed_record(record.key).ok_or_else(missing)?;
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
    let index = BundleIndex {
        format: FORMAT,
        pipeline: args.file.display().to_string(),
        files: files.iter().map(|(path, file)| (path.clone(), file.indexed())).collect(),
        results: records.keys().copied().collect(),
        blobs,
    };
    pack(&args.output, &index, &files, &records, &store)
        .map_err(|error| Failure::bad_input(format!("cannot write {}: {error}", args.output.display())))?;
    let size = fs::metadata(&args.output).map_or(0, |file| file.len());
    project.status(&format!(
        "wrote {} ({}) with {} and {}",
        args.output.display(),
        text::bytes(size),
        text::count(records.len(), "result"),
        text::count(files.len(), "file")
    ));
    Ok(Exit::Done)
}

/// Returns the pipeline, the files that it extends, its lock, and the project files that its stages read.
///
/// Registered data sets are left out: the other machine downloads them and checks their digests.
fn project_files(
    project: &Project,
    pipeline: &Pipeline<UnlocatedFile>,
    lock: &Path,
) -> Result<BTreeMap<String, ProjectFile>, Failure> {
    let mut files = BTreeMap::new();
    let paths =
        pipeline.instances.iter().flat_map(|instance| &instance.inputs).flat_map(|input| &input.sources);
    let sources = paths.filter_map(|source| match source {
        InputSource::File(UnlocatedFile::User(path)) => Some(path.clone()),
        _ => None,
    });
    let own = pipeline.files.iter().cloned().chain([lock.to_owned()]);
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
            files.insert(name, ProjectFile::read(&path).map_err(cannot)?);
        }
    }
    Ok(files)
}

/// Returns the path as text if it is inside the project and no part of it is hidden, because a bundle must not be
/// able to write to `.git`.
fn visible_path(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str().filter(|part| !part.starts_with('.'))?),
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Writes the bundle under a temporary name and renames it when it is complete.
fn pack(
    output: &Path,
    index: &BundleIndex,
    files: &BTreeMap<String, ProjectFile>,
    records: &BTreeMap<StageKey, Vec<u8>>,
    store: &Store,
) -> anyhow::Result<()> {
    let temp = PathBuf::from(format!("{}.{}", output.display(), std::process::id()));
    let write = || -> anyhow::Result<()> {
        let encoder = zstd::Encoder::new(File::create(&temp)?, 0)?;
        let mut tar = tar::Builder::new(encoder);
        append(&mut tar, INDEX, &serde_json::to_vec_pretty(index)?)?;
        for (path, file) in files {
            append(&mut tar, &format!("project/{path}"), &file.content)?;
        }
        for id in &index.blobs {
            let (mut file, length) = store.open_blob(*id)?;
            tar.append_data(&mut header(length), format!("blobs/{id}"), &mut file)?;
        }
        for (key, text) in records {
            append(&mut tar, &format!("actions/{key}.json"), text)?;
        }
        let file = tar.into_inner()?.finish()?;
        file.sync_all()?;
        Ok(fs::rename(&temp, output)?)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temp)))
}

fn append<W: Write>(tar: &mut tar::Builder<W>, path: &str, content: &[u8]) -> std::io::Result<()> {
    tar.append_data(&mut header(content.len() as u64), path, content)
}

/// Returns a header without times and owner, so that the same content gives the same bundle.
fn header(length: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(length);
    header.set_mode(0o644);
    header.set_mtime(0);
    header
}

/// Runs `pipe import`. Changes no project file before every member has been read and matches its digest.
pub(super) fn import(project: &Project, args: &ImportArgs) -> Outcome {
    let refuse = |what: String| Failure::bad_input(format!("{}: {what}", args.bundle.display()));
    let unreadable = |error: std::io::Error| refuse(format!("it cannot be read: {error}"));
    let file = File::open(&args.bundle).map_err(unreadable)?;
    let foreign = |error: std::io::Error| refuse(format!("it was not written by `pipe export` ({error})"));
    let mut archive = tar::Archive::new(zstd::Decoder::new(file).map_err(foreign)?);
    let store = project.store()?;
    let mut entries = archive.entries().map_err(foreign)?;
    let index = match entries.next() {
        Some(entry) => read_index(entry.map_err(foreign)?).map_err(refuse)?,
        None => return Err(refuse("it was not written by `pipe export`: it is empty".into())),
    };
    let mut members = ImportedMembers::default();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        members.take(entry, &index, &store).map_err(|error| match error {
            Refused::Content(what) => refuse(what),
            Refused::Store(error) => Failure::from(error),
        })?;
    }
    if !members.are_complete(&index) {
        return Err(refuse("it is incomplete: members that its index names are missing".into()));
    }
    let new = members.new_files(project, args.overwrite)?;
    let mut complete = 0;
    for text in &members.records {
        let adopted = store.adopt_record(text).map_err(|error| refuse(error.to_string()))?;
        complete += usize::from(adopted.is_some());
    }
    for (path, content) in &new {
        let executable = index.files.get(path).is_some_and(|file| file.executable);
        write_file(Path::new(path), content, executable)
            .map_err(|error| Failure::bad_input(format!("cannot write {path}: {error}")))?;
    }
    let without = members.records.len() - complete;
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

/// Reads and checks the index.
fn read_index<R: Read>(entry: tar::Entry<'_, R>) -> Result<BundleIndex, String> {
    if entry.path_bytes().as_ref() != INDEX.as_bytes() || !entry.header().entry_type().is_file() {
        return Err(format!("it was not written by `pipe export`: its first member is not `{INDEX}`"));
    }
    let text = read_member(entry)?;
    let index: BundleIndex =
        serde_json::from_slice(&text).map_err(|error| format!("its index cannot be read: {error}"))?;
    if index.format != FORMAT {
        return Err(format!(
            "it has format {}, and this version of `pipe` reads format {FORMAT}",
            index.format
        ));
    }
    match index.files.keys().find(|path| visible_path(Path::new(path)).as_ref() != Some(path)) {
        Some(path) => Err(format!("`{path}` would be written outside of the project, or to a hidden file")),
        None => Ok(index),
    }
}

/// Reads a member into memory.
fn read_member<R: Read>(entry: tar::Entry<'_, R>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let size = entry.size();
    if size > LARGEST_IN_MEMORY {
        return Err("one of its members is too large".into());
    }
    entry.take(size).read_to_end(&mut bytes).map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(bytes)
}

/// Why a member cannot be imported.
enum Refused {
    Content(String),
    Store(StoreError),
}

/// The members of a bundle that were read so far and match their digests.
#[derive(Default)]
struct ImportedMembers {
    files: BTreeMap<String, Vec<u8>>,
    records: Vec<Vec<u8>>,
    keys: BTreeSet<StageKey>,
    blobs: BTreeSet<BlobId>,
}

impl ImportedMembers {
    /// Reads one member and checks it against the index.
    fn take<R: Read>(
        &mut self,
        mut entry: tar::Entry<'_, R>,
        index: &BundleIndex,
        store: &Store,
    ) -> Result<(), Refused> {
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let refuse = |what: &str| Refused::Content(format!("`{name}` {what}"));
        if !entry.header().entry_type().is_file() {
            return Err(refuse("is not a plain file"));
        }
        let unknown = || refuse("is not in the index");
        let (folder, rest) = name.split_once('/').ok_or_else(unknown)?;
        match folder {
            "project" => {
                let expected = index.files.get(rest).ok_or_else(unknown)?;
                let content = read_member(entry).map_err(Refused::Content)?;
                if Digest::of(&content) != expected.blake3.digest() {
                    return Err(refuse("does not have the digest that the index records"));
                }
                self.files.insert(rest.to_owned(), content);
            }
            "actions" => {
                let key: Option<StageKey> = rest.strip_suffix(".json").and_then(|key| key.parse().ok());
                let key = key.filter(|key| index.results.contains(key)).ok_or_else(unknown)?;
                self.records.push(read_member(entry).map_err(Refused::Content)?);
                self.keys.insert(key);
            }
            "blobs" => {
                let id: Option<BlobId> = rest.parse().ok().filter(|id| index.blobs.contains(id));
                let id = id.ok_or_else(unknown)?;
                store.adopt_blob(id, &mut entry).map_err(|error| match error {
                    StoreError::Foreign { what } => Refused::Content(what),
                    other => Refused::Store(other),
                })?;
                self.blobs.insert(id);
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// Returns whether every member that the index names was read.
    fn are_complete(&self, index: &BundleIndex) -> bool {
        self.files.keys().eq(index.files.keys()) && self.keys == index.results && self.blobs == index.blobs
    }

    /// Returns the files to write. Fails if other files are in their places, unless they may be overwritten.
    fn new_files(&self, project: &Project, overwrite: bool) -> Result<BTreeMap<String, &Vec<u8>>, Failure> {
        let mut new = BTreeMap::new();
        let mut in_the_way = Vec::new();
        for (name, content) in &self.files {
            let path = Path::new(name);
            if path.starts_with(&project.cache_dir) || crosses_link(path) {
                return Err(Failure::bad_input(format!("`{name}` would be written outside of the project")));
            }
            match fs::read(path) {
                Ok(found) if found == *content => {}
                Ok(_) if !overwrite => in_the_way.push(format!("`{name}`")),
                Err(_) if path.symlink_metadata().is_ok() => in_the_way.push(format!("`{name}`")),
                _ => _ = new.insert(name.clone(), content),
            }
        }
        if in_the_way.is_empty() {
            return Ok(new);
        }
        Err(Failure::bad_input(format!(
            "{} differ from those in the bundle. Nothing was changed; `--overwrite` replaces them",
            in_the_way.join(", ")
        )))
    }
}

/// Returns whether the path or one of its parents is a symbolic link.
fn crosses_link(path: &Path) -> bool {
    let mut parent = PathBuf::new();
    path.components().any(|component| {
        parent.push(component);
        parent.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink())
    })
}

/// Writes a file under a temporary name and renames it.
fn write_file(path: &Path, content: &[u8], executable: bool) -> std::io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    let temp = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    fs::write(&temp, content)?;
    if executable {
        let mode = fs::metadata(&temp)?.permissions().mode();
        fs::set_permissions(&temp, fs::Permissions::from_mode(mode | (mode & 0o444) >> 2))?;
    }
    fs::rename(&temp, path).inspect_err(|_| drop(fs::remove_file(&temp)))
}
