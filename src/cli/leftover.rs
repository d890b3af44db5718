//! Files in `results/` that a run with other settings left, so that no command speaks of one variant of a pipeline
//! while another lies there.

use std::collections::BTreeMap;

use serde::Serialize;

use super::survey::manifest;
use pipe_engine::plan::Plan;
use pipe_engine::runner::Outlook;
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_engine::store::{Origin, PipelineState};

/// One placed file that is not of the pipeline as the command has it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Leftover {
    #[serde(skip)]
    pub instance: InstanceIndex,
    pub file: String,
    /// The run that left it.
    pub run: String,
    /// What was set for that run.
    pub set: Vec<String>,
}

/// The placed files that are here and were left by a run with other settings than `set`. Where the cache knows that
/// these settings give the same content, they do not matter.
pub(super) fn leftovers(
    plan: &Plan,
    outlooks: &[Outlook],
    state: &PipelineState,
    set: &[String],
) -> Vec<Leftover> {
    let mut found = Vec::new();
    for placement in &plan.pipeline().placements {
        let file = placement.path.display().to_string();
        let outlook = &outlooks[placement.instance.0];
        let Some(Origin { run, set: was }) = state.origins.get(&file) else { continue };
        let now = manifest(outlook).and_then(|manifest| manifest.outputs.get(&placement.output));
        let same = now.is_some_and(|now| state.placed.get(&file) == Some(&now.blob));
        if was == set || same || matches!(outlook, Outlook::NotAsked) || placement.path.metadata().is_err() {
            continue;
        }
        found.push(Leftover { instance: placement.instance, file, run: run.clone(), set: was.clone() });
    }
    found
}

/// A line for each run that left something.
pub(super) fn sentences(leftovers: &[Leftover], plan: &Plan, set: &[String]) -> Vec<String> {
    let mut by_run: BTreeMap<(&str, &[String]), Vec<&str>> = BTreeMap::new();
    for Leftover { file, run, set, .. } in leftovers {
        by_run.entry((run, set)).or_default().push(file);
    }
    let command = format!("pipe run {}{}", plan.pipeline().file.display(), arguments(set));
    let sentence = |((run, was), files): (&(&str, &[String]), &Vec<&str>)| {
        let files = match files[..] {
            [file] => format!("{file} was"),
            [file, ref rest @ ..] => format!("{file} and {} more were", rest.len()),
            [] => "nothing was".to_owned(),
        };
        match was {
            [] => {
                format!("{files} left by run {run}, without --set; `{command}` puts what is meant here there")
            }
            _ => format!(
                "{files} left by run {run}, with{0}; repeat{0} here to look at that, or `{command}` to replace it",
                arguments(was)
            ),
        }
    };
    by_run.iter().map(sentence).collect()
}

/// ` --set vars.x=1 --set 'vars.y=[a, b]'`, as a shell reads it.
pub(super) fn arguments(set: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-+=.,:/@%".contains(c);
    let quoted = |word: &String| match word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    set.iter().map(|word| format!(" --set {}", quoted(word))).collect()
}

/// Returns the overrides of `--set` in normal form: the last value of each variable, sorted by name.
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
        assert_eq!(arguments(&words(&["vars.lr=3e-4"])), " --set vars.lr=3e-4");
        assert_eq!(arguments(&words(&["vars.x=[a, b]"])), " --set 'vars.x=[a, b]'");
        assert_eq!(arguments(&words(&["vars.x=it's"])), r" --set 'vars.x=it'\''s'");
    }
}
