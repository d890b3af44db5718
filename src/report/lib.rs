//! Tables, figures and HTML pages of multi-label results.
//!
//! The crate turns evaluation records into strings and bytes. It neither reads nor writes files, and the same results
//! always give the same bytes.
//!
//! | module | input | output | main types |
//! |---|---|---|---|
//! | [`table`] | evaluation records | LaTeX, Markdown, CSV, JSON, macros | [`table::request::TableRequest`], [`table::Table`], [`table::sheet::Sheet`], [`table::exporter::TableExporter`] |
//! | [`figure`] | training histories, records, curves, label counts | SVG, PDF, CSV | [`figure::FigureInputs`], [`figure::kind::FigureKind`], [`figure::Figure`] |
//! | [`page`] | anything of the above | one HTML file | [`page::Page`], [`page::Section`], [`page::grid::PageGrid`], [`page::html::Html`] |
//! | [`diff`] | two states of a pipeline | their differences, and a page about them | [`diff::Snapshot`], [`diff::Difference`] |
//!
//! Measured values are [`Marked`](pipe_ml::metric::marked::Marked) with the protocol of their evaluation, and stay so in a
//! [`table::Table`]. Only layouts reveal them, and mark the values of the oracle protocol: no format can leave out a mark.
//!
//! # Example
//!
//! Two records become a table with a row for each variant:
//!
//! ```
//! use pipe_core::digest::{BlobId, Digest};
//! use pipe_report::table::build::build;
//! use pipe_report::table::measured::MeasuredRecord;
//! use pipe_report::table::request::TableRequest;
//! use pipe_report::table::{latex, markdown, sheet};
//! use serde_json::json;
//!
//! // `pipe` reads evaluation records from the outputs of `evaluate` stages.
//! let measured = |variant: &str, macro_f1: f64| {
//!     let record = json!({
//!         "part": "test",
//!         "evaluation": {
//!             "protocol": "honest", "rows": 100, "labels": 10, "values": { "macro_f1": macro_f1 },
//!         },
//!         "intervals": null,
//!     });
//!     MeasuredRecord {
//!         axes: vec![("variant".to_owned(), variant.to_owned())],
//!         blob: BlobId::new(Digest::of(variant.as_bytes())),
//!         record: serde_json::from_value(record).unwrap(),
//!         external: false,
//!     }
//! };
//! let request = TableRequest {
//!     name: "results".to_owned(),
//!     rows: vec!["variant".to_owned().into()],
//!     columns: vec!["macro_f1".to_owned().into()],
//!     digits: Some(3),
//!     ..TableRequest::default()
//! };
//!
//! let table = build(&request, &[measured("static", 0.25), measured("adaptive", 0.5)])?;
//! let sheet = sheet::lay_out(&table);
//! assert_eq!(
//!     markdown::markdown(&sheet),
//!     "Best in bold.\n\n\
//!      | Variant | Macro F1 ↑ |\n\
//!      | --- | ---: |\n\
//!      | static | 0.250 |\n\
//!      | adaptive | **0.500** |\n"
//! );
//! assert!(latex::table(&table, &sheet).contains("adaptive & \\textbf{0.500} \\\\"));
//! # Ok::<(), pipe_report::table::build::TableError>(())
//! ```

pub mod artifacts;
pub mod claim;
pub mod diff;
pub mod figure;
pub mod page;
pub mod student_t;
pub mod table;
