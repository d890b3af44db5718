//! Bar charts: one or several horizontal bars for each name, with the value as text behind them.

use super::super::draw::{Anchor, Colour, Drawing, Point, Stroke, font};
use super::format::Page;
use super::legend::{self, Legend, LegendSample};
use super::scale::AxisScale;
use super::style::{self, BarStyle};
use super::{MARGIN, ORACLE_MARK, ORACLE_NOTE, SMALL, TEXT};
use pipe_ml::metric::marked::{Marked, Protocol};

/// A bar chart.
pub struct BarChart {
    pub title: String,
    /// Bars that are drawn below each other, each section with its own axis.
    pub sections: Vec<BarSection>,
    /// The names of the bars of a group, if they are series.
    pub series: Vec<(String, BarStyle)>,
    pub notes: Vec<String>,
}

/// Bars with a common axis.
pub struct BarSection {
    pub heading: Option<String>,
    pub x_label: String,
    pub scale: AxisScale,
    pub groups: Vec<BarGroup>,
}

/// The bars of one name.
pub struct BarGroup {
    pub name: String,
    pub bars: Vec<Marked<Bar>>,
}

/// The value of a bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub style: BarStyle,
    pub value: f64,
    /// The ends of the error bar.
    pub interval: Option<(f64, f64)>,
    /// The value in print, without its mark.
    pub text: String,
}

impl Bar {
    /// Returns the value and the ends of the error bar, for the scale.
    pub fn ends(&self) -> impl Iterator<Item = f64> + use<> {
        let (low, high) = self.interval.unwrap_or((self.value, self.value));
        [self.value, low, high].into_iter()
    }
}

const BAR: f64 = 8.0;
const BETWEEN_BARS: f64 = 1.5;
const BETWEEN_GROUPS: f64 = 6.0;
const BETWEEN_SECTIONS: f64 = 6.0;
const HEADING: f64 = 11.0;
const TICK: f64 = 2.5;
/// The largest share of the page that the names take.
const NAME_SHARE: f64 = 0.36;

impl BarChart {
    fn groups(&self) -> impl Iterator<Item = &BarGroup> {
        self.sections.iter().flat_map(|section| &section.groups)
    }

    fn bars(&self) -> impl Iterator<Item = &Marked<Bar>> {
        self.groups().flat_map(|group| &group.bars)
    }

    fn has(&self, protocol: Protocol) -> bool {
        self.bars().any(|bar| bar.protocol() == protocol)
    }

    /// Lays the chart out.
    pub(super) fn draw(&self, page: Page) -> Drawing {
        let mut drawing =
            Drawing { width: page.width, height: 0.0, title: self.title.clone(), shapes: Vec::new() };
        let legend = Legend::new(self.legend(), page);
        let mut top = legend.draw_before(&mut drawing) + 3.0;
        let clipped = |group: &BarGroup| font::clip(&group.name, TEXT, page.width * NAME_SHARE);
        let name_width = self.groups().map(|group| font::width(&clipped(group), TEXT)).fold(0.0, f64::max);
        let texts = self.bars().map(value_text);
        let text_width = texts.map(|text| font::width(&text, SMALL)).fold(0.0, f64::max);
        let names_end = MARGIN + name_width;
        let frame = BarFrame {
            names_end,
            left: names_end + 4.0,
            right: legend.chart_right() - MARGIN - text_width - 5.0,
        };
        let mut below = top;
        for section in &self.sections {
            below = section.draw(&mut drawing, frame, top, clipped);
            top = below + BETWEEN_SECTIONS;
        }
        let below = legend.draw_after(&mut drawing, below + 3.0);
        let note = self.has(Protocol::Oracle).then(|| ORACLE_NOTE.to_owned());
        let notes: Vec<String> = self.notes.iter().cloned().chain(note).collect();
        drawing.height = legend::notes(&mut drawing, &notes, below);
        drawing
    }

