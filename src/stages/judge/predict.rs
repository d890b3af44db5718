//! Runs the job of `pipe predict`: writes one line per row, or per row and label.

use std::io::{BufWriter, Write};
use std::marker::PhantomData;

use anyhow::{Context, Result};
use pipe_core::escape::csv_text;
use pipe_core::stage::RunStage;
use pipe_core::work::{Stopped, Work};
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::transform::{EncodedRows, read_new_rows};
use pipe_ml::metric::block::DecisionBlock;
use pipe_ml::metric::top::Top;
use serde::Serialize;

use super::OpenSystem;
use super::judged_model::open_system;
use crate::predict::{DATA, MODEL, Predict, PredictionFormat, ROWS};

/// Runs the job of `pipe predict` with the models that `O` opens.
pub(super) struct RunPredict<O>(PhantomData<O>);

impl<O: OpenSystem> RunStage for RunPredict<O> {
    type Stage = Predict;

    fn run(stage: &Predict, work: &mut Work) -> Result<()> {
        let data = SplitData::open_unverified(work.input_path(DATA)?)?;
        let (new_rows, directory) = (work.input_path(ROWS)?, work.input_path(DATA)?);
        let EncodedRows { features, ids, warnings } =
            read_new_rows(new_rows, directory, &stage.read, &work.job().scratch, work.job().threads)?;
        for warning in warnings {
            work.warn(warning);
        }
        let model = work.open(MODEL)?.0;
        let mut system = open_system::<O>(&model, &data, stage.device, stage.signal, work.job().threads)?;
        let rows: Vec<u32> = (0..features.rows() as u32).collect();
        let path = work.output_path(Predict::PREDICTIONS)?;
        let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        let written = Written { names: data.label_names()?, ids, top: stage.top };
        let mut writer = PredictionWriter::new(BufWriter::new(file), stage.format, written)?;
        system.decide(Unlabelled { features: &features, rows: &rows }, &mut |block| {
            if work.should_stop() {
                return Err(Stopped.into());
            }
            (0..block.rows).try_for_each(|row| writer.row(block, row))
        })?;
        writer.finish()?;
        Ok(())
    }
}

/// The columns of the CSV format.
const COLUMNS: [&str; 7] = ["row", "label", "name", "score", "threshold", "probability", "predicted"];

struct PredictionWriter<W: Write> {
    lines: PredictionLines<W>,
    written: Written,
}

/// What is written about the rows.
#[derive(Default)]
struct Written {
    /// The names of the labels.
    names: Option<Vec<String>>,
    /// What identifies each row.
    ids: Option<Vec<String>>,
    top: Option<usize>,
}

enum PredictionLines<W: Write> {
    Jsonl(W),
    Csv(Box<csv::Writer<W>>),
}

/// The labels of one row, as they are written.
#[derive(Serialize)]
pub(super) struct PredictedRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    row: usize,
    labels: Vec<PredictedLabel<'a>>,
}

/// One label of a row.
#[derive(Serialize)]
struct PredictedLabel<'a> {
    label: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    score: f32,
    /// Absent if the rule has no thresholds, or never predicts the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f32>,
    predicted: bool,
}

impl<W: Write> PredictionWriter<W> {
    fn new(out: W, format: PredictionFormat, written: Written) -> Result<Self> {
        let lines = match format {
            PredictionFormat::Jsonl => PredictionLines::Jsonl(out),
            PredictionFormat::Csv => {
                let mut csv = csv::Writer::from_writer(out);
                csv.write_record(written.ids.iter().map(|_| "id").chain(COLUMNS))?;
                PredictionLines::Csv(Box::new(csv))
            }
        };
        Ok(Self { lines, written })
    }

    fn finish(self) -> Result<W> {
        match self.lines {
            PredictionLines::Jsonl(mut out) => {
                out.flush()?;
                Ok(out)
            }
            PredictionLines::Csv(csv) => csv.into_inner().map_err(|error| anyhow::anyhow!("{error}")),
        }
    }

    fn row(&mut self, block: &DecisionBlock, row: usize) -> Result<()> {
        let Written { names, ids, top } = &self.written;
        let number = block.first + row;
        let id = ids.as_ref().map(|ids| ids[number].as_str());
        self.lines
            .write(&PredictedRow { id, ..PredictedRow::new(block, row, number, names.as_deref(), *top)? })
    }
}

