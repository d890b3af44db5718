//! Cuts a TrueType font down to some of its glyphs. Glyphs keep their numbers; the outlines of the others are left out.

use std::collections::BTreeSet;

/// The tables that a PDF needs of a font that it addresses by glyph, in the order of the file.
const TABLES: [&[u8; 4]; 6] = [b"glyf", b"head", b"hhea", b"hmtx", b"loca", b"maxp"];

/// Returns the font with these glyphs, or `None` if the font is damaged.
pub(super) fn subset(font: &[u8], glyphs: &BTreeSet<u16>) -> Option<Vec<u8>> {
    let table = |tag: &[u8; 4]| table(font, tag);
    let (glyf, loca, mut head) =
        (table(b"glyf")?, GlyphOffsets::read(table(b"head")?, table(b"loca")?)?, table(b"head")?.to_vec());
    let kept = with_parts(glyf, &loca, glyphs)?;
    let mut outlines = Vec::new();
    let mut offsets = Vec::new();
    for glyph in 0..loca.glyphs() {
        offsets.extend((outlines.len() as u32).to_be_bytes());
        if kept.contains(&glyph) {
            outlines.extend(loca.outline(glyf, glyph)?);
            outlines.resize(outlines.len().next_multiple_of(4), 0);
        }
    }
    offsets.extend((outlines.len() as u32).to_be_bytes());
    // Offsets are written in the long form. The checksum of the whole file stays zero: PDF readers ignore it.
    head.get_mut(50..52)?.copy_from_slice(&1u16.to_be_bytes());
    head.get_mut(8..12)?.fill(0);
    let content = |tag: &[u8; 4]| match tag {
        b"glyf" => Some(outlines.clone()),
        b"loca" => Some(offsets.clone()),
        b"head" => Some(head.clone()),
        _ => table(tag).map(<[u8]>::to_vec),
    };
    Some(assemble(TABLES.iter().map(|tag| Some((**tag, content(tag)?))).collect::<Option<Vec<_>>>()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn table<'a>(font: &'a [u8], tag: &[u8; 4]) -> Option<&'a [u8]> {
    let count = usize::from(u16_at(font, 4)?);
    let entry = (0..count).map(|at| 12 + 16 * at).find(|&at| font.get(at..at + 4) == Some(tag.as_slice()))?;
    let (offset, length) = (u32_at(font, entry + 8)? as usize, u32_at(font, entry + 12)? as usize);
    font.get(offset..offset.checked_add(length)?)
}

/// Where the outline of each glyph starts in the table `glyf`.
struct GlyphOffsets(Vec<u32>);

impl GlyphOffsets {
    fn read(head: &[u8], loca: &[u8]) -> Option<Self> {
        let long = u16_at(head, 50)? == 1;
        let short = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair[1]])) * 2;
        let wide = |four: &[u8]| u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
        let offsets: Vec<u32> = if long {
            loca.chunks_exact(4).map(wide).collect()
        } else {
            loca.chunks_exact(2).map(short).collect()
        };
        (!offsets.is_empty()).then_some(Self(offsets))
    }

    fn glyphs(&self) -> u16 {
        (self.0.len() - 1) as u16
    }

    fn outline<'a>(&self, glyf: &'a [u8], glyph: u16) -> Option<&'a [u8]> {
        let at = usize::from(glyph);
        glyf.get(*self.0.get(at)? as usize..*self.0.get(at + 1)? as usize)
    }
}

