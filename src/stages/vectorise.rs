//! `vectorise`: turns labelled texts, from CSV or JSON lines, into a data set of TF-IDF features. The vocabulary and
//! the document frequencies come from the training rows alone.

use anyhow::{Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dataset::{DATASET, DATASET_METRICS, Files, announce, on_threads, source};
use pipe_core::artifact::PlainFile;
use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::slot::Out;
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::data::artifact::{DataSetDir, DataSetSummary};
use pipe_ml::data::attributes::NominalValues;
use pipe_ml::data::csr::Features;
use pipe_ml::data::dataset_part::FittedRows;
use pipe_ml::data::filter::Filter;
use pipe_ml::data::format::Format;
use pipe_ml::data::prepare::{Preparation, prepare};
use pipe_ml::data::read::read;
use pipe_ml::data::source::{DEFAULT_LABEL_SEPARATOR, RawData, ReadOptions};
use pipe_ml::data::split::{Split, Validation};
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::text::RawText;
use pipe_ml::data::training_rows::{KeptOfRows, TrainingRow, write_training_rows};
use pipe_ml::data::transform::write_vocabulary;
use pipe_ml::data::vectorise::{VectoriseOptions, Vectoriser};
use pipe_ml::data::weight::WeightChoice;

/// The parameters of `vectorise`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vectorise {
    pub files: Files,
    /// Options for reading, such as the columns of the text and the labels. What is not given is determined from the
    /// files.
    #[serde(default)]
    pub read: ReadOptions,
    #[serde(default)]
    pub words: VectoriseOptions,
    #[serde(default)]
    pub split: Split,
    #[serde(default)]
    pub validation: Option<Validation>,
    #[serde(default)]
    pub filter: Filter,
    /// What is kept of the training rows, so that explanations can show them. Not part of the key unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeptOfRows>,
}

impl Vectorise {
    /// The words and their document frequencies, as JSON.
    pub const VOCABULARY: Out<PlainFile> = Out::new("vocabulary", "vocabulary.json");

    /// Returns the preparation of the rows. Words are weighted while they are counted, so [`WeightChoice`] has nothing to do.
    fn preparation(&self) -> Preparation {
        Preparation {
            split: self.split.clone(),
            validation: self.validation.clone(),
            filter: self.filter.clone(),
            weight: WeightChoice::default(),
        }
    }

    /// Counts the words, and writes the data set and the vocabulary.
    fn vectorised(&self, text: RawText, paths: &Paths) -> Result<SplitData> {
        let preparation = self.preparation();
        let parts = preparation.divide(&text.parts, &text.labels)?;
        let kept = self.keep.as_ref().map(|keep| {
            let kept_row = |&row: &u32| {
                let row = row as usize;
                let excerpted = keep.texts.then(|| text.texts[row].as_str());
                let id = text.ids.as_ref().map(|ids| ids[row].as_str());
                TrainingRow::new(id, excerpted)
            };
            let others: &[&[u32]] = match keep.part {
                FittedRows::Train => &[],
                FittedRows::All => &[&parts.validation, &parts.test],
            };
            let others = others.iter().copied().flatten();
            parts.train.iter().chain(others).map(kept_row).collect::<Vec<_>>()
        });
        let vectoriser = Vectoriser::fit(&text.texts, &parts.train, &self.words);
        if vectoriser.words().is_empty() {
            bail!(
                "no word of the {} training texts is left (a word has at least two letters or digits): check the column of the texts \
                 (`read: {{ input_column: NAME }}`) and the bounds of `words`, such as `min_rows: {}`",
                parts.train.len(),
                self.words.min_rows
            );
        }
        vectoriser.save(&paths.vocabulary)?;
        let directory = DataSetDir::create(&paths.scratch)?;
        let mut features = directory.sparse_features()?;
        vectoriser.transform_all(&text.texts, &mut features)?;
        let features = Features::Sparse(features.finish(vectoriser.words().len())?);
        let summary = DataSetSummary {
            label_names: Some(text.label_names),
            feature_names: Some(vectoriser.words().to_vec()),
            nominal_values: NominalValues::new(),
            parts: text.parts,
            report: text.report,
        };
        let raw = directory.complete(features, text.labels, summary)?;
        let data = prepare(&raw, &preparation, &paths.dataset)?;
        write_vocabulary(&paths.dataset, &vectoriser)?;
        if let Some(kept) = kept {
            write_training_rows(&paths.dataset, &kept)?;
        }
        Ok(data)
    }
}

