//! Styles that distinguish series by colour and, for grey print and colour-blind readers, by dashes, markers and hatching.

use super::super::draw::{Colour, Drawing, Fill, Point, Stroke};

/// The colours of Okabe and Ito, which people with common colour blindnesses can distinguish, without the yellow, which
/// is hard to see on paper.
const COLOURS: [Colour; 7] = [
    Colour(0, 114, 178),
    Colour(213, 94, 0),
    Colour(0, 158, 115),
    Colour(204, 121, 167),
    Colour(0, 0, 0),
    Colour(230, 159, 0),
    Colour(86, 180, 233),
];

const DASHES: [&[f64]; 5] = [&[], &[4.0, 1.5], &[1.2, 1.4], &[5.0, 1.4, 1.2, 1.4], &[2.4, 1.4]];

const MARKERS: [Marker; 8] = [
    Marker::Circle,
    Marker::Square,
    Marker::Up,
    Marker::Diamond,
    Marker::Down,
    Marker::Pentagon,
    Marker::Left,
    Marker::Right,
];

/// The shape of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    Circle,
    Square,
    Up,
    Diamond,
    Down,
    Pentagon,
    Left,
    Right,
}

/// The style of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesStyle {
    pub colour: Colour,
    pub dash: &'static [f64],
    pub marker: Marker,
}

impl SeriesStyle {
    /// Returns the style at an index. The first 280 styles differ.
    pub fn nth(index: usize) -> Self {
        Self {
            colour: COLOURS[index % COLOURS.len()],
            dash: DASHES[index % DASHES.len()],
            marker: MARKERS[index % MARKERS.len()],
        }
    }

    /// Returns the stroke of lines in this style.
    pub fn stroke(self, width: f64) -> Stroke {
        Stroke { colour: self.colour, width, dash: self.dash }
    }
}

impl Marker {
    /// Returns the corners around the origin. All markers look about as large as a circle of radius 1.
    fn corners(self) -> Vec<Point> {
        let regular = |corners: u32, radius: f64, turned: f64| {
            let corner = |n| {
                let angle = (f64::from(n) / f64::from(corners) + turned) * std::f64::consts::TAU;
                (radius * angle.sin(), -radius * angle.cos())
            };
            (0..corners).map(corner).collect()
        };
        match self {
            Self::Circle => regular(16, 1.0, 0.0),
            Self::Square => regular(4, 1.25, 0.125),
            Self::Diamond => regular(4, 1.3, 0.0),
            Self::Pentagon => regular(5, 1.2, 0.0),
            Self::Up => regular(3, 1.4, 0.0),
            Self::Right => regular(3, 1.4, 0.25),
            Self::Down => regular(3, 1.4, 0.5),
            Self::Left => regular(3, 1.4, 0.75),
        }
    }
}

/// Draws a marker, which is hollow for a value of the oracle protocol.
pub fn marker(drawing: &mut Drawing, at: Point, style: SeriesStyle, hollow: bool) {
    const RADIUS: f64 = 1.7;
    let corners = style.marker.corners();
    let points = corners.into_iter().map(|(x, y)| (at.0 + x * RADIUS, at.1 + y * RADIUS)).collect();
    let fill = if hollow { Colour::WHITE } else { style.colour };
    drawing.area(points, Fill::solid(fill), Some(Stroke::solid(style.colour, 0.6)));
}

/// Draws a line between two points with a cap at each end, which extends to both sides by `cap`.
pub fn whisker(drawing: &mut Drawing, from: Point, to: Point, cap: Point, colour: Colour) {
    let stroke = Stroke::solid(colour, 0.7);
    drawing.line(vec![from, to], stroke);
    for (x, y) in [from, to] {
        drawing.line(vec![(x - cap.0, y - cap.1), (x + cap.0, y + cap.1)], stroke);
    }
}

/// Returns the colour of a cell of a heat map, from white at 0 to the darkest blue at 1. Its lightness falls all the way,
/// so that it can be read in grey.
pub fn shade(position: f64) -> Colour {
    const DARKEST: Colour = Colour(0, 68, 116);
    DARKEST.mixed_with_white(1.0 - position.clamp(0.0, 1.0))
}

/// Draws a cross, for the end of a run.
pub fn cross(drawing: &mut Drawing, (x, y): Point, colour: Colour) {
    const ARM: f64 = 2.0;
    let stroke = Stroke::solid(colour, 0.9);
    drawing.line(vec![(x - ARM, y - ARM), (x + ARM, y + ARM)], stroke);
    drawing.line(vec![(x - ARM, y + ARM), (x + ARM, y - ARM)], stroke);
}

/// The colour of a bar, and how much of it is mixed with white. Bars side by side differ in lightness, so that they can be
/// told apart in grey.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BarStyle {
    pub colour: Colour,
    pub opacity: f64,
}

impl BarStyle {
    /// Returns the style of the only bar of its sort.
    pub fn solid(colour: Colour) -> Self {
        Self { colour, opacity: 1.0 }
    }

    /// Returns the style of the bars of a series, one of several side by side.
    pub fn of_series(index: usize) -> Self {
        const OPACITIES: [f64; 3] = [1.0, 0.55, 0.2];
        Self { colour: SeriesStyle::nth(index).colour, opacity: OPACITIES[index % OPACITIES.len()] }
    }
}

/// Draws a rectangle between two corners, which is hatched for a value of the oracle protocol.
pub fn bar(
    drawing: &mut Drawing,
    (left, top): Point,
    (right, bottom): Point,
    style: BarStyle,
    hatched: bool,
) {
    let BarStyle { colour, opacity } = style;
    let corners = vec![(left, top), (right, top), (right, bottom), (left, bottom)];
    let edge = Some(Stroke::solid(colour, 0.6));
    if !hatched {
        return drawing.area(corners, Fill::solid(colour.mixed_with_white(1.0 - opacity)), edge);
    }
    drawing.area(corners, Fill::solid(Colour::WHITE), edge);
    const GAP: f64 = 3.2;
    let (width, height) = (right - left, bottom - top);
    let lines = ((width + height) / GAP) as u32;
    // The diagonals x + y = reach, measured from the upper left corner and clipped at the edges.
    for reach in (1..=lines).map(|n| f64::from(n) * GAP) {
        let from = (left + (reach - height).max(0.0), top + reach.min(height));
        let to = (left + reach.min(width), top + (reach - width).max(0.0));
        drawing.line(vec![from, to], Stroke::solid(colour, 0.7));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_differ_in_more_than_colour() {
        let styles: Vec<SeriesStyle> = (0..40).map(SeriesStyle::nth).collect();
        for (i, a) in styles.iter().enumerate() {
            for b in &styles[..i] {
                assert!(a.dash != b.dash || a.marker != b.marker);
            }
        }
    }

    #[test]
    fn hatching_stays_inside_its_bar() {
        use super::super::super::draw::Shape;
        let mut drawing = Drawing { width: 99.0, height: 99.0, title: String::new(), shapes: vec![] };
        bar(&mut drawing, (10.0, 20.0), (50.0, 27.0), BarStyle::solid(Colour::BLACK), true);
        assert!(drawing.shapes.len() > 10);
        for shape in &drawing.shapes {
            let (Shape::Line { points, .. } | Shape::Area { points, .. }) = shape else { continue };
            assert!(points.iter().all(|&(x, y)| (10.0..=50.0).contains(&x) && (20.0..=27.0).contains(&y)));
        }
    }
}
