//! Charts with two axes: a grid of panels with curves or with cells.

use super::super::draw::{Anchor, Colour, Drawing, Fill, Point, Stroke, font};
use super::format::Page;
use super::legend::{self, Legend, LegendSample};
use super::scale::AxisScale;
use super::style::{self, SeriesStyle};
use super::{MARGIN, ORACLE_MARK, ORACLE_NOTE, SMALL, TEXT};
use pipe_ml::metric::marked::{Marked, Protocol};

/// A chart with two axes.
#[derive(Default)]
pub struct Chart {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    /// Row by row; `None` leaves a position of the grid blank.
    pub panels: Vec<Option<Panel>>,
    /// The number of panels side by side.
    pub columns: usize,
    /// Whether the panels below each other have the same x axis, so that the lowest one shows its labels for all.
    pub share_x: bool,
    /// Whether the panels side by side have the same y axis, so that the first one shows its labels for all.
    pub share_y: bool,
    /// The height of each panel.
    pub height: f64,
    pub notes: Vec<String>,
}

/// One of the panels of a chart.
pub struct Panel {
    /// It gets the mark of the oracle protocol if everything below it was measured under the oracle protocol.
    pub heading: Option<String>,
    pub x: AxisScale,
    pub y: AxisScale,
    pub curves: Vec<Marked<Curve>>,
    /// The cells of a heat map.
    pub cells: Option<Marked<Vec<HeatCell>>>,
    /// Dotted lines, for comparison.
    pub guides: Vec<[Point; 2]>,
}

/// A named curve with its band, markers and whiskers.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    pub name: String,
    pub style: SeriesStyle,
    /// x, and the lower and upper end.
    pub band: Vec<(f64, f64, f64)>,
    /// Whether the band has edges, so that bands on top of each other can be told apart.
    pub band_edges: bool,
    pub lines: Vec<CurveLine>,
    /// The points with a marker.
    pub markers: Vec<Point>,
    /// The points with a cross: a run ended there.
    pub ends: Vec<Point>,
    /// x, and the lower and upper end.
    pub whiskers: Vec<(f64, f64, f64)>,
    /// y, and the left and right end.
    pub side_whiskers: Vec<(f64, f64, f64)>,
}

/// A line of a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveLine {
    pub points: Vec<Point>,
    pub thin: bool,
}

/// A cell of a heat map.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatCell {
    pub column: usize,
    pub row: usize,
    /// From 0, which is white, to 1.
    pub shade: f64,
    pub text: String,
}

impl Curve {
    /// Creates a curve without points.
    pub fn new(name: &str, style: SeriesStyle) -> Self {
        Self {
            name: name.to_owned(),
            style,
            band: Vec::new(),
            band_edges: false,
            lines: Vec::new(),
            markers: Vec::new(),
            ends: Vec::new(),
            whiskers: Vec::new(),
            side_whiskers: Vec::new(),
        }
    }

    /// Returns every point that the axes have to include.
    fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let spans = self.band.iter().chain(&self.whiskers);
        let spans = spans.flat_map(|&(x, low, high)| [(x, low), (x, high)]);
        let side_spans = self.side_whiskers.iter().flat_map(|&(y, left, right)| [(left, y), (right, y)]);
        let lines = self.lines.iter().flat_map(|line| line.points.iter().copied());
        let points = self.markers.iter().chain(&self.ends).copied();
        spans.chain(side_spans).chain(lines).chain(points)
    }
}

/// Returns the x or y values of all curves, for their scale.
pub fn values<'a>(curves: impl IntoIterator<Item = &'a Marked<Curve>>, of: fn(Point) -> f64) -> Vec<f64> {
    // Only the range of the values is used; the layout marks the values themselves.
    curves.into_iter().flat_map(|curve| curve.as_ref().reveal().1.points().map(of)).collect()
}