    /// Returns the legend: the series, if there are any, and the meaning of hatched bars, if some are hatched.
    fn legend(&self) -> Vec<(String, LegendSample<'_>)> {
        let sample = |style: BarStyle, hatched| -> LegendSample<'_> {
            Box::new(move |drawing: &mut Drawing, from: Point, to: Point| {
                let (upper, lower) = ((from.0, from.1 - 3.0), (to.0, to.1 + 3.0));
                style::bar(drawing, upper, lower, style, hatched);
            })
        };
        let series = self.series.iter().map(|(name, style)| (name.clone(), sample(*style, false)));
        let grey = BarStyle::solid(Colour::DIM);
        let is_marked = self.has(Protocol::Oracle);
        let honest = is_marked && self.has(Protocol::Honest);
        let honest = honest.then(|| ("honest".to_owned(), sample(grey, false)));
        let oracle = is_marked.then(|| (format!("oracle{ORACLE_MARK}"), sample(grey, true)));
        series.chain(honest).chain(oracle).collect()
    }
}

/// The positions of names and bars, which all sections share.
#[derive(Clone, Copy)]
struct BarFrame {
    names_end: f64,
    left: f64,
    right: f64,
}

impl BarSection {
    /// Draws the section. Returns the y coordinate of its end.
    fn draw(
        &self,
        drawing: &mut Drawing,
        frame: BarFrame,
        top: f64,
        name: impl Fn(&BarGroup) -> String,
    ) -> f64 {
        let BarFrame { names_end, left, right } = frame;
        let position = |value: f64| left + self.scale.position(value) * (right - left);
        let top = top + if self.heading.is_some() { HEADING } else { 0.0 };
        if let Some(heading) = &self.heading {
            let heading = font::clip(heading, SMALL, right - left);
            drawing.text((left, top - 3.5), Anchor::Start, SMALL, &heading);
        }
        let height: f64 = self.groups.iter().map(BarGroup::height).sum::<f64>().max(20.0) + BETWEEN_GROUPS;
        let bottom = top + height;
        let axis = Stroke::solid(Colour::BLACK, 0.6);
        for tick in &self.scale.ticks {
            let x = position(tick.value);
            drawing.line(vec![(x, top), (x, bottom)], Stroke::solid(Colour::FAINT, 0.5));
            drawing.line(vec![(x, bottom), (x, bottom + TICK)], axis);
            let at = (x, bottom + TICK + 1.0 + SMALL * 0.8);
            drawing.text(at, Anchor::Middle, SMALL, &tick.label);
        }
        let mut y = top + BETWEEN_GROUPS;
        for group in &self.groups {
            let rows = group.height() - BETWEEN_GROUPS;
            drawing.text((names_end, y + rows / 2.0 + TEXT * 0.35), Anchor::End, TEXT, &name(group));
            for bar in &group.bars {
                draw_bar(drawing, bar, y, &position, right);
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
        below
    }
}

impl BarGroup {
    fn height(&self) -> f64 {
        self.bars.len() as f64 * (BAR + BETWEEN_BARS) - BETWEEN_BARS + BETWEEN_GROUPS
    }
}

fn draw_bar(
    drawing: &mut Drawing,
    marked: &Marked<Bar>,
    top: f64,
    position: &impl Fn(f64) -> f64,
    right: f64,
) {
    let (protocol, bar) = marked.as_ref().reveal();
    let (from, to) = (position(bar.value.min(0.0)), position(bar.value.max(0.0)));
    style::bar(drawing, (from, top), (to, top + BAR), bar.style, protocol == Protocol::Oracle);
    let middle = top + BAR / 2.0;
    if let Some((low, high)) = bar.interval {
        let ends = [low, high].map(position);
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

fn value_text(bar: &Marked<Bar>) -> String {
    let (protocol, bar) = bar.as_ref().reveal();
    let mark = if protocol == Protocol::Oracle { ORACLE_MARK } else { "" };
    format!("{}{mark}", bar.text)
}
