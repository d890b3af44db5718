//! Locks: files that record what each stage instance computed from what, so that a result can be verified later. Nothing
//! here reads or writes files.
//!
//! A [`Lock`] is read from and written as [`text`]. [`follow`] compares it with a pipeline, [`compare`] compares a second
//! computation with it, and a [`report::VerifyReport`] collects what was found. [`witness`] says who got the same. [`ro_crate`] exports the same information in the
//! vocabulary of other tools.

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
pub mod witness;

pub use class::EnvironmentClass;
pub use record::{Lock, LockRecord, LockedOutput};
pub use text::LockError;
pub use witness::{Witness, WitnessFile};

use std::path::{Path, PathBuf};

/// Returns the path of a pipeline's lock: `pipelines/bibtex.lock` for `pipelines/bibtex.yaml`.
pub fn path_of(pipeline: &Path) -> PathBuf {
    pipeline.with_extension("lock")
}

/// Returns the path of the witnesses of a pipeline's lock: `pipelines/bibtex.witnesses`.
pub fn witnesses_path_of(pipeline: &Path) -> PathBuf {
    pipeline.with_extension("witnesses")
}
