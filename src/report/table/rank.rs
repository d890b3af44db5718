//! Finds the best and second best among the values that may be compared, by their printed form: values that look equal
//! share a rank.

use std::cmp::Ordering;

use super::display::TableScale;
use super::{Rank, Table, TableCell};
use pipe_ml::metric::registry::Direction;

/// Sets the ranks of all cells.
pub(super) fn annotate(table: &mut Table) {
    let scale = table.display.scale;
    for contest in table.contests() {
        let mut shown: Vec<f64> = Vec::new();
        let mut direction = Direction::Neither;
        for &(row, column) in &contest {
            if let Some(cell) = &table.cells[row][column] {
                direction = cell.metric.direction();
                shown.push(printed(cell, scale));
            }
        }
        let better: fn(&f64, &f64) -> Ordering = match direction {
            Direction::Higher => |a, b| b.total_cmp(a),
            Direction::Lower => |a, b| a.total_cmp(b),
            Direction::Neither => continue,
        };
        shown.sort_by(better);
        shown.dedup();
        if shown.len() < 2 || shown.iter().any(|value| value.is_nan()) {
            continue;
        }
        for (row, column) in contest {
            if let Some(cell) = &mut table.cells[row][column] {
                let place = shown.iter().position(|value| *value == printed(cell, scale));
                cell.rank = match place {
                    Some(0) => Some(Rank::Best),
                    Some(1) if shown.len() > 2 => Some(Rank::Second),
                    _ => None,
                };
            }
        }
    }
}

/// Returns the mean as it is printed.
fn printed(cell: &TableCell, scale: TableScale) -> f64 {
    let (_, spread) = cell.value.reveal();
    cell.print(scale, spread.mean).parse().unwrap_or(f64::NAN)
}