/// Returns one panel for each protocol, honest first, with their protocol as heading. Curves of a single protocol get one
/// panel without a heading.
pub fn panels_by_protocol(curves: Vec<Marked<Curve>>, x: &AxisScale, y: &AxisScale) -> Vec<Option<Panel>> {
    let (honest, oracle): (Vec<_>, Vec<_>) =
        curves.into_iter().partition(|curve| curve.protocol() == Protocol::Honest);
    let is_both = !honest.is_empty() && !oracle.is_empty();
    let panel = |curves: Vec<Marked<Curve>>| {
        let heading = curves.first().map(|curve| curve.protocol().name().to_owned());
        Some(Panel { heading: heading.filter(|_| is_both), ..Panel::new(x.clone(), y.clone(), curves) })
    };
    let shown = [honest, oracle].into_iter().filter(|curves| !curves.is_empty());
    let panels: Vec<_> = shown.map(panel).collect();
    if panels.is_empty() { vec![panel(Vec::new())] } else { panels }
}

/// The rectangle that a panel's data is drawn in.
#[derive(Clone, Copy)]
struct PanelFrame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    page_width: f64,
    has_x_labels: bool,
    has_y_labels: bool,
}

impl PanelFrame {
    /// Returns the point of the drawing at a position between 0 and 1 on both axes.
    fn at(self, (x, y): Point) -> Point {
        (self.left + x * (self.right - self.left), self.bottom - y * (self.bottom - self.top))
    }

    /// Returns the position of a data point in the drawing.
    fn position(self, panel: &Panel, (x, y): Point) -> Point {
        self.at((panel.x.position(x), panel.y.position(y)))
    }
}

const TICK: f64 = 2.5;
const HEADING: f64 = 11.0;
/// The distance between panels side by side.
const BETWEEN: f64 = 12.0;
/// The largest share of the page that tick labels of the y axis take.
const LABEL_SHARE: f64 = 0.3;

impl Chart {
    /// Lays the chart out.
    pub(super) fn draw(&self, page: Page) -> Drawing {
        let mut drawing =
            Drawing { width: page.width, height: 0.0, title: self.title.clone(), shapes: Vec::new() };
        let legend = Legend::new(self.legend(), page);
        let right = legend.chart_right();
        let mut top = legend.draw_before(&mut drawing) + 2.0;
        let first_top = top;
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let tick_labels = self.panels.iter().flatten().flat_map(|panel| &panel.y.ticks);
        let widest = tick_labels.map(|tick| font::width(&tick.label, SMALL)).fold(0.0, f64::max);
        let labels = widest.min(page.width * LABEL_SHARE) + TICK + 2.0;
        let label_room = MARGIN + if self.y_label.is_empty() { 0.0 } else { TEXT + 2.0 };
        let left_of = |column: usize| if column == 0 || !self.share_y { labels } else { BETWEEN };
        let all_labels: f64 = (0..columns).map(left_of).sum();
        let panel_width = (right - label_room - all_labels - MARGIN - 5.0 * columns as f64) / columns as f64;
        let lines = |panel: &Panel| panel.x.ticks.iter().map(|tick| tick.label.lines().count()).max();
        let most_lines = self.panels.iter().flatten().filter_map(lines).max().unwrap_or(1);
        let below = TICK + 3.0 + (SMALL + 1.0) * most_lines as f64 + 1.0;
        let rows: Vec<&[Option<Panel>]> = self.panels.chunks(columns).collect();
        for (at, row) in rows.iter().enumerate() {
            let heading = if row.iter().flatten().any(|p| p.heading.is_some()) { HEADING } else { 0.0 };
            let mut left = label_room;
            for (column, panel) in row.iter().enumerate() {
                left += left_of(column);
                let lower = rows.get(at + 1).and_then(|row| row.get(column)).is_some_and(Option::is_some);
                let frame = PanelFrame {
                    left,
                    right: left + panel_width,
                    top: top + heading,
                    bottom: top + heading + self.height,
                    page_width: page.width,
                    has_x_labels: !self.share_x || !lower,
                    has_y_labels: !self.share_y || column == 0,
                };
                left += panel_width + 5.0;
                if let Some(panel) = panel {
                    panel.draw(&mut drawing, frame, labels - TICK - 2.0);
                }
            }
            let is_last = at + 1 == rows.len();
            top += heading + self.height + if self.share_x && !is_last { TICK + 3.0 } else { below };
        }
        let middle = (label_room + labels + right - MARGIN - 5.0) / 2.0;
        let mut bottom = top;
        if !self.x_label.is_empty() {
            bottom = top + TEXT * 0.75;
            let x_label = font::clip(&self.x_label, TEXT, (right - label_room) * 0.9);
            drawing.text((middle, bottom), Anchor::Middle, TEXT, &x_label);
        }
        let (height, y_middle) = (top - below - first_top, (first_top + top - below) / 2.0);
        let room = (height.max(60.0) + below).min(2.0 * (y_middle - MARGIN));
        let y_label = font::clip(&self.y_label, TEXT, room);
        drawing.upward_text((MARGIN + TEXT * 0.75, y_middle), TEXT, &y_label);
        bottom = legend.draw_after(&mut drawing, bottom + 3.0);
        drawing.height = legend::notes(&mut drawing, &self.all_notes(), bottom);
        drawing
    }

