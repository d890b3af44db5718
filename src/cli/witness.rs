//! `pipe lock --witness`, and what `pipe verify` says about witnesses.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use super::exit::{Exit, Failure, Outcome};
use super::project::Project;
use super::{key, text};
use pipe_engine::lock::compare::{CompareVerdict, class_difference, compare};
use pipe_engine::lock::report::Check;
use pipe_engine::lock::{Lock, LockError, LockRecord, Witness, WitnessFile, path_of, witnesses_path_of};
use pipe_engine::plan::Plan;
use pipe_engine::remote::SigningKey;
use pipe_engine::spec::compare::Compare;
use pipe_engine::store::manifest::Manifest;
use pipe_engine::store::write_atomically;

/// Fails with the first stage, in the order of computation, that gave another result here than the lock records.
pub(super) fn require_same_results(plan: &Plan, lock: &Lock, here: &Lock) -> Result<(), Failure> {
    let path = path_of(&plan.pipeline().file);
    for &index in plan.topological() {
        let name = plan.instance(index).id.to_string();
        let Some(new) = here.stages.get(&name) else { continue };
        let how = match lock.stages.get(&name) {
            None => Some("it is not in the lock".to_owned()),
            Some(old) => difference(old, new),
        };
        if let Some(how) = how {
            let text = format!(
                "this machine is no witness of {}: `{name}` is the first stage that differs: {how}. Nothing was written",
                path.display()
            );
            return Err(Failure::new(Exit::StageFailed, text));
        }
    }
    Ok(())
}

fn difference(old: &LockRecord, new: &LockRecord) -> Option<String> {
    if old.key != new.key {
        return Some(
            "it was computed from other code, parameters or inputs (`pipe verify` says from which)"
                .to_owned(),
        );
    }
    let verdicts = compare(old.into(), new.into(), &Compare::default(), &|_, _| None);
    verdicts.into_iter().find_map(|(output, verdict)| match verdict {
        CompareVerdict::Different(how) => {
            let class = class_difference(&old.class, &new.class).map(|class| format!("; {class}"));
            Some(format!("its `{output}` is not what the lock records: {how}{}", class.unwrap_or_default()))
        }
        _ => None,
    })
}

/// Records who vouches for the results in the cache, and on which machines they were computed. `manifests` are in the order of the pipeline.
pub(super) fn record(project: &Project, plan: &Plan, lock: &Lock, manifests: &[Manifest]) -> Outcome {
    let path = witnesses_path_of(&plan.pipeline().file);
    let key = key::own(&|name| std::env::var(name).ok())?;
    let old = read(&path).map_err(|flaw| {
        Failure::bad_input(format!("cannot read {}: {flaw}; correct it, or remove it", path.display()))
    })?;
    let mut file = old.clone().unwrap_or_default();
    file.keep_those_of(lock);
    file.remove_refused(key.as_ref().map(SigningKey::name), &project.trust()?);
    let mut computed = 0;
    let mut foreign = Vec::new();
    for (instance, manifest) in plan.pipeline().instances.iter().zip(manifests) {
        let name = instance.id.to_string();
        let Some(record) = lock.stages.get(&name) else { continue };
        if manifest.taken_from.is_some() {
            foreign.push(name);
        } else {
            computed += 1;
            file.add(Witness::new(&name, record, manifest, key.as_ref()));
        }
    }
    if computed == 0 {
        return Err(Failure::bad_input(
            "every result was taken from others, so this machine is no witness of them. `PIPE_REMOTE_READ=never` computes \
             results instead of taking them; use it with a new cache (`--cache-dir DIR`)",
        ));
    }
    let signed = match &key {
        Some(key) => format!("signed by `{}`", key.name()),
        None => "not signed, because there is no key (`pipe key new NAME` creates one)".to_owned(),
    };
    let taken = match foreign.as_slice() {
        [] => String::new(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            format!("; `{first}`{more} was taken from others and is left out")
        }
    };
    if old.is_some_and(|old| old == file) {
        project.status(&format!("{} is up to date{taken}", path.display()));
        return Ok(Exit::Done);
    }
    let written = write_atomically(&path, |out| out.write_all(file.to_string().as_bytes()));
    written.map_err(|error| Failure::bad_input(format!("cannot write {}: {error}", path.display())))?;
    project.status(&format!(
        "{} written: {} computed with this cache, {signed}{taken}",
        path.display(),
        text::count(computed, "result")
    ));
    Ok(Exit::Done)
}

/// Checks the witnesses of a lock, if there are any.
pub(super) fn check(project: &Project, plan: &Plan, lock: &Lock) -> Result<Vec<Check>, Failure> {
    let path = witnesses_path_of(&plan.pipeline().file);
    let name = path.display().to_string();
    match read(&path) {
        Ok(None) => Ok(Vec::new()),
        Ok(Some(file)) => Ok(file.check(&name, lock, &project.trust()?)),
        Err(flaw) => Ok(vec![Check::cannot_tell("witness", &name, format!("it cannot be read: {flaw}"))]),
    }
}

fn read(path: &Path) -> Result<Option<WitnessFile>, String> {
    match fs::read_to_string(path) {
        Ok(text) => text.parse().map(Some).map_err(|error: LockError| error.to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
