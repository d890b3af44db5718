//! The values that a figure shows, as CSV.

use csv::{Terminator, WriterBuilder};
use pipe_core::escape::csv_text;
use pipe_ml::metric::marked::Marked;

/// The values that a figure shows.
#[derive(Debug, Clone, PartialEq)]
pub struct DataTable {
    columns: Vec<String>,
    rows: Vec<Vec<DataCell>>,
}

/// A field of a [`DataTable`].
#[derive(Debug, Clone, PartialEq)]
pub enum DataCell {
    Text(String),
    Count(u64),
    /// Written as an empty field if it is absent or not finite.
    Number(Option<f64>),
}

impl From<&str> for DataCell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for DataCell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for DataCell {
    fn from(number: f64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<Option<f64>> for DataCell {
    fn from(number: Option<f64>) -> Self {
        Self::Number(number)
    }
}

impl DataTable {
    /// Creates a table of measured values. Each row begins with its protocol.
    pub fn of_results(columns: &[&str], rows: impl IntoIterator<Item = Marked<Vec<DataCell>>>) -> Self {
        let with_protocol = |row: Marked<Vec<DataCell>>| {
            let (protocol, cells) = row.reveal();
            [DataCell::from(protocol.name())].into_iter().chain(cells).collect()
        };
        Self {
            columns: ["protocol"].iter().chain(columns).map(|&name| name.to_owned()).collect(),
            rows: rows.into_iter().map(with_protocol).collect(),
        }
    }

    /// Creates a table of values that were not measured on predictions, so that no protocol applies.
    pub fn of_facts(columns: &[&str], rows: impl IntoIterator<Item = Vec<DataCell>>) -> Self {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        Self { columns, rows: rows.into_iter().collect() }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table as CSV, with lines that end in LF.
    pub fn csv(&self) -> String {
        let mut writer = WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(Vec::new());
        let rows = self.rows.iter().map(|row| row.iter().map(DataCell::text).collect());
        for fields in std::iter::once(self.columns.clone()).chain(rows) {
            writer
                .write_record(fields)
                .expect("writing to memory cannot fail, and all rows are equally long");
        }
        let bytes = writer.into_inner().expect("writing to memory cannot fail");
        String::from_utf8(bytes).expect("the fields are UTF-8")
    }
}

impl DataCell {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => csv_text(text).into_owned(),
            Self::Count(count) => count.to_string(),
            // The shortest text that is read as the same number again. Adding zero turns -0 into 0.
            Self::Number(Some(number)) if number.is_finite() => format!("{}", number + 0.0),
            Self::Number(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::metric::marked::Protocol;

    #[test]
    fn special_characters_are_quoted_and_absent_values_are_empty() {
        let row = vec![
            DataCell::from("a,\"b\"\nc"),
            DataCell::from(3),
            DataCell::from(0.1),
            DataCell::from(f64::NAN),
            DataCell::from(None),
        ];
        let table =
            DataTable::of_results(&["name", "n", "x", "y", "z"], [Marked::new(Protocol::Oracle, row)]);
        assert_eq!(table.csv(), "protocol,name,n,x,y,z\noracle,\"a,\"\"b\"\"\nc\",3,0.1,,\n");
    }

    #[test]
    fn a_name_that_a_spreadsheet_would_run_is_defused_in_the_data_of_a_figure() {
        let row = vec![DataCell::from("=1+1"), DataCell::from(-0.5)];
        let table = DataTable::of_results(&["name", "x"], [Marked::new(Protocol::Honest, row)]);
        assert_eq!(table.csv(), "protocol,name,x\nhonest,'=1+1,-0.5\n");
    }
}
