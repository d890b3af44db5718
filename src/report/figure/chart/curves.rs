//! Charts with two axes: one or several panels with curves.

use super::super::draw::{Anchor, Colour, Drawing, Fill, Point, Stroke, font};
use super::legend::{self, LegendSample};
use super::scale::AxisScale;
use super::style::{self, SeriesStyle};
use super::{MARGIN, ORACLE_MARK, ORACLE_NOTE, SMALL, TEXT, WIDTH};
use pipe_ml::metric::marked::{Marked, Protocol};

/// A chart with two axes.
pub struct Chart {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub panels: Vec<Panel>,
    /// The number of panels side by side.
    pub columns: usize,
    /// The height of each panel.
    pub height: f64,
    pub notes: Vec<String>,
}

/// One of the panels of a chart.
pub struct Panel {
    /// It gets the mark of the oracle protocol if all curves below it are oracle ones.
    pub heading: Option<String>,
    pub x: AxisScale,
    pub y: AxisScale,
    pub curves: Vec<Marked<Curve>>,
    /// A dotted line between two points, for comparison.
    pub guide: Option<[Point; 2]>,
}

/// A named curve with its band, markers and whiskers.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    pub name: String,
    pub style: SeriesStyle,
    /// x, and the lower and upper end.
    pub band: Vec<(f64, f64, f64)>,
    pub lines: Vec<CurveLine>,
    /// The points with a marker.
    pub markers: Vec<Point>,
    /// The points with a cross: a run ended there.
    pub ends: Vec<Point>,
    /// x, and the lower and upper end.
    pub whiskers: Vec<(f64, f64, f64)>,
}

/// A line of a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveLine {
    pub points: Vec<Point>,
    pub thin: bool,
}

impl Curve {
    /// Creates a curve without points.
    pub fn new(name: &str, style: SeriesStyle) -> Self {
        Self {
            name: name.to_owned(),
            style,
            band: Vec::new(),
            lines: Vec::new(),
            markers: Vec::new(),
            ends: Vec::new(),
            whiskers: Vec::new(),
        }
    }

    /// Returns every point that the axes have to include.
    fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let spans = self.band.iter().chain(&self.whiskers);
        let spans = spans.flat_map(|&(x, low, high)| [(x, low), (x, high)]);
        let lines = self.lines.iter().flat_map(|line| line.points.iter().copied());
        spans.chain(lines).chain(self.markers.iter().copied()).chain(self.ends.iter().copied())
    }
}

/// Returns the x or y values of all curves, for their scale.
pub fn values(curves: &[Marked<Curve>], of: fn(Point) -> f64) -> Vec<f64> {
    // Only the range of the values is used; the layout marks the values themselves.
    curves.iter().flat_map(|curve| curve.as_ref().reveal().1.points().map(of)).collect()
}

/// The rectangle that a panel's data is drawn in.
#[derive(Clone, Copy)]
struct PanelFrame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl PanelFrame {
    /// Returns the position of a data point in the drawing.
    fn position(self, panel: &Panel, (x, y): Point) -> Point {
        (
            self.left + panel.x.position(x) * (self.right - self.left),
            self.bottom - panel.y.position(y) * (self.bottom - self.top),
        )
    }
}

const TICK: f64 = 2.5;
const HEADING: f64 = 11.0;
const BELOW: f64 = TICK + 2.0 + SMALL + 3.0;

