//! The report of a reader: what it found in the files and what it repaired.
//!
//! The report is stored with the data set. It contains no path, so that the same content gives the same bytes wherever
//! its files are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::format::Format;

/// The number from which indices count, and how it was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// 0 or 1.
    pub first: u32,
    pub because: BaseReason,
}

impl Base {
    /// Returns the base that a format prescribes.
    pub const fn by_format(first: u32) -> Self {
        Self { first, because: BaseReason::Format }
    }
}

/// How the base of indices was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseReason {
    /// The format prescribes it.
    Format,
    /// The user gave it.
    Given,
    /// The index 0 occurs.
    ZeroOccurs,
    /// Given the number of columns or names, the largest index fits this base only.
    CountFits,
    /// The index 0 does not occur and no count is known: LIBSVM counts from 1.
    ZeroNeverOccurs,
}

/// A kind of change that a reader made to the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// Empty lines in a format where an empty line is not a row.
    BlankLinesSkipped,
    /// Rows whose feature indices did not ascend.
    FeatureRowsSorted,
    /// Rows whose label indices did not ascend.
    LabelRowsSorted,
    /// A label that occurs more than once in a row is kept once.
    RepeatedLabelsDropped,
    /// A value of zero is not stored.
    ZerosDropped,
    /// Carriage returns at the end of a line.
    CarriageReturns,
    /// A byte-order mark at the start of a file.
    ByteOrderMarks,
    /// A missing value (`?`) of an ARFF file counts as zero.
    MissingValuesAsZero,
    /// A row that occurs more than once in a split-index file is kept once.
    RepeatedSplitRowsDropped,
}

impl Repair {
    /// Returns the change in words, to be printed after a count.
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

/// How often each repair was made. A repair that was not made is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Repairs(BTreeMap<Repair, u64>);

impl Repairs {
    /// Adds `count` repairs of a kind.
    pub fn add(&mut self, repair: Repair, count: u64) {
        if count > 0 {
            *self.0.entry(repair).or_default() += count;
        }
    }

    /// Returns how often a repair was made.
    pub fn get(&self, repair: Repair) -> u64 {
        self.0.get(&repair).copied().unwrap_or(0)
    }

    /// Iterates over the repairs that were made, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Repair, u64)> + '_ {
        self.0.iter().map(|(&repair, &count)| (repair, count))
    }
}

/// What a reader found out about a data set besides its numbers.
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
    /// Creates a report without repairs, for indices that count from 0.
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
