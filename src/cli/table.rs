//! Plain tables for the terminal, which fit its width.
//!
//! `tabled` draws them; which columns are wrapped or left out is decided here, because it has no such choice.

use std::fmt;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use tabled::builder::Builder;
use tabled::settings::formatting::AlignmentStrategy;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Padding, Style};
use unicode_width::UnicodeWidthChar;

/// A text column is wrapped to no less than this.
const NARROWEST_TEXT: usize = 16;
/// The width of a terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// Rows under a heading. Prints nothing if there are no rows.
///
/// On a terminal, the lines fit its width: headings and text are wrapped, and if that is not enough, columns that are
/// [`Self::optional`] are left out with a note. Numbers are never broken. Elsewhere nothing is wrapped or left out.
pub(super) struct Grid {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
    text: Vec<usize>,
    optional: Vec<usize>,
    gap: usize,
}

impl Grid {
    /// Creates a table without rows. A heading may have several lines.
    pub(super) fn new<S: AsRef<str>>(heading: &[S]) -> Self {
        Self {
            heading: heading.iter().map(|cell| cell.as_ref().to_owned()).collect(),
            rows: Vec::new(),
            right: Vec::new(),
            text: Vec::new(),
            optional: Vec::new(),
            gap: 1,
        }
    }

    /// Aligns these columns, counted from 0, to the right.
    pub(super) fn right_aligned(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    /// Allows the text in these columns to be wrapped on a narrow terminal.
    pub(super) fn wrapped(mut self, columns: &[usize]) -> Self {
        self.text = columns.to_vec();
        self
    }

    /// Allows these columns to be left out on a narrow terminal. The first one is the least important.
    pub(super) fn optional(mut self, columns: &[usize]) -> Self {
        self.optional = columns.to_vec();
        self
    }

    /// Sets the number of blanks between two columns.
    pub(super) fn gap(mut self, blanks: usize) -> Self {
        self.gap = blanks;
        self
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns the table for a terminal of this width, or in full.
    pub(super) fn fitted(&self, width: Option<usize>) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let columns: Vec<Column> = (0..self.heading.len()).map(|at| self.column(at)).collect();
        let mut kept: Vec<usize> = (0..columns.len()).collect();
        let mut widths = columns.iter().map(|column| column.natural).collect::<Vec<_>>();
        if let Some(width) = width {
            // A column without content is not missed.
            let is_empty = |at: &&usize| self.rows.iter().all(|row| row[**at].is_empty());
            let (empty, filled): (Vec<&usize>, Vec<&usize>) = self.optional.iter().partition(is_empty);
            let mut leaving = empty.into_iter().chain(filled);
            while !shrink(&columns, &kept, &mut widths, self.gap, width) {
                let Some(next) = leaving.next() else { break };
                kept.retain(|at| at != next);
            }
        }
        let mut out = self.drawn(&kept, &widths);
        let missing: Vec<String> = (0..columns.len())
            .filter(|at| !kept.contains(at) && self.rows.iter().any(|row| !row[*at].is_empty()))
            .map(|at| format!("`{}`", self.heading[at].split_whitespace().collect::<Vec<_>>().join(" ")))
            .collect();
        if !missing.is_empty() {
            let note =
                format!("not enough room for {}\nadd `| less -S` to see all columns", missing.join(", "));
            out.push_str(&wrap(&note, width.unwrap_or(USUAL_WIDTH)));
            out.push('\n');
        }
        out
    }

    fn column(&self, at: usize) -> Column {
        let widest = |cells: &mut dyn Iterator<Item = &str>| cells.map(shown_width).max().unwrap_or(0);
        let content = widest(&mut self.rows.iter().flat_map(|row| row[at].lines()));
        let heading = widest(&mut self.heading[at].lines());
        let word = widest(&mut self.heading[at].split_whitespace());
        let narrowest = if self.text.contains(&at) { content.min(NARROWEST_TEXT) } else { content };
        Column { natural: content.max(heading), content, narrowest: narrowest.max(word) }
    }

    fn drawn(&self, kept: &[usize], widths: &[usize]) -> String {
        let headings: Vec<String> =
            self.heading.iter().zip(widths).map(|(text, width)| wrap(text, *width)).collect();
        let depth = kept.iter().map(|&at| headings[at].lines().count()).max().unwrap_or(0);
        let lowered =
            |at: usize| "\n".repeat(depth - headings[at].lines().count().min(depth)) + &headings[at];
        let mut builder = Builder::default();
        builder.push_record(kept.iter().map(|&at| lowered(at)));
        for row in &self.rows {
            builder.push_record(kept.iter().map(|&at| {
                if self.text.contains(&at) { wrap(&row[at], widths[at]) } else { row[at].clone() }
            }));
        }
        let mut table = builder.build();
        table.with(Style::empty()).with(Padding::new(0, self.gap, 0, 0)).with(AlignmentStrategy::PerLine);
        for (column, _) in kept.iter().enumerate().filter(|(_, at)| self.right.contains(at)) {
            table.modify(Columns::one(column), Alignment::right());
        }
        table.to_string().lines().fold(String::new(), |out, line| out + line.trim_end() + "\n")
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fitted(terminal_width()))
    }
}

