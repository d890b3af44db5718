//! Files in `results/` that a run with other `--set` values wrote.
//!
//! Commands that look at a pipeline warn about them, so that nobody reads the numbers of one variant as those of
//! another.

use std::collections::BTreeMap;

use serde::Serialize;

use super::survey::manifest;
use pipe_core::quote;
use pipe_engine::plan::Plan;
use pipe_engine::runner::Outlook;
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_engine::store::{Origin, PipelineState};

/// A placed file that was written by a run with other `--set` values than the command has.
#[derive(Debug, Clone, Serialize)]
pub(super) struct VariantFile {
    #[serde(skip)]
    pub instance: InstanceIndex,
    pub file: String,
    /// The run that wrote the file.
    pub run: String,
    /// The `--set` values of that run.
    pub set: Vec<String>,
}

/// Returns the placed files that exist and were written by a run with other `--set` values than `set`.
///
/// A file is left out if the cache shows that `set` gives the same content.
pub(super) fn variant_files(
    plan: &Plan,
    outlooks: &[Outlook],
    state: &PipelineState,
    set: &[String],
) -> Vec<VariantFile> {
    let mut found = Vec::new();
    for placement in &plan.pipeline().placements {
        let file = placement.path.display().to_string();
        let outlook = &outlooks[placement.instance.0];
        let Some(origin) = state.origins.get(&file) else { continue };
        let current = manifest(outlook).and_then(|manifest| manifest.outputs.get(&placement.output));
        let same_content = current.is_some_and(|current| state.placed.get(&file) == Some(&current.blob));
        if origin.set == set
            || same_content
            || matches!(outlook, Outlook::NotSelected)
            || placement.path.metadata().is_err()
        {
            continue;
        }
        let Origin { run, set } = origin.clone();
        found.push(VariantFile { instance: placement.instance, file, run, set });
    }
    found
}

/// Returns one sentence for each run that wrote some of the files.
pub(super) fn warnings(files: &[VariantFile], plan: &Plan, set: &[String]) -> Vec<String> {
    let mut by_run: BTreeMap<(&str, &[String]), Vec<&str>> = BTreeMap::new();
    for VariantFile { file, run, set, .. } in files {
        by_run.entry((run, set)).or_default().push(file);
    }
    let pipeline = quote::shell(&plan.pipeline().file.to_string_lossy());
    let command = format!("pipe run {pipeline}{}", set_arguments(set));
    by_run.iter().map(|((run, their_set), files)| warning(files, run, their_set, &command)).collect()
}

fn warning(files: &[&str], run: &str, their_set: &[String], command: &str) -> String {
    let (files, pronoun) = match files {
        [file] => (format!("{file} was"), "it"),
        [file, rest @ ..] => (format!("{file} and {} more were", rest.len()), "them"),
        [] => return String::new(),
    };
    if their_set.is_empty() {
        return format!("{files} written by run {run} without --set. Run `{command}` to replace {pronoun}.");
    }
    let arguments = set_arguments(their_set);
    format!(
        "{files} written by run {run} with{arguments}. Add{arguments} to see that variant, or run `{command}` to replace {pronoun}."
    )
}

/// Returns the options that give these values, for a shell: ` --set vars.x=1 --set 'vars.y=[a, b]'`.
pub(super) fn set_arguments(set: &[String]) -> String {
    set.iter().map(|word| format!(" --set {}", quote::shell(word))).collect()
}

/// Returns the values that result from `--set`: sorted by variable, the last value of each.
pub(super) fn normalised_overrides(set: &[String]) -> Vec<String> {
    let pairs = set.iter().map(|word| word.split_once('=').unwrap_or((word, "")));
    let last: BTreeMap<&str, &str> = pairs.map(|(name, value)| (name.trim(), value.trim())).collect();
    last.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_order_of_settings_does_not_matter_and_the_last_value_counts() {
        let normalised = |set: &[&str]| normalised_overrides(&words(set));
        assert_eq!(normalised(&["vars.b=1", "vars.a=2"]), normalised(&["vars.a=0", "vars.a=2", "vars.b=1"]));
        assert_ne!(normalised(&["vars.a=1"]), normalised(&["vars.a=2"]));
    }

    #[test]
    fn settings_can_be_pasted_into_a_shell() {
        assert_eq!(set_arguments(&words(&["vars.lr=3e-4"])), " --set vars.lr=3e-4");
        assert_eq!(set_arguments(&words(&["vars.x=[a, b]"])), " --set 'vars.x=[a, b]'");
    }

    #[test]
    fn a_warning_names_the_files_the_run_and_the_command_that_replaces_them() {
        let without = warning(&["results/a.tex"], "7", &[], "pipe run x");
        assert_eq!(
            without,
            "results/a.tex was written by run 7 without --set. Run `pipe run x` to replace it."
        );
        let with = warning(&["a", "b", "c"], "7", &words(&["vars.x=2"]), "pipe run x");
        assert_eq!(
            with,
            "a and 2 more were written by run 7 with --set vars.x=2. \
             Add --set vars.x=2 to see that variant, or run `pipe run x` to replace them."
        );
    }
}
