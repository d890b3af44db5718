//! Rewrites predictions with one line per row.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::ensure;
use serde::Deserialize;

use super::exit::Failure;
use pipe_core::escape::csv_text;

/// A line of predictions, as the job writes it.
#[derive(Deserialize)]
struct PredictedRow {
    id: Option<String>,
    row: usize,
    labels: Vec<PredictedLabel>,
}

#[derive(Deserialize)]
struct PredictedLabel {
    label: u32,
    name: Option<String>,
}

/// Turns a file of predictions as JSON lines into CSV with the id or the number of each row, and its labels.
pub(super) fn one_line_per_row(path: &Path, separator: &str) -> Result<(), Failure> {
    // The old content stays readable through its handle after the file is removed.
    let lines = BufReader::new(File::open(path)?);
    std::fs::remove_file(path)?;
    Ok(write_lines(lines, separator, BufWriter::new(File::create(path)?))?)
}

fn write_lines(lines: impl BufRead, separator: &str, out: impl Write) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let mut is_first = true;
    for line in lines.lines() {
        let PredictedRow { id, row, labels } = serde_json::from_str(&line?)?;
        if is_first {
            writer.write_record([if id.is_some() { "id" } else { "row" }, "labels"])?;
            is_first = false;
        }
        let name = |label: PredictedLabel| label.name.unwrap_or_else(|| label.label.to_string());
        let names: Vec<String> = labels.into_iter().map(name).collect();
        for name in &names {
            ensure!(
                !name.contains(separator) && !name.contains(['\n', '\r']),
                "the label {name:?} contains the separator {separator:?} or a line break, so `--format labels` would be \
                 ambiguous: choose `--format jsonl` or `--format csv`"
            );
        }
        // An id is not escaped for spreadsheets: it has to be the one of the input.
        let first = id.unwrap_or_else(|| row.to_string());
        writer.write_record([&*first, &*csv_text(&names.join(separator))])?;
    }
    Ok(writer.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "{\"row\":0,\"labels\":[{\"label\":3,\"name\":\"a\"},{\"label\":5,\"name\":\"b, c\"}]}\n{\"row\":1,\"labels\":[]}\n";

    fn rewritten(text: &str) -> Result<String, String> {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("p");
        std::fs::write(&path, text).unwrap();
        one_line_per_row(&path, ";").map_err(|failure| failure.text)?;
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
        Ok(std::fs::read_to_string(path).unwrap())
    }

    #[test]
    fn a_line_starts_with_the_id_or_the_number_of_the_row() {
        assert_eq!(rewritten(ROWS).unwrap(), "row,labels\n0,\"a;b, c\"\n1,\n");
        let with_ids = ROWS.replace("\"row\":0", "\"id\":\"x\",\"row\":0");
        let with_ids = with_ids.replace("\"row\":1", "\"id\":\"y\\\"z\",\"row\":1");
        assert_eq!(rewritten(&with_ids).unwrap(), "id,labels\nx,\"a;b, c\"\n\"y\"\"z\",\n");
    }

    #[test]
    fn a_label_that_would_look_like_several_is_refused() {
        for name in ["a;b", "a\\nb", "a\\rb"] {
            let row = format!("{{\"row\":0,\"labels\":[{{\"label\":3,\"name\":\"{name}\"}}]}}\n");
            let error = rewritten(&row).unwrap_err();
            assert!(error.contains(&format!("the label \"{name}\"")) && error.contains("jsonl"), "{error}");
        }
    }
}
