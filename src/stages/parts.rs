//! The parts of pipelines that are built into the program, for `extends: builtin/NAME`.

use pipe_core::builtin_part::BuiltinPart;

/// All built-in parts.
pub const PARTS: &[BuiltinPart] = &[
    BuiltinPart { name: "recipe", text: include_str!("parts/recipe.yaml") },
    BuiltinPart { name: "recipe-final", text: include_str!("parts/recipe-final.yaml") },
    BuiltinPart { name: "long-tail", text: include_str!("parts/long-tail.yaml") },
    BuiltinPart { name: "long-tail-final", text: include_str!("parts/long-tail-final.yaml") },
    BuiltinPart { name: "grid", text: include_str!("parts/grid.yaml") },
];
