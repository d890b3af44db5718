//! The job of `pipe predict`: new rows in, one line per row (or per label) out.

use std::io::{BufWriter, Write};

use anyhow::{Context, Result};
use pipe_core::work::{Stopped, Work};
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::transform::read_new_rows;
use pipe_ml::metric::top::Top;
use pipe_stages::predict::{Predict, PredictionFormat};
use serde::{Deserialize, Serialize};

use super::subject::open_system;
use crate::system::Block;

pub fn run(work: &mut Work) -> Result<()> {
    let job = Predict::deserialize(&work.job().body)?;
    let data_directory = work.input("data")?.path.clone();
    let data = SplitData::open(&data_directory)?;
    let (scratch, threads) = (work.job().scratch.clone(), work.job().threads);
    let features = read_new_rows(&work.input("rows")?.path, &data_directory, &job.read, &scratch, threads)?;
    let mut system = open_system(work, &data, job.device, job.signal)?;
    let rows: Vec<u32> = (0..features.rows() as u32).collect();
    let path = work.output("predictions")?;
    let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
    let mut writer =
        Writer { out: BufWriter::new(file), format: job.format, names: data.label_names()?, top: job.top };
    writer.heading()?;
    system.decide(Unlabelled { features: &features, rows: &rows }, &mut |block| {
        if work.should_stop() {
            return Err(Stopped.into());
        }
        (0..block.rows).try_for_each(|row| writer.row(block, row))
    })?;
    Ok(writer.out.flush()?)
}

struct Writer<W> {
    out: W,
    format: PredictionFormat,
    names: Option<Vec<String>>,
    top: Option<usize>,
}

#[derive(Serialize)]
struct Line<'a> {
    row: usize,
    labels: Vec<Decided<'a>>,
}

/// One label of a row.
#[derive(Serialize)]
struct Decided<'a> {
    label: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    score: f32,
    /// Absent where the rule has none, or the label is never predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f32>,
    predicted: bool,
}

impl<W: Write> Writer<W> {
    fn heading(&mut self) -> Result<()> {
        if self.format == PredictionFormat::Csv {
            writeln!(self.out, "row,label,name,score,threshold,probability,predicted")?;
        }
        Ok(())
    }

    fn row(&mut self, block: &Block, row: usize) -> Result<()> {
        let number = block.first + row;
        let labels = match self.top {
            None => block.predicted[row].clone(),
            Some(count) => {
                let mut top = Top::new(count);
                let best = top.of_dense(&block.ranking(row));
                best.map_err(|bad| anyhow::anyhow!("row {number}: label {} has no score", bad.label))?
                    .to_vec()
            }
        };
        let decided = |&label: &u32| {
            let at = label as usize;
            Decided {
                label,
                name: self.names.as_ref().map(|names| names[at].as_str()),
                score: block.row_scores(row)[at],
                threshold: block.row_thresholds(row).map(|cuts| cuts[at]).filter(|cut| cut.is_finite()),
                probability: block.row_probabilities(row).get(at).copied(),
                predicted: block.predicted[row].binary_search(&label).is_ok(),
            }
        };
        let line = Line { row: number, labels: labels.iter().map(decided).collect() };
        match self.format {
            PredictionFormat::Jsonl => {
                serde_json::to_writer(&mut self.out, &line)?;
                self.out.write_all(b"\n")?;
            }
            PredictionFormat::Csv => {
                for decided in &line.labels {
                    let figure =
                        |value: Option<f32>| value.map(|value| value.to_string()).unwrap_or_default();
                    let (name, label) = (quoted(decided.name.unwrap_or_default()), decided.label);
                    let (threshold, probability) = (figure(decided.threshold), figure(decided.probability));
                    let (score, predicted) = (decided.score, decided.predicted);
                    writeln!(
                        self.out,
                        "{number},{label},{name},{score},{threshold},{probability},{predicted}"
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// A field of CSV: in quotes where it must be.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Thresholds;

    fn block() -> Block {
        Block {
            first: 7,
            rows: 1,
            labels: 3,
            scores: vec![0.5, 2.0, -1.0],
            probabilities: vec![0.25, 0.75, 0.125],
            predicted: vec![vec![1]],
            thresholds: Thresholds::PerLabel(vec![1.0, 1.5, f32::INFINITY]),
        }
    }

    fn written(format: PredictionFormat, top: Option<usize>) -> String {
        let names = Some(vec!["a".to_owned(), "b, \"c\"".to_owned(), "d".to_owned()]);
        let mut writer = Writer { out: Vec::new(), format, names, top };
        writer.heading().unwrap();
        writer.row(&block(), 0).unwrap();
        String::from_utf8(writer.out).unwrap()
    }

    #[test]
    fn a_line_of_json_has_the_predicted_labels() {
        let line: serde_json::Value = serde_json::from_str(&written(PredictionFormat::Jsonl, None)).unwrap();
        assert_eq!(
            line,
            serde_json::json!({ "row": 7, "labels": [
                { "label": 1, "name": "b, \"c\"", "score": 2.0, "threshold": 1.5, "probability": 0.75, "predicted": true }
            ]})
        );
    }

    #[test]
    fn csv_has_a_line_per_label_best_first() {
        let text = written(PredictionFormat::Csv, Some(2));
        assert_eq!(
            text,
            "row,label,name,score,threshold,probability,predicted\n\
             7,1,\"b, \"\"c\"\"\",2,1.5,0.75,true\n7,0,a,0.5,1,0.25,false\n"
        );
    }
}
