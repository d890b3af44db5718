//! The little that a figure is drawn with: lines, areas and text, in points (1/72 inch) from the upper left
//! corner. [`svg`] and [`pdf`] write it down; whatever is clever (hatching, markers, clipping) is worked out before.

pub mod font;
pub mod pdf;
mod subset;
pub mod svg;

#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    pub width: f64,
    pub height: f64,
    /// What the figure shows, for those who cannot see it.
    pub title: String,
    pub shapes: Vec<Shape>,
}

pub type Point = (f64, f64);

#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    Line { points: Vec<Point>, stroke: Stroke },
    Area { points: Vec<Point>, fill: Fill, stroke: Option<Stroke> },
    Text(Text),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    pub const BLACK: Self = Self(0, 0, 0);
    pub const WHITE: Self = Self(255, 255, 255);
    /// Notes and guides.
    pub const DIM: Self = Self(90, 90, 90);
    /// Lines behind the data.
    pub const FAINT: Self = Self(222, 222, 222);
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    pub colour: Colour,
    pub width: f64,
    /// Lengths of dashes and gaps; solid where there are none.
    pub dash: &'static [f64],
}

impl Stroke {
    pub const fn solid(colour: Colour, width: f64) -> Self {
        Self { colour, width, dash: &[] }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    pub colour: Colour,
    pub opacity: f64,
}

impl Fill {
    pub const fn solid(colour: Colour) -> Self {
        Self { colour, opacity: 1.0 }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// Where the base line starts, has its middle or ends.
    pub at: Point,
    pub anchor: Anchor,
    pub size: f64,
    /// Reads upwards.
    pub upwards: bool,
    pub colour: Colour,
    pub content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    pub fn line(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.shapes.push(Shape::Line { points, stroke });
    }

    pub fn area(&mut self, points: Vec<Point>, fill: Fill, stroke: Option<Stroke>) {
        self.shapes.push(Shape::Area { points, fill, stroke });
    }

    pub fn text(&mut self, at: Point, anchor: Anchor, size: f64, content: &str) {
        self.tinted_text(at, anchor, size, Colour::BLACK, content);
    }

    pub fn tinted_text(&mut self, at: Point, anchor: Anchor, size: f64, colour: Colour, content: &str) {
        let content = font::clean(content);
        self.shapes.push(Shape::Text(Text { at, anchor, size, upwards: false, colour, content }));
    }

    pub fn upward_text(&mut self, at: Point, size: f64, content: &str) {
        let content = font::clean(content);
        let (anchor, colour) = (Anchor::Middle, Colour::BLACK);
        self.shapes.push(Shape::Text(Text { at, anchor, size, upwards: true, colour, content }));
    }

    /// All texts, for whoever has to set them.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Text(text) => Some(text.content.as_str()),
            _ => None,
        })
    }
}

/// A coordinate as it is written: to a hundredth of a point, the same on every machine.
fn coordinate(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    // Adding zero turns -0 into 0.
    format!("{}", rounded + 0.0)
}

/// Points that fall on the same written coordinates as the one before say nothing new.
fn distinct(points: &[Point]) -> Vec<(String, String)> {
    let mut written: Vec<(String, String)> =
        points.iter().map(|&(x, y)| (coordinate(x), coordinate(y))).collect();
    if written.len() > 2 {
        written.dedup();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_never_minus_zero() {
        let written = [1.0, 0.125, 1.0 / 3.0, -0.001, 12.345_678].map(coordinate);
        assert_eq!(written, ["1", "0.13", "0.33", "0", "12.35"]);
    }
}
