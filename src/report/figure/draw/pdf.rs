//! Writes a drawing as a PDF of one page.
//!
//! The file has no date and no random identifier, so the same drawing always gives the same bytes. The glyphs in use
//! are embedded, with a map back to Unicode: text can be selected and searched. A character that the font lacks is
//! shown as an empty box, and its original is kept as `ActualText`, so that copying and searching still find it.
//!
//! The crates `pdf-writer` and `subsetter` could replace this module and [`super::subset`] (81 test figures: the same
//! text, files 11 % smaller). They change the bytes of every PDF, so the switch needs a new version of the `plot` stage
//! and new locks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read as _;

use flate2::Compression;
use flate2::read::ZlibEncoder;

use super::subset::subset;
use super::{
    Anchor, Colour, Drawing, Point, Shape, Stroke, TextShape, distinct_points, font, round_to_hundredth,
};
use pipe_core::digest::Digest;

/// The numbers of the objects.
const CATALOG: usize = 1;
const PAGES: usize = 2;
const PAGE: usize = 3;
const CONTENT: usize = 4;
const FONT: usize = 5;
const CID_FONT: usize = 6;
const DESCRIPTOR: usize = 7;
const FONT_FILE: usize = 8;
const TO_UNICODE: usize = 9;
const INFO: usize = 10;

/// Returns a drawing as the bytes of a PDF file.
pub fn pdf(drawing: &Drawing) -> Vec<u8> {
    let page = PageContent::of(drawing);
    let used: BTreeSet<u16> = page.glyphs.keys().copied().collect();
    // The whole font, if it cannot be cut.
    let font_file = subset(font::FILE, &used).unwrap_or_else(|| font::FILE.to_vec());
    let name = format!("{}+PipeSans", tag(&used));
    let mut states = String::new();
    for opacity in &page.opacities {
        _ = write!(states, "/O{opacity} << /ca {} >> ", round_to_hundredth(f64::from(*opacity) / 100.0));
    }
    let size = format!("{} {}", round_to_hundredth(drawing.width), round_to_hundredth(drawing.height));

    let mut file = PdfFile::new();
    file.object(CATALOG, &format!("<< /Type /Catalog /Pages {PAGES} 0 R >>"));
    file.object(PAGES, &format!("<< /Type /Pages /Kids [{PAGE} 0 R] /Count 1 >>"));
    file.object(
        PAGE,
        &format!(
            "<< /Type /Page /Parent {PAGES} 0 R /MediaBox [0 0 {size}] /Contents {CONTENT} 0 R\n\
             /Resources << /Font << /F {FONT} 0 R >> /ExtGState << {states}>> >> >>"
        ),
    );
    file.stream(CONTENT, "", page.content.as_bytes());
    file.object(
        FONT,
        &format!(
            "<< /Type /Font /Subtype /Type0 /BaseFont /{name} /Encoding /Identity-H\n\
             /DescendantFonts [{CID_FONT} 0 R] /ToUnicode {TO_UNICODE} 0 R >>"
        ),
    );
    let widths: Vec<String> =
        used.iter().map(|&glyph| format!("{glyph} [{}]", round_to_hundredth(font::advance(glyph)))).collect();
    file.object(
        CID_FONT,
        &format!(
            "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /{name} /CIDToGIDMap /Identity\n\
             /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>\n\
             /FontDescriptor {DESCRIPTOR} 0 R /DW 1000 /W [{}] >>",
            widths.join(" ")
        ),
    );
    let [ascent, descent, capitals] = font::heights().map(round_to_hundredth);
    file.object(
        DESCRIPTOR,
        &format!(
            "<< /Type /FontDescriptor /FontName /{name} /Flags 4 /FontBBox [{}] /ItalicAngle 0\n\
             /Ascent {ascent} /Descent {descent} /CapHeight {capitals} /StemV 80 /FontFile2 {FONT_FILE} 0 R >>",
            font::bounds().map(|bound| round_to_hundredth(bound).to_string()).join(" ")
        ),
    );
    file.stream(FONT_FILE, &format!(" /Length1 {}", font_file.len()), &font_file);
    file.stream(TO_UNICODE, "", to_unicode(&page.glyphs).as_bytes());
    let title = utf16(&font::clean(&drawing.title));
    file.object(INFO, &format!("<< /Title <{title}> /Producer (pipe) >>"));
    file.finish()
}

