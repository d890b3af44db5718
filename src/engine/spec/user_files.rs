//! The user's files that stages read, with the places where the pipeline names them. This layer does not check
//! whether they exist.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::diagnostic::SpecLocation;
use super::pipeline::InstanceIndex;
use super::resolve::ReferenceResolver;
use super::source_text::SourceTexts;
use pipe_core::kind::SourceDecl;

/// A file or directory of the user that stages read.
#[derive(Debug, Clone)]
pub struct UserFileReference {
    /// Relative to the project directory.
    pub path: PathBuf,
    /// Where the pipeline names it.
    pub location: SpecLocation,
    pub readers: Vec<InstanceIndex>,
}

/// Returns each file once per stage: the instances of a stage name it at the same place.
pub(super) fn user_files(resolver: &ReferenceResolver, sources: &Arc<SourceTexts>) -> Vec<UserFileReference> {
    let mut found: Vec<UserFileReference> = Vec::new();
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    for (at, member) in resolver.members.iter().enumerate() {
        for input in member.declared() {
            let SourceDecl::Path(path) = &input.source else { continue };
            let position = *known.entry((member.stage.name, path)).or_insert_with(|| {
                let location = SpecLocation::new(sources, resolver.span(member, input.parameter(), path));
                found.push(UserFileReference { path: path.into(), location, readers: Vec::new() });
                found.len() - 1
            });
            found[position].readers.push(InstanceIndex(at));
        }
    }
    found
}
