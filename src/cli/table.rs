//! Plain tables for the terminal, drawn by `tabled`.

use std::fmt;

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Padding, Style};

/// Rows under a heading. Prints nothing if there are no rows.
pub(super) struct Grid {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Grid {
    /// Creates a table without rows.
    pub(super) fn new(heading: &[&str]) -> Self {
        Self {
            heading: heading.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: Vec::new(),
            right: Vec::new(),
        }
    }

    /// Aligns these columns, counted from 0, to the right.
    pub(super) fn right_aligned(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut builder = Builder::default();
        builder.push_record(&self.heading);
        for row in &self.rows {
            builder.push_record(row);
        }
        let mut table = builder.build();
        table.with(Style::blank()).with(Padding::new(0, 1, 0, 0));
        for &column in &self.right {
            table.modify(Columns::one(column), Alignment::right());
        }
        for line in table.to_string().lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_spaces() {
        let mut grid = Grid::new(&["stage", "took"]).right_aligned(&[1]);
        grid.row(["train".to_owned(), "3 s".to_owned()]);
        grid.row(["a-long-name".to_owned(), String::new()]);
        let text = grid.to_string();
        let widths: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(widths[0], widths[1], "{text}");
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    }

    #[test]
    fn without_rows_there_is_no_heading() {
        assert_eq!(Grid::new(&["stage"]).to_string(), "");
    }
}
