//! Bar charts: one or several horizontal bars for each name, with the value as text behind them.

use super::super::draw::{Anchor, Colour, Drawing, Point, Stroke, font};
use super::legend::{self, LegendSample};
use super::scale::{AxisScale, Bounds};
use super::style;
use super::{MARGIN, ORACLE_MARK, ORACLE_NOTE, SMALL, TEXT, WIDTH};
use pipe_ml::metric::marked::{Marked, Protocol};

/// A bar chart.
pub struct BarChart {
    pub title: String,
    pub x_label: String,
    pub bounds: Bounds,
    pub groups: Vec<BarGroup>,
    pub notes: Vec<String>,
}

/// The bars of one name.
pub struct BarGroup {
    pub name: String,
    pub colour: Colour,
    pub bars: Vec<Marked<Bar>>,
}

/// The value of a bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    pub value: f64,
    /// The length of the error bar to each side.
    pub spread: Option<f64>,
}

const BAR: f64 = 8.0;
const BETWEEN_BARS: f64 = 1.5;
const BETWEEN_GROUPS: f64 = 6.0;
const TICK: f64 = 2.5;

impl BarChart {
    fn bars(&self) -> impl Iterator<Item = &Marked<Bar>> {
        self.groups.iter().flat_map(|group| &group.bars)
    }

    fn has(&self, protocol: Protocol) -> bool {
        self.bars().any(|bar| bar.protocol() == protocol)
    }

    /// Lays the chart out.
    pub fn draw(&self) -> Drawing {
        let mut drawing =
            Drawing { width: WIDTH, height: 0.0, title: self.title.clone(), shapes: Vec::new() };
        let top = legend::draw(&mut drawing, &self.legend()) + 3.0;
        let names: Vec<String> =
            self.groups.iter().map(|group| font::clip(&group.name, TEXT, WIDTH * 0.36)).collect();
        let names_end = MARGIN + names.iter().map(|name| font::width(name, TEXT)).fold(0.0, f64::max);
        let texts = self.bars().map(|bar| value_text(*bar));
        let text_width = texts.map(|text| font::width(&text, SMALL)).fold(0.0, f64::max);
        let (left, right) = (names_end + 4.0, WIDTH - MARGIN - text_width - 5.0);

        let ends = self.bars().flat_map(|bar| {
            let (_, bar) = bar.reveal();
            let spread = bar.spread.unwrap_or(0.0);
            [bar.value - spread, bar.value + spread]
        });
        let scale = AxisScale::linear(ends, self.bounds, 5);
        let position = |value: f64| left + scale.position(value) * (right - left);
        let height: f64 = self.groups.iter().map(BarGroup::height).sum::<f64>().max(20.0) + BETWEEN_GROUPS;
        let bottom = top + height;
        let axis = Stroke::solid(Colour::BLACK, 0.6);
        for tick in &scale.ticks {
            let x = position(tick.value);
            drawing.line(vec![(x, top), (x, bottom)], Stroke::solid(Colour::FAINT, 0.5));
            drawing.line(vec![(x, bottom), (x, bottom + TICK)], axis);
            let at = (x, bottom + TICK + 1.0 + SMALL * 0.8);
            drawing.text(at, Anchor::Middle, SMALL, &tick.label);
        }
        let mut y = top + BETWEEN_GROUPS;
        for (group, name) in self.groups.iter().zip(&names) {
            let rows = group.height() - BETWEEN_GROUPS;
            drawing.text((names_end, y + rows / 2.0 + TEXT * 0.35), Anchor::End, TEXT, name);
            for bar in &group.bars {
                group.draw_bar(&mut drawing, *bar, y, &position, right);
                y += BAR + BETWEEN_BARS;
            }
            y += BETWEEN_GROUPS - BETWEEN_BARS;
        }
        if self.groups.is_empty() {
            let middle = ((left + right) / 2.0, (top + bottom) / 2.0);
            drawing.tinted_text(middle, Anchor::Middle, TEXT, Colour::DIM, "no data");
        }
        let zero = position(0.0);
        drawing.line(vec![(zero, top), (zero, bottom)], axis);
        drawing.line(vec![(left, bottom), (right, bottom)], axis);
        let below = bottom + TICK + SMALL + 2.0 + TEXT;
        drawing.text(((left + right) / 2.0, below), Anchor::Middle, TEXT, &self.x_label);
        let note = self.has(Protocol::Oracle).then(|| ORACLE_NOTE.to_owned());
        let notes: Vec<String> = self.notes.iter().cloned().chain(note).collect();
        drawing.height = legend::notes(&mut drawing, &notes, below + 3.0);
        drawing
    }

    /// Returns the legend, which is needed only if some bars are hatched.
    fn legend(&self) -> Vec<(String, LegendSample<'_>)> {
        if !self.has(Protocol::Oracle) {
            return Vec::new();
        }
        let sample = |hatched| -> LegendSample<'_> {
            Box::new(move |drawing: &mut Drawing, from: Point, to: Point| {
                let (upper, lower) = ((from.0, from.1 - 3.0), (to.0, to.1 + 3.0));
                style::bar(drawing, upper, lower, Colour::DIM, hatched);
            })
        };
        let honest = self.has(Protocol::Honest).then(|| ("honest".to_owned(), sample(false)));
        honest.into_iter().chain([(format!("oracle{ORACLE_MARK}"), sample(true))]).collect()
    }
}

impl BarGroup {
    fn height(&self) -> f64 {
        self.bars.len() as f64 * (BAR + BETWEEN_BARS) - BETWEEN_BARS + BETWEEN_GROUPS
    }

    fn draw_bar(
        &self,
        drawing: &mut Drawing,
        marked: Marked<Bar>,
        top: f64,
        position: &impl Fn(f64) -> f64,
        right: f64,
    ) {
        let (protocol, bar) = marked.reveal();
        let (from, to) = (position(bar.value.min(0.0)), position(bar.value.max(0.0)));
        style::bar(drawing, (from, top), (to, top + BAR), self.colour, protocol == Protocol::Oracle);
        let middle = top + BAR / 2.0;
        if let Some(spread) = bar.spread {
            let ends = [bar.value - spread, bar.value + spread].map(position);
            // White below black, so that it can be seen on the bar and beside it.
            for stroke in [Stroke::solid(Colour::WHITE, 2.0), Stroke::solid(Colour::BLACK, 0.8)] {
                drawing.line(vec![(ends[0], middle), (ends[1], middle)], stroke);
                for x in ends {
                    drawing.line(vec![(x, middle - 1.8), (x, middle + 1.8)], stroke);
                }
            }
        }
        let at = (right + 5.0, middle + SMALL * 0.35);
        drawing.text(at, Anchor::Start, SMALL, &value_text(marked));
    }
}

fn value_text(bar: Marked<Bar>) -> String {
    let (protocol, bar) = bar.reveal();
    let mark = if protocol == Protocol::Oracle { ORACLE_MARK } else { "" };
    match bar.spread {
        Some(spread) => format!("{:.3} ± {spread:.3}{mark}", bar.value),
        None => format!("{:.3}{mark}", bar.value),
    }
}
