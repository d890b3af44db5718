//! Escapes text for LaTeX, so that nothing in it is a command and it always compiles.
//!
//! The result is ASCII. A character that pdfLaTeX has no glyph for (Chinese, Arabic, emoji, control characters) becomes
//! `\pipechar{4E2D}`. This prints the character itself under XeLaTeX and LuaLaTeX, given a font that has it, and its
//! code point in a small box under pdfLaTeX. A file that uses the command defines it ([`DEFINITION`]).

use std::fmt::Write as _;

use super::latex_char::{COMMANDS, combining, decompose};

/// Defines `\pipechar`. It uses `\string` because babel may have made the quote active.
pub const DEFINITION: &str = r##"\DeclareRobustCommand{\pipechar}[1]{\ifdefined\Umathcode\char\string"#1\relax\else
  \leavevmode\allowbreak\raisebox{0.25ex}{\fboxsep=1pt\fbox{\tiny\ttfamily#1}}\allowbreak\fi}
"##;

/// Only words longer than this may be broken, so that they fit into a column.
const LONG_WORD: usize = 24;
/// A long word may be broken after each group of so many characters.
const BREAK_AFTER: usize = 6;

/// Escapes text. Line ends and tabs become spaces.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let long = |word: &str| word.chars().count() > LONG_WORD;
    let breakable = text.split_whitespace().any(long);
    let mut run = 0;
    let mut characters = text.chars().peekable();
    let mut before = None;
    while let Some(character) = characters.next() {
        let accent = characters.peek().and_then(|next| combining(*next));
        match accent {
            Some(accent) if character.is_ascii_alphabetic() => {
                characters.next();
                accented(&mut out, accent, character);
            }
            _ => single(&mut out, character, before),
        }
        before = Some(character);
        run = if character.is_whitespace() { 0 } else { run + 1 };
        if breakable && run == BREAK_AFTER {
            out.push_str("\\allowbreak{}");
            (run, before) = (0, None);
        }
    }
    out
}

fn single(out: &mut String, character: char, before: Option<char>) {
    if let Some((_, command)) = COMMANDS.iter().find(|(known, _)| *known == character) {
        out.push_str(command);
    } else if matches!(character, '\n' | '\r' | '\t') {
        out.push(' ');
    } else if character.is_ascii_graphic() || character == ' ' {
        // LaTeX would draw two of these as one: `--`, `''`, `,,`, and two spaces.
        if before == Some(character) && matches!(character, '-' | '\'' | ',' | ' ') {
            out.push_str("{}");
        }
        out.push(character);
    } else if let Some((accent, base)) = decompose(character) {
        accented(out, accent, base);
    } else {
        let _ = write!(out, "\\pipechar{{{:04X}}}", u32::from(character));
    }
}

fn accented(out: &mut String, accent: &str, base: char) {
    let below = matches!(accent, r"\d" | r"\b" | r"\c");
    let _ = match base {
        'i' | 'j' if !below => write!(out, "{accent}{{\\{base}}}"),
        _ => write!(out, "{accent}{{{base}}}"),
    };
}

/// Escapes text for a comment: one line of ASCII.
pub fn comment(text: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() || c == ' ';
    let write = |c: char| if plain(c) { c.to_string() } else { c.escape_unicode().to_string() };
    text.chars().map(write).collect()
}
