//! Writes a drawing as a PDF of one page.
//!
//! The file has no date and no random identifier, so the same drawing always gives the same bytes. The glyphs in use
//! are embedded, with a map back to Unicode: text can be selected and searched.
//!
//! A character that the font lacks is shown as an empty box. The original text is kept as `ActualText`, so that
//! copying and searching still find it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use flate2::Compression;
use flate2::read::ZlibEncoder;
use pdf_writer::types::{CidFontType, FontFlags, LineJoinStyle, SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Filter, Finish as _, Name, Pdf, Rect, Ref, Settings, Str, TextStr};
use pipe_core::digest::Digest;
use subsetter::GlyphRemapper;

use super::{
    Anchor, Colour, Drawing, Point, Shape, Stroke, TextShape, distinct_points, font, round_to_hundredth,
};

const CATALOG: Ref = Ref::new(1);
const PAGE_TREE: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const FONT: Ref = Ref::new(5);
const CID_FONT: Ref = Ref::new(6);
const FONT_DESCRIPTOR: Ref = Ref::new(7);
const FONT_FILE: Ref = Ref::new(8);
const TO_UNICODE: Ref = Ref::new(9);
const DOCUMENT_INFO: Ref = Ref::new(10);

/// The name of the font in the resources of the page.
const FONT_NAME: Name<'static> = Name(b"F");

/// Without indentation: the files are meant for viewers and stay small.
const COMPACT: Settings = Settings { pretty: false };

/// Returns a drawing as the bytes of a PDF file.
pub fn pdf(drawing: &Drawing) -> Vec<u8> {
    let mut page = PageWriter::new(drawing.height);
    for shape in &drawing.shapes {
        page.add(shape);
    }
    let PageWriter { content, glyphs, characters, opacities, .. } = page;

    let mut pdf = Pdf::with_settings(COMPACT);
    pdf.set_version(1, 4);
    pdf.catalog(CATALOG).pages(PAGE_TREE);
    pdf.pages(PAGE_TREE).kids([PAGE]).count(1);

    let mut page = pdf.page(PAGE);
    page.parent(PAGE_TREE).contents(CONTENT);
    page.media_box(Rect::new(0.0, 0.0, number(drawing.width), number(drawing.height)));
    let mut resources = page.resources();
    resources.fonts().pair(FONT_NAME, FONT);
    let mut states = resources.ext_g_states();
    for &opacity in &opacities {
        let alpha = number(f64::from(opacity) / 100.0);
        states.insert(Name(opacity_name(opacity).as_bytes())).dict().pair(Name(b"ca"), alpha);
    }
    states.finish();
    resources.finish();
    page.finish();

    pdf.stream(CONTENT, &compress(&content.finish())).filter(Filter::FlateDecode);
    embed_font(&mut pdf, &glyphs, &characters);
    pdf.document_info(DOCUMENT_INFO).title(TextStr(&font::clean(&drawing.title))).producer(TextStr("pipe"));
    pdf.finish()
}

/// Writes the objects of the font: its glyphs in use, their widths and the characters that they stand for.
fn embed_font(pdf: &mut Pdf, glyphs: &GlyphRemapper, characters: &BTreeMap<u16, char>) {
    let file = subsetter::subset(font::FILE, 0, glyphs).expect("a test subsets the font that is compiled in");
    let base_font = format!("{}+PipeSans", subset_tag(glyphs));
    let base_font = Name(base_font.as_bytes());
    let system_info =
        |ordering| SystemInfo { registry: Str(b"Adobe"), ordering: Str(ordering), supplement: 0 };

    pdf.type0_font(FONT)
        .base_font(base_font)
        .encoding_predefined(Name(b"Identity-H"))
        .descendant_font(CID_FONT)
        .to_unicode(TO_UNICODE);

    let mut cid_font = pdf.cid_font(CID_FONT);
    cid_font
        .subtype(CidFontType::Type2)
        .base_font(base_font)
        .system_info(system_info(b"Identity"))
        .font_descriptor(FONT_DESCRIPTOR)
        .cid_to_gid_map_predefined(Name(b"Identity"));
    let widths = glyphs.remapped_gids().map(|glyph| number(font::advance(glyph)));
    cid_font.widths().consecutive(0, widths);
    cid_font.finish();

    let [ascent, descent, cap_height] = font::heights().map(number);
    let [x_min, y_min, x_max, y_max] = font::bounds().map(number);
    pdf.font_descriptor(FONT_DESCRIPTOR)
        .name(base_font)
        .flags(FontFlags::SYMBOLIC)
        .bbox(Rect::new(x_min, y_min, x_max, y_max))
        .italic_angle(0.0)
        .ascent(ascent)
        .descent(descent)
        .cap_height(cap_height)
        .stem_v(80.0)
        .font_file2(FONT_FILE);
    pdf.stream(FONT_FILE, &compress(&file))
        .filter(Filter::FlateDecode)
        .pair(Name(b"Length1"), i32::try_from(file.len()).unwrap_or(i32::MAX));

    let mut to_unicode = UnicodeCmap::new(Name(b"Adobe-Identity-UCS"), system_info(b"UCS"));
    for (&glyph, &character) in characters {
        to_unicode.pair(glyph, character);
    }
    pdf.stream(TO_UNICODE, &compress(&to_unicode.finish())).filter(Filter::FlateDecode);
}

/// Collects the drawing operators of the page and the resources that they refer to.
struct PageWriter {
    height: f64,
    content: Content,
    /// The glyphs in use, renumbered in order of appearance.
    glyphs: GlyphRemapper,
    /// The character of each renumbered glyph, except for the empty box.
    characters: BTreeMap<u16, char>,
    /// In hundredths.
    opacities: BTreeSet<u32>,
}

