//! What a reader found and what it repaired. Kept with the data set; names no path, so that the
//! same content read from elsewhere gives the same bytes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The formats that `pipe` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `3,17 12:0.3 88:0.07`, one row per line.
    Libsvm,
    /// As LIBSVM, counted from 0, after a line `rows features labels`.
    Xmc,
    /// ARFF; the labels are named by a Mulan XML file or by MEKA's `-C n`.
    Arff,
    /// `mult.dat` (words per article) with `tag-item.dat` (articles per tag).
    Citeulike,
    /// A dense NumPy array, labels in a file beside it.
    Npy,
    /// A dense tensor, labels in the same file or in one beside it.
    Safetensors,
    /// Raw text and labels in columns.
    Csv,
    /// One JSON object per line with a text and a list of labels.
    Jsonl,
    /// Not read from a file: `synthetic`.
    Generated,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Self::Libsvm => "LIBSVM",
            Self::Xmc => "XMC",
            Self::Arff => "ARFF",
            Self::Citeulike => "citeulike",
            Self::Npy => "NumPy",
            Self::Safetensors => "safetensors",
            Self::Csv => "CSV",
            Self::Jsonl => "JSON lines",
            Self::Generated => "generated",
        }
    }
}

/// From which number indices count, and how that was found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// 0 or 1.
    pub first: u32,
    pub because: BaseReason,
}

impl Base {
    /// The base that a format prescribes.
    pub const fn by_format(first: u32) -> Self {
        Self { first, because: BaseReason::Format }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseReason {
    /// The format says so.
    Format,
    /// The user says so.
    Given,
    /// The index 0 occurs.
    ZeroOccurs,
    /// The largest index fits only this base, given the number of columns or of names.
    CountFits,
    /// 0 never occurs and no count is known: LIBSVM counts from 1.
    ZeroNeverOccurs,
}

/// What was changed while reading, each with a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// Empty lines in a format where they are no rows.
    BlankLinesSkipped,
    /// Rows whose feature indices did not ascend.
    FeatureRowsSorted,
    /// Rows whose label indices did not ascend.
    LabelRowsSorted,
    /// A label that a row names more than once counts once.
    RepeatedLabelsDropped,
    /// A value of zero is not stored.
    ZerosDropped,
    /// Carriage returns before a line end.
    CarriageReturns,
    /// A byte-order mark at the start of a file.
    ByteOrderMarks,
    /// A missing value (`?`) of an ARFF file counts as zero.
    MissingValuesAsZero,
    /// A row that a split-index file names more than once counts once.
    RepeatedSplitRowsDropped,
}

impl Repair {
    pub fn describe(self) -> &'static str {
        match self {
            Self::BlankLinesSkipped => "blank lines skipped",
            Self::FeatureRowsSorted => "rows with unsorted features, sorted",
            Self::LabelRowsSorted => "rows with unsorted labels, sorted",
            Self::RepeatedLabelsDropped => "repeated labels dropped",
            Self::ZerosDropped => "stored zeros dropped",
            Self::CarriageReturns => "carriage returns removed",
            Self::ByteOrderMarks => "byte-order marks removed",
            Self::MissingValuesAsZero => "missing values read as zero",
            Self::RepeatedSplitRowsDropped => "repeated rows in a split dropped",
        }
    }
}

/// Counts of repairs; one that never happened is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Repairs(BTreeMap<Repair, u64>);

impl Repairs {
    pub fn add(&mut self, repair: Repair, count: u64) {
        if count > 0 {
            *self.0.entry(repair).or_default() += count;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(repair, count)| self.add(repair, count));
    }

    pub fn get(&self, repair: Repair) -> u64 {
        self.0.get(&repair).copied().unwrap_or(0)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Repair, u64)> + '_ {
        self.0.iter().map(|(&repair, &count)| (repair, count))
    }
}

/// What is known of a data set beyond its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadReport {
    pub format: Format,
    pub label_base: Base,
    pub feature_base: Base,
    #[serde(default)]
    pub repairs: Repairs,
    pub rows_without_labels: u64,
    pub rows_without_features: u64,
}

impl ReadReport {
    pub fn new(format: Format) -> Self {
        Self {
            format,
            label_base: Base::by_format(0),
            feature_base: Base::by_format(0),
            repairs: Repairs::default(),
            rows_without_labels: 0,
            rows_without_features: 0,
        }
    }
}
