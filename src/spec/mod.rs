//! YAML text -> typed, validated, expanded specification. Pure: given the same text, variables and
//! environment it gives the same pipeline, and it opens only the files that `extends` names.

pub mod kind;
pub mod pipeline;
pub mod reference;
