//! The user's own files that stages read, with the places where the pipeline names them. Whether they are there is for
//! whoever opens files to find out.

use std::collections::HashMap;
use std::path::PathBuf;

use super::diagnostic::Place;
use super::pipeline::InstanceIndex;
use super::resolve::Resolver;
use super::source::Sources;
use pipe_core::kind::SourceDecl;

/// A file or directory that the pipeline takes as it is.
#[derive(Debug, Clone)]
pub struct OwnFile {
    /// Relative to the project directory.
    pub path: PathBuf,
    pub place: Place,
    pub readers: Vec<InstanceIndex>,
}

/// Each file once per stage: the instances of a stage name it at the same place.
pub(super) fn own_files(resolver: &Resolver, sources: &Sources) -> Vec<OwnFile> {
    let mut found: Vec<OwnFile> = Vec::new();
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    for (at, member) in resolver.members.iter().enumerate() {
        let declared = member.checked.as_ref().map(|checked| checked.content.inputs.as_slice());
        for input in declared.unwrap_or_default() {
            let SourceDecl::Path(path) = &input.source else { continue };
            let position = *known.entry((member.stage.name, path)).or_insert_with(|| {
                let place = Place::new(sources, resolver.span(member, input.parameter(), path));
                found.push(OwnFile { path: path.into(), place, readers: Vec::new() });
                found.len() - 1
            });
            found[position].readers.push(InstanceIndex(at));
        }
    }
    found
}
