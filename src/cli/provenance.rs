//! `pipe provenance`: what was computed, in the vocabulary of other tools.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::args::ProvenanceArgs;
use super::exit::{Exit, Failure, Outcome};
use super::lock::{read, stored};
use super::project::Project;
use super::text;
use pipe_engine::lock::ro_crate::{Agent, Crate, Included, METADATA, What, metadata};
use pipe_engine::lock::{Lock, path_of};
use pipe_engine::plan::Plan;
use pipe_engine::spec::pipeline::Source;
use pipe_engine::store::Store;
use pipe_engine::store::manifest::Stored;

pub(super) fn provenance(project: &Project, args: &ProvenanceArgs) -> Outcome {
    let to = &args.ro_crate;
    if to.symlink_metadata().is_ok() {
        let sentence = format!("{} is there already; name one that is not", to.display());
        return Err(Failure::bad_input(sentence));
    }
    let pipeline = project.load(&args.file, &[])?;
    let plan = Plan::new(pipeline).map_err(|cycle| Failure::bad_input(cycle.to_string()))?;
    let path = path_of(&args.file);
    let lock = read(&path)?.ok_or_else(|| {
        let file = args.file.display();
        Failure::bad_input(format!("there is no {}; `pipe lock {file}` writes it", path.display()))
    })?;
    let store = project.store_to_read()?;
    let manifests = lock
        .stages
        .iter()
        .filter_map(|(name, record)| Some((name.clone(), *store.record(record.key)?)))
        .collect();
    let scratch = tempfile::tempdir()?;
    let mut files = Files { store: &store, content: BTreeMap::new(), from: BTreeMap::new() };
    for file in &plan.pipeline().files {
        files.add(file, file, What::Pipeline)?;
    }
    files.add(&path, &path, What::Lock)?;
    files.add_results(project, &lock, scratch.path())?;
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
    let written =
        if is_zip { zipped(to, &description, &files.from) } else { copied(to, &description, &files.from) };
    written.map_err(|error| Failure::bad_input(format!("cannot write {}: {error}", to.display())))?;
    project.status(&format!(
        "{} written: {} and {}",
        to.display(),
        text::count(lock.stages.len(), "action"),
        text::count(files.content.len(), "file")
    ));
    Ok(Exit::Done)
}

/// What goes into the crate: by path in it, what it is and where it comes from.
struct Files<'a> {
    store: &'a Store,
    content: BTreeMap<String, Included>,
    from: BTreeMap<String, PathBuf>,
}

impl Files<'_> {
    fn add(&mut self, path: &Path, from: &Path, what: What) -> Result<(), Failure> {
        let name = path.display().to_string();
        let inside = path.is_relative() && !name.split('/').any(|part| part == "..");
        let name = name.trim_start_matches("./").to_owned();
        if inside && !self.content.contains_key(&name) {
            let source = self.store.digest_source(from)?;
            let included =
                Included { blob: source.blob, bytes: source.bytes, directory: source.directory, what };
            self.content.insert(name.clone(), included);
            self.from.insert(name, from.to_owned());
        }
        Ok(())
    }

    /// As the lock has them: from the tree where they are the same, else from the cache.
    fn add_results(&mut self, project: &Project, lock: &Lock, views: &Path) -> Result<(), Failure> {
        for (path, &blob) in &lock.placed {
            let path = Path::new(path);
            let here = self.store.digest_source(path).is_ok_and(|source| source.blob == blob);
            let outputs = lock.stages.values().flat_map(|record| record.outputs.values());
            let cached = |stored: Stored| self.store.artifact(&stored, views).ok();
            let from = match here {
                true => Some(path.to_owned()),
                false => {
                    outputs.into_iter().find(|output| output.stored.blob == blob).map(stored).and_then(cached)
                }
            };
            match from {
                Some(from) => self.add(path, &from, What::Result)?,
                None => {
                    project.status(&format!("`{}` is nowhere as the lock has it; left out", path.display()))
                }
            }
        }
        Ok(())
    }

    /// The user's own files that stages read, if they are here and in the project.
    fn add_inputs(&mut self, plan: &Plan) -> Result<(), Failure> {
        let inputs = plan.pipeline().instances.iter().flat_map(|instance| &instance.inputs);
        for source in inputs.flat_map(|input| &input.sources) {
            if let Source::Path(path) = source
                && path.exists()
            {
                self.add(path, path, What::Input)?;
            }
        }
        Ok(())
    }
}

fn copied(to: &Path, description: &[u8], files: &BTreeMap<String, PathBuf>) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    fs::write(to.join(METADATA), description)?;
    for (name, from) in members(files)? {
        let target = to.join(name);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::write(target, fs::read(from)?)?;
    }
    Ok(())
}

fn zipped(to: &Path, description: &[u8], files: &BTreeMap<String, PathBuf>) -> std::io::Result<()> {
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

/// Every regular file, those in directories included.
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
