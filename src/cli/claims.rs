//! The sentences about claims that `run`, `plan`, `status` and `verify` print, also if the claims are cached.

use super::table::{terminal_width, wrap};
use pipe_core::paint::Paint;
use pipe_core::stage::StageKind;
use pipe_engine::spec::pipeline::Instance;
use pipe_engine::store::Store;
use pipe_engine::store::manifest::{Manifest, Stored};
use pipe_stages::claim::Claim;

/// Returns whether a stage is a claim.
pub(super) fn is_claim(instance: &Instance) -> bool {
    instance.kind == Claim::NAME
}

/// Returns the stored verdict of a claim; `None` for other stages.
pub(super) fn verdict<'r>(
    instance: &'r Instance,
    manifest: &'r Manifest,
) -> Option<(&'r Instance, &'r Stored)> {
    let stored = manifest.outputs.get(Claim::VERDICT.name()).filter(|_| is_claim(instance))?;
    Some((instance, stored))
}

/// Returns one paragraph per claim, with its stored sentence.
pub(super) fn sentences<'r>(
    store: &Store,
    verdicts: impl IntoIterator<Item = (&'r Instance, &'r Stored)>,
    paint: Paint,
) -> String {
    let width = terminal_width().unwrap_or(usize::MAX);
    let mut out = String::new();
    for (instance, stored) in verdicts {
        // Only these two fields: the others may differ in other versions.
        let verdict: Option<serde_json::Value> =
            store.read(stored).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(verdict) = verdict else { continue };
        let (Some(passed), Some(sentence)) = (verdict["passed"].as_bool(), verdict["sentence"].as_str())
        else {
            continue;
        };
        let heading = if passed { paint.green("claim holds:") } else { paint.red("claim fails:") };
        out.push_str(&wrap(&format!("{heading} {}: {sentence}", instance.id), width));
        out.push('\n');
    }
    out
}
