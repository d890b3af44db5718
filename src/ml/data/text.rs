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
}
