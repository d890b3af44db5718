//! Filters of labels and features. They are fitted on the training rows, before a validation part is taken from them, and
//! never on test rows.

use std::collections::{BTreeSet, HashMap};

use pipe_core::issue::Issue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::csr::Csr;
use super::stats::column_counts;

/// Which labels and features are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Keep labels that occur in at least this many training rows (including validation rows).
    pub min_label_count: Option<u64>,
    /// Keep at most this many labels: the most frequent ones.
    pub max_labels: Option<usize>,
    /// Keep only these labels, by name; labels without names by their number in the file.
    pub labels: Option<BTreeSet<String>>,
    /// Keep at most this many features: those that occur in the most training rows.
    pub max_features: Option<usize>,
}

/// Why a filter cannot be applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("the data set has no label `{0}`; `filter.labels` must contain names as they are in the files")]
    UnknownLabel(String),
    #[error("the filter leaves no label: set a smaller `min_label_count` or other labels")]
    NoLabelLeft,
}

impl Filter {
    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let zero = "it must be at least 1";
        let mut issues = Vec::new();
        if self.max_labels == Some(0) {
            issues.push(Issue::new("max_labels", zero));
        }
        if self.max_features == Some(0) {
            issues.push(Issue::new("max_features", zero));
        }
        issues
    }

    /// Returns the labels that are kept, given the names of all labels and the training rows.
    pub(crate) fn fit_labels(
        &self,
        labels: &Csr,
        names: &[String],
        train: &[u32],
    ) -> Result<KeptColumns, FilterError> {
        if self.min_label_count.is_none() && self.max_labels.is_none() && self.labels.is_none() {
            return Ok(KeptColumns::all(labels.cols));
        }
        let counts = column_counts(labels, train.iter().copied());
        let mut keep = match &self.labels {
            None => vec![true; labels.cols],
            Some(wanted) => by_name(wanted, names, labels.cols)?,
        };
        let least = self.min_label_count.unwrap_or(0);
        for (keep, &count) in keep.iter_mut().zip(&counts) {
            *keep &= count >= least;
        }
        keep_most_frequent(&mut keep, &counts, self.max_labels);
        let columns = KeptColumns::kept(&keep);
        if columns.count() == 0 { Err(FilterError::NoLabelLeft) } else { Ok(columns) }
    }

    /// Returns the features that are kept, given the training rows.
    pub(crate) fn fit_features(&self, features: &Csr, train: &[u32]) -> KeptColumns {
        if self.max_features.is_none_or(|most| most >= features.cols) {
            return KeptColumns::all(features.cols);
        }
        let mut keep = vec![true; features.cols];
        keep_most_frequent(&mut keep, &column_counts(features, train.iter().copied()), self.max_features);
        KeptColumns::kept(&keep)
    }
}

fn by_name(wanted: &BTreeSet<String>, names: &[String], cols: usize) -> Result<Vec<bool>, FilterError> {
    let index_of: HashMap<&str, usize> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    let mut keep = vec![false; cols];
    for name in wanted {
        let index = index_of.get(name.as_str()).copied();
        keep[index.ok_or_else(|| FilterError::UnknownLabel(name.clone()))?] = true;
    }
    Ok(keep)
}

/// Keeps the `most` most frequent columns. Of equally frequent columns, those with smaller numbers are kept.
fn keep_most_frequent(keep: &mut [bool], counts: &[u64], most: Option<usize>) {
    let Some(most) = most else { return };
    let mut kept: Vec<usize> = (0..keep.len()).filter(|&column| keep[column]).collect();
    kept.sort_by_key(|&column| (std::cmp::Reverse(counts[column]), column));
    for &column in kept.iter().skip(most) {
        keep[column] = false;
    }
}

/// The columns of a matrix that are kept, and their new numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptColumns {
    new_number: Option<Vec<Option<u32>>>,
    count: usize,
}

