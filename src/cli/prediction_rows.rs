//! Rewrites predictions with ids, or with one line per row.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::args::PredictFormat;
use super::exit::Failure;
use pipe_core::escape::csv_text;

/// A line of predictions, as the job writes it.
#[derive(Deserialize)]
struct PredictedRow {
    row: usize,
    labels: Vec<PredictedLabel>,
}

#[derive(Deserialize)]
struct PredictedLabel {
    label: u32,
    name: Option<String>,
}

/// Adds the ids of the rows to a file of predictions, and writes the format `labels`. The job knows neither.
pub(super) fn rewrite(
    path: &Path,
    format: PredictFormat,
    ids: Option<&[String]>,
    separator: &str,
) -> Result<(), Failure> {
    if ids.is_none() && format != PredictFormat::Labels {
        return Ok(());
    }
    // The old content stays readable through its handle after the file is removed.
    let lines = BufReader::new(File::open(path)?);
    std::fs::remove_file(path)?;
    let mut out = BufWriter::new(File::create(path)?);
    match format {
        PredictFormat::Jsonl => with_ids_as_json(lines, ids.unwrap_or_default(), &mut out)?,
        PredictFormat::Csv => with_ids_as_csv(lines, ids.unwrap_or_default(), &mut out)?,
        PredictFormat::Labels => one_line_per_row(lines, ids, separator, &mut out)?,
    }
    Ok(out.flush()?)
}

fn id(ids: &[String], row: usize) -> anyhow::Result<&str> {
    ids.get(row).map(String::as_str).with_context(|| format!("row {row} has no id"))
}

fn with_ids_as_json(lines: impl BufRead, ids: &[String], out: &mut impl Write) -> anyhow::Result<()> {
    for (row, line) in lines.lines().enumerate() {
        let id = serde_json::Value::from(id(ids, row)?);
        let line = line?;
        let fields = line.strip_prefix('{').context("a line of predictions is not an object")?;
        writeln!(out, "{{\"id\":{id},{fields}")?;
    }
    Ok(())
}

fn with_ids_as_csv(lines: impl BufRead, ids: &[String], out: &mut impl Write) -> anyhow::Result<()> {
    let mut reader = csv::Reader::from_reader(lines);
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(std::iter::once("id").chain(reader.headers()?))?;
    for record in reader.records() {
        let record = record?;
        let row: usize = record[0].parse()?;
        writer.write_record(std::iter::once(id(ids, row)?).chain(&record))?;
    }
    Ok(writer.flush()?)
}

fn one_line_per_row(
    lines: impl BufRead,
    ids: Option<&[String]>,
    separator: &str,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record([if ids.is_some() { "id" } else { "row" }, "labels"])?;
    for line in lines.lines() {
        let PredictedRow { row, labels } = serde_json::from_str(&line?)?;
        let name = |label: PredictedLabel| label.name.unwrap_or_else(|| label.label.to_string());
        let names: Vec<String> = labels.into_iter().map(name).collect();
        for name in &names {
            ensure!(
                !name.contains(separator) && !name.contains(['\n', '\r']),
                "the label {name:?} contains the separator {separator:?} or a line break, so `--format labels` would be \
                 ambiguous: choose `--format jsonl` or `--format csv`"
            );
        }
        let number = row.to_string();
        let first = match ids {
            // An id is not escaped for spreadsheets: it has to be the one of the input.
            Some(ids) => id(ids, row)?,
            None => &number,
        };
        writer.write_record([first, &*csv_text(&names.join(separator))])?;
    }
    Ok(writer.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "{\"row\":0,\"labels\":[{\"label\":3,\"name\":\"a\"},{\"label\":5,\"name\":\"b, c\"}]}\n{\"row\":1,\"labels\":[]}\n";

    fn rewritten(text: &str, format: PredictFormat, ids: Option<&[&str]>) -> Result<String, String> {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("p");
        std::fs::write(&path, text).unwrap();
        let ids: Option<Vec<String>> = ids.map(|ids| ids.iter().map(|&id| id.to_owned()).collect());
        rewrite(&path, format, ids.as_deref(), ";").map_err(|failure| failure.text)?;
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
        Ok(std::fs::read_to_string(path).unwrap())
    }

    #[test]
    fn every_format_starts_with_the_id() {
        let ids = Some(&["x", "y\"z"][..]);
        let json = rewritten(ROWS, PredictFormat::Jsonl, ids).unwrap();
        assert!(
            json.starts_with("{\"id\":\"x\",\"row\":0,") && json.contains("{\"id\":\"y\\\"z\",\"row\":1"),
            "{json}"
        );
        let csv = "row,label,name\n0,3,a\n0,5,\"b, c\"\n";
        assert_eq!(
            rewritten(csv, PredictFormat::Csv, ids).unwrap(),
            "id,row,label,name\nx,0,3,a\nx,0,5,\"b, c\"\n"
        );
        let labels = rewritten(ROWS, PredictFormat::Labels, ids).unwrap();
        assert_eq!(labels, "id,labels\nx,\"a;b, c\"\n\"y\"\"z\",\n");
    }

    #[test]
    fn rows_are_numbered_without_ids() {
        assert_eq!(rewritten(ROWS, PredictFormat::Labels, None).unwrap(), "row,labels\n0,\"a;b, c\"\n1,\n");
        assert_eq!(rewritten(ROWS, PredictFormat::Jsonl, None).unwrap(), ROWS);
    }

    #[test]
    fn a_label_that_would_look_like_several_is_refused() {
        for name in ["a;b", "a\\nb", "a\\rb"] {
            let row = format!("{{\"row\":0,\"labels\":[{{\"label\":3,\"name\":\"{name}\"}}]}}\n");
            let error = rewritten(&row, PredictFormat::Labels, None).unwrap_err();
            assert!(error.contains(&format!("the label \"{name}\"")) && error.contains("jsonl"), "{error}");
        }
    }

    #[test]
    fn a_row_without_an_id_is_an_error() {
        assert!(
            rewritten(ROWS, PredictFormat::Labels, Some(&["x"])).unwrap_err().contains("row 1 has no id")
        );
    }
}
