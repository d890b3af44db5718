//! Drawings of lines, areas and text, with coordinates in points (1/72 inch) from the upper left corner. [`svg`] and
//! [`pdf`] write them. Hatching, markers and clipping are already resolved into these shapes.

pub mod font;
pub mod pdf;
pub mod svg;

/// A drawing, in the order in which its shapes are painted.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    pub width: f64,
    pub height: f64,
    /// What the drawing shows, for readers who cannot see it.
    pub title: String,
    pub shapes: Vec<Shape>,
}

/// x and y.
pub type Point = (f64, f64);

/// A shape of a drawing.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    Line { points: Vec<Point>, stroke: Stroke },
    Area { points: Vec<Point>, fill: Fill, stroke: Option<Stroke> },
    Text(TextShape),
}

/// Red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    /// Black.
    pub const BLACK: Self = Self(0, 0, 0);
    /// White.
    pub const WHITE: Self = Self(255, 255, 255);
    /// The colour of notes and guides.
    pub const DIM: Self = Self(90, 90, 90);
    /// The colour of lines behind the data.
    pub const FAINT: Self = Self(222, 222, 222);

    /// Returns the colour with a share of white.
    pub fn mixed_with_white(self, share: f64) -> Self {
        let mixed = |part: u8| (f64::from(part) + (255.0 - f64::from(part)) * share).round() as u8;
        Self(mixed(self.0), mixed(self.1), mixed(self.2))
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    pub colour: Colour,
    pub width: f64,
    /// The lengths of dashes and gaps; empty for a solid line.
    pub dash: &'static [f64],
}

impl Stroke {
    /// Returns a solid stroke.
    pub const fn solid(colour: Colour, width: f64) -> Self {
        Self { colour, width, dash: &[] }
    }
}

/// How an area is filled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    pub colour: Colour,
    pub opacity: f64,
}

impl Fill {
    /// Returns an opaque fill.
    pub const fn solid(colour: Colour) -> Self {
        Self { colour, opacity: 1.0 }
    }
}

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextShape {
    /// The point of the base line that `anchor` names.
    pub at: Point,
    pub anchor: Anchor,
    pub size: f64,
    /// Whether the text reads upwards.
    pub upwards: bool,
    pub colour: Colour,
    pub content: String,
}

/// The point of a text that is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    /// Adds a line.
    pub fn line(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.shapes.push(Shape::Line { points, stroke });
    }

    /// Adds an area.
    pub fn area(&mut self, points: Vec<Point>, fill: Fill, stroke: Option<Stroke>) {
        self.shapes.push(Shape::Area { points, fill, stroke });
    }

    /// Adds black text.
    pub fn text(&mut self, at: Point, anchor: Anchor, size: f64, content: &str) {
        self.tinted_text(at, anchor, size, Colour::BLACK, content);
    }

    /// Adds text in a colour.
    pub fn tinted_text(&mut self, at: Point, anchor: Anchor, size: f64, colour: Colour, content: &str) {
        let content = font::clean(content);
        self.shapes.push(Shape::Text(TextShape { at, anchor, size, upwards: false, colour, content }));
    }

    /// Adds centred text that reads upwards.
    pub fn upward_text(&mut self, at: Point, size: f64, content: &str) {
        let content = font::clean(content);
        let (anchor, colour) = (Anchor::Middle, Colour::BLACK);
        self.shapes.push(Shape::Text(TextShape { at, anchor, size, upwards: true, colour, content }));
    }

    /// Returns the drawing with all coordinates, text sizes and line widths multiplied by a factor.
    pub fn scaled(mut self, factor: f64) -> Self {
        let scale_stroke = |stroke: &mut Stroke| stroke.width *= factor;
        for shape in &mut self.shapes {
            match shape {
                Shape::Line { points, stroke } => {
                    scale_points(points, factor);
                    scale_stroke(stroke);
                }
                Shape::Area { points, stroke, .. } => {
                    scale_points(points, factor);
                    if let Some(stroke) = stroke {
                        scale_stroke(stroke);
                    }
                }
                Shape::Text(text) => {
                    text.at = (text.at.0 * factor, text.at.1 * factor);
                    text.size *= factor;
                }
            }
        }
        Self { width: self.width * factor, height: self.height * factor, ..self }
    }

    /// Returns all texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Text(text) => Some(text.content.as_str()),
            _ => None,
        })
    }
}

fn scale_points(points: &mut [Point], factor: f64) {
    for (x, y) in points {
        *x *= factor;
        *y *= factor;
    }
}

/// Rounds to a hundredth of a point, which is what both formats write: the same on every machine.
fn round_to_hundredth(value: f64) -> f64 {
    // Adding zero turns -0 into 0.
    (value * 100.0).round() / 100.0 + 0.0
}

/// Returns rounded points without those that fall on the one before them.
fn distinct_points(points: &[Point]) -> Vec<Point> {
    let mut rounded: Vec<Point> =
        points.iter().map(|&(x, y)| (round_to_hundredth(x), round_to_hundredth(y))).collect();
    if rounded.len() > 2 {
        rounded.dedup();
    }
    rounded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_never_minus_zero() {
        let rounded =
            [1.0, 0.125, 1.0 / 3.0, -0.001, 12.345_678].map(|value| round_to_hundredth(value).to_string());
        assert_eq!(rounded, ["1", "0.13", "0.33", "0", "12.35"]);
    }
}
