//! `outputs`: what is placed outside the cache, and where.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::file::Outputs;
use super::interpolate::{Budget, interpolate_text};
use super::node::{Node, Step};
use super::pipeline::{InstanceId, InstanceIndex, Placement};
use super::problem::{Problem, Problems};
use super::resolve::{Needs, Resolver};
use super::scope::Scope;
use super::source::Span;
use pipe_core::kind::{ANY, OutputDecl};
use pipe_core::reference::StageRef;

pub(super) struct Placer<'a> {
    pub pipeline: &'a str,
    pub resolver: &'a Resolver<'a>,
    pub scope: &'a Scope<'a>,
    pub budget: &'a Budget,
    pub problems: &'a mut Problems,
}

impl Placer<'_> {
    pub(super) fn place(&mut self, outputs: &Outputs, node: &Node) -> Vec<Placement> {
        let mut placed = Vec::new();
        match outputs {
            Outputs::List(references) => {
                for (position, reference) in references.iter().enumerate() {
                    let span = node.locate(&[Step::Index(position)]);
                    let directory = vec!["results".to_owned(), self.pipeline.to_owned()];
                    self.fill_directory(directory, reference, span, &mut placed);
                }
            }
            Outputs::Map(pairs) => {
                for (key, reference) in pairs {
                    let place = [Step::Key(key.clone())];
                    let (key_span, span) = (node.locate_key(&place), node.locate(&place));
                    let path =
                        interpolate_text(key, key_span, &mut { self.scope }, self.budget, self.problems);
                    let Some(path) = path.as_ref().and_then(|path| path.as_str()) else { continue };
                    let Some(parts) = self.path(path, key_span) else { continue };
                    if path.ends_with('/') {
                        self.fill_directory(parts, reference, span, &mut placed);
                    } else {
                        self.fill_file(parts, reference, span, key_span, &mut placed);
                    }
                }
            }
        }
        self.refuse_collisions(&placed);
        placed.into_iter().map(|placed| placed.placement).collect()
    }

    /// The parts of a path that may be written to.
    fn path(&mut self, path: &str, span: Span) -> Option<Vec<String>> {
        let problem = |message: &str| Problem::new(span, format!("`{path}` {message}"));
        let parts: Vec<_> =
            path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect();
        let problem = if path.starts_with('/') {
            problem("is absolute").hint("write it relative to the project directory")
        } else if parts.iter().any(|part| part == "..") {
            problem("leads out of the project directory")
                .hint("outputs stay inside the project; remove the `..`")
        } else if path.contains(|c: char| c.is_control()) {
            problem("contains a control character")
        } else if parts.first().is_some_and(|first| first == "cache") {
            problem("lies in the cache").hint("outputs are placed outside of `cache/`")
        } else if parts.is_empty() {
            problem("is not the path of a file")
        } else if path.contains('/') {
            return Some(parts);
        } else {
            return Some(vec!["results".to_owned(), self.pipeline.to_owned(), path.to_owned()]);
        };
        self.problems.push(problem);
        None
    }

    fn fill_file(
        &mut self,
        path: Vec<String>,
        reference: &StageRef,
        span: Span,
        key_span: Span,
        placed: &mut Vec<Placed>,
    ) {
        match self.resolver.find(reference, ANY, false, Needs::Path) {
            Ok(found) => {
                placed.extend(found.into_iter().map(|(at, output)| Placed::new(at, output, &path, key_span)))
            }
            Err(error) => {
                let several = self.resolver.index.find(reference).is_ok_and(|found| found.len() > 1);
                let hint = error.hint.map(|hint| match several {
                    true => format!("{hint}, or let the path end in `/` to place them all in a directory"),
                    false => hint,
                });
                self.problems.push(Problem::new(span, error.message).maybe_hint(hint));
            }
        }
    }

    /// Every output that is meant, under its own name; where several instances are meant, each
    /// in a directory of its own.
    fn fill_directory(
        &mut self,
        directory: Vec<String>,
        reference: &StageRef,
        span: Span,
        placed: &mut Vec<Placed>,
    ) {
        let found = match self.resolver.all_outputs(reference) {
            Ok(found) => found,
            Err(error) => {
                self.problems.push(Problem::new(span, error.message).maybe_hint(error.hint));
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
            placed.push(Placed::new(at, output, &path, span));
        }
    }

    fn refuse_collisions(&mut self, placed: &[Placed]) {
        let mut taken: BTreeMap<&[String], &Placed> = BTreeMap::new();
        for new in placed {
            if let Some(old) = taken.insert(&new.parts, new) {
                let message = format!("two outputs are placed at `{}`", new.parts.join("/"));
                let problem = Problem::new(new.span, message).earlier("the other one is at", old.span);
                self.problems
                    .push(problem.hint("give one of them a path of its own: `outputs: { path: stage }`"));
            }
        }
        for new in placed {
            let inside = (1..new.parts.len()).find_map(|length| taken.get(&new.parts[..length]));
            if let Some(outer) = inside {
                let message = format!(
                    "`{}` would lie inside the output `{}`",
                    new.parts.join("/"),
                    outer.parts.join("/")
                );
                self.problems
                    .push(Problem::new(new.span, message).earlier("the other one is at", outer.span));
            }
        }
    }
}

struct Placed {
    parts: Vec<String>,
    span: Span,
    placement: Placement,
}

impl Placed {
    fn new(at: usize, output: &OutputDecl, parts: &[String], span: Span) -> Self {
        let path: PathBuf = parts.iter().collect();
        let placement = Placement { instance: InstanceIndex(at), output: output.name.clone(), path };
        Self { parts: parts.to_vec(), span, placement }
    }
}

/// `variant=adaptive,seed=1`, without what would trouble a file system or a shell.
fn directory_name(id: &InstanceId) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let parts =
        id.axes.iter().map(|(axis, value)| format!("{axis}={}", value.chars().map(safe).collect::<String>()));
    parts.collect::<Vec<_>>().join(",")
}
