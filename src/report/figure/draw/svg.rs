//! Writes a drawing as SVG 1.1, with text as text.

use std::fmt::Write;

use pipe_core::escape::xml;

use super::{
    Anchor, Colour, Drawing, Fill, Shape, Stroke, TextShape, distinct_points, font, round_to_hundredth,
};

/// A viewer takes the first of these that it has. All but the last have the widths that the layout is based on.
const FONTS: &str = "'Liberation Sans', Arimo, Arial, Helvetica, sans-serif";

/// Returns a drawing as SVG.
pub fn svg(drawing: &Drawing) -> String {
    let (width, height) = (round_to_hundredth(drawing.width), round_to_hundredth(drawing.height));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}pt\" height=\"{height}pt\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{FONTS}\" role=\"img\">\n\
         <title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        xml(&font::clean(&drawing.title))
    );
    for shape in &drawing.shapes {
        match shape {
            Shape::Line { points, stroke } => {
                line(&mut out, "polyline", points, &format!("fill=\"none\"{}", stroke_attributes(*stroke)));
            }
            Shape::Area { points, fill, stroke } => {
                let stroke = stroke.map(stroke_attributes).unwrap_or_default();
                line(&mut out, "polygon", points, &format!("{}{stroke}", fill_attributes(*fill)));
            }
            Shape::Text(shape) => text(&mut out, shape),
        }
    }
    out.push_str("</svg>\n");
    out
}

fn line(out: &mut String, element: &str, points: &[super::Point], attributes: &str) {
    let points: Vec<String> = distinct_points(points).into_iter().map(|(x, y)| format!("{x},{y}")).collect();
    // Writing to a string cannot fail.
    _ = writeln!(out, "<{element} points=\"{}\" {attributes}/>", points.join(" "));
}

fn text(out: &mut String, text: &TextShape) {
    let (x, y) = (round_to_hundredth(text.at.0), round_to_hundredth(text.at.1));
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let position = if text.upwards {
        format!("transform=\"translate({x} {y}) rotate(-90)\"")
    } else {
        format!("x=\"{x}\" y=\"{y}\"")
    };
    let fill = match text.colour {
        Colour::BLACK => String::new(),
        colour => format!(" fill=\"{}\"", hexadecimal(colour)),
    };
    // A viewer that has none of the fonts fits its own into the width that the layout is based on.
    let width = round_to_hundredth(font::width(text.content.trim(), text.size));
    let fitted = match width {
        0.0 => String::new(),
        width => format!(" textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\""),
    };
    let (size, content) = (round_to_hundredth(text.size), xml(&text.content));
    _ = writeln!(out, "<text {position} font-size=\"{size}\"{anchor}{fitted}{fill}>{content}</text>");
}

fn stroke_attributes(stroke: Stroke) -> String {
    let mut attributes = format!(
        " stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"",
        hexadecimal(stroke.colour),
        round_to_hundredth(stroke.width)
    );
    if !stroke.dash.is_empty() {
        let dash: Vec<String> =
            stroke.dash.iter().map(|&length| round_to_hundredth(length).to_string()).collect();
        _ = write!(attributes, " stroke-dasharray=\"{}\"", dash.join(" "));
    }
    attributes
}

fn fill_attributes(fill: Fill) -> String {
    let mut attributes = format!("fill=\"{}\"", hexadecimal(fill.colour));
    if fill.opacity < 1.0 {
        _ = write!(attributes, " fill-opacity=\"{}\"", round_to_hundredth(fill.opacity));
    }
    attributes
}

fn hexadecimal(Colour(red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_width_of_the_layout_in_every_font() {
        let mut drawing = Drawing { width: 10.0, height: 10.0, title: String::new(), shapes: vec![] };
        drawing.text((1.0, 2.0), Anchor::Start, 10.0, "AA ");
        drawing.text((1.0, 2.0), Anchor::Start, 10.0, "");
        let svg = svg(&drawing);
        assert_eq!(svg.matches("textLength=").count(), 1, "{svg}");
        assert!(svg.contains("textLength=\"13.34\" lengthAdjust=\"spacingAndGlyphs\">AA "), "{svg}");
    }

    #[test]
    fn special_characters_are_escaped() {
        let mut drawing = Drawing { width: 10.0, height: 10.0, title: "a<b".to_owned(), shapes: vec![] };
        drawing.text((1.0, 2.0), Anchor::End, 8.0, "<script>\"A&B_%$#~^\\\"\u{0}");
        insta::assert_snapshot!(svg(&drawing), @r##"
        <svg xmlns="http://www.w3.org/2000/svg" width="10pt" height="10pt" viewBox="0 0 10 10" font-family="'Liberation Sans', Arimo, Arial, Helvetica, sans-serif" role="img">
        <title>a&lt;b</title>
        <rect width="10" height="10" fill="#ffffff"/>
        <text x="1" y="2" font-size="8" text-anchor="end" textLength="81.25" lengthAdjust="spacingAndGlyphs">&lt;script&gt;&quot;A&amp;B_%$#~^\&quot; </text>
        </svg>
        "##);
    }
}
