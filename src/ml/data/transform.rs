//! What was done to the features of a data set, so that it can be done to new rows: the files `transform.json`
//! and, for texts, `vocabulary.json` of the artifact `dataset`. No test row had a say in it.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::artifact::CsrWriter;
use super::artifact::dataset::write_json;
use super::compress::Input;
use super::csr::{Csr, Dense, Features};
use super::detect::{detect, first_line};
use super::error::DataError;
use super::read::read;
use super::report::Format;
use super::source::{Raw, ReadOptions, Source};
use super::split_data::SplitData;
use super::vectorise::Vectoriser;
use super::weight::normalise;

const FILE: &str = "transform.json";
const VOCABULARY: &str = "vocabulary.json";

/// In the order in which it is applied.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transform {
    /// A factor for each feature as it was read.
    pub idf: Option<Vec<f32>>,
    /// The features that were kept, ascending; all of them where there is no list.
    pub kept: Option<Vec<u32>>,
    /// Rows are scaled to length one.
    pub l2: bool,
}

impl Transform {
    pub fn write(&self, dataset: &Path) -> Result<(), DataError> {
        write_json(&dataset.join(FILE), self)
    }

    pub fn open(dataset: &Path) -> Result<Self, DataError> {
        let path = dataset.join(FILE);
        let text = std::fs::read(&path).map_err(DataError::io("read", &path))?;
        serde_json::from_slice(&text).map_err(|error| DataError::artifact(&path, error.to_string()))
    }

    /// One sparse row, whose features are numbered as they were read.
    pub fn apply(&self, columns: &mut Vec<u32>, values: &mut Vec<f32>) {
        values.resize(columns.len(), 1.0);
        if let Some(idf) = &self.idf {
            columns.iter().zip(values.iter_mut()).for_each(|(&column, value)| *value *= idf[column as usize]);
        }
        if let Some(kept) = &self.kept {
            let mut count = 0;
            for at in 0..columns.len() {
                if let Ok(place) = kept.binary_search(&columns[at]) {
                    (columns[count], values[count]) = (place as u32, values[at]);
                    count += 1;
                }
            }
            columns.truncate(count);
            values.truncate(count);
        }
        if self.l2 {
            normalise(values);
        }
    }
}

/// Keeps a fitted vocabulary with the data set that was made by it.
pub fn write_vocabulary(dataset: &Path, vectoriser: &Vectoriser) -> Result<(), DataError> {
    vectoriser.save(&dataset.join(VOCABULARY))
}

/// How new rows are to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRows {
    /// The column or field of the text; `text` unless told.
    pub input_column: Option<String>,
    /// 0 or 1; as in the data set unless told.
    pub feature_base: Option<u32>,
}

/// Reads rows whose labels, if they are there, are not looked at, and does to them what was done to the data
/// set. Numbers pass through files in `scratch`, block by block; texts are held in memory.
pub fn read_new_rows(
    file: &Path,
    dataset: &Path,
    how: &NewRows,
    scratch: &Path,
    threads: usize,
) -> Result<Csr, DataError> {
    let data = SplitData::open(dataset)?;
    let (meta, transform) = (data.meta(), Transform::open(dataset)?);
    let counted = matches!(meta.report.format, Format::Libsvm | Format::Xmc);
    let vocabulary = dataset.join(VOCABULARY);
    let texts = vocabulary.is_file();
    let opened = Input::open(file, 1)?;
    let found = detect(opened.head(), false);
    let wanted = Wanted { texts, dense: meta.dense, features: meta.features_before };
    if let Some(found) = wanted.refuses(found, opened.head()) {
        return Err(DataError::file(file, format!("{found}, but the model wants {wanted}")));
    }
    if found == Some(Format::Libsvm) && !counted && !texts && how.feature_base.is_none() {
        return Err(DataError::file(
            file,
            "say whether its features are counted from 0 or from 1 (`--feature-base 0`, `--feature-base 1`): the model's \
             own data was no LIBSVM text, and to guess would be to risk taking every feature for its neighbour",
        ));
    }
    let options = ReadOptions {
        // One column of texts has nothing to tell it from any other text.
        format: found.or(texts.then_some(Format::Csv)),
        feature_base: how.feature_base.or(counted.then_some(meta.report.feature_base.first)),
        features: (!meta.dense).then_some(meta.features_before as u32),
        label_base: Some(0),
        input_column: how.input_column.clone(),
        unlabelled: true,
        ..ReadOptions::default()
    };
    let raw = read(&Source::file(file), &options, &scratch.join("rows"), threads)?;
    let mut writer = CsrWriter::create(&scratch.join("features.csr"), true)?;
    match raw {
        Raw::Text(text) if texts => {
            let vectoriser = Vectoriser::load(&vocabulary)?;
            for text in &text.texts {
                let (mut columns, mut values) = vectoriser.transform(text);
                transform.apply(&mut columns, &mut values);
                writer.push(&columns, &values)?;
            }
        }
        Raw::Text(_) => {
            return Err(DataError::file(file, format!("it holds texts, but the model wants {wanted}")));
        }
        Raw::Set(set) => match &set.features {
            Features::Sparse(features) if !meta.dense => sparse(features, &transform, &mut writer)?,
            Features::Dense(features) if features.cols as u64 == meta.features => {
                dense(features, &transform, &mut writer)?;
            }
            other => {
                let reason = format!(
                    "its rows have {} {} features, those of the data set {} {}",
                    other.cols(),
                    if matches!(other, Features::Dense(_)) { "dense" } else { "sparse" },
                    meta.features_before,
                    if meta.dense { "dense" } else { "sparse" },
                );
                return Err(DataError::file(file, reason));
            }
        },
    }
    writer.finish(meta.features as usize)
}