/// The stream of drawing operators, and the glyphs and opacities that it uses.
struct PageContent {
    height: f64,
    content: String,
    /// The glyphs in use, each with its character.
    glyphs: BTreeMap<u16, char>,
    /// The opacities in use, in hundredths.
    opacities: BTreeSet<u32>,
}

impl PageContent {
    fn of(drawing: &Drawing) -> Self {
        let mut page = Self {
            height: drawing.height,
            content: "1 j\n".to_owned(),
            glyphs: BTreeMap::new(),
            opacities: BTreeSet::new(),
        };
        for shape in &drawing.shapes {
            page.add(shape);
        }
        page
    }

    fn add(&mut self, shape: &Shape) {
        match shape {
            Shape::Line { points, stroke } => {
                self.stroke(*stroke);
                self.path(points);
                self.content.push_str("S\n");
            }
            Shape::Area { points, fill, stroke } => {
                let opacity = (fill.opacity * 100.0).round() as u32;
                if opacity < 100 {
                    self.opacities.insert(opacity);
                    _ = writeln!(self.content, "q /O{opacity} gs");
                }
                self.colour(fill.colour, "rg");
                if let Some(stroke) = stroke {
                    self.stroke(*stroke);
                }
                self.path(points);
                self.content.push_str(if stroke.is_some() { "b\n" } else { "f\n" });
                if opacity < 100 {
                    self.content.push_str("Q\n");
                }
            }
            Shape::Text(text) => self.text(text),
        }
    }

    /// Adds the operators of a path. PDF counts from the lower left corner.
    fn path(&mut self, points: &[Point]) {
        let height = self.height;
        let points: Vec<_> = points.iter().map(|&(x, y)| (x, height - y)).collect();
        for (position, (x, y)) in distinct_points(&points).into_iter().enumerate() {
            _ = writeln!(self.content, "{x} {y} {}", if position == 0 { 'm' } else { 'l' });
        }
    }

    fn stroke(&mut self, stroke: Stroke) {
        self.colour(stroke.colour, "RG");
        let dash: Vec<String> =
            stroke.dash.iter().map(|&length| round_to_hundredth(length).to_string()).collect();
        _ = writeln!(self.content, "{} w [{}] 0 d", round_to_hundredth(stroke.width), dash.join(" "));
    }

    fn colour(&mut self, Colour(red, green, blue): Colour, operator: &str) {
        let part = |value: u8| format!("{}", (f64::from(value) / 255.0 * 1000.0).round() / 1000.0);
        _ = writeln!(self.content, "{} {} {} {operator}", part(red), part(green), part(blue));
    }

    fn text(&mut self, text: &TextShape) {
        let characters = || {
            text.content
                .chars()
                .filter(|c| font::glyph(*c).is_some() || font::width(&c.to_string(), 1.0) > 0.0)
        };
        let mut codes = String::new();
        let mut width = 0.0;
        for character in characters() {
            let glyph = font::glyph(character).unwrap_or(0);
            self.glyphs.entry(glyph).or_insert(character);
            width += font::advance(glyph) / 1000.0 * text.size;
            _ = write!(codes, "{glyph:04X}");
        }
        let back = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let (x, y) = (text.at.0, self.height - text.at.1);
        let matrix = if text.upwards {
            format!("0 1 -1 0 {} {}", round_to_hundredth(x), round_to_hundredth(y - back))
        } else {
            format!("1 0 0 1 {} {}", round_to_hundredth(x - back), round_to_hundredth(y))
        };
        self.colour(text.colour, "rg");
        let has_missing = font::missing(&text.content).next().is_some();
        if has_missing {
            _ = writeln!(self.content, "/Span << /ActualText <{}> >> BDC", utf16(&text.content));
        }
        _ = writeln!(self.content, "BT /F {} Tf {matrix} Tm <{codes}> Tj ET", round_to_hundredth(text.size));
        if has_missing {
            self.content.push_str("EMC\n");
        }
    }
}