/// The paths that the stage writes to.
struct Paths {
    scratch: std::path::PathBuf,
    dataset: std::path::PathBuf,
    vocabulary: std::path::PathBuf,
}

impl StageKind for Vectorise {
    const NAME: &'static str = "vectorise";
    const VERSION: u32 = 3;
    const SUMMARY: &'static str = "Turns labelled texts into TF-IDF features";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        self.files.inputs(self.split.is_given() || self.split.pool)
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![DATASET.decl(), Self::VOCABULARY.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let mut issues = self.preparation().issues();
        issues.extend(self.files.issues());
        issues.extend(self.words.issues().into_iter().map(|issue| issue.within("words")));
        issues
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(DATASET_METRICS.to_vec())
    }
}

impl RunStage for Vectorise {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let (source, threads) = (source(work), work.job().threads.max(1));
        let scratch = work.job().scratch.join("rows");
        let paths = Paths {
            dataset: work.output_path(DATASET)?.to_owned(),
            vocabulary: work.output_path(Self::VOCABULARY)?.to_owned(),
            scratch,
        };
        work.progress(0, Some(2), "steps", "reading");
        let id_column = stage.keep.as_ref().and_then(|keep| keep.id_column.clone());
        let options = ReadOptions { id_column, ..stage.read.clone() };
        let raw = on_threads(threads, || read(&source, &options, &paths.scratch, threads))??;
        let RawData::Text(text) = raw else {
            bail!("these files contain features, not text: use the stage `load`");
        };
        if text.report.format == Format::Csv
            && let Some(other) = text.missed_separator()
        {
            let separator = stage.read.label_separator.as_deref().unwrap_or(DEFAULT_LABEL_SEPARATOR);
            work.warn(format!(
                "the labels are never separated by `{separator}`, but some of them contain `{other}`: if that separates \
                 labels, set `read: {{ label_separator: \"{other}\" }}`"
            ));
        }
        text.warnings.iter().for_each(|warning| work.warn(warning.clone()));
        work.progress(1, Some(2), "steps", "counting words");
        let data = on_threads(threads, || stage.vectorised(text, &paths))??;
        announce(work, &data)?;
        work.progress(2, Some(2), "steps", "done");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::super::stage_test::StageTest;
    use super::*;
    use pipe_ml::data::split_data::PartName;
    use pipe_ml::data::training_rows::read_training_rows;

    fn warnings_about(rows: &str, read: serde_json::Value) -> Vec<String> {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("rows.csv");
        fs::write(&path, rows).unwrap();
        let body = json!({"files": {"rows": "a"}, "read": read, "split": {"holdout": 0.5, "seed": 0}});
        let stage = StageTest::of::<Vectorise>(body, [("rows", path)]);
        stage.warnings().into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_separator_that_never_occurs_is_reported_if_another_one_does() {
        let rows = "text,labels\nred apple,\"fruit, food\"\nblue sky,\"weather, sky\"\ngreen tea,drink\ngrey cloud,\"sky, rain\"\n";
        let warnings = warnings_about(rows, json!({}));
        assert!(warnings[0].starts_with("the labels are never separated by `;`"), "{warnings:?}");
        assert!(warnings[0].contains("label_separator: \",\""), "{warnings:?}");
        assert_eq!(warnings_about(rows, json!({"label_separator": ","})), [""; 0]);
        let rows = "text,labels\nred apple,a|b\nblue sky,b|c\n";
        assert!(warnings_about(rows, json!({}))[0].contains("some of them contain `|`"));
        let rows = "text,labels\nred apple,a\nblue sky,b\ngreen tea,a|b\ngrey cloud,c\n";
        assert!(warnings_about(rows, json!({}))[0].contains("some of them contain `|`"));
        // Names that contain commas, in rows with several labels.
        let rows = "text,labels\nred apple,\"x, y;z, w\"\nblue sky,\"z, w\"\n";
        assert_eq!(warnings_about(rows, json!({})), [""; 0]);
    }

    #[test]
    fn bounds_that_leave_no_word_are_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("rows.csv");
        fs::write(&path, "text,labels\nred apple,a\nblue sky,b\n").unwrap();
        let body = json!({"files": {"rows": "a"}, "words": {"min_rows": 1000}});
        let error = StageTest::failure::<Vectorise>(body, [("rows", path)]);
        assert!(
            error.contains("no word of the 2 training texts is left") && error.contains("min_rows: 1000"),
            "{error}"
        );
    }

