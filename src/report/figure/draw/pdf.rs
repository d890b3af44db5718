//! A drawing as a PDF of one page, written by hand: no date, no random identifier, so the same drawing gives the same
//! bytes. The used part of the font goes along, with a map back to Unicode: text can be selected and searched.
//!
//! A character that the font lacks is shown as an empty box; what it was is kept (`ActualText`), for copying and for
//! search.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read as _;

use flate2::Compression;
use flate2::read::ZlibEncoder;

use super::subset::subset;
use super::{Anchor, Colour, Drawing, Shape, Stroke, Text, coordinate, distinct, font};
use pipe_core::digest::Digest;

/// Objects by number.
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

pub fn pdf(drawing: &Drawing) -> Vec<u8> {
    let page = Page::of(drawing);
    let used: BTreeSet<u16> = page.glyphs.keys().copied().collect();
    // Whole, should it ever be one that cannot be cut.
    let font_file = subset(font::FILE, &used).unwrap_or_else(|| font::FILE.to_vec());
    let name = format!("{}+PipeSans", tag(&used));
    let mut states = String::new();
    for opacity in &page.opacities {
        _ = write!(states, "/O{opacity} << /ca {} >> ", coordinate(f64::from(*opacity) / 100.0));
    }
    let size = format!("{} {}", coordinate(drawing.width), coordinate(drawing.height));

    let mut file = File::new();
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
        used.iter().map(|&glyph| format!("{glyph} [{}]", coordinate(font::advance(glyph)))).collect();
    file.object(
        CID_FONT,
        &format!(
            "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /{name} /CIDToGIDMap /Identity\n\
             /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>\n\
             /FontDescriptor {DESCRIPTOR} 0 R /DW 1000 /W [{}] >>",
            widths.join(" ")
        ),
    );
    let [ascent, descent, capitals] = font::heights().map(coordinate);
    file.object(
        DESCRIPTOR,
        &format!(
            "<< /Type /FontDescriptor /FontName /{name} /Flags 4 /FontBBox [{}] /ItalicAngle 0\n\
             /Ascent {ascent} /Descent {descent} /CapHeight {capitals} /StemV 80 /FontFile2 {FONT_FILE} 0 R >>",
            font::bounds().map(coordinate).join(" ")
        ),
    );
    file.stream(FONT_FILE, &format!(" /Length1 {}", font_file.len()), &font_file);
    file.stream(TO_UNICODE, "", to_unicode(&page.glyphs).as_bytes());
    let title = utf16(&font::clean(&drawing.title));
    file.object(INFO, &format!("<< /Title <{title}> /Producer (pipe) >>"));
    file.finish()
}

/// The stream of drawing operators, and what it refers to.
struct Page {
    height: f64,
    content: String,
    /// With the character that each stands for.
    glyphs: BTreeMap<u16, char>,
    /// In hundredths.
    opacities: BTreeSet<u32>,
}

impl Page {
    fn of(drawing: &Drawing) -> Self {
        let mut page = Self {
            height: drawing.height,
            content: "1 j\n".to_owned(),
            glyphs: BTreeMap::new(),
            opacities: BTreeSet::new(),
        };
        drawing.shapes.iter().for_each(|shape| page.add(shape));
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
                stroke.iter().for_each(|stroke| self.stroke(*stroke));
                self.path(points);
                self.content.push_str(if stroke.is_some() { "b\n" } else { "f\n" });
                if opacity < 100 {
                    self.content.push_str("Q\n");
                }
            }
            Shape::Text(text) => self.text(text),
        }
    }

    /// PDF counts from the lower left corner.
    fn path(&mut self, points: &[super::Point]) {
        let height = self.height;
        let points: Vec<_> = points.iter().map(|&(x, y)| (x, height - y)).collect();
        for (place, (x, y)) in distinct(&points).into_iter().enumerate() {
            _ = writeln!(self.content, "{x} {y} {}", if place == 0 { 'm' } else { 'l' });
        }
    }

    fn stroke(&mut self, stroke: Stroke) {
        self.colour(stroke.colour, "RG");
        let dash: Vec<String> = stroke.dash.iter().map(|&length| coordinate(length)).collect();
        _ = writeln!(self.content, "{} w [{}] 0 d", coordinate(stroke.width), dash.join(" "));
    }

    fn colour(&mut self, Colour(red, green, blue): Colour, operator: &str) {
        let part = |value: u8| format!("{}", (f64::from(value) / 255.0 * 1000.0).round() / 1000.0);
        _ = writeln!(self.content, "{} {} {} {operator}", part(red), part(green), part(blue));
    }

    fn text(&mut self, text: &Text) {
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
        let matrix = match text.upwards {
            false => format!("1 0 0 1 {} {}", coordinate(x - back), coordinate(y)),
            true => format!("0 1 -1 0 {} {}", coordinate(x), coordinate(y - back)),
        };
        self.colour(text.colour, "rg");
        let lacking = font::missing(&text.content).next().is_some();
        if lacking {
            _ = writeln!(self.content, "/Span << /ActualText <{}> >> BDC", utf16(&text.content));
        }
        _ = writeln!(self.content, "BT /F {} Tf {matrix} Tm <{codes}> Tj ET", coordinate(text.size));
        if lacking {
            self.content.push_str("EMC\n");
        }
    }
}

/// Big-endian with a byte order mark, as PDF wants text that is not Latin.
fn utf16(text: &str) -> String {
    let units = text.encode_utf16().map(|unit| format!("{unit:04X}"));
    ["FEFF".to_owned()].into_iter().chain(units).collect()
}

/// The six letters that a cut font's name begins with: the same for the same cut.
fn tag(glyphs: &BTreeSet<u16>) -> String {
    let bytes: Vec<u8> = glyphs.iter().flat_map(|glyph| glyph.to_be_bytes()).collect();
    Digest::of(&bytes).as_bytes()[..6].iter().map(|byte| char::from(b'A' + byte % 26)).collect()
}

fn to_unicode(glyphs: &BTreeMap<u16, char>) -> String {
    let mut map = "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n\
        /CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n\
        /CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n\
        1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n"
        .to_owned();
    let pairs: Vec<_> = glyphs.iter().filter(|&(&glyph, _)| glyph != 0).collect();
    // More than a hundred at a time are not allowed.
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

/// Bytes, and where each object starts in them.
struct File {
    bytes: Vec<u8>,
    offsets: Vec<usize>,
}

impl File {
    fn new() -> Self {
        // The second line marks the file as binary.
        Self { bytes: b"%PDF-1.4\n%\xE2\xE3\xCF\xD3\n".to_vec(), offsets: Vec::new() }
    }

    /// Objects come in the order of their numbers.
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