impl Chart {
    /// Lays the chart out.
    pub fn draw(&self) -> Drawing {
        let mut drawing =
            Drawing { width: WIDTH, height: 0.0, title: self.title.clone(), shapes: Vec::new() };
        let mut top = legend::draw(&mut drawing, &self.legend()) + 2.0;
        let first_top = top;
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let tick_labels = self.panels.iter().flat_map(|panel| &panel.y.ticks);
        let widest = tick_labels.map(|tick| font::width(&tick.label, SMALL)).fold(0.0, f64::max);
        let label_room = MARGIN + TEXT + 2.0;
        let cell = (WIDTH - label_room - MARGIN) / columns as f64;
        for row in self.panels.chunks(columns) {
            let heading = if row.iter().any(|panel| panel.heading.is_some()) { HEADING } else { 0.0 };
            for (column, panel) in row.iter().enumerate() {
                let left = label_room + column as f64 * cell;
                let frame = PanelFrame {
                    left: left + widest + TICK + 2.0,
                    right: left + cell - 5.0,
                    top: top + heading,
                    bottom: top + heading + self.height,
                };
                panel.draw(&mut drawing, frame);
            }
            top += heading + self.height + BELOW;
        }
        let middle = (label_room + widest + TICK + 2.0 + WIDTH - MARGIN - 5.0) / 2.0;
        let below = top + TEXT * 0.75;
        drawing.text((middle, below), Anchor::Middle, TEXT, &font::clip(&self.x_label, TEXT, WIDTH * 0.8));
        let (height, y_middle) = (top - BELOW - first_top, (first_top + top - BELOW) / 2.0);
        let y_label = font::clip(&self.y_label, TEXT, height.max(60.0) + BELOW);
        drawing.upward_text((MARGIN + TEXT * 0.75, y_middle), TEXT, &y_label);
        drawing.height = legend::notes(&mut drawing, &self.all_notes(), below + 3.0);
        drawing
    }

    fn all_notes(&self) -> Vec<String> {
        let mut curves = self.panels.iter().flat_map(|panel| &panel.curves);
        let oracle = curves.any(|curve| curve.protocol() == Protocol::Oracle);
        let note = oracle.then(|| ORACLE_NOTE.to_owned());
        self.notes.iter().cloned().chain(note).collect()
    }

    /// Returns the legend. A curve that is in several panels is listed once.
    fn legend(&self) -> Vec<(String, LegendSample<'_>)> {
        let mut entries: Vec<(String, LegendSample)> = Vec::new();
        for (panel, curve) in
            self.panels.iter().flat_map(|panel| panel.curves.iter().map(move |c| (panel, c)))
        {
            let (protocol, curve) = curve.as_ref().reveal();
            let name =
                if panel.marks_heading() { curve.name.clone() } else { marked_name(protocol, &curve.name) };
            let empty = curve.points().next().is_none();
            let name = if empty { format!("{name} (no data)") } else { name };
            if curve.name.is_empty() || entries.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let style = curve.style;
            let has_line = !curve.lines.is_empty() || curve.markers.len() > 1;
            let has_marker = !curve.markers.is_empty();
            let sample = move |drawing: &mut Drawing, from: Point, to: Point| {
                if has_line {
                    drawing.line(vec![from, to], style.stroke(1.1));
                }
                if has_marker {
                    let middle = ((from.0 + to.0) / 2.0, from.1);
                    style::marker(drawing, middle, style, protocol == Protocol::Oracle);
                }
            };
            entries.push((name, Box::new(sample)));
        }
        entries
    }
}

/// Returns the name with its mark. Long names are shortened before the mark is added, so that it is always shown.
fn marked_name(protocol: Protocol, name: &str) -> String {
    match protocol {
        Protocol::Honest => name.to_owned(),
        Protocol::Oracle => format!("{}{ORACLE_MARK}", font::clip(name, TEXT, WIDTH * 0.75)),
    }
}

impl Panel {
    /// Whether the heading has the mark of the oracle protocol for all curves below it.
    fn marks_heading(&self) -> bool {
        let oracle = |curve: &Marked<Curve>| curve.protocol() == Protocol::Oracle;
        self.heading.is_some() && !self.curves.is_empty() && self.curves.iter().all(oracle)
    }

