//! The font of the figures: a subset of Liberation Sans. It has the widths of Helvetica and Arial, so that the layout
//! also fits the fonts of an SVG viewer. A PDF embeds the font, because publishers reject files without their fonts.

use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId};
use unicode_width::UnicodeWidthChar;

/// The TrueType file.
pub const FILE: &[u8] = include_bytes!("sans/PipeSans.ttf");

static FACE: LazyLock<Face<'static>> =
    LazyLock::new(|| Face::parse(FILE, 0).expect("a test parses the font that is compiled in"));

/// The character that replaces the middle of a long text.
const ELLIPSIS: char = '…';

/// Returns the glyph of a character; `None` if the font has none.
pub fn glyph(character: char) -> Option<u16> {
    FACE.glyph_index(character).map(|glyph| glyph.0)
}

/// Returns the number of glyphs in the font.
#[cfg(test)]
pub(super) fn glyph_count() -> u16 {
    FACE.number_of_glyphs()
}

/// Returns the width of a glyph in thousandths of the font's size.
pub fn advance(glyph: u16) -> f64 {
    let units = FACE.glyph_hor_advance(GlyphId(glyph)).unwrap_or(0);
    f64::from(units) * 1000.0 / f64::from(FACE.units_per_em())
}

/// Returns the ascent, the descent and the height of capitals, in thousandths of the font's size.
pub fn heights() -> [f64; 3] {
    let per_em = f64::from(FACE.units_per_em());
    let capitals = FACE.capital_height().unwrap_or(FACE.ascender());
    [FACE.ascender(), FACE.descender(), capitals].map(|units| f64::from(units) * 1000.0 / per_em)
}

/// Returns the rectangle around all glyphs, in thousandths of the font's size.
pub fn bounds() -> [f64; 4] {
    let (per_em, bounds) = (f64::from(FACE.units_per_em()), FACE.global_bounding_box());
    [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max].map(|units| f64::from(units) * 1000.0 / per_em)
}

/// Returns the characters of a text that the font lacks.
pub fn missing(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().filter(|&character| glyph(character).is_none())
}

fn character_width(character: char) -> f64 {
    match glyph(character) {
        Some(glyph) => advance(glyph) / 1000.0,
        // A viewer takes the glyph from another font. Most scripts have about these widths.
        None => match character.width() {
            None | Some(0) => 0.0,
            Some(1) => 0.65,
            Some(_) => 1.0,
        },
    }
}

/// Returns the width of a text.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(character_width).sum::<f64>() * size
}

/// Returns the text as one line, without control characters and without those that change the writing direction.
pub fn clean(text: &str) -> String {
    let changes_direction =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let forbidden = |c: char| matches!(c, '\u{fffe}' | '\u{ffff}');
    let kept = text.chars().filter(|&c| !changes_direction(c) && !forbidden(c));
    kept.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Shortens a text that is wider than `limit` to its beginning and its end, where names usually differ.
pub fn clip(text: &str, size: f64, limit: f64) -> String {
    let text = clean(text);
    if width(&text, size) <= limit {
        return text;
    }
    let characters: Vec<char> = text.chars().collect();
    let mut left = limit - character_width(ELLIPSIS) * size;
    let (mut front, mut back) = (0, 0);
    // The front gets three characters for every two of the back.
    while front + back < characters.len() {
        let from_front = back * 3 >= front * 2;
        let next = if from_front { characters[front] } else { characters[characters.len() - 1 - back] };
        left -= character_width(next) * size;
        if left < 0.0 {
            break;
        }
        if from_front { front += 1 } else { back += 1 }
    }
    let (front, back) = (&characters[..front], &characters[characters.len() - back..]);
    front.iter().chain([&ELLIPSIS]).chain(back).collect()
}

/// Breaks a text into lines that are no wider than `limit`. A single word that is wider is shortened.
pub fn wrap(text: &str, size: f64, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = clip(word, size, limit);
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size) <= limit => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_the_widths_of_helvetica() {
        let widths = ['A', 'i', ' ', '0', 'W', 'α'].map(|c| advance(glyph(c).unwrap()).round());
        assert_eq!(widths, [667.0, 222.0, 278.0, 556.0, 944.0, 578.0]);
    }

    #[test]
    fn the_font_has_the_characters_that_figures_use() {
        assert_eq!(missing("αβλθ ±×†–−…≥ 0123 àéßőŁ Ж").collect::<String>(), "");
        assert_eq!(missing("a日b").collect::<String>(), "日");
    }

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end() {
        assert_eq!(clip("short", 8.0, 100.0), "short");
        let long = format!("begin{}end", "x".repeat(300));
        let clipped = clip(&long, 8.0, 60.0);
        assert!(width(&clipped, 8.0) <= 60.0 && width(&clipped, 8.0) > 50.0, "{clipped}");
        assert!(clipped.starts_with("begin") && clipped.ends_with("end"), "{clipped}");
        assert_eq!(clip("anything", 8.0, 0.0), "…");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 10.0, 45.0), ["one two", "three"]);
        assert_eq!(wrap("", 10.0, 45.0), [""; 0]);
    }

    #[test]
    fn control_characters_and_changes_of_direction_are_removed() {
        assert_eq!(clean("a\u{1b}b\nc\u{202e}d"), "a b cd");
    }
}
