//! The numbers behind a figure, as CSV.

use pipe_ml::metric::marked::{Marked, Protocol};

#[derive(Debug, Clone, PartialEq)]
pub struct DataTable {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Text(String),
    Count(u64),
    /// Empty where there is none, or none that is finite.
    Number(Option<f64>),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        Self::Number(number)
    }
}

impl DataTable {
    /// Of what was measured: each row begins with its protocol.
    pub fn of_results(columns: &[&str], rows: impl IntoIterator<Item = Marked<Vec<Cell>>>) -> Self {
        let with_protocol = |row: Marked<Vec<Cell>>| {
            let (protocol, cells) = row.reveal();
            let protocol = match protocol {
                Protocol::Honest => "honest",
                Protocol::Oracle => "oracle",
            };
            [Cell::from(protocol)].into_iter().chain(cells).collect()
        };
        Self {
            columns: ["protocol"].iter().chain(columns).map(|&name| name.to_owned()).collect(),
            rows: rows.into_iter().map(with_protocol).collect(),
        }
    }

    /// Of what was not measured on predictions, so that no protocol applies.
    pub fn of_facts(columns: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        Self { columns, rows: rows.into_iter().collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn csv(&self) -> String {
        let mut csv = self.columns.join(",") + "\n";
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::csv).collect();
            csv.push_str(&cells.join(","));
            csv.push('\n');
        }
        csv
    }
}

impl Cell {
    fn csv(&self) -> String {
        match self {
            Self::Text(text) if text.contains([',', '"', '\n', '\r']) => {
                format!("\"{}\"", text.replace('"', "\"\""))
            }
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            // The shortest text that gives the same number again.
            Self::Number(Some(number)) if number.is_finite() => format!("{}", number + 0.0),
            Self::Number(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awkward_cells_are_quoted_and_absent_ones_empty() {
        let row = vec![
            Cell::from("a,\"b\"\nc"),
            Cell::from(3),
            Cell::from(0.1),
            Cell::from(f64::NAN),
            Cell::from(None),
        ];
        let table =
            DataTable::of_results(&["name", "n", "x", "y", "z"], [Marked::new(Protocol::Oracle, row)]);
        assert_eq!(table.csv(), "protocol,name,n,x,y,z\noracle,\"a,\"\"b\"\"\nc\",3,0.1,,\n");
    }
}
