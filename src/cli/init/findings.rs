//! What `pipe init` found in the user's data, in words.

use super::super::text::count;
use pipe_core::escape::terminal;
use pipe_ml::data::describe::grouped;
use pipe_ml::data::format::{Format, FormatContent};
use pipe_ml::data::inspect::{InputSummary, Inspection};
use pipe_ml::data::source::{DEFAULT_LABEL_SEPARATOR, NominalEncoding};

/// A label with fewer rows than this can hardly be learned.
pub(super) const FEW_ROWS: u64 = 3;

/// Returns what was found, one line for each aspect.
pub(super) fn text(found: &Inspection) -> String {
    let mut lines = Vec::new();
    for (role, path) in &found.files {
        lines.push(("file", format!("{} ({})", path.display(), role.name().replace('_', " "))));
    }
    let parts: Vec<String> =
        found.parts.iter().map(|(name, rows)| format!("{} {name}", grouped(*rows))).collect();
    let parts = if parts.len() > 1 { format!(": {}", parts.join(", ")) } else { String::new() };
    lines.push(("format", format!("{}, {} rows{parts}", found.format.name(), grouped(found.rows))));
    if found.format.content() == FormatContent::Text {
        lines.push(("columns", found.columns.join(", ")));
    }
    lines.push(input(found));
    lines.push(("labels", labels(found)));
    lines.push((
        "tail",
        format!(
            "the median label has {}; {} of {} labels have fewer than {FEW_ROWS}",
            rows(found.median_rows_per_label()),
            grouped(found.labels_under(FEW_ROWS)),
            grouped(found.label_counts.len() as u64)
        ),
    ));
    let notes = [
        (found.rows_without_labels, "without labels"),
        (found.empty_rows, "without text or features"),
        (found.duplicates, "repeat an earlier row"),
    ];
    let notes: Vec<String> = notes
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", grouped(*count)))
        .collect();
    if !notes.is_empty() {
        lines.push(("rows", notes.join(", ")));
    }
    if found.label_counts == [found.rows] {
        lines.push(("warning", "all rows have the same label, so that there is nothing to learn".to_owned()));
    }
    if found.labels_under(2) == found.label_counts.len() as u64 {
        let reason = "every label has one row only, so that no row says anything about the labels of another";
        lines.push(("warning", reason.to_owned()));
    }
    if let Some(warning) = separator_warning(found) {
        lines.push(("warning", warning));
    }
    if found.format.content() == FormatContent::Text {
        lines.push((
            "options",
            match (&found.read.join_column, found.format) {
                (Some(_), _) => "--text COLUMN, --labels COLUMN and --join COLUMN decide otherwise",
                (None, Format::Jsonl) => "--text FIELD and --labels FIELD decide otherwise",
                (None, _) => "--text COLUMN, --labels COLUMN and --separator TEXT decide otherwise",
            }
            .to_owned(),
        ));
    }
    let lines: Vec<String> =
        lines.iter().map(|(what, text)| format!("{what:<8} {}", terminal(text))).collect();
    lines.join("\n")
}

fn labels_of(number: usize) -> String {
    if number == 1 { "1 label".to_owned() } else { format!("{} labels", grouped(number as u64)) }
}

fn rows(number: u64) -> String {
    count(number as usize, "row")
}

fn input(found: &Inspection) -> (&'static str, String) {
    match found.input {
        InputSummary::Texts { mean_words } => {
            let column = found.read.input_column.as_deref().unwrap_or("text");
            ("text", format!("column `{column}`, {mean_words:.1} words on average"))
        }
        InputSummary::Sparse { features, counts } => {
            let what = if counts { "counts" } else { "weights" };
            let nominal = match found.read.nominal {
                Some(NominalEncoding::OneHot) => "; one for each value of a nominal attribute",
                _ => "",
            };
            ("features", format!("{}, sparse {what}{nominal}", grouped(features)))
        }
        InputSummary::Dense { features } => ("features", format!("{}, dense", grouped(features))),
    }
}

/// Returns a warning if labels are never separated, although they seem to be or a separator was given.
fn separator_warning(found: &Inspection) -> Option<String> {
    let given = found.read.label_separator.as_deref();
    if !found.is_single_label() {
        return None;
    }
    if found.format == Format::Jsonl {
        let (separator, field) = (found.missed_separator?, found.read.label_column.as_deref());
        return Some(format!(
            "no row has a list of labels, but some labels contain `{separator}`: if that separates labels, write lists, for example with \
             `jq -c '.[\"{0}\"] |= [splits(\" *[{separator}] *\")? | select(. != \"\")]' FILE > NEW.jsonl`",
            field.unwrap_or("labels")
        ));
    }
    if found.format != Format::Csv {
        return None;
    }
    let separator = given.unwrap_or(DEFAULT_LABEL_SEPARATOR);
    match found.missed_separator {
        Some(other) => Some(format!(
            "the labels are never separated by `{separator}`, but some of them contain `{other}`: if that separates labels, \
             use `--separator '{other}'`"
        )),
        None => given.map(|given| format!("the labels are never separated by `{given}`")),
    }
}

fn labels(found: &Inspection) -> String {
    let number = format!("{}, {:.1} per row", labels_of(found.label_counts.len()), found.labels_per_row());
    if found.format.content() != FormatContent::Text {
        return number;
    }
    let column = found.read.label_column.as_deref().unwrap_or("labels");
    if let Some(key) = &found.read.join_column {
        return format!("column `{column}` of another file, joined by `{key}`: {number}");
    }
    let separator = found.read.label_separator.as_deref().unwrap_or(DEFAULT_LABEL_SEPARATOR);
    match found.format {
        _ if found.is_single_label() => format!("column `{column}`, at most one per row: {number}"),
        Format::Csv => format!("column `{column}`, separated by `{separator}`: {number}"),
        _ => format!("field `{column}`: {number}"),
    }
}