impl<'a> PredictedRow<'a> {
    /// Lists the predicted labels of a row of a block, or the `top` labels with the highest scores. `number` is the number
    /// of the row in the output.
    pub(super) fn new(
        block: &DecisionBlock,
        row: usize,
        number: usize,
        names: Option<&'a [String]>,
        top: Option<usize>,
    ) -> Result<Self> {
        let labels = match top {
            None => block.predicted[row].clone(),
            Some(count) => {
                let mut top = Top::new(count);
                let best = top.of_dense(&block.ranking(row));
                best.map_err(|bad| anyhow::anyhow!("row {number}: label {} has no score", bad.label))?
                    .to_vec()
            }
        };
        let predicted_label = |&label: &u32| {
            let at = label as usize;
            PredictedLabel {
                label,
                name: names.map(|names| names[at].as_str()),
                score: block.score(row, label),
                threshold: block.row_thresholds(row).map(|cuts| cuts[at]).filter(|cut| cut.is_finite()),
                probability: block.probability(row, label),
                predicted: block.predicted[row].binary_search(&label).is_ok(),
            }
        };
        Ok(Self { id: None, row: number, labels: labels.iter().map(predicted_label).collect() })
    }
}

impl<W: Write> PredictionLines<W> {
    fn write(&mut self, predicted: &PredictedRow) -> Result<()> {
        match self {
            Self::Jsonl(out) => {
                serde_json::to_writer(&mut *out, predicted)?;
                out.write_all(b"\n")?;
            }
            Self::Csv(csv) => {
                let text = |value: Option<f32>| value.map(|value| value.to_string()).unwrap_or_default();
                for label in &predicted.labels {
                    let columns = [
                        predicted.row.to_string(),
                        label.label.to_string(),
                        csv_text(label.name.unwrap_or_default()).into_owned(),
                        label.score.to_string(),
                        text(label.threshold),
                        text(label.probability),
                        label.predicted.to_string(),
                    ];
                    // An id is not escaped for spreadsheets: it has to be the one of the input.
                    let id = predicted.id.into_iter();
                    csv.write_record(id.chain(columns.iter().map(String::as_str)))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::metric::block::Thresholds;

    fn block() -> DecisionBlock {
        DecisionBlock {
            first: 7,
            rows: 1,
            labels: 3,
            scores: vec![0.5, 2.0, -1.0],
            probabilities: vec![0.25, 0.75, 0.125],
            predicted: vec![vec![1]],
            thresholds: Thresholds::PerLabel(vec![1.0, 1.5, f32::INFINITY]),
            candidates: None,
            sparse: None,
        }
    }

    fn written(format: PredictionFormat, top: Option<usize>) -> String {
        written_with(format, top, None)
    }

    fn written_with(format: PredictionFormat, top: Option<usize>, ids: Option<Vec<String>>) -> String {
        let names = Some(vec!["a".to_owned(), "b, \"c\"".to_owned(), "d".to_owned()]);
        let mut writer = PredictionWriter::new(Vec::new(), format, Written { names, ids, top }).unwrap();
        writer.row(&block(), 0).unwrap();
        String::from_utf8(writer.finish().unwrap()).unwrap()
    }

    #[test]
    fn a_label_that_a_spreadsheet_would_run_is_defused_in_csv_only() {
        let names = vec!["a".to_owned(), "=HYPERLINK(1)".to_owned(), "c".to_owned()];
        for (format, expected) in
            [(PredictionFormat::Csv, ",'=HYPERLINK(1),"), (PredictionFormat::Jsonl, "\"=HYPERLINK(1)\"")]
        {
            let written = Written { names: Some(names.clone()), ..Written::default() };
            let mut writer = PredictionWriter::new(Vec::new(), format, written).unwrap();
            writer.row(&block(), 0).unwrap();
            let text = String::from_utf8(writer.finish().unwrap()).unwrap();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_line_of_json_contains_the_predicted_labels_of_a_row() {
        let line: serde_json::Value = serde_json::from_str(&written(PredictionFormat::Jsonl, None)).unwrap();
        assert_eq!(
            line,
            serde_json::json!({ "row": 7, "labels": [
                { "label": 1, "name": "b, \"c\"", "score": 2.0, "threshold": 1.5, "probability": 0.75, "predicted": true }
            ]})
        );
    }

    #[test]
    fn every_format_starts_with_the_id() {
        let ids = || Some((0..8).map(|row| format!("=k\"{row}")).collect());
        let json = written_with(PredictionFormat::Jsonl, None, ids());
        assert!(json.starts_with("{\"id\":\"=k\\\"7\",\"row\":7,"), "{json}");
        let csv = written_with(PredictionFormat::Csv, None, ids());
        assert!(csv.starts_with("id,row,label,name,"), "{csv}");
        assert!(csv.contains("\n\"=k\"\"7\",7,1,\"b, \"\"c\"\"\",2,"), "{csv}");
    }

    #[test]
    fn csv_has_one_line_per_label_with_the_best_label_first() {
        let text = written(PredictionFormat::Csv, Some(2));
        assert_eq!(
            text,
            "row,label,name,score,threshold,probability,predicted\n\
             7,1,\"b, \"\"c\"\"\",2,1.5,0.75,true\n7,0,a,0.5,1,0.25,false\n"
        );
    }
}
