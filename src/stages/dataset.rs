//! Shared by the stages that make data sets: the files that they read, the artifact that they write, and the values
//! that they report about it.

use std::path::PathBuf;

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file_source::FileOrStage;
use pipe_core::artifact::PlainFile;
use pipe_core::issue::Issue;
use pipe_core::kind::InputDecl;
use pipe_core::slot::{Out, Slot};
use pipe_core::work::Work;
use pipe_ml::data::csr::{Csr, Features};
use pipe_ml::data::source::{DataSource, SourcePart};
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::data::stats::{Stats, TAIL_BOUNDS, column_counts};

/// The output of every stage that makes a data set.
pub const DATASET: Out<SplitData> = Out::new("dataset", "dataset");

/// Files of the user or of other stages: either `train` and, optionally, `test`, or `rows` with all rows in one file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Files {
    /// Training rows.
    pub train: Option<FileOrStage>,
    /// Test rows.
    pub test: Option<FileOrStage>,
    /// All rows in one file.
    pub rows: Option<FileOrStage>,
    /// The labels of `train`, if they are not in the same file.
    pub train_labels: Option<FileOrStage>,
    /// The labels of `test`, if they are not in the same file.
    pub test_labels: Option<FileOrStage>,
    /// The labels of `rows`.
    pub labels: Option<FileOrStage>,
    /// The numbers of the training rows within `rows`, in the format of the XMC repository.
    pub train_split: Option<FileOrStage>,
    /// The numbers of the test rows within `rows`.
    pub test_split: Option<FileOrStage>,
    /// Mulan's list of the attributes that are labels.
    pub label_xml: Option<FileOrStage>,
    /// The names of the labels, one per line.
    pub label_names: Option<FileOrStage>,
    /// The names of the features, one per line.
    pub feature_names: Option<FileOrStage>,
}

impl Files {
    /// Training rows.
    pub const TRAIN: Slot<PlainFile> = Slot::new("train");
    /// Test rows.
    pub const TEST: Slot<PlainFile> = Slot::new("test");
    /// All rows in one file.
    pub const ROWS: Slot<PlainFile> = Slot::new("rows");
    /// The labels of [`Files::TRAIN`].
    pub const TRAIN_LABELS: Slot<PlainFile> = Slot::new("train_labels");
    /// The labels of [`Files::TEST`].
    pub const TEST_LABELS: Slot<PlainFile> = Slot::new("test_labels");
    /// The labels of [`Files::ROWS`].
    pub const LABELS: Slot<PlainFile> = Slot::new("labels");
    /// The numbers of the training rows among [`Files::ROWS`].
    pub const TRAIN_SPLIT: Slot<PlainFile> = Slot::new("train_split");
    /// The numbers of the test rows among [`Files::ROWS`].
    pub const TEST_SPLIT: Slot<PlainFile> = Slot::new("test_split");
    /// Mulan's list of the attributes that are labels.
    pub const LABEL_XML: Slot<PlainFile> = Slot::new("label_xml");
    /// The names of the labels.
    pub const LABEL_NAMES: Slot<PlainFile> = Slot::new("label_names");
    /// The names of the features.
    pub const FEATURE_NAMES: Slot<PlainFile> = Slot::new("feature_names");

