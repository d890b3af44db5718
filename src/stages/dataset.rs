//! What the stages that make data sets have in common: the files they read, the artifact they
//! write, what they say of it.

use std::path::PathBuf;

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pipe_core::issue::Issue;
use pipe_core::kind::{ArtifactType, FILE, InputDecl, OutputDecl, SourceDecl};
use pipe_core::work::Work;
use pipe_ml::data::csr::Features;
use pipe_ml::data::source::{Source, SourcePart};
use pipe_ml::data::source_path::SourcePath;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::data::stats::{Stats, TAIL_BOUNDS};

/// The artifact that every stage after loading reads: see [`pipe_ml::data::split_data`].
pub const DATASET: ArtifactType = "dataset";

/// The output of a stage that makes a data set.
pub fn dataset_output() -> OutputDecl {
    OutputDecl::new("dataset", DATASET, "dataset")
}

/// Files of the user's. Either `train` and perhaps `test`, or `rows` with all rows together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Files {
    pub train: Option<SourcePath>,
    pub test: Option<SourcePath>,
    /// All rows together.
    pub rows: Option<SourcePath>,
    /// The labels of `train`, where they are not in the same file.
    pub train_labels: Option<SourcePath>,
    pub test_labels: Option<SourcePath>,
    /// The labels of `rows`.
    pub labels: Option<SourcePath>,
    /// The numbers of the training rows of `rows`, as the XMC repository gives them.
    pub train_split: Option<SourcePath>,
    pub test_split: Option<SourcePath>,
    /// Mulan's list of the attributes that are labels.
    pub label_xml: Option<SourcePath>,
    /// One name per line.
    pub label_names: Option<SourcePath>,
    pub feature_names: Option<SourcePath>,
}

/// Files of test rows, which are not read where a split of our own leaves them out.
const OF_TEST: [&str; 2] = ["test", "test_labels"];

impl Files {
    fn slots(&self) -> [(&'static str, &Option<SourcePath>); 11] {
        [
            ("train", &self.train),
            ("test", &self.test),
            ("rows", &self.rows),
            ("train_labels", &self.train_labels),
            ("test_labels", &self.test_labels),
            ("labels", &self.labels),
            ("train_split", &self.train_split),
            ("test_split", &self.test_split),
            ("label_xml", &self.label_xml),
            ("label_names", &self.label_names),
            ("feature_names", &self.feature_names),
        ]
    }

    pub fn inputs(&self, with_test: bool) -> Vec<InputDecl> {
        let slots = self.slots().into_iter().filter(|(slot, _)| with_test || !OF_TEST.contains(slot));
        let path = |(slot, path): (&'static str, &Option<SourcePath>)| {
            path.as_ref().map(|path| file_input(slot, SourceDecl::Path(path.0.clone())))
        };
        slots.filter_map(path).collect()
    }

    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        if self.train.is_some() == self.rows.is_some() {
            issues.push(Issue::new("files", "exactly one of `train` and `rows` is needed"));
        }
        for (field, path, needs, needed) in [
            ("test", &self.test, "train", &self.train),
            ("train_labels", &self.train_labels, "train", &self.train),
            ("test_labels", &self.test_labels, "test", &self.test),
            ("labels", &self.labels, "rows", &self.rows),
            ("train_split", &self.train_split, "rows", &self.rows),
            ("test_split", &self.test_split, "rows", &self.rows),
        ] {
            if path.is_some() && needed.is_none() {
                issues.push(Issue::new(format!("files.{field}"), format!("`{field}` needs `{needs}`")));
            }
        }
        issues
    }
}

pub fn file_input(slot: &str, source: SourceDecl) -> InputDecl {
    InputDecl::new(slot, source, FILE)
}

/// The files of a job, by the slots that [`Files`] and the registry use.
pub fn source(work: &Work) -> Source {
    let file = |slot: &str| -> Option<PathBuf> {
        work.job().inputs.get(slot).and_then(|inputs| inputs.first()).map(|input| input.path.clone())
    };
    let part = |name: &str, data: &str, labels: &str| {
        file(data).map(|data| SourcePart { name: name.to_owned(), data, labels: file(labels) })
    };
    let parts = [
        part("train", "train", "train_labels"),
        part("test", "test", "test_labels"),
        part("all", "rows", "labels"),
    ];
    let splits = [("train", "train_split"), ("test", "test_split")];
    Source {
        parts: parts.into_iter().flatten().collect(),
        label_xml: file("label_xml"),
        label_names: file("label_names"),
        feature_names: file("feature_names"),
        splits: splits.into_iter().filter_map(|(name, slot)| Some((name.to_owned(), file(slot)?))).collect(),
    }
}

/// Runs on as many threads as the job may use.
pub fn on_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> Result<T> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build()?.install(run))
}

/// Says what a new data set looks like: sizes as metrics, repairs and duplicates as warnings.
pub fn announce(work: &mut Work, data: &SplitData) -> Result<()> {
    let meta = data.meta();
    work.metric("features", meta.features as f64);
    work.metric("labels", meta.labels as f64);
    for (part, &rows) in &meta.rows {
        work.metric(&format!("{}_rows", part.name()), rows as f64);
    }
    if let Features::Sparse(features) = data.features(PartName::Train)? {
        let stats = Stats::of(&features, &data.labels(PartName::Train)?);
        work.metric("labels_per_row", stats.labels_per_row());
        work.metric("features_per_row", stats.features_per_row());
        for bound in TAIL_BOUNDS {
            work.metric(&format!("labels_under_{bound}"), stats.share_under(bound));
        }
    }
    let dropped = |before: u64, now: u64, what: &str| {
        (before > now).then(|| format!("{} of {before} {what} left out by the filter", before - now))
    };
    let filtered = [
        dropped(meta.labels_before, meta.labels, "labels"),
        dropped(meta.features_before, meta.features, "features"),
    ];
    filtered.into_iter().flatten().for_each(|message| work.info(message));
    for (repair, count) in meta.report.repairs.iter() {
        work.warn(format!("{count} {}", repair.describe()));
    }
    if let Some(duplicates) = meta.duplicates {
        work.metric("test_rows_in_train", duplicates.in_train as f64);
        if duplicates.in_train > 0 {
            work.warn(format!(
                "{} of {} test rows have the features of a training row, {} of them its labels too",
                duplicates.in_train,
                data.rows(PartName::Test),
                duplicates.with_equal_labels
            ));
        }
    }
    Ok(())
}