/// How wide a column may be.
struct Column {
    /// The width of the heading and the cells as they are.
    natural: usize,
    /// The width of the cells.
    content: usize,
    /// The smallest width that the column can be wrapped to.
    narrowest: usize,
}

/// Narrows the kept columns until they fit: first those with a wide heading, then text, the widest column first. Returns
/// whether they fit.
fn shrink(columns: &[Column], kept: &[usize], widths: &mut [usize], gap: usize, width: usize) -> bool {
    for &at in kept {
        widths[at] = columns[at].natural;
    }
    loop {
        let total = kept.iter().map(|&at| widths[at] + gap).sum::<usize>().saturating_sub(gap);
        if total <= width {
            return true;
        }
        let narrower = |is_heading: bool| {
            let can = |at: &&usize| {
                let column = &columns[**at];
                let least = if is_heading { column.narrowest.max(column.content) } else { column.narrowest };
                widths[**at] > least
            };
            kept.iter().filter(can).max_by_key(|&&at| widths[at]).copied()
        };
        match narrower(true).or_else(|| narrower(false)) {
            Some(at) => widths[at] -= 1,
            None => return false,
        }
    }
}

/// Returns the width of the terminal on standard output; `None` if it is none.
pub(super) fn terminal_width() -> Option<usize> {
    width_of(std::io::stdout())
}

/// Returns the width of the terminal on standard error; `None` if it is none.
pub(super) fn status_width() -> Option<usize> {
    width_of(std::io::stderr())
}

fn width_of(stream: impl IsTerminal + AsFd) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Some(if columns == 0 { USUAL_WIDTH } else { columns })
}

/// Returns the width of a line of prose.
pub(super) fn prose_width() -> usize {
    terminal_width().unwrap_or(USUAL_WIDTH).min(USUAL_WIDTH)
}

/// Breaks lines as [`wrap`] does. What follows is indented by two blanks more than the beginning of the line.
pub(super) fn wrap_indented(text: &str, width: usize) -> String {
    let wrapped = |line: &str| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let (first, rest) = (" ".repeat(indent), " ".repeat(indent + 2));
        let parts = wrap(&line[indent..], width.saturating_sub(indent + 2).max(NARROWEST_TEXT));
        if shown_width(line) <= width {
            line.to_owned()
        } else {
            first + &parts.replace('\n', &format!("\n{rest}"))
        }
    };
    text.split('\n').map(wrapped).collect::<Vec<_>>().join("\n")
}

/// Breaks lines between words, so that each has at most `width` columns. A word that is longer is broken, if possible after
/// punctuation.
pub(super) fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.split('\n') {
        if shown_width(line) <= width {
            lines.push(line.to_owned());
            continue;
        }
        let mut last = String::new();
        for word in line.split_whitespace() {
            let mut rest = word;
            if !last.is_empty() && shown_width(&last) + 1 + shown_width(word) <= width {
                last.push(' ');
            } else {
                if !last.is_empty() {
                    lines.push(std::mem::take(&mut last));
                }
                while shown_width(rest) > width.max(1) {
                    let (start, end) = rest.split_at(break_of(rest, width.max(1)));
                    lines.push(start.to_owned());
                    rest = end;
                }
            }
            last.push_str(rest);
        }
        lines.push(last);
    }
    lines.join("\n")
}

