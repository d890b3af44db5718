//! The interface between a pipeline runner and its stages.
//!
//! Every other crate of `pipe` depends on this one; it depends on none of them. It contains:
//!
//! - [`stage`]: the traits of a stage kind. [`StageKind`](stage::StageKind) is a struct of parameters that declares its
//!   inputs and outputs; [`RunStage`](stage::RunStage) does the work.
//! - [`artifact`] and [`slot`]: what flows between stages. An [`Artifact`](artifact::Artifact) is a Rust type that is read
//!   from a file or directory; a [`Slot`](slot::Slot) and an [`Out`](slot::Out) are the typed places where it enters and
//!   leaves a stage.
//! - [`work`]: a job while it runs. A stage opens its inputs, saves its outputs and reports progress through
//!   [`Work`](work::Work).
//! - [`job`], [`event`] and [`harness`]: the job file that the runner writes, the events that the worker process sends, and its
//!   main function. [`fork_server`] starts worker processes without loading their libraries each time.
//! - [`protocol`]: whether a value was measured by the honest or the oracle protocol.
//! - [`issue`]: what is wrong with a field, and what to do about it.
//! - [`kind`]: stage kinds as the pipeline language sees them, without their Rust types.
//! - [`key`] and [`digest`]: the identity of a computation.
//! - [`packages`]: the packages that a command finds.
//! - [`bad_file`]: the names under which damaged files are kept.
//! - [`authorities`]: the certificate authorities that https connections trust.
//! - [`reference`](mod@reference), [`name`], [`scalar`] and [`suggest`]: small pieces of the pipeline language.
//!
//! # A stage kind
//!
//! A kind that counts the lines of a file, and a run of it:
//!
//! ```
//! use pipe_core::artifact::{ArtifactType, JsonArtifact, PlainFile};
//! use pipe_core::kind::{InputDecl, OutputDecl, Program};
//! use pipe_core::reference::StageRef;
//! use pipe_core::slot::{Out, Slot};
//! use pipe_core::stage::{RunStage, StageKind};
//! use pipe_core::work::Work;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! /// What the stage writes.
//! #[derive(Serialize, Deserialize)]
//! struct LineCount {
//!     lines: usize,
//! }
//!
//! impl JsonArtifact for LineCount {
//!     const ARTIFACT: ArtifactType = "line_count";
//! }
//!
//! /// What a user writes: `count: { text: load }`.
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct CountLines {
//!     text: StageRef,
//! }
//!
//! impl CountLines {
//!     const TEXT: Slot<PlainFile> = Slot::new("text");
//!     const COUNT: Out<LineCount> = Out::new("count", "count.json");
//! }
//!
//! impl StageKind for CountLines {
//!     const NAME: &'static str = "count";
//!     const VERSION: u32 = 1;
//!     const SUMMARY: &'static str = "Counts the lines of a file";
//!     const PROGRAM: Program = Program::Pipe;
//!
//!     fn inputs(&self) -> Vec<InputDecl> {
//!         vec![Self::TEXT.one(&self.text)]
//!     }
//!
//!     fn outputs(&self) -> Vec<OutputDecl> {
//!         vec![Self::COUNT.decl()]
//!     }
//! }
//!
//! impl RunStage for CountLines {
//!     type Stage = Self;
//!
//!     fn run(_: &Self, work: &mut Work) -> anyhow::Result<()> {
//!         let PlainFile(bytes) = work.open(Self::TEXT)?;
//!         let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
//!         work.save(Self::COUNT, &LineCount { lines })
//!     }
//! }
//!
//! // The runner writes a job file, and a worker process runs it; here, without a process:
//! use pipe_core::artifact::Artifact;
//! use pipe_core::event::WorkerEvent;
//! use pipe_core::job::{Job, JobInput};
//! use pipe_core::stage::Runner;
//! use pipe_core::work::EventSink;
//!
//! struct Ignore;
//! impl EventSink for Ignore {
//!     fn send(&mut self, _: WorkerEvent) {}
//! }
//!
//! let directory = tempfile::tempdir()?;
//! let path = |name: &str| directory.path().join(name);
//! std::fs::write(path("text"), "one\ntwo\n")?;
//! let text = JobInput {
//!     axes: Vec::new(),
//!     artifact: "file".to_owned(),
//!     path: path("text"),
//!     blob: None,
//! };
//! let job = Job {
//!     key: None,
//!     instance: "count".to_owned(),
//!     kind: CountLines::NAME.to_owned(),
//!     body: serde_json::json!({ "text": "load" }),
//!     inputs: [("text".to_owned(), vec![text])].into(),
//!     outputs: [("count".to_owned(), path("count"))].into(),
//!     scratch: path("scratch"),
//!     checkpoints: path("checkpoints"),
//!     threads: 1,
//! };
//! Runner::of::<CountLines>().run(&mut Work::new(job, &mut Ignore))?;
//! assert_eq!(LineCount::open(&path("count"))?.lines, 2);
//! # anyhow::Ok(())
//! ```

pub mod artifact;
pub mod authorities;
pub mod bad_file;
pub mod builtin_part;
pub mod captured;
pub mod copy_rest;
pub mod default_value;
pub mod digest;
pub mod escape;
pub mod event;
pub mod float;
pub mod fork_server;
pub mod harness;
pub mod issue;
pub mod job;
pub mod key;
pub mod kind;
pub mod memory;
pub mod name;
pub mod packages;
pub mod paint;
pub mod protocol;
pub mod quote;
pub mod reference;
pub mod scalar;
pub mod slot;
pub mod stage;
pub mod strict_json;
pub mod suggest;
pub mod work;