impl KeptColumns {
    /// Keeps all columns.
    pub(crate) fn all(cols: usize) -> Self {
        Self { new_number: None, count: cols }
    }

    fn kept(keep: &[bool]) -> Self {
        let mut count = 0;
        let number = |&keep: &bool| {
            keep.then(|| {
                count += 1;
                count - 1
            })
        };
        let new_number = keep.iter().map(number).collect();
        Self { new_number: Some(new_number), count: count as usize }
    }

    /// Returns the old numbers of the columns that are kept; `None` if all are kept.
    pub(crate) fn old_numbers(&self) -> Option<Vec<u32>> {
        let numbers = self.new_number.as_ref()?;
        Some((0..).zip(numbers).filter(|(_, new)| new.is_some()).map(|(old, _)| old).collect())
    }

    /// Returns the number of columns that are kept.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the new number of a column; `None` if it is not kept.
    pub(crate) fn new_number(&self, column: u32) -> Option<u32> {
        match &self.new_number {
            None => Some(column),
            Some(new_number) => new_number[column as usize],
        }
    }

    /// Returns the items, such as names, of the columns that are kept.
    pub(crate) fn select<T: Clone>(&self, items: &[T]) -> Vec<T> {
        let is_kept = |&(column, _): &(u32, &T)| self.new_number(column).is_some();
        (0..).zip(items).filter(is_kept).map(|(_, item)| item.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_matrix::ones;
    use super::*;

    /// Label 0 occurs three times, 1 twice (once in training), 2 twice, 3 never.
    fn labels() -> Csr {
        ones(4, &[vec![0, 2], vec![0, 1, 2], vec![0], vec![1]])
    }

    fn kept(columns: &KeptColumns) -> Vec<u32> {
        columns.select(&[0, 1, 2, 3])
    }

    #[test]
    fn counts_come_from_the_training_rows_only() {
        let filter = Filter { min_label_count: Some(2), ..Filter::default() };
        assert_eq!(kept(&filter.fit_labels(&labels(), &[], &[0, 1, 2]).unwrap()), [0, 2]);
        assert_eq!(kept(&filter.fit_labels(&labels(), &[], &[0, 1, 2, 3]).unwrap()), [0, 1, 2]);
    }

    #[test]
    fn new_numbers_are_consecutive() {
        let filter = Filter { min_label_count: Some(2), ..Filter::default() };
        let columns = filter.fit_labels(&labels(), &[], &[0, 1, 2]).unwrap();
        assert_eq!([0, 1, 2, 3].map(|column| columns.new_number(column)), [Some(0), None, Some(1), None]);
        assert_eq!(columns.count(), 2);
    }

    #[test]
    fn labels_are_selected_by_name_and_an_unknown_name_is_an_error() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
        let filter = |name: &str| Filter { labels: Some([name.to_owned()].into()), ..Filter::default() };
        assert_eq!(kept(&filter("b").fit_labels(&labels(), &names, &[0]).unwrap()), [1]);
        let unknown = Err(FilterError::UnknownLabel("e".to_owned()));
        assert_eq!(filter("e").fit_labels(&labels(), &names, &[0]), unknown);
    }

    #[test]
    fn the_most_frequent_columns_are_kept_and_ties_go_to_the_smaller_number() {
        let filter = Filter { max_labels: Some(2), max_features: Some(3), ..Filter::default() };
        let all = [0, 1, 2, 3];
        assert_eq!(kept(&filter.fit_labels(&labels(), &[], &all).unwrap()), [0, 1]);
        assert_eq!(kept(&filter.fit_features(&labels(), &all)), [0, 1, 2]);
    }

    #[test]
    fn a_filter_that_leaves_no_label_is_an_error() {
        let filter = Filter { min_label_count: Some(99), ..Filter::default() };
        assert_eq!(filter.fit_labels(&labels(), &[], &[0]), Err(FilterError::NoLabelLeft));
    }
}