    fn draw(&self, drawing: &mut Drawing, frame: PanelFrame) {
        let PanelFrame { left, right, top, bottom } = frame;
        let axis = Stroke::solid(Colour::BLACK, 0.6);
        for tick in &self.y.ticks {
            let y = frame.position(self, (0.0, tick.value)).1;
            drawing.line(vec![(left, y), (right, y)], Stroke::solid(Colour::FAINT, 0.5));
            drawing.line(vec![(left - TICK, y), (left, y)], axis);
            drawing.text((left - TICK - 1.5, y + SMALL * 0.35), Anchor::End, SMALL, &tick.label);
        }
        let mut taken = f64::NEG_INFINITY;
        for tick in &self.x.ticks {
            let x = frame.position(self, (tick.value, 0.0)).0;
            drawing.line(vec![(x, bottom), (x, bottom + TICK)], axis);
            let half = font::width(&tick.label, SMALL) / 2.0;
            if x - half > taken && x + half <= WIDTH {
                let at = (x, bottom + TICK + 1.0 + SMALL * 0.8);
                drawing.text(at, Anchor::Middle, SMALL, &tick.label);
                taken = x + half + 2.0;
            }
        }
        for &value in &self.y.minor {
            let y = frame.position(self, (0.0, value)).1;
            drawing.line(vec![(left - TICK / 2.0, y), (left, y)], axis);
        }
        for &value in &self.x.minor {
            let x = frame.position(self, (value, 0.0)).0;
            drawing.line(vec![(x, bottom), (x, bottom + TICK / 2.0)], axis);
        }
        drawing.line(vec![(left, top), (left, bottom), (right, bottom)], axis);
        if let Some(heading) = &self.heading {
            let mark = if self.marks_heading() { ORACLE_MARK } else { "" };
            let heading = font::clip(heading, SMALL, right - left - SMALL) + mark;
            drawing.text((left, top - 3.5), Anchor::Start, SMALL, &heading);
        }
        if let Some(guide) = self.guide {
            let points = guide.map(|point| frame.position(self, point)).to_vec();
            drawing.line(points, Stroke { colour: Colour::DIM, width: 0.6, dash: &[1.0, 1.5] });
        }
        if self.curves.iter().all(|curve| curve.as_ref().reveal().1.points().next().is_none()) {
            let middle = ((left + right) / 2.0, (top + bottom) / 2.0);
            return drawing.tinted_text(middle, Anchor::Middle, TEXT, Colour::DIM, "no data");
        }
        self.draw_curves(drawing, frame);
    }

    fn draw_curves(&self, drawing: &mut Drawing, frame: PanelFrame) {
        let position = |point| frame.position(self, point);
        // Areas come first, so that they do not cover lines.
        for curve in &self.curves {
            let (_, curve) = curve.as_ref().reveal();
            if curve.band.len() > 1 {
                let upper = curve.band.iter().map(|&(x, _, high)| position((x, high)));
                let lower = curve.band.iter().rev().map(|&(x, low, _)| position((x, low)));
                let fill = Fill { colour: curve.style.colour, opacity: 0.15 };
                drawing.area(upper.chain(lower).collect(), fill, None);
            }
        }
        for curve in &self.curves {
            let (_, curve) = curve.as_ref().reveal();
            for line in curve.lines.iter().filter(|line| line.points.len() > 1) {
                let points = line.points.iter().map(|&point| position(point)).collect();
                drawing.line(points, curve.style.stroke(if line.thin { 0.5 } else { 1.1 }));
            }
            // A band with a single point has no area.
            let narrow = if curve.band.len() == 1 { curve.band.as_slice() } else { &[] };
            for &(x, low, high) in curve.whiskers.iter().chain(narrow) {
                whisker(drawing, position((x, low)), position((x, high)), curve.style.colour);
            }
        }
        for curve in &self.curves {
            let (protocol, curve) = curve.as_ref().reveal();
            for &point in &curve.markers {
                style::marker(drawing, position(point), curve.style, protocol == Protocol::Oracle);
            }
            for &point in &curve.ends {
                style::cross(drawing, position(point), curve.style.colour);
            }
        }
    }
}

fn whisker(drawing: &mut Drawing, low: Point, high: Point, colour: Colour) {
    let stroke = Stroke::solid(colour, 0.7);
    drawing.line(vec![low, high], stroke);
    for (x, y) in [low, high] {
        drawing.line(vec![(x - 1.5, y), (x + 1.5, y)], stroke);
    }
}
