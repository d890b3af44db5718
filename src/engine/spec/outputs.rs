//! Resolves `outputs`: what is placed outside the cache, and where.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::interpolate::{Budget, interpolate_text};
use super::pipeline::{InstanceId, InstanceIndex, Placement};
use super::pipeline_file::Outputs;
use super::resolve::{OutputConsumer, ReferenceResolver};
use super::scope::Scope;
use super::source_text::Span;
use super::spec_issue::{SpecIssue, SpecIssues};
use super::yaml_node::{PathStep, YamlNode};
use pipe_core::kind::{ANY, OutputDecl};
use pipe_core::reference::StageRef;

/// Turns `outputs` into placements.
pub(super) struct Placer<'a> {
    pub pipeline: &'a str,
    pub resolver: &'a ReferenceResolver<'a>,
    pub scope: &'a Scope<'a>,
    pub budget: &'a Budget,
    pub issues: &'a mut SpecIssues,
}

impl Placer<'_> {
    /// Returns the placements. `interpolated` is `outputs` after interpolation, whose order they keep; `node` is what
    /// was written, for places.
    pub(super) fn place(
        &mut self,
        outputs: &Outputs,
        interpolated: &YamlNode,
        node: &YamlNode,
    ) -> Vec<Placement> {
        let mut placed = Vec::new();
        match outputs {
            Outputs::List(references) => {
                for (position, reference) in references.iter().enumerate() {
                    let span = node.locate(&[PathStep::Index(position)]);
                    let directory = vec!["results".to_owned(), self.pipeline.to_owned()];
                    self.fill_directory(directory, reference, span, &mut placed);
                }
            }
            Outputs::Map(references) => {
                for (entry, written) in interpolated.entries().iter().zip(node.entries()) {
                    let Some(reference) = references.get(&entry.key) else { continue };
                    let (key_span, span) = (written.key_span, written.value.span);
                    let path =
                        interpolate_text(&entry.key, key_span, &mut { self.scope }, self.budget, self.issues);
                    let Some(path) = path.as_ref().and_then(YamlNode::as_text) else { continue };
                    let Some(parts) = self.path(path, key_span) else { continue };
                    if path.ends_with('/') {
                        self.fill_directory(parts, reference, span, &mut placed);
                    } else {
                        self.fill_file(parts, reference, span, key_span, &mut placed);
                    }
                }
            }
        }
        self.reject_collisions(&placed);
        placed.into_iter().map(|placed| placed.placement).collect()
    }

    /// Returns the parts of a path that outputs may be placed at.
    fn path(&mut self, path: &str, span: Span) -> Option<Vec<String>> {
        let rejected = |message: &str| SpecIssue::new(span, format!("`{path}` {message}"));
        let parts: Vec<_> =
            path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect();
        let issue = if path.starts_with('/') {
            rejected("is absolute").hint("write it relative to the project directory")
        } else if parts.iter().any(|part| part == "..") {
            rejected("leads out of the project directory")
                .hint("outputs stay inside the project; remove the `..`")
        } else if path.contains(|c: char| c.is_control()) {
            rejected("contains a control character")
        } else if parts.first().is_some_and(|first| first == "cache") {
            rejected("is in the cache").hint("outputs are placed outside of `cache/`")
        } else if parts.is_empty() {
            rejected("is not the path of a file")
        } else if path.contains('/') {
            return Some(parts);
        } else {
            return Some(vec!["results".to_owned(), self.pipeline.to_owned(), path.to_owned()]);
        };
        self.issues.push(issue);
        None
    }

    fn fill_file(
        &mut self,
        path: Vec<String>,
        reference: &StageRef,
        span: Span,
        key_span: Span,
        placed: &mut Vec<PlacedOutput>,
    ) {
        match self.resolver.find(reference, ANY, false, OutputConsumer::Path) {
            Ok(found) => placed
                .extend(found.into_iter().map(|(at, output)| PlacedOutput::new(at, output, &path, key_span))),
            Err(error) => {
                let several = self.resolver.index.find(reference).is_ok_and(|found| found.len() > 1);
                let mut hint = error.hint;
                if let Some(hint) = hint.as_mut().filter(|_| several) {
                    hint.push_str(", or let the path end in `/` to place them all in a directory");
                }
                self.issues.push(SpecIssue::new(span, error.message).maybe_hint(hint));
            }
        }
    }

    /// Places every referenced output under its own name; if there are several instances, each in its own directory.
    fn fill_directory(
        &mut self,
        directory: Vec<String>,
        reference: &StageRef,
        span: Span,
        placed: &mut Vec<PlacedOutput>,
    ) {
        let found = match self.resolver.all_outputs(reference) {
            Ok(found) => found,
            Err(error) => {
                self.issues.push(SpecIssue::new(span, error.message).maybe_hint(error.hint));
                return;
            }
        };
        let several = found.iter().any(|(at, _)| *at != found[0].0);
        for (at, output) in found {
            let mut path = directory.clone();
            if several {
                path.push(directory_name(&self.resolver.members[at].draft.id));
            }
            path.extend(output.file_name.split('/').map(str::to_owned));
            placed.push(PlacedOutput::new(at, output, &path, span));
        }
    }

    fn reject_collisions(&mut self, placed: &[PlacedOutput]) {
        let mut taken: BTreeMap<&[String], &PlacedOutput> = BTreeMap::new();
        for new in placed {
            if let Some(old) = taken.insert(&new.parts, new) {
                let message = format!("two outputs are placed at `{}`", new.parts.join("/"));
                let issue = SpecIssue::new(new.span, message).earlier("the other one is at", old.span);
                self.issues
                    .push(issue.hint("give one of them a path of its own: `outputs: { path: stage }`"));
            }
        }
        for new in placed {
            let inside = (1..new.parts.len()).find_map(|length| taken.get(&new.parts[..length]));
            if let Some(outer) = inside {
                let message = format!(
                    "`{}` would be inside the output `{}`",
                    new.parts.join("/"),
                    outer.parts.join("/")
                );
                self.issues
                    .push(SpecIssue::new(new.span, message).earlier("the other one is at", outer.span));
            }
        }
    }
}

/// A placement with its place in the pipeline file.
struct PlacedOutput {
    parts: Vec<String>,
    span: Span,
    placement: Placement,
}

impl PlacedOutput {
    fn new(at: usize, output: &OutputDecl, parts: &[String], span: Span) -> Self {
        let path: PathBuf = parts.iter().collect();
        let placement = Placement { instance: InstanceIndex(at), output: output.name.clone(), path };
        Self { parts: parts.to_vec(), span, placement }
    }
}

/// Returns a name such as `variant=adaptive,seed=1`, without characters that are special to a file system or a shell.
fn directory_name(id: &InstanceId) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let parts =
        id.axes.iter().map(|(axis, value)| format!("{axis}={}", value.chars().map(safe).collect::<String>()));
    parts.collect::<Vec<_>>().join(",")
}