impl PageWriter {
    fn new(height: f64) -> Self {
        let mut content = Content::with_settings(COMPACT);
        content.set_line_join(LineJoinStyle::RoundJoin);
        let (characters, opacities) = (BTreeMap::new(), BTreeSet::new());
        Self { height, content, glyphs: GlyphRemapper::new(), characters, opacities }
    }

    fn add(&mut self, shape: &Shape) {
        match shape {
            Shape::Line { points, stroke } => {
                self.set_stroke(*stroke);
                self.path(points);
                self.content.stroke();
            }
            Shape::Area { points, fill, stroke } => {
                let opacity = (fill.opacity * 100.0).round() as u32;
                let is_translucent = opacity < 100;
                if is_translucent {
                    self.opacities.insert(opacity);
                    self.content.save_state().set_parameters(Name(opacity_name(opacity).as_bytes()));
                }
                self.set_fill(fill.colour);
                if let Some(stroke) = stroke {
                    self.set_stroke(*stroke);
                }
                self.path(points);
                if stroke.is_some() {
                    self.content.close_fill_nonzero_and_stroke();
                } else {
                    self.content.fill_nonzero();
                }
                if is_translucent {
                    self.content.restore_state();
                }
            }
            Shape::Text(text) => self.text(text),
        }
    }

    /// Converts a point to PDF's coordinates, which start in the lower left corner.
    fn point_from_below(&self, (x, y): Point) -> Point {
        (x, self.height - y)
    }

    fn path(&mut self, points: &[Point]) {
        let points: Vec<Point> = points.iter().map(|&point| self.point_from_below(point)).collect();
        for (index, (x, y)) in distinct_points(&points).into_iter().enumerate() {
            if index == 0 {
                self.content.move_to(x as f32, y as f32);
            } else {
                self.content.line_to(x as f32, y as f32);
            }
        }
    }

    fn set_stroke(&mut self, stroke: Stroke) {
        let [red, green, blue] = components(stroke.colour);
        self.content
            .set_stroke_rgb(red, green, blue)
            .set_line_width(number(stroke.width))
            .set_dash_pattern(stroke.dash.iter().map(|&length| number(length)), 0.0);
    }

    fn set_fill(&mut self, colour: Colour) {
        let [red, green, blue] = components(colour);
        self.content.set_fill_rgb(red, green, blue);
    }

    fn text(&mut self, text: &TextShape) {
        let mut codes = Vec::new();
        let mut width = 0.0;
        // Characters without a width, such as combining accents that the font lacks, would only add empty boxes.
        let is_shown = |c: &char| font::glyph(*c).is_some() || font::width(&c.to_string(), 1.0) > 0.0;
        for character in text.content.chars().filter(is_shown) {
            let glyph = font::glyph(character).unwrap_or(0);
            let code = self.glyphs.remap(glyph);
            if code != 0 {
                self.characters.entry(code).or_insert(character);
            }
            width += font::advance(glyph) / 1000.0 * text.size;
            codes.extend(code.to_be_bytes());
        }
        let before_anchor = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let (x, y) = self.point_from_below(text.at);
        let matrix = if text.upwards {
            [0.0, 1.0, -1.0, 0.0, number(x), number(y - before_anchor)]
        } else {
            [1.0, 0.0, 0.0, 1.0, number(x - before_anchor), number(y)]
        };
        self.set_fill(text.colour);
        let has_missing = font::missing(&text.content).next().is_some();
        if has_missing {
            let mut span = self.content.begin_marked_content_with_properties(Name(b"Span"));
            span.properties().actual_text(TextStr(&text.content));
        }
        self.content
            .begin_text()
            .set_font(FONT_NAME, number(text.size))
            .set_text_matrix(matrix)
            .show(Str(&codes))
            .end_text();
        if has_missing {
            self.content.end_marked_content();
        }
    }
}

/// Rounds a length or a coordinate to a hundredth of a point.
fn number(value: f64) -> f32 {
    round_to_hundredth(value) as f32
}

fn components(Colour(red, green, blue): Colour) -> [f32; 3] {
    [red, green, blue].map(|value| ((f64::from(value) / 255.0 * 1000.0).round() / 1000.0) as f32)
}

fn opacity_name(hundredths: u32) -> String {
    format!("O{hundredths}")
}

fn compress(content: &[u8]) -> Vec<u8> {
    let mut compressed = Vec::new();
    // Reading from memory cannot fail.
    _ = ZlibEncoder::new(content, Compression::best()).read_to_end(&mut compressed);
    compressed
}

/// Returns the six letters that the name of an embedded subset starts with: the same for the same glyphs.
fn subset_tag(glyphs: &GlyphRemapper) -> String {
    let bytes: Vec<u8> = glyphs.remapped_gids().flat_map(u16::to_be_bytes).collect();
    Digest::of(&bytes).as_bytes()[..6].iter().map(|byte| char::from(b'A' + byte % 26)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_glyph_of_the_font_can_be_embedded() {
        let glyphs = GlyphRemapper::new_from_glyphs(&(0..font::glyph_count()).collect::<Vec<_>>());
        let file = subsetter::subset(font::FILE, 0, &glyphs).unwrap();
        assert!(file.len() > font::FILE.len() / 2, "{}", file.len());
    }

    #[test]
    fn only_the_glyphs_in_use_are_embedded() {
        let mut drawing = Drawing { width: 10.0, height: 10.0, title: String::new(), shapes: vec![] };
        drawing.text((1.0, 2.0), Anchor::Start, 8.0, "äB");
        assert!(pdf(&drawing).len() < font::FILE.len() / 5, "{}", pdf(&drawing).len());
    }
}
