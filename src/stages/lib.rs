//! The stage kinds of `pipe`: their parameters, and the work of those that need no libtorch.
//!
//! Every module is one kind, named as in a pipeline: [`load`], [`train`], [`table`], ... Its struct of parameters
//! implements [`StageKind`](pipe_core::stage::StageKind), and has a typed constant for each of its slots and outputs. The
//! kinds that need no libtorch also implement [`RunStage`](pipe_core::stage::RunStage) here; [`train`]
//! and [`fit`] are run by `pipe-worker`, in `src/worker/stages`. [`judge`] has the work of [`evaluate`] and [`audit`], which
//! `pipe-worker` runs only if the model has a network. [`command`] runs a
//! program of the user, and [`predict`] has the jobs of `pipe predict` and `pipe explain`, which are not stages.
//!
//! To add a kind, write one module and add the struct to the lists in [`registry`].
//!
//! ```
//! use pipe_stages::registry;
//!
//! let idf = registry::kinds().iter().find(|kind| kind.name() == "idf").unwrap();
//! let body = idf.check(&serde_yaml::from_str("{ data: load, eps: 0.5 }")?)?;
//! assert_eq!(body.params.to_string(), r#"{"data":null,"eps":0.5}"#);
//! assert_eq!((body.inputs[0].slot.as_str(), body.inputs[0].accepts), ("data", "dataset"));
//! assert_eq!(body.outputs[0].file_name, "idf.json");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod audit;
pub mod claim;
pub mod command;
pub mod dataset;
pub mod evaluate;
mod evaluate_predictions;
pub mod file_source;
pub mod fit;
pub mod fuse;
pub mod idf;
pub mod judge;
pub mod load;
pub mod one_or_many;
pub mod parts;
pub mod plot;
pub mod predict;
pub mod registry;
pub mod report;
#[cfg(test)]
mod score_fixture;
pub mod select;
#[cfg(test)]
mod stage_test;
pub mod synthetic;
pub mod table;
pub mod threshold;
pub mod train;
pub mod vectorise;
