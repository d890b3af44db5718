//! The promise that a result can be had again, as a file: what was computed from what, by stage
//! instance, and whether that still follows from a pipeline. Pure: text in, text and values out.
//!
//! A [`Lock`] is read from and written as [`text`]. [`follow`] holds it against a pipeline, [`compare`]
//! holds a second computation against it, and a [`report::Report`] collects what was found.
//! [`ro_crate`] tells the same story in the vocabulary of other tools.

pub mod class;
pub mod compare;
pub mod difference;
pub mod follow;
pub mod junit;
pub mod merge;
pub mod record;
pub mod report;
pub mod ro_crate;
pub mod text;

pub use class::EnvironmentClass;
pub use record::{Lock, LockedOutput, Record};
pub use text::LockError;

use std::path::{Path, PathBuf};

/// Beside the pipeline: `pipelines/bibtex.yaml` has `pipelines/bibtex.lock`.
pub fn path_of(pipeline: &Path) -> PathBuf {
    pipeline.with_extension("lock")
}
