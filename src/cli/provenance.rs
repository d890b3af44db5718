//! `pipe provenance`: describes results as an RO-Crate, which other tools read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::args::ProvenanceArgs;
use super::exit::{Exit, Failure, Outcome};
use super::lock::read;
use super::pipeline_selection::PipelineSelection;
use super::project::{Opened, Project};
use super::text;
use pipe_engine::lock::ro_crate::{Agent, Crate, Included, IncludedAs, METADATA, metadata};
use pipe_engine::lock::{Lock, path_of};
use pipe_engine::plan::Plan;
use pipe_engine::spec::pipeline::{InputSource, UnlocatedFile};
use pipe_engine::store::manifest::Stored;
use pipe_engine::store::{Store, TemporaryDirectory};

/// Writes an RO-Crate of the locked results, as a directory or a zip archive.
pub(super) fn provenance(project: &Project, args: &ProvenanceArgs) -> Outcome {
    let to = &args.ro_crate;
    if to.symlink_metadata().is_ok() {
        let sentence = format!("{} exists already; choose another path", to.display());
        return Err(Failure::bad_input(sentence));
    }
    let selection = PipelineSelection::of_file(&args.file);
    let Opened { plan, store, .. } = project.open(&selection, &[])?;
    let path = path_of(&args.file);
    let lock = read(&path)?.ok_or_else(|| {
        let file = args.file.display();
        Failure::bad_input(format!("there is no {}; `pipe lock {file}` writes it", path.display()))
    })?;
    let manifests = lock
        .stages
        .iter()
        .filter_map(|(name, record)| Some((name.clone(), *store.record(record.key)?)))
        .collect();
    let scratch = TemporaryDirectory::new()?;
    let mut files = CrateFiles { store: &store, content: BTreeMap::new(), from: BTreeMap::new() };
    for file in &plan.pipeline().files {
        files.add(file, file, IncludedAs::Pipeline)?;
    }
    files.add(&path, &path, IncludedAs::Lock)?;
    files.add_results(project, &lock, &scratch)?;
    files.add_inputs(&plan)?;
    let agent = args.agent.as_deref().zip(args.agent_name.as_deref()).map(|(id, name)| Agent { id, name });
    let description = metadata(&Crate {
        plan: &plan,
        lock: &lock,
        manifests: &manifests,
        files: &files.content,
        agent,
        license: args.license.as_deref(),
    });
    let description = serde_json::to_vec_pretty(&description).map_err(anyhow::Error::from)?;
    let is_zip = to.extension().is_some_and(|extension| extension == "zip");
    let written = if is_zip {
        write_zip(to, &description, &files.from)
    } else {
        write_directory(to, &description, &files.from)
    };
    written.map_err(|error| Failure::bad_input(format!("cannot write {}: {error}", to.display())))?;
    project.status(&format!(
        "{} written: {} and {}",
        to.display(),
        text::count(lock.stages.len(), "action"),
        text::count(files.content.len(), "file")
    ));
    Ok(Exit::Done)
}

/// The files of the crate, by their paths in it: what each is, and where its content is.
struct CrateFiles<'a> {
    store: &'a Store,
    content: BTreeMap<String, Included>,
    from: BTreeMap<String, PathBuf>,
}

impl CrateFiles<'_> {
    fn add(&mut self, path: &Path, from: &Path, what: IncludedAs) -> Result<(), Failure> {
        let name = path.display().to_string();
        let inside = path.is_relative() && !name.split('/').any(|part| part == "..");
        let name = name.trim_start_matches("./").to_owned();
        if inside && !self.content.contains_key(&name) {
            let source = self.store.digest_user_file(from)?;
            let included =
                Included { blob: source.blob, bytes: source.bytes, directory: source.directory, what };
            self.content.insert(name.clone(), included);
            self.from.insert(name, from.to_owned());
        }
        Ok(())
    }

    /// Adds the placed files of the lock: from the project if they are unchanged, or else from the cache.
    fn add_results(&mut self, project: &Project, lock: &Lock, views: &Path) -> Result<(), Failure> {
        for (path, &blob) in &lock.placed {
            let path = Path::new(path);
            let here = self.store.digest_user_file(path).is_ok_and(|source| source.blob == blob);
            let outputs = lock.stages.values().flat_map(|record| record.outputs.values());
            let cached = |stored: Stored| self.store.artifact(&stored, views).ok();
            let from = if here {
                Some(path.to_owned())
            } else {
                outputs
                    .into_iter()
                    .find(|output| output.stored.blob == blob)
                    .map(|output| output.stored)
                    .and_then(cached)
            };
            match from {
                Some(from) => self.add(path, &from, IncludedAs::Result)?,
                None => {
                    project.status(&format!("`{}` is left out: neither the project nor the cache has the content that the lock records", path.display()));
                }
            }
        }
        Ok(())
    }

    /// Adds the user's files that stages read, if they exist and are inside the project.
    fn add_inputs(&mut self, plan: &Plan<UnlocatedFile>) -> Result<(), Failure> {
        let inputs = plan.pipeline().instances.iter().flat_map(|instance| &instance.inputs);
        for source in inputs.flat_map(|input| &input.sources) {
            if let InputSource::File(UnlocatedFile::User(path)) = source
                && path.exists()
            {
                self.add(path, path, IncludedAs::Input)?;
            }
        }
        Ok(())
    }
}

fn write_directory(to: &Path, description: &[u8], files: &BTreeMap<String, PathBuf>) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    fs::write(to.join(METADATA), description)?;
    for (name, from) in members(files)? {
        let target = to.join(name);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::write(target, fs::read(from)?)?;
    }
    Ok(())
}

fn write_zip(to: &Path, description: &[u8], files: &BTreeMap<String, PathBuf>) -> std::io::Result<()> {
    let mut zip = zip::ZipWriter::new(File::create(to)?);
    let options = zip::write::FileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default())
        .large_file(true);
    zip.start_file(METADATA, options)?;
    zip.write_all(description)?;
    for (name, from) in members(files)? {
        zip.start_file(name, options)?;
        std::io::copy(&mut File::open(from)?, &mut zip)?;
    }
    zip.finish()?.sync_all()
}

/// Returns every regular file, including those in directories.
fn members(files: &BTreeMap<String, PathBuf>) -> std::io::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut pending: Vec<(String, PathBuf)> =
        files.iter().map(|(name, from)| (name.clone(), from.clone())).collect();
    while let Some((name, from)) = pending.pop() {
        if !from.is_dir() {
            found.insert(name, from);
            continue;
        }
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            pending.push((format!("{name}/{}", entry.file_name().to_string_lossy()), entry.path()));
        }
    }
    Ok(found)
}