    /// Returns the declared files. Files of test rows are left out unless `with_test` is set, because a split that
    /// ignores the test rows must not depend on them.
    pub fn inputs(&self, with_test: bool) -> Vec<InputDecl> {
        let of_test = |file: &Option<FileOrStage>| file.clone().filter(|_| with_test);
        let slots = [
            (Self::TRAIN, self.train.clone()),
            (Self::TEST, of_test(&self.test)),
            (Self::ROWS, self.rows.clone()),
            (Self::TRAIN_LABELS, self.train_labels.clone()),
            (Self::TEST_LABELS, of_test(&self.test_labels)),
            (Self::LABELS, self.labels.clone()),
            (Self::TRAIN_SPLIT, self.train_split.clone()),
            (Self::TEST_SPLIT, self.test_split.clone()),
            (Self::LABEL_XML, self.label_xml.clone()),
            (Self::LABEL_NAMES, self.label_names.clone()),
            (Self::FEATURE_NAMES, self.feature_names.clone()),
        ];
        let declare = |(slot, source): (Slot<PlainFile>, Option<FileOrStage>)| {
            Some(slot.from(source?.0.declare()).written_in("files"))
        };
        slots.into_iter().filter_map(declare).collect()
    }

    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        if self.train.is_some() == self.rows.is_some() {
            issues.push(Issue::new("files", "give exactly one of `train` and `rows`"));
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

/// Returns the files of a job that reads a data set.
pub fn source(work: &Work) -> DataSource {
    let file = |slot: Slot<PlainFile>| -> Option<PathBuf> {
        work.inputs(&slot).first().map(|input| input.path.clone())
    };
    let part = |name: &str, data: Slot<PlainFile>, labels: Slot<PlainFile>| {
        file(data).map(|data| SourcePart { name: name.to_owned(), data, labels: file(labels) })
    };
    let parts = [
        part("train", Files::TRAIN, Files::TRAIN_LABELS),
        part("test", Files::TEST, Files::TEST_LABELS),
        part("all", Files::ROWS, Files::LABELS),
    ];
    let splits = [("train", Files::TRAIN_SPLIT), ("test", Files::TEST_SPLIT)];
    DataSource {
        parts: parts.into_iter().flatten().collect(),
        label_xml: file(Files::LABEL_XML),
        label_names: file(Files::LABEL_NAMES),
        feature_names: file(Files::FEATURE_NAMES),
        splits: splits.into_iter().filter_map(|(name, slot)| Some((name.to_owned(), file(slot)?))).collect(),
    }
}

/// Runs a closure on as many threads as the job may use.
pub fn on_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> Result<T> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build()?.install(run))
}

/// The metrics that [`announce`] records.
pub const DATASET_METRICS: [&str; 9] = [
    "features",
    "labels",
    "train_rows",
    "validation_rows",
    "test_rows",
    "labels_per_row",
    "features_per_row",
    "labels_under_*",
    "test_rows_in_train",
];

/// Reports on a new data set: sizes as metrics, repairs and duplicates as warnings.
pub fn announce(work: &mut Work, data: &SplitData) -> Result<()> {
    let meta = data.meta();
    if let Some(reason) = &meta.weight_reason {
        work.fact("weight", format!("{}, because {reason}", meta.weight.describe()));
    }
    work.metric("features", meta.features as f64);
    work.metric("labels", meta.labels as f64);
    for (part, &rows) in &meta.rows {
        work.metric(&format!("{}_rows", part.name()), rows as f64);
    }
    let labels = data.labels(PartName::Train)?;
    if labels.entries() == 0 {
        work.warn("no training row has a label".to_owned());
    }
    note_rare(work, data, &labels)?;
    if !meta.rows.contains_key(&PartName::Test) {
        let warning = "there are no test rows, so that no model of this data set can be evaluated; `split: { holdout: 0.2 }` \
                       holds some rows out";
        work.warn(warning.to_owned());
    }
    if let Features::Sparse(features) = data.features(PartName::Train)? {
        let stats = Stats::of(&features, &labels);
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
    for message in filtered.into_iter().flatten() {
        work.info(message);
    }
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

/// Reports what can hardly be learned: labels with at most one training row, and training rows without features.
fn note_rare(work: &mut Work, data: &SplitData, labels: &Csr) -> Result<()> {
    let counts = column_counts(labels, 0..labels.rows() as u32);
    let with = |rows: u64| counts.iter().filter(|&&count| count == rows).count();
    let (none, one, all) = (with(0), with(1), counts.len());
    if none > 0 {
        work.info(format!("{none} of {all} labels have no training row, so that they are never predicted"));
    }
    if one > 0 {
        work.info(format!("{one} of {all} labels have one training row"));
    }
    if 2 * (none + one) > all && all > 0 {
        work.info(
            "most labels have at most one training row, from which a model can hardly learn them: \
             `filter: { min_label_count: 3 }` leaves such labels out"
                .to_owned(),
        );
    }
    let features = data.features(PartName::Train)?;
    let mut empty = 0;
    for row in 0..features.rows() {
        let mut is_empty = true;
        features.for_each_value(row, |_, _| is_empty = false);
        empty += usize::from(is_empty);
    }
    if empty > 0 {
        work.info(format!("{empty} of {} training rows have no features", features.rows()));
    }
    Ok(())
}