/// Returns the byte at which a word that is too long is broken.
fn break_of(word: &str, width: usize) -> usize {
    let mut used = 0;
    let (mut fits, mut after_mark) = (0, None);
    for (at, character) in word.char_indices() {
        used += character.width().unwrap_or(0);
        if used > width && at > 0 {
            break;
        }
        fits = at + character.len_utf8();
        if matches!(character, ',' | '[' | '/' | ':' | '=' | '-' | '_' | '.') {
            after_mark = Some(fits);
        }
    }
    // A break very early in the line would waste it.
    after_mark.filter(|&at| at * 2 >= fits).unwrap_or(fits)
}

/// Returns the number of columns that a text takes on a terminal. Escape codes for bold and underlined text take none.
pub(super) fn shown_width(text: &str) -> usize {
    let mut is_code = false;
    let mut width = 0;
    for character in text.chars() {
        match character {
            '\u{1b}' => is_code = true,
            'm' if is_code => is_code = false,
            _ if is_code => {}
            other => width += other.width().unwrap_or(0),
        }
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells<const N: usize>(cells: [&str; N]) -> [String; N] {
        cells.map(str::to_owned)
    }

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_spaces() {
        let mut grid = Grid::new(&["stage", "took"]).right_aligned(&[1]);
        grid.row(cells(["train", "3 s"]));
        grid.row(cells(["a-long-name", ""]));
        let text = grid.fitted(None);
        let widths: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(widths[0], widths[1], "{text}");
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    }

    #[test]
    fn without_rows_there_is_no_heading() {
        assert_eq!(Grid::new(&["stage"]).fitted(Some(80)), "");
    }

    #[test]
    fn a_narrow_terminal_wraps_headings_then_text_and_leaves_columns_out_last() {
        let mut grid = Grid::new(&["stage", "training rows", "note", "digest"])
            .right_aligned(&[1])
            .wrapped(&[2])
            .optional(&[3]);
        grid.row(cells(["fit", "12345", "it was computed on another machine", "0123456789"]));
        assert_eq!(
            grid.fitted(None),
            "stage training rows note                               digest\n\
             fit           12345 it was computed on another machine 0123456789\n"
        );
        assert_eq!(grid.fitted(Some(65)), grid.fitted(None));
        assert_eq!(
            grid.fitted(Some(60)),
            "      training\n\
             stage     rows note                               digest\n\
             fit      12345 it was computed on another machine 0123456789\n"
        );
        assert_eq!(
            grid.fitted(Some(45)),
            "      training\n\
             stage     rows note               digest\n\
             fit      12345 it was computed on 0123456789\n\
             \u{20}              another machine\n"
        );
        assert_eq!(
            grid.fitted(Some(36)),
            "      training\n\
             stage     rows note\n\
             fit      12345 it was computed on\n\
             \u{20}              another machine\n\
             not enough room for `digest`\n\
             add `| less -S` to see all columns\n"
        );
        let narrow = grid.fitted(Some(10));
        assert!(narrow.contains("12345"), "a number is never broken:\n{narrow}");
    }

    #[test]
    fn an_empty_column_leaves_first_and_without_a_note() {
        let mut grid = Grid::new(&["run", "with", "note"]).optional(&[2, 1]);
        grid.row(cells(["20260131T101500Z", "", "first"]));
        assert_eq!(grid.fitted(Some(22)), "run              note\n20260131T101500Z first\n");
    }

    #[test]
    fn a_long_name_is_broken_after_punctuation() {
        assert_eq!(wrap("train[adaptive,medical,seed=1]", 16), "train[adaptive,\nmedical,seed=1]");
        assert_eq!(wrap("abcdefghij", 4), "abcd\nefgh\nij");
        assert_eq!(wrap("one two three", 7), "one two\nthree");
        assert_eq!(shown_width("\u{1b}[1m0.38\u{1b}[0m*"), 5);
    }

    #[test]
    fn wrapped_status_stays_below_the_beginning_of_its_line() {
        let text = "short\n    data: one of the labels has no row";
        assert_eq!(wrap_indented(text, 24), "short\n    data: one of the\n      labels has no row");
        assert_eq!(wrap_indented(text, 80), text);
    }
}