/// What kind of rows a model was trained on.
struct Wanted {
    texts: bool,
    dense: bool,
    features: u64,
}

impl Wanted {
    /// What was found in place of such rows, if the beginning of a file shows it.
    fn refuses(&self, found: Option<Format>, head: &[u8]) -> Option<String> {
        match found {
            _ if head.is_empty() => Some("it is empty".to_owned()),
            // Which of its columns are labels may be said elsewhere: features would be taken for their neighbours.
            Some(Format::Arff) => Some("it is ARFF, which new rows are not read from".to_owned()),
            Some(format @ (Format::Csv | Format::Jsonl)) if !self.texts => {
                Some(format!("it is {}, which is read as texts", format.name()))
            }
            Some(format) if self.texts && !matches!(format, Format::Csv | Format::Jsonl) => {
                Some(format!("it is {}, which is numbers", format.name()))
            }
            None if !self.texts => {
                Some(format!("it looks like text (it starts with `{}`)", first_line(head)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.texts, self.dense) {
            (true, _) => {
                f.write_str("texts: CSV or JSON lines with a column `text` (or `--text-column NAME`)")
            }
            (false, true) => {
                write!(f, "numbers: a NumPy array with a row of {} numbers for each row", self.features)
            }
            (false, false) => {
                write!(f, "numbers: LIBSVM text (`12:0.3 88:0.07`) of {} features", self.features)
            }
        }
    }
}

fn sparse(features: &Csr, transform: &Transform, writer: &mut CsrWriter) -> Result<(), DataError> {
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for row in 0..features.rows() {
        columns.clear();
        values.clear();
        columns.extend_from_slice(features.row(row));
        values.extend_from_slice(features.row_values(row));
        transform.apply(&mut columns, &mut values);
        writer.push(&columns, &values)?;
    }
    Ok(())
}

fn dense(features: &Dense, transform: &Transform, writer: &mut CsrWriter) -> Result<(), DataError> {
    for row in 0..features.rows {
        let mut values = features.row(row).to_vec();
        if transform.l2 {
            normalise(&mut values);
        }
        let filled = (0..).zip(values).filter(|(_, value)| *value != 0.0);
        let (columns, values): (Vec<u32>, Vec<f32>) = filled.unzip();
        writer.push(&columns, &values)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::artifact::{DataSetDir, Part, Summary};
    use super::super::filter::Filter;
    use super::super::prepare::{Preparation, prepare};
    use super::super::report::ReadReport;
    use super::super::split_data::PartName;
    use super::super::synthetic::{Synthetic, generate};
    use super::super::weight::Weight;
    use super::*;

    const ROWS: &str = "0 1:2 3:1\n1 2:1 3:4\n0,1 1:1 2:2 4:1\n1 3:3\n";

    /// A data set made of `ROWS`: the first three lines to train on, the last one to test.
    fn dataset(directory: &Path, preparation: &Preparation) -> SplitData {
        let file = directory.join("rows.svm");
        std::fs::write(&file, ROWS).unwrap();
        let options = ReadOptions::default();
        let Raw::Set(raw) = read(&Source::file(&file), &options, &directory.join("raw"), 1).unwrap() else {
            panic!("numbers are read as numbers")
        };
        let target = DataSetDir::create(&directory.join("parted")).unwrap();
        let mut writer = target.sparse_features().unwrap();
        let Features::Sparse(features) = &raw.features else { panic!("sparse") };
        (0..4).for_each(|row| writer.push(features.row(row), features.row_values(row)).unwrap());
        let features = Features::Sparse(writer.finish(features.cols).unwrap());
        let parts = vec![Part::range("train", 0..3), Part::range("test", 3..4)];
        let report = ReadReport { feature_base: raw.report.feature_base, ..ReadReport::new(Format::Libsvm) };
        let summary = Summary { label_names: None, feature_names: None, parts, report };
        let labels =
            super::super::artifact::write_csr(&directory.join("parted/labels.csr"), &raw.labels).unwrap();
        let raw = target.complete(features, labels, summary).unwrap();
        prepare(&raw, preparation, &directory.join("dataset")).unwrap()
    }

    #[test]
    fn rows_that_would_have_to_be_guessed_at_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let sizes = (Some(60), Some(20), Some(30), Some(5));
        let (rows, test_rows, features, labels) = sizes;
        let made =
            Synthetic { rows, test_rows, features, labels, features_per_row: 5.0, ..Synthetic::default() };
        generate(&made, &made.curve(), &root.join("dataset"), |_, _| {}).unwrap();
        let read = |text: &str, base: Option<u32>| {
            let file = root.join("new");
            std::fs::write(&file, text).unwrap();
            let how = NewRows { feature_base: base, ..NewRows::default() };
            read_new_rows(&file, &root.join("dataset"), &how, root, 1)
        };
        let error = read("0 1:2 3:1\n1 2:1\n", None).unwrap_err().to_string();
        assert!(error.contains("--feature-base"), "{error}");
        assert_eq!(read("0 1:2 3:1\n1 2:1\n", Some(1)).unwrap().row(0), [0, 2]);
        let error = read("@relation 'x: -C 1'\n@attribute a numeric\n@data\n1\n", Some(1)).unwrap_err();
        assert!(error.to_string().contains("ARFF"), "{error}");
    }

    #[test]
    fn new_rows_become_what_rows_of_the_data_set_became() {
        let weights =
            [Weight { tf_idf: true, l2: true }, Weight { tf_idf: false, l2: true }, Weight::default()];
        for (weight, most) in weights.into_iter().flat_map(|weight| [(weight, None), (weight, Some(2))]) {
            let temp = tempfile::tempdir().unwrap();
            let filter = Filter { max_features: most, ..Filter::default() };
            let data = dataset(temp.path(), &Preparation { filter, weight, ..Preparation::default() });
            let fresh = temp.path().join("fresh.svm");
            std::fs::write(&fresh, ROWS.lines().last().unwrap()).unwrap();
            let scratch = temp.path().join("scratch");
            std::fs::create_dir(&scratch).unwrap();
            let dataset = temp.path().join("dataset");
            let ours = read_new_rows(&fresh, &dataset, &NewRows::default(), &scratch, 1).unwrap();
            let Features::Sparse(theirs) = data.features(PartName::Test).unwrap() else { panic!("sparse") };
            assert_eq!(ours, theirs, "{weight:?} {most:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_found_and_what_is_wanted() {
        let temp = tempfile::tempdir().unwrap();
        dataset(temp.path(), &Preparation::default());
        let fresh = temp.path().join("fresh");
        for (content, found) in [
            ("text,labels\nhello,a\n", "it is CSV, which is read as texts"),
            ("text\nhello\n", "it looks like text (it starts with `text`)"),
            ("{\"text\": \"hello\"}\n", "it is JSON lines, which is read as texts"),
            ("@relation x\n@attribute a numeric\n", "it is ARFF, which new rows are not read from"),
            ("", "it is empty"),
        ] {
            std::fs::write(&fresh, content).unwrap();
            let refused =
                read_new_rows(&fresh, &temp.path().join("dataset"), &NewRows::default(), temp.path(), 1);
            let wanted = "but the model wants numbers: LIBSVM text (`12:0.3 88:0.07`) of 4 features";
            let expected = format!("{}: {found}, {wanted}", fresh.display());
            assert_eq!(refused.unwrap_err().to_string(), expected);
        }
        let texts = Wanted { texts: true, dense: false, features: 9 };
        assert_eq!(
            texts.refuses(Some(Format::Libsvm), b"1 2:3"),
            Some("it is LIBSVM, which is numbers".into())
        );
        assert_eq!(texts.refuses(None, b"text"), None, "one column of texts");
        assert!(texts.to_string().contains("--text-column"), "{texts}");
    }
}
