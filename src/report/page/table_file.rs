//! Reads tables that other programs wrote as CSV, Markdown or JSON.

use serde_json::Value;

use super::grid::{GridCell, GridColumn, GridRow, PageGrid};

/// Reads the table in a text; `None` if there is none. `name` is the caption if the text has no heading.
pub fn read(name: &str, text: &str) -> Option<PageGrid> {
    let text = text.trim_start_matches('\u{feff}');
    let start = text.trim_start();
    if start.starts_with(['{', '[']) {
        rows(name, &serde_json::from_str(text).ok()?)
    } else if text.lines().any(|line| is_rule(line.trim())) {
        markdown(name, text)
    } else {
        let first = start.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
        let separator = [b',', b'\t'].into_iter().find(|&separator| first.contains(char::from(separator)))?;
        grid(name, separated(text, separator)?)
    }
}

/// Whether this is the line below the heading of a Markdown table: `|---|:-:|`.
fn is_rule(line: &str) -> bool {
    line.contains("--") && line.contains('|') && line.chars().all(|c| "|-: \t".contains(c))
}

fn markdown(name: &str, text: &str) -> Option<PageGrid> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let rule = lines.iter().position(|line| is_rule(line)).filter(|&rule| rule > 0)?;
    let before = lines[..rule - 1].iter().rev().find(|line| !line.is_empty());
    let caption = before.map_or(name, |line| line.trim_start_matches('#').trim());
    let rows = lines[rule + 1..].iter().take_while(|line| line.contains('|'));
    let records = std::iter::once(&lines[rule - 1]).chain(rows).map(|line| markdown_cells(line)).collect();
    grid(caption, records)
}

