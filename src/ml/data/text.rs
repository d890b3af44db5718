//! Raw text with labels, before it is vectorised.

use super::artifact::DataSetPart;
use super::csr::Csr;
use super::read_report::ReadReport;

/// Texts and their labels. Rows are in the order of the files.
#[derive(Debug, Clone, PartialEq)]
pub struct RawText {
    pub texts: Vec<String>,
    /// What identifies each row, if [`super::source::ReadOptions::id_column`] names a column.
    pub ids: Option<Vec<String>>,
    pub labels: Csr,
    /// In the order of their first appearance.
    pub label_names: Vec<String>,
    pub parts: Vec<DataSetPart>,
    pub report: ReadReport,
    /// Sentences about what was left out.
    pub warnings: Vec<String>,
}

impl RawText {
    /// Returns the character that may separate labels: if no row has more than one label, the one that most of their names
    /// contain.
    pub fn missed_separator(&self) -> Option<char> {
        let single = (0..self.labels.rows()).all(|row| self.labels.row(row).len() <= 1);
        let containing =
            |separator: char| self.label_names.iter().filter(|name| name.contains(separator)).count();
        let found = [';', '|', ','].map(|separator| (containing(separator), separator)).into_iter().max();
        found.filter(|(containing, _)| single && *containing > 0).map(|(_, separator)| separator)
    }
}
