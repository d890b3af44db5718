//! The legend above a chart, which never covers it, and the notes below.

use super::super::draw::{Anchor, Colour, Drawing, Point, font};
use super::{MARGIN, SMALL, TEXT, WIDTH};

const ROW: f64 = 10.5;
const SAMPLE: f64 = 19.0;
const GAP: f64 = 8.0;
const NOTE_ROW: f64 = 8.5;

/// Draws the sample of an entry between two points at the same height.
pub(super) type LegendSample<'a> = Box<dyn Fn(&mut Drawing, Point, Point) + 'a>;

/// Draws the legend in as many columns as fit. Returns the y coordinate of its end.
pub(super) fn draw(drawing: &mut Drawing, entries: &[(String, LegendSample)]) -> f64 {
    if entries.is_empty() {
        return MARGIN;
    }
    let room = WIDTH - 2.0 * MARGIN;
    let names: Vec<String> =
        entries.iter().map(|(name, _)| font::clip(name, TEXT, room - SAMPLE - 3.0)).collect();
    let widest = names.iter().map(|name| font::width(name, TEXT)).fold(0.0, f64::max);
    let entry = SAMPLE + 3.0 + widest + GAP;
    let columns = (((room + GAP) / entry) as usize).clamp(1, entries.len());
    let rows = entries.len().div_ceil(columns);
    for (index, (name, (_, sample))) in names.iter().zip(entries).enumerate() {
        let (column, row) = (index / rows, index % rows);
        let x = MARGIN + column as f64 * entry;
        let y = MARGIN + (row as f64 + 0.5) * ROW;
        sample(drawing, (x, y), (x + SAMPLE, y));
        drawing.text((x + SAMPLE + 3.0, y + TEXT * 0.35), Anchor::Start, TEXT, name);
    }
    MARGIN + rows as f64 * ROW + 3.0
}

/// Draws the notes below a chart that ends at `y`. Returns the y coordinate of their end.
pub(super) fn notes(drawing: &mut Drawing, notes: &[String], mut y: f64) -> f64 {
    for line in notes.iter().flat_map(|note| font::wrap(note, SMALL, WIDTH - 2.0 * MARGIN)) {
        y += NOTE_ROW;
        drawing.tinted_text((MARGIN, y), Anchor::Start, SMALL, Colour::DIM, &line);
    }
    y + MARGIN
}
