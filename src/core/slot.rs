//! Typed slots and outputs: a stage kind declares each of them once, as a constant, and uses the constant in its
//! declaration, in its work and in its tests.
//!
//! ```
//! use pipe_core::artifact::PlainFile;
//! use pipe_core::slot::{Out, Slot};
//!
//! const TEXT: Slot<PlainFile> = Slot::new("text");
//! const COUNT: Out<PlainFile> = Out::new("count", "count.txt");
//!
//! let input = TEXT.one(&"load".parse().unwrap());
//! assert_eq!((input.slot.as_str(), input.accepts), ("text", "file"));
//! assert_eq!(COUNT.decl().file_name, "count.txt");
//! ```
//!
//! A slot cannot be opened as another type than its own:
//!
//! ```compile_fail,E0308
//! # use pipe_core::artifact::PlainFile;
//! # use pipe_core::slot::Slot;
//! # use pipe_core::work::Work;
//! # struct Model;
//! # impl pipe_core::artifact::Artifact for Model {
//! #     const TYPE: &'static str = "model";
//! #     fn open(_: &std::path::Path) -> anyhow::Result<Self> { Ok(Self) }
//! # }
//! const MODEL: Slot<Model> = Slot::new("model");
//!
//! fn run(work: &Work) -> anyhow::Result<()> {
//!     let model: PlainFile = work.open(MODEL)?; // expected `PlainFile`, found `Model`
//!     Ok(())
//! }
//! ```
//!
//! Nothing can be saved to an output of another type:
//!
//! ```compile_fail,E0308
//! # use pipe_core::artifact::PlainFile;
//! # use pipe_core::slot::Out;
//! # use pipe_core::work::Work;
//! const TEXT: Out<PlainFile> = Out::new("text", "text.txt");
//!
//! fn run(work: &Work) -> anyhow::Result<()> {
//!     work.save(TEXT, &String::from("text")) // expected `PlainFile`, found `String`
//! }
//! ```
//!
//! A misspelt slot is an unknown constant:
//!
//! ```compile_fail,E0599
//! # use pipe_core::artifact::PlainFile;
//! # use pipe_core::slot::Slot;
//! # use pipe_core::work::Work;
//! struct Count;
//! impl Count {
//!     const TEXT: Slot<PlainFile> = Slot::new("text");
//! }
//!
//! fn run(work: &Work) -> anyhow::Result<PlainFile> {
//!     work.open(Count::TXET)
//! }
//! ```

use std::borrow::Cow;
use std::marker::PhantomData;

use crate::artifact::Artifact;
use crate::kind::{InputDecl, OutputDecl, SourceDecl};
use crate::reference::StageRef;

/// A slot of a stage kind, through which artifacts of the type `T` enter.
///
/// A slot whose name depends on the parameters is made by a function that returns a `Slot`.
#[derive(Debug)]
pub struct Slot<T> {
    name: Cow<'static, str>,
    parameter: Option<&'static str>,
    artifact: PhantomData<fn() -> T>,
}

impl<T> Slot<T> {
    /// Declares a slot. The name is part of keys, and appears in `pipe why` and in job files.
    pub const fn new(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), parameter: None, artifact: PhantomData }
    }

    /// Declares a slot whose name is computed.
    pub const fn named(name: String) -> Self {
        Self { name: Cow::Owned(name), parameter: None, artifact: PhantomData }
    }

    /// Declares that another parameter than the one of the slot's own name fills it. One parameter may fill several
    /// slots: a model comes with its scores.
    pub const fn written_in(mut self, parameter: &'static str) -> Self {
        self.parameter = Some(parameter);
        self
    }

    /// Returns the name of the slot.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T: Artifact> Slot<T> {
    /// Declares an input: exactly one artifact of a stage.
    pub fn one(&self, reference: &StageRef) -> InputDecl {
        self.from(SourceDecl::One(reference.clone()))
    }

    /// Declares an input: one artifact of each instance that the references match.
    pub fn many(&self, references: &[StageRef]) -> InputDecl {
        self.from(SourceDecl::Many(references.to_vec()))
    }

    /// Declares an input: see [`SourceDecl::All`].
    pub fn all(&self, references: &[StageRef]) -> InputDecl {
        self.from(SourceDecl::All(references.to_vec()))
    }

    /// Declares an input: a file or directory of the user, relative to the project directory.
    pub fn file(&self, path: &str) -> InputDecl {
        self.from(SourceDecl::Path(path.to_owned()))
    }

    /// Declares an input from any source.
    pub fn from(&self, source: SourceDecl) -> InputDecl {
        let input = InputDecl::new(self.name(), source, T::TYPE);
        match self.parameter {
            Some(parameter) => input.written_in(parameter),
            None => input,
        }
    }
}

/// An output of a stage kind: an artifact of the type `T`.
///
/// An output whose name depends on the parameters is made by a function that returns an `Out`.
#[derive(Debug)]
pub struct Out<T> {
    name: Cow<'static, str>,
    file_name: Cow<'static, str>,
    artifact: PhantomData<fn() -> T>,
}

impl<T> Out<T> {
    /// Declares an output: its name in references, and the file name that users see.
    pub const fn new(name: &'static str, file_name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), file_name: Cow::Borrowed(file_name), artifact: PhantomData }
    }

    /// Declares an output whose name and file name are computed.
    pub const fn named(name: String, file_name: String) -> Self {
        Self { name: Cow::Owned(name), file_name: Cow::Owned(file_name), artifact: PhantomData }
    }

    /// Returns the name of the output.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T: Artifact> Out<T> {
    /// Returns the declaration of the output.
    pub fn decl(&self) -> OutputDecl {
        OutputDecl::new(&self.name, T::TYPE, &self.file_name)
    }

    /// Returns the declaration of the output, with a file name that depends on the parameters.
    pub fn decl_as(&self, file_name: &str) -> OutputDecl {
        OutputDecl::new(&self.name, T::TYPE, file_name)
    }
}