/// Splits a line into cells. `\|` is a bar; emphasis is dropped.
fn markdown_cells(line: &str) -> Vec<String> {
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').filter(|cut| !cut.ends_with('\\')).unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = c == '\\' && chars.peek().is_some_and(char::is_ascii_punctuation);
        match (c, cells.last_mut()) {
            (_, Some(cell)) if escaped => cell.extend(chars.next()),
            ('|', _) => cells.push(String::new()),
            ('*' | '`', _) => {}
            (c, Some(cell)) => cell.push(c),
            (_, None) => {}
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Reads the records of CSV or TSV. Lines before the heading that start with `#` are comments.
fn separated(text: &str, separator: u8) -> Option<Vec<Vec<String>>> {
    let mut text = text.trim_start();
    while text.starts_with('#') {
        text = text.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    let reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let records = reader.into_records().map(|record| Some(record.ok()?.iter().map(str::to_owned).collect()));
    let mut records: Vec<Vec<String>> = records.collect::<Option<_>>()?;
    records.retain(|record| record.iter().any(|cell| !cell.is_empty()));
    Some(records)
}

/// Reads a table from JSON: a list of maps, a list of lists of which the first is the heading, or the first such list
/// inside a map.
pub fn rows(name: &str, value: &Value) -> Option<PageGrid> {
    let rows = match value {
        Value::Array(rows) => rows,
        Value::Object(fields) => {
            let caption = ["title", "caption", "name"].iter().find_map(|key| fields.get(*key)?.as_str());
            return fields
                .values()
                .find_map(|value| rows(caption.unwrap_or(name), value).filter(|_| value.is_array()));
        }
        _ => return None,
    };
    let mut heading: Vec<String> = Vec::new();
    for field in rows.iter().filter_map(Value::as_object).flat_map(|fields| fields.keys()) {
        if !heading.contains(field) {
            heading.push(field.clone());
        }
    }
    let record = |row: &Value| match row {
        Value::Object(fields) => {
            Some(heading.iter().map(|field| fields.get(field).map_or_else(String::new, plain)).collect())
        }
        Value::Array(cells) => Some(cells.iter().map(plain).collect()),
        _ => None,
    };
    let mut records: Vec<Vec<String>> = rows.iter().map(record).collect::<Option<_>>()?;
    if !heading.is_empty() {
        records.insert(0, heading);
    }
    grid(name, records)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => super::number::decimal(value),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// Creates a grid. A column is numeric if all its cells start with a number. Rows of different lengths are no table.
fn grid(caption: &str, mut records: Vec<Vec<String>>) -> Option<PageGrid> {
    if records.len() < 2 || records.iter().any(|record| record.len() != records[0].len()) {
        return None;
    }
    let rows = records.split_off(1);
    let is_number = |place: usize| {
        let mut cells = rows.iter().map(|row| row[place].as_str()).filter(|cell| !is_blank(cell)).peekable();
        cells.peek().is_some() && cells.all(|cell| leading_number(cell).is_some())
    };
    let numbers: Vec<bool> = (0..records[0].len()).map(is_number).collect();
    let columns = records[0].iter().zip(&numbers);
    let columns = columns.map(
        |(heading, number)| {
            if *number { GridColumn::number(heading) } else { GridColumn::text(heading) }
        },
    );
    let grid_row = |record: Vec<String>| {
        let cells = record.into_iter().zip(&numbers).map(|(text, number)| match leading_number(&text) {
            Some(key) if *number => GridCell::number(text, key),
            _ => GridCell::text(text),
        });
        GridRow::plain(cells.collect())
    };
    Some(PageGrid {
        caption: caption.to_owned(),
        columns: columns.collect(),
        rows: rows.into_iter().map(grid_row).collect(),
    })
}

fn is_blank(cell: &str) -> bool {
    matches!(cell.trim(), "" | "-" | "–" | "—" | "nan" | "NaN" | "null")
}

/// Returns the number at the start of a cell: `0.412` of `0.412 ± 0.003`, none of `3rd`.
fn leading_number(cell: &str) -> Option<f64> {
    let word = cell.trim().split([' ', '±', '\u{a0}', '\u{202f}', '(', '[', '%', '†', '*']).next()?;
    word.replace('−', "-").parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        read("table1", text).unwrap_or_else(|| panic!("no table in {text}")).html().into_string()
    }

    #[test]
    fn csv_may_have_quotes_and_any_line_ends() {
        let html = html("name,f1\r\n\"a, \"\"b\"\"\",0.5 ± 0.1\r\n<script>,0.25\r\n");
        assert!(
            html.contains(r#"<th scope="row">a, &quot;b&quot;</th><td class="number" data-key="0.5">"#),
            "{html}"
        );
        assert!(html.contains("&lt;script&gt;") && !html.contains("<script>"), "{html}");
    }

    #[test]
    fn markdown_is_found_below_its_heading() {
        let html = html(
            "# Table 1\n\n| method | F1 |\n|:--|--:|\n| **adaptive** | 0.4 |\n| a \\| b | – |\n\nnotes\n",
        );
        assert!(html.contains("<caption>Table 1</caption>") && html.contains(">adaptive</th>"), "{html}");
        assert!(html.contains(">a | b</th>") && html.contains("data-key=\"0.4\""), "{html}");
    }

    #[test]
    fn json_may_be_a_list_of_rows_or_contain_one() {
        let rows = r#"[{"a": 1, "b": null}, {"a": 2.5, "b": "x"}]"#;
        for text in [rows.to_owned(), format!(r#"{{"title": "T", "rows": {rows}}}"#)] {
            assert!(html(&text).contains("data-key=\"2.5\""));
        }
        assert!(read("x", r#"{"passed": true}"#).is_none());
    }

    #[test]
    fn other_text_is_not_read_as_a_table() {
        for text in
            ["", "only one line", "a,b\n1\n", "\\begin{tabular}{ll}\na & b, c\\\\\n", "<svg>\n</svg>\n"]
        {
            assert!(read("x", text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_column_is_numeric_only_if_all_its_cells_are() {
        let html = html("id,n\n1st,1\n2nd,-\n");
        assert_eq!(html.matches("class=\"number\"").count(), 3, "{html}");
        assert_eq!(html.matches("data-key").count(), 1);
    }
}
