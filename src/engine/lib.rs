//! The engine of `pipe`: reads, plans, runs, stores and locks pipelines. It knows no stage kind by name; the program
//! passes the registered kinds to it.
//!
//! How a pipeline passes through the modules:
//! 1. [`spec`] loads a YAML file into a plan, or reports everything that is wrong with it.
//! 2. [`plan`] holds the acyclic graph of stage instances, their keys, and the reasons why they have to run.
//! 3. [`store`] keeps results by key and content by digest, on disk.
//! 4. [`runner`] runs what the store does not have.
//! 5. [`remote`] shares results with other machines.
//! 6. [`lock`] records results in a file that can be committed and verified.
//!
//! # Example
//!
//! Loads a pipeline with one kind of stage and asks for the order of its instances:
//!
//! ```
//! use pipe_core::kind::{FILE, InputDecl, OutputDecl, Program};
//! use pipe_core::reference::StageRef;
//! use pipe_core::stage::{KindOf, StageKind};
//! use pipe_engine::spec::{self, LoadRequest};
//!
//! /// Concatenates the outputs of other stages.
//! #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Concatenate {
//!     #[serde(default)]
//!     from: Vec<StageRef>,
//! }
//!
//! impl StageKind for Concatenate {
//!     const NAME: &'static str = "concatenate";
//!     const VERSION: u32 = 1;
//!     const SUMMARY: &'static str = "Concatenates files.";
//!     const PROGRAM: Program = Program::Pipe;
//!
//!     fn inputs(&self) -> Vec<InputDecl> {
//!         if self.from.is_empty() { Vec::new() } else { vec![InputDecl::many("from", self.from.clone(), FILE)] }
//!     }
//!
//!     fn outputs(&self) -> Vec<OutputDecl> {
//!         vec![OutputDecl::new("text", FILE, "text.txt")]
//!     }
//! }
//!
//! let directory = tempfile::tempdir()?;
//! let file = directory.path().join("example.yaml");
//! std::fs::write(&file, "
//! name: example
//! stages:
//!   both: { concatenate: { from: [\"part[*]\"] } }
//!   part: { matrix: { number: [1, 2] }, concatenate: {} }
//! ")?;
//! let request = LoadRequest { file, overrides: Vec::new(), environment: &|_| None, find_interpreter: &|_| Ok(None), parts: &[] };
//! let plan = spec::load(&request, &[&KindOf::<Concatenate>::new()])?;
//! let order: Vec<String> = plan.topological().iter().map(|&at| plan.instance(at).id.to_string()).collect();
//! assert_eq!(order, ["part[number=1]", "part[number=2]", "both"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bundle;
pub mod lock;
pub mod plan;
pub mod remote;
pub mod runner;
pub mod spec;
pub mod store;
