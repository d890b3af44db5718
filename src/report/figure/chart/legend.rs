//! The legend beside a chart, which never covers it, and the notes below.

use super::super::draw::{Anchor, Colour, Drawing, Point, font};
use super::format::{LegendPosition, Page};
use super::{MARGIN, SMALL, TEXT};

const ROW: f64 = 10.5;
const SAMPLE: f64 = 19.0;
const GAP: f64 = 8.0;
const NOTE_ROW: f64 = 8.5;
/// The largest share of the page that a legend at the right takes.
const RIGHT_SHARE: f64 = 0.35;

/// Draws the sample of an entry between two points at the same height.
pub(super) type LegendSample<'a> = Box<dyn Fn(&mut Drawing, Point, Point) + 'a>;

/// A legend, and how much room it takes.
pub(super) struct Legend<'a> {
    entries: Vec<(String, LegendSample<'a>)>,
    position: LegendPosition,
    columns: usize,
    entry_width: f64,
    page_width: f64,
}

impl<'a> Legend<'a> {
    /// Lays the entries out in as many columns as fit, or in one column at the right.
    pub(super) fn new(mut entries: Vec<(String, LegendSample<'a>)>, page: Page) -> Self {
        let at_right = page.legend == LegendPosition::Right;
        let room = if at_right { page.width * RIGHT_SHARE } else { page.width - 2.0 * MARGIN };
        if page.legend == LegendPosition::None {
            entries.clear();
        }
        for (name, _) in &mut entries {
            *name = font::clip(name, TEXT, room - SAMPLE - 3.0);
        }
        let widest = entries.iter().map(|(name, _)| font::width(name, TEXT)).fold(0.0, f64::max);
        let entry_width = SAMPLE + 3.0 + widest + GAP;
        let fitting = (((room + GAP) / entry_width) as usize).clamp(1, entries.len().max(1));
        let columns = if at_right { 1 } else { fitting };
        Self { entries, position: page.legend, columns, entry_width, page_width: page.width }
    }

    /// Returns the right end of the chart.
    pub(super) fn chart_right(&self) -> f64 {
        let at_right = self.position == LegendPosition::Right && !self.entries.is_empty();
        if at_right { self.page_width - self.entry_width } else { self.page_width }
    }

    /// Draws a legend that is above or to the right of the chart. Returns the y coordinate where the chart starts.
    pub(super) fn draw_before(&self, drawing: &mut Drawing) -> f64 {
        match self.position {
            LegendPosition::Top => self.draw(drawing, MARGIN, MARGIN),
            LegendPosition::Right => {
                self.draw(drawing, self.chart_right() + MARGIN, MARGIN);
                MARGIN
            }
            LegendPosition::Bottom | LegendPosition::None => MARGIN,
        }
    }

    /// Draws a legend that is below the chart. Returns the y coordinate where the notes start.
    pub(super) fn draw_after(&self, drawing: &mut Drawing, y: f64) -> f64 {
        match self.position {
            LegendPosition::Bottom => self.draw(drawing, MARGIN, y + 2.0),
            // The last entry of a long legend may be below the chart.
            LegendPosition::Right => y.max(MARGIN + self.entries.len() as f64 * ROW),
            LegendPosition::Top | LegendPosition::None => y,
        }
    }

    fn draw(&self, drawing: &mut Drawing, left: f64, top: f64) -> f64 {
        if self.entries.is_empty() {
            return top;
        }
        let rows = self.entries.len().div_ceil(self.columns);
        for (index, (name, sample)) in self.entries.iter().enumerate() {
            let (column, row) = (index / rows, index % rows);
            let x = left + column as f64 * self.entry_width;
            let y = top + (row as f64 + 0.5) * ROW;
            sample(drawing, (x, y), (x + SAMPLE, y));
            drawing.text((x + SAMPLE + 3.0, y + TEXT * 0.35), Anchor::Start, TEXT, name);
        }
        top + rows as f64 * ROW + 3.0
    }
}

/// Draws the notes below a chart that ends at `y`. Returns the y coordinate of their end.
pub(super) fn notes(drawing: &mut Drawing, notes: &[String], mut y: f64) -> f64 {
    let room = drawing.width - 2.0 * MARGIN;
    for line in notes.iter().flat_map(|note| font::wrap(note, SMALL, room)) {
        y += NOTE_ROW;
        drawing.tinted_text((MARGIN, y), Anchor::Start, SMALL, Colour::DIM, &line);
    }
    y + MARGIN
}