    #[test]
    fn rows_without_any_label_are_reported() {
        let rows = "text,labels\nred apple,\nblue sky,\ngreen tea,\n";
        assert!(warnings_about(rows, json!({})).contains(&"no training row has a label".to_owned()));
    }

    #[test]
    fn ids_and_texts_of_training_rows_are_kept_if_asked_for() {
        let temp = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = temp.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let train = write("train.csv", "key,text,labels\nk0,red apple,fruit;food\nk1,blue sky,weather\n");
        let test = write("test.csv", "key,text,labels\nk2,green apple,fruit\n");
        let with = |keep: serde_json::Value| {
            let mut body = json!({"files": {"train": "a", "test": "b"}});
            if !keep.is_null() {
                body["keep"] = keep;
            }
            StageTest::of::<Vectorise>(body, [("train", train.clone()), ("test", test.clone())])
        };
        let kept = with(json!({"id_column": "key", "texts": true}));
        let rows =
            |stage: &StageTest| read_training_rows(&stage.output("dataset"), &stage.dataset()).unwrap();
        let expected = [("k0", "red apple"), ("k1", "blue sky"), ("k2", "green apple")]
            .map(|(id, text)| TrainingRow::new(Some(id), Some(text)));
        assert_eq!(rows(&kept).unwrap(), expected[..2]);
        let all = with(json!({"id_column": "key", "texts": true, "part": "all"}));
        assert_eq!(rows(&all).unwrap(), expected);
        let plain = with(json!(null));
        assert_eq!(rows(&plain), None);
        let read = |stage: &StageTest, file: &str| fs::read(stage.output("dataset").join(file)).unwrap();
        for file in ["meta.json", "train/features.csr", "train/labels.csr", "vocabulary.json"] {
            assert_eq!(read(&kept, file), read(&plain, file), "{file}");
        }
    }

    #[test]
    fn joined_rows_have_the_id_of_their_first_text() {
        let temp = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = temp.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let notes = write("notes.csv", "note,stay,text\nn1,7,one\nn2,8,two\nn3,7,three\nn4,9,none\n");
        let codes = write("codes.csv", "stay,code\n8,a\n7,b\n7,a\n");
        let kept = |id_column: &str| {
            let body = json!({
                "files": {"rows": "a", "labels": "b"},
                "read": {"label_column": "code", "join_column": "stay"},
                "keep": {"id_column": id_column, "texts": true},
            });
            let files = [("rows", notes.clone()), ("labels", codes.clone())];
            let stage = StageTest::of::<Vectorise>(body, files);
            let rows = read_training_rows(&stage.output("dataset"), &stage.dataset()).unwrap().unwrap();
            rows.into_iter().map(|row| (row.id.unwrap(), row.text.unwrap())).collect::<Vec<_>>()
        };
        let row = |id: &str, text: &str| (id.to_owned(), text.to_owned());
        assert_eq!(kept("note"), [row("n1", "one\nthree"), row("n2", "two")]);
        assert_eq!(kept("stay"), [row("7", "one\nthree"), row("8", "two")]);
    }

    #[test]
    fn words_of_test_rows_are_not_in_the_vocabulary() {
        let temp = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = temp.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let train = write("train.csv", "text,labels\nred apple,fruit;food\nblue sky,weather\n");
        let test = write("test.csv", "text,labels\ngreen apple,fruit\n");
        let body = json!({"files": {"train": "a", "test": "b"}});
        let stage = StageTest::of::<Vectorise>(body, [("train", train), ("test", test)]);
        let data = stage.dataset();
        assert_eq!(data.feature_names().unwrap().unwrap(), ["apple", "blue", "red", "sky"]);
        assert_eq!((data.rows(PartName::Train), data.rows(PartName::Test)), (2, 1));
        let Features::Sparse(features) = data.features(PartName::Test).unwrap() else { panic!("dense") };
        assert_eq!((features.row(0), features.row_values(0)), (&[0][..], &[1.0][..]));
        assert!(fs::read_to_string(stage.output("vocabulary")).unwrap().contains("apple"));
    }
}