/// Adds the glyphs that others are composed of, such as the letter and the accent of an accented letter.
fn with_parts(glyf: &[u8], loca: &GlyphOffsets, glyphs: &BTreeSet<u16>) -> Option<BTreeSet<u16>> {
    const WORDS: u16 = 1;
    const SCALE: u16 = 1 << 3;
    const MORE: u16 = 1 << 5;
    const TWO_SCALES: u16 = 1 << 6;
    const MATRIX: u16 = 1 << 7;
    let mut kept = BTreeSet::new();
    let mut open: Vec<u16> = glyphs.iter().copied().chain([0]).collect();
    while let Some(glyph) = open.pop() {
        if !kept.insert(glyph) {
            continue;
        }
        let outline = loca.outline(glyf, glyph)?;
        if outline.is_empty() || u16_at(outline, 0)? as i16 >= 0 {
            continue;
        }
        let mut at = 10;
        loop {
            let (flags, part) = (u16_at(outline, at)?, u16_at(outline, at + 2)?);
            open.push(part);
            let scales = match flags {
                flags if flags & SCALE != 0 => 2,
                flags if flags & TWO_SCALES != 0 => 4,
                flags if flags & MATRIX != 0 => 8,
                _ => 0,
            };
            at += 4 + if flags & WORDS != 0 { 4 } else { 2 } + scales;
            if flags & MORE == 0 {
                break;
            }
        }
    }
    Some(kept)
}

fn assemble(tables: Vec<([u8; 4], Vec<u8>)>) -> Vec<u8> {
    let count = tables.len() as u16;
    let power = 1u16 << count.ilog2();
    let mut file = 0x0001_0000u32.to_be_bytes().to_vec();
    for field in [count, power * 16, count.ilog2() as u16, (count - power) * 16] {
        file.extend(field.to_be_bytes());
    }
    let mut offset = 12 + 16 * tables.len();
    for (tag, content) in &tables {
        file.extend(tag);
        for field in [checksum(content), offset as u32, content.len() as u32] {
            file.extend(field.to_be_bytes());
        }
        offset += content.len().next_multiple_of(4);
    }
    for (_, content) in &tables {
        file.extend(content);
        file.resize(file.len().next_multiple_of(4), 0);
    }
    file
}

fn checksum(table: &[u8]) -> u32 {
    let word = |chunk: &[u8]| {
        let mut bytes = [0; 4];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u32::from_be_bytes(bytes)
    };
    table.chunks(4).map(word).fold(0, u32::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::draw::font::{FILE, glyph};

    /// Returns the outline of a glyph, as `ttf-parser` reads it.
    fn outline(font: &[u8], glyph: u16) -> String {
        #[derive(Default)]
        struct Written(String);
        impl ttf_parser::OutlineBuilder for Written {
            fn move_to(&mut self, x: f32, y: f32) {
                self.0 += &format!("M{x} {y}");
            }
            fn line_to(&mut self, x: f32, y: f32) {
                self.0 += &format!("L{x} {y}");
            }
            fn quad_to(&mut self, a: f32, b: f32, x: f32, y: f32) {
                self.0 += &format!("Q{a} {b} {x} {y}");
            }
            fn curve_to(&mut self, _: f32, _: f32, _: f32, _: f32, _: f32, _: f32) {}
            fn close(&mut self) {
                self.0 += "Z";
            }
        }
        let mut written = Written::default();
        let face = ttf_parser::Face::parse(font, 0).unwrap();
        _ = face.outline_glyph(ttf_parser::GlyphId(glyph), &mut written);
        written.0
    }

    #[test]
    fn a_subset_keeps_its_glyphs_unchanged_and_drops_the_others() {
        let (a_umlaut, a, b) = (glyph('ä').unwrap(), glyph('a').unwrap(), glyph('B').unwrap());
        let small = subset(FILE, &BTreeSet::from([a_umlaut])).unwrap();
        assert!(small.len() < FILE.len() / 3, "{}", small.len());
        assert!(!outline(&small, a_umlaut).is_empty());
        // It may be composed of the letter and its dots.
        assert_eq!(outline(&small, a_umlaut), outline(FILE, a_umlaut));
        assert_eq!(outline(&small, b), "");
        assert!(outline(&small, a).is_empty() || outline(&small, a) == outline(FILE, a));
    }

    #[test]
    fn a_damaged_font_has_no_subset() {
        assert_eq!(subset(&FILE[..100], &BTreeSet::new()), None);
        assert_eq!(subset(b"", &BTreeSet::new()), None);
    }
}