/// Returns text as hexadecimal big-endian UTF-16 with a byte order mark, which PDF needs for text that is not Latin.
fn utf16(text: &str) -> String {
    let units = text.encode_utf16().map(|unit| format!("{unit:04X}"));
    ["FEFF".to_owned()].into_iter().chain(units).collect()
}

/// Returns the six letters before the name of a font subset: the same letters for the same glyphs.
fn tag(glyphs: &BTreeSet<u16>) -> String {
    let bytes: Vec<u8> = glyphs.iter().flat_map(|glyph| glyph.to_be_bytes()).collect();
    Digest::of(&bytes).as_bytes()[..6].iter().map(|byte| char::from(b'A' + byte % 26)).collect()
}

/// Returns the map from glyphs to Unicode.
fn to_unicode(glyphs: &BTreeMap<u16, char>) -> String {
    let mut map = "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n\
        /CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n\
        /CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n\
        1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n"
        .to_owned();
    let pairs: Vec<_> = glyphs.iter().filter(|&(&glyph, _)| glyph != 0).collect();
    // A block may have at most a hundred entries.
    for chunk in pairs.chunks(100) {
        _ = writeln!(map, "{} beginbfchar", chunk.len());
        for (glyph, character) in chunk {
            _ = writeln!(map, "<{glyph:04X}> <{}>", &utf16(&character.to_string())[4..]);
        }
        map.push_str("endbfchar\n");
    }
    map.push_str("endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n");
    map
}

/// The bytes of the file, and where each object starts.
struct PdfFile {
    bytes: Vec<u8>,
    offsets: Vec<usize>,
}

impl PdfFile {
    fn new() -> Self {
        // The second line marks the file as binary.
        Self { bytes: b"%PDF-1.4\n%\xE2\xE3\xCF\xD3\n".to_vec(), offsets: Vec::new() }
    }

    /// Starts an object. Objects are written in the order of their numbers.
    fn begin(&mut self, number: usize) {
        self.offsets.push(self.bytes.len());
        debug_assert_eq!(self.offsets.len(), number);
        self.bytes.extend(format!("{number} 0 obj\n").bytes());
    }

    fn object(&mut self, number: usize, body: &str) {
        self.begin(number);
        self.bytes.extend(body.bytes());
        self.bytes.extend(b"\nendobj\n");
    }

    fn stream(&mut self, number: usize, entries: &str, content: &[u8]) {
        let mut packed = Vec::new();
        _ = ZlibEncoder::new(content, Compression::best()).read_to_end(&mut packed);
        self.begin(number);
        let length = packed.len();
        self.bytes.extend(format!("<< /Length {length} /Filter /FlateDecode{entries} >>\nstream\n").bytes());
        self.bytes.extend(packed);
        self.bytes.extend(b"\nendstream\nendobj\n");
    }

    fn finish(mut self) -> Vec<u8> {
        let start = self.bytes.len();
        let count = self.offsets.len() + 1;
        let mut end = format!("xref\n0 {count}\n0000000000 65535 f \n");
        for offset in &self.offsets {
            _ = writeln!(end, "{offset:010} 00000 n ");
        }
        _ = write!(
            end,
            "trailer\n<< /Size {count} /Root {CATALOG} 0 R /Info {INFO} 0 R >>\nstartxref\n{start}\n%%EOF\n"
        );
        self.bytes.extend(end.bytes());
        self.bytes
    }
}