    fn all_notes(&self) -> Vec<String> {
        let oracle = self.panels.iter().flatten().any(|panel| panel.protocols().contains(&Protocol::Oracle));
        let note = oracle.then(|| ORACLE_NOTE.to_owned());
        self.notes.iter().cloned().chain(note).collect()
    }

    /// Returns the legend. A curve that is in several panels is listed once.
    fn legend(&self) -> Vec<(String, LegendSample<'_>)> {
        let mut entries: Vec<(String, LegendSample)> = Vec::new();
        let panels = self.panels.iter().flatten();
        for (panel, curve) in panels.flat_map(|panel| panel.curves.iter().map(move |c| (panel, c))) {
            let (protocol, curve) = curve.as_ref().reveal();
            let is_marked = panel.marks_heading();
            let name = if is_marked { curve.name.clone() } else { marked_name(protocol, &curve.name) };
            let empty = curve.points().next().is_none();
            let name = if empty { format!("{name} (no data)") } else { name };
            if curve.name.is_empty() || entries.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let style = curve.style;
            let has_line = !curve.lines.is_empty();
            let has_marker = !curve.markers.is_empty();
            let hollow = protocol == Protocol::Oracle && !is_marked;
            let sample = move |drawing: &mut Drawing, from: Point, to: Point| {
                if has_line {
                    drawing.line(vec![from, to], style.stroke(1.1));
                }
                if has_marker {
                    style::marker(drawing, ((from.0 + to.0) / 2.0, from.1), style, hollow);
                }
            };
            entries.push((name, Box::new(sample)));
        }
        entries
    }
}

/// Returns the name with its mark. Long names are shortened before the mark is added, so that it is always shown.
fn marked_name(protocol: Protocol, name: &str) -> String {
    const LONGEST: f64 = 178.0;
    match protocol {
        Protocol::Honest => name.to_owned(),
        Protocol::Oracle => format!("{}{ORACLE_MARK}", font::clip(name, TEXT, LONGEST)),
    }
}

impl Panel {
    /// Creates a panel without a heading.
    pub fn new(x: AxisScale, y: AxisScale, curves: Vec<Marked<Curve>>) -> Self {
        Self { heading: None, x, y, curves, cells: None, guides: Vec::new() }
    }

    fn protocols(&self) -> Vec<Protocol> {
        let cells = self.cells.iter().map(Marked::protocol);
        self.curves.iter().map(Marked::protocol).chain(cells).collect()
    }

    /// Whether the heading has the mark of the oracle protocol for everything below it.
    fn marks_heading(&self) -> bool {
        let protocols = self.protocols();
        let all_oracle = protocols.iter().all(|&protocol| protocol == Protocol::Oracle);
        self.heading.is_some() && !protocols.is_empty() && all_oracle
    }

