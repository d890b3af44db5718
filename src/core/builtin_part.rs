//! Parts of pipelines that are built into a program.

/// A part of a pipeline that is built into the program. `extends: builtin/NAME` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltinPart {
    pub name: &'static str,
    pub text: &'static str,
}
