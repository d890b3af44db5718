//! Texts in one CSV file and their labels in another, with one label per row, such as the notes and the diagnoses of MIMIC.
//! Both files have a column with the same keys.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use super::csv::{CsvRow, for_each_row};
use super::stream::TableText;
use super::{TextColumns, TextRow};
use crate::data::compress::InputFile;
use crate::data::error::{DataError, Fault};

/// How two files are joined.
pub(super) struct Join<'a> {
    /// The column with the keys, in both files.
    pub key: &'a str,
    /// Rows with other values in these columns are left out. A column need be in one of the files only.
    pub only: &'a BTreeMap<String, String>,
}

/// The labels of each key.
pub(super) struct JoinedLabels {
    by_key: HashMap<String, Vec<String>>,
    /// The columns of [`Join::only`] that the file of labels has.
    checked: BTreeSet<String>,
}

impl Join<'_> {
    /// Reads the file of labels.
    pub(super) fn labels(
        &self,
        path: &Path,
        columns: &TextColumns,
        threads: usize,
    ) -> Result<JoinedLabels, DataError> {
        let text = TableText::new(InputFile::open(path, threads)?)?;
        let mut labels = JoinedLabels { by_key: HashMap::new(), checked: BTreeSet::new() };
        for_each_row(text, |row| {
            let (key, label) = (row.value(self.key)?, row.value(columns.labels)?);
            let is_wanted = self.is_wanted(row, &mut labels.checked)?;
            if is_wanted && !key.is_empty() && !label.is_empty() {
                labels.by_key.entry(key.to_owned()).or_default().push(label.to_owned());
            }
            Ok(())
        })?;
        Ok(labels)
    }

    /// Returns one row for each key that has texts and labels, in the order of the first texts. Several texts with the same
    /// key become one, with the id of the first.
    pub(super) fn rows(
        &self,
        text: TableText,
        columns: &TextColumns,
        labels: JoinedLabels,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<TextRow>, DataError> {
        let JoinedLabels { mut by_key, mut checked } = labels;
        let mut without_labels = 0u64;
        let (rows, file) = self.join(text, columns, &mut checked, |key| {
            let labels = by_key.remove(key);
            without_labels += u64::from(labels.is_none());
            labels
        })?;
        if without_labels > 0 || !by_key.is_empty() {
            warnings.push(format!(
                "the join by `{}` leaves out texts without labels ({without_labels}) and keys of labels without a text ({})",
                self.key,
                by_key.len()
            ));
        }
        match self.only.keys().find(|name| !checked.contains(*name)) {
            Some(name) => {
                Err(file.fault(Fault::new(0, format!("neither file has the column `{name}` of `only`"))))
            }
            None => Ok(rows),
        }
    }

    /// Returns one row for each key of texts that are to be predicted, and says what was left out or could not be checked.
    pub(super) fn new_rows(
        &self,
        text: TableText,
        columns: &TextColumns,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<TextRow>, DataError> {
        let (mut checked, mut without_key) = (BTreeSet::new(), 0);
        let (rows, file) = self.join(text, columns, &mut checked, |key| {
            without_key += u64::from(key.is_empty());
            (!key.is_empty()).then(Vec::new)
        })?;
        if rows.is_empty() {
            let reason = format!("no row has a `{}` and the values of `only` in the training data", self.key);
            return Err(file.fault(Fault::new(0, reason)));
        }
        if without_key > 0 {
            warnings.push(format!(
                "rows without a `{}` are left out, as in the training data: {without_key}",
                self.key
            ));
        }
        for (name, value) in self.only.iter().filter(|(name, _)| !checked.contains(*name)) {
            warnings.push(format!(
                "there is no column `{name}`, so that rows with other values than `{value}` in it cannot be left out as in the \
                 training data"
            ));
        }
        Ok(rows)
    }

    /// Joins texts with the same key. `labels` returns the labels of a key when it first occurs; rows without any are left out.
    fn join(
        &self,
        text: TableText,
        columns: &TextColumns,
        checked: &mut BTreeSet<String>,
        mut labels: impl FnMut(&str) -> Option<Vec<String>>,
    ) -> Result<(Vec<TextRow>, TableText), DataError> {
        let mut rows: Vec<TextRow> = Vec::new();
        let mut row_of: HashMap<String, usize> = HashMap::new();
        let file = for_each_row(text, |row| {
            let explained =
                |reason| format!("{reason}; texts with the same value in this column become one row");
            let (key, text) = (row.value(self.key).map_err(explained)?, row.value(columns.text)?);
            if !self.is_wanted(row, checked)? {
                return Ok(());
            }
            if let Some(&at) = row_of.get(key) {
                rows[at].text.push('\n');
                rows[at].text.push_str(text);
            } else if let Some(labels) = labels(key) {
                row_of.insert(key.to_owned(), rows.len());
                let id = columns.id.map(|id| row.value(id)).transpose()?.map(str::to_owned);
                rows.push(TextRow { text: text.to_owned(), labels, id });
            }
            Ok(())
        })?;
        Ok((rows, file))
    }

    /// Returns whether a row has the wanted values, and notes the columns that were looked at.
    fn is_wanted(&self, row: &CsvRow, checked: &mut BTreeSet<String>) -> Result<bool, String> {
        let mut is_wanted = true;
        for (name, wanted) in self.only.iter().filter(|(name, _)| row.has(name)) {
            is_wanted &= row.value(name)? == wanted;
            if !checked.contains(name) {
                checked.insert(name.clone());
            }
        }
        Ok(is_wanted)
    }
}