    fn draw(&self, drawing: &mut Drawing, frame: PanelFrame, label_width: f64) {
        let PanelFrame { left, right, top, bottom, .. } = frame;
        let axis = Stroke::solid(Colour::BLACK, 0.6);
        for tick in &self.y.ticks {
            let y = frame.position(self, (0.0, tick.value)).1;
            if self.cells.is_none() {
                drawing.line(vec![(left, y), (right, y)], Stroke::solid(Colour::FAINT, 0.5));
            }
            drawing.line(vec![(left - TICK, y), (left, y)], axis);
            if frame.has_y_labels {
                let label = font::clip(&tick.label, SMALL, label_width);
                drawing.text((left - TICK - 1.5, y + SMALL * 0.35), Anchor::End, SMALL, &label);
            }
        }
        let mut taken = f64::NEG_INFINITY;
        for tick in &self.x.ticks {
            let x = frame.position(self, (tick.value, 0.0)).0;
            drawing.line(vec![(x, bottom), (x, bottom + TICK)], axis);
            let widest = tick.label.lines().map(|line| font::width(line, SMALL)).fold(0.0, f64::max);
            let half = widest / 2.0;
            if frame.has_x_labels && x - half > taken && x + half <= frame.page_width {
                for (at, line) in tick.label.lines().enumerate() {
                    let y = bottom + TICK + 1.0 + SMALL * 0.8 + (SMALL + 1.0) * at as f64;
                    drawing.text((x, y), Anchor::Middle, SMALL, line);
                }
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
        if let Some(cells) = &self.cells {
            self.draw_cells(drawing, frame, cells.as_ref().reveal().1);
        }
        drawing.line(vec![(left, top), (left, bottom), (right, bottom)], axis);
        if let Some(heading) = &self.heading {
            let mark = if self.marks_heading() { ORACLE_MARK } else { "" };
            let heading = font::clip(heading, SMALL, right - left - SMALL) + mark;
            drawing.text((left, top - 3.5), Anchor::Start, SMALL, &heading);
        }
        for guide in &self.guides {
            let points = guide.map(|point| frame.position(self, point)).to_vec();
            drawing.line(points, Stroke { colour: Colour::DIM, width: 0.6, dash: &[1.0, 1.5] });
        }
        let no_points = self.curves.iter().all(|curve| curve.as_ref().reveal().1.points().next().is_none());
        if no_points && self.cells.is_none() {
            let middle = ((left + right) / 2.0, (top + bottom) / 2.0);
            return drawing.tinted_text(middle, Anchor::Middle, TEXT, Colour::DIM, "no data");
        }
        self.draw_curves(drawing, frame);
    }

    fn draw_cells(&self, drawing: &mut Drawing, frame: PanelFrame, cells: &[HeatCell]) {
        for cell in cells {
            let (column, row) = (cell.column as f64, cell.row as f64);
            let upper = frame.position(self, (column - 0.5, row + 0.5));
            let lower = frame.position(self, (column + 0.5, row - 0.5));
            let corners = vec![upper, (lower.0, upper.1), lower, (upper.0, lower.1)];
            let shade = style::shade(cell.shade);
            drawing.area(corners, Fill::solid(shade), Some(Stroke::solid(Colour::WHITE, 0.6)));
            let text = font::clip(&cell.text, SMALL, lower.0 - upper.0);
            let ink = if cell.shade > 0.55 { Colour::WHITE } else { Colour::BLACK };
            let at = ((upper.0 + lower.0) / 2.0, (upper.1 + lower.1) / 2.0 + SMALL * 0.35);
            drawing.tinted_text(at, Anchor::Middle, SMALL, ink, &text);
        }
    }

    fn draw_curves(&self, drawing: &mut Drawing, frame: PanelFrame) {
        let position = |point| frame.position(self, point);
        // Areas come first, so that they do not cover lines.
        for curve in &self.curves {
            let (_, curve) = curve.as_ref().reveal();
            if curve.band.len() > 1 {
                let upper: Vec<Point> = curve.band.iter().map(|&(x, _, high)| position((x, high))).collect();
                let lower: Vec<Point> = curve.band.iter().map(|&(x, low, _)| position((x, low))).collect();
                let opacity = if curve.band_edges { 0.1 } else { 0.15 };
                let fill = Fill { colour: curve.style.colour, opacity };
                drawing.area(upper.iter().chain(lower.iter().rev()).copied().collect(), fill, None);
                if curve.band_edges {
                    drawing.line(upper, curve.style.stroke(0.5));
                    drawing.line(lower, curve.style.stroke(0.5));
                }
            }
        }
        for curve in &self.curves {
            let (_, curve) = curve.as_ref().reveal();
            for line in curve.lines.iter().filter(|line| line.points.len() > 1) {
                for points in self.inside(&line.points) {
                    let points = points.into_iter().map(|point| frame.at(point)).collect();
                    drawing.line(points, curve.style.stroke(if line.thin { 0.5 } else { 1.1 }));
                }
            }
            // A band with a single point has no area.
            let narrow = if curve.band.len() == 1 { curve.band.as_slice() } else { &[] };
            let colour = curve.style.colour;
            for &(x, low, high) in curve.whiskers.iter().chain(narrow) {
                if self.shows((x, low)) || self.shows((x, high)) {
                    let (from, to) = (position((x, low)), position((x, high)));
                    style::whisker(drawing, from, to, (1.5, 0.0), colour);
                }
            }
            for &(y, low, high) in &curve.side_whiskers {
                if self.shows((low, y)) || self.shows((high, y)) {
                    let (from, to) = (position((low, y)), position((high, y)));
                    style::whisker(drawing, from, to, (0.0, 1.5), colour);
                }
            }
        }
        for curve in &self.curves {
            let (protocol, curve) = curve.as_ref().reveal();
            let hollow = protocol == Protocol::Oracle;
            for &point in curve.markers.iter().filter(|point| self.shows(**point)) {
                style::marker(drawing, position(point), curve.style, hollow);
            }
            for &point in curve.ends.iter().filter(|point| self.shows(**point)) {
                style::cross(drawing, position(point), curve.style.colour);
            }
        }
    }

    /// Whether a point is inside the ranges of both axes, or at most a rounding error outside.
    fn shows(&self, (x, y): Point) -> bool {
        let inside = |position: f64| (-1e-9..=1.0 + 1e-9).contains(&position);
        inside(self.x.unlimited_position(x)) && inside(self.y.unlimited_position(y))
    }

    /// Returns the parts of a line that are inside the ranges of both axes, as positions between 0 and 1.
    fn inside(&self, points: &[Point]) -> Vec<Vec<Point>> {
        let position = |&(x, y): &Point| (self.x.unlimited_position(x), self.y.unlimited_position(y));
        let positions: Vec<Point> = points.iter().map(position).collect();
        let mut parts: Vec<Vec<Point>> = Vec::new();
        for pair in positions.windows(2) {
            let Some((from, to)) = clip_segment(pair[0], pair[1]) else { continue };
            match parts.last_mut() {
                Some(part) if part.last() == Some(&from) => part.push(to),
                _ => parts.push(vec![from, to]),
            }
        }
        parts
    }
}

/// Returns the part of a segment inside the unit square (Liang and Barsky's algorithm).
fn clip_segment(from: Point, to: Point) -> Option<(Point, Point)> {
    let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
    for (start, end) in [(from.0, to.0), (from.1, to.1)] {
        let way = end - start;
        if way == 0.0 {
            if !(-1e-9..=1.0 + 1e-9).contains(&start) {
                return None;
            }
            continue;
        }
        let (low, high) = (-start / way, (1.0 - start) / way);
        enter = enter.max(low.min(high));
        leave = leave.min(low.max(high));
    }
    let at = |share: f64| {
        let between = |a: f64, b: f64| (a + (b - a) * share).clamp(0.0, 1.0);
        (between(from.0, to.0), between(from.1, to.1))
    };
    (enter <= leave + 1e-12).then(|| (at(enter), at(leave)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_it_leaves_the_range() {
        let panel = Panel::new(
            AxisScale::between(0.0, 10.0, false, 2),
            AxisScale::between(0.0, 1.0, false, 2),
            Vec::new(),
        );
        let line = [(0.0, 0.5), (5.0, 0.5), (10.0, 1.5), (10.0, 0.5), (8.0, 0.5)];
        assert_eq!(
            panel.inside(&line),
            [vec![(0.0, 0.5), (0.5, 0.5), (0.75, 1.0)], vec![(1.0, 1.0), (1.0, 0.5), (0.8, 0.5)],]
        );
        assert!(panel.inside(&[(0.0, 2.0), (10.0, 3.0)]).is_empty());
        assert!(panel.shows((10.0, 1.0)) && !panel.shows((10.5, 1.0)));
    }
}
