//! How the features of a data set were transformed, so that new rows can be transformed in the same way: the files
//! `transform.json` and, for texts, `vocabulary.json` of the artifact `dataset`.
//!
//! Nothing here is fitted on test rows.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::arff::read_new_arff;
use super::artifact::CsrWriter;
use super::artifact::dataset::write_json;
use super::artifact::layout::{FEATURE_NAMES, LABEL_NAMES, META, NOMINAL_VALUES};
use super::attributes::unknown_value_warnings;
use super::compress::InputFile;
use super::csr::{Csr, Features};
use super::detect::{detect, first_line, unreadable};
use super::error::DataError;
use super::format::{Format, FormatContent};
use super::read::read;
use super::row_encoder::{RowContent, RowEncoder};
use super::source::{DataSource, RawData, ReadOptions};
use super::split_data::{SplitData, SplitDataMeta};
use super::vectorise::Vectoriser;
use super::weight::normalise;

const TRANSFORM: &str = "transform.json";
pub(super) const VOCABULARY: &str = "vocabulary.json";

/// The transformation of features. Its steps are applied in the order of the fields. Steps that are not made are not stored,
/// except the oldest ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transform {
    /// True if a value x becomes ln(1 + |x|), with the sign of x.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    /// The factor of each feature, numbered as in the source.
    pub idf: Option<Vec<f32>>,
    /// The mean and the scale of each feature, numbered as in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standardise: Option<Standardisation>,
    /// The largest absolute value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<f32>,
    /// The features that are kept, in ascending order; `None` keeps all.
    pub kept: Option<Vec<u32>>,
    /// True if rows are scaled to length one.
    pub l2: bool,
}

/// A value x of a feature becomes (x - mean) * scale.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Standardisation {
    mean: Vec<f32>,
    /// One divided by the standard deviation; 0 if a feature is constant.
    scale: Vec<f32>,
}

impl Standardisation {
    /// Computes the means and the deviations of training rows after the steps of `before`.
    pub(super) fn fit(before: &Transform, features: &Features, train: &[u32]) -> Self {
        let rows = train.len().max(1) as f64;
        let mut mean = vec![0f64; features.cols()];
        for &row in train {
            features.for_each_value(row as usize, |column, value| {
                mean[column] += f64::from(before.weigh(column, value));
            });
        }
        for mean in &mut mean {
            *mean /= rows;
        }
        // Zeros, which are not visited, are as far from the mean as the mean is from zero.
        let mut squares: Vec<f64> = mean.iter().map(|mean| mean * mean * rows).collect();
        for &row in train {
            features.for_each_value(row as usize, |column, value| {
                let (value, mean) = (f64::from(before.weigh(column, value)), mean[column]);
                squares[column] += (value - mean) * (value - mean) - mean * mean;
            });
        }
        let scale = |(square, mean): (&f64, &f64)| {
            let deviation = (square.max(0.0) / rows).sqrt();
            // Rounding makes the deviation of a constant feature not quite zero.
            if deviation > 1e-6 * mean.abs() { (1.0 / deviation) as f32 } else { 0.0 }
        };
        let scale = squares.iter().zip(&mean).map(scale).collect();
        Self { mean: mean.into_iter().map(|mean| mean as f32).collect(), scale }
    }

    fn apply(&self, values: &mut [f32]) {
        for ((value, mean), scale) in values.iter_mut().zip(&self.mean).zip(&self.scale) {
            *value = (*value - mean) * scale;
        }
    }
}

impl Transform {
    /// Writes the transformation to the directory of a data set.
    pub(crate) fn write(&self, dataset: &Path) -> Result<(), DataError> {
        write_json(&dataset.join(TRANSFORM), self)
    }

    /// Reads the transformation of a data set, and checks that it fits the sizes in its `meta.json`.
    pub(super) fn open(dataset: &Path, meta: &SplitDataMeta) -> Result<Self, DataError> {
        let path = dataset.join(TRANSFORM);
        let text = std::fs::read(&path).map_err(DataError::io("read", &path))?;
        let transform: Self =
            serde_json::from_slice(&text).map_err(|error| DataError::artifact(&path, error.to_string()))?;
        if !transform.fits(meta.features_before, meta.features) {
            return Err(DataError::artifact(&path, "it does not fit the numbers of features in meta.json"));
        }
        Ok(transform)
    }

    fn fits(&self, before: u64, after: u64) -> bool {
        let kept_fits = |kept: &Vec<u32>| {
            kept.len() as u64 == after
                && kept.is_sorted_by(|a, b| a < b)
                && kept.last().is_none_or(|&last| u64::from(last) < before)
        };
        let is_complete = |values: &Vec<f32>| values.len() as u64 == before;
        self.idf.as_ref().is_none_or(is_complete)
            && self.standardise.as_ref().is_none_or(|own| is_complete(&own.mean) && is_complete(&own.scale))
            && self.kept.as_ref().map_or(before == after, kept_fits)
    }

    /// Applies the steps that do not depend on other rows to a value that is not zero.
    fn weigh(&self, column: usize, value: f32) -> f32 {
        let value = if self.log { value.abs().ln_1p().copysign(value) } else { value };
        self.idf.as_ref().map_or(value, |idf| value * idf[column])
    }

    /// Transforms one dense row. No feature is left out.
    pub(crate) fn apply_dense(&self, values: &mut [f32]) {
        if self.log || self.idf.is_some() {
            for (column, value) in values.iter_mut().enumerate() {
                *value = self.weigh(column, *value);
            }
        }
        if let Some(standardise) = &self.standardise {
            standardise.apply(values);
        }
        self.clip_and_scale(values);
    }

    fn clip_and_scale(&self, values: &mut [f32]) {
        if let Some(bound) = self.clip {
            for value in values.iter_mut() {
                *value = value.clamp(-bound, bound);
            }
        }
        if self.l2 {
            normalise(values);
        }
    }

    /// Transforms one sparse row, whose features are numbered as in the source.
    pub(crate) fn apply(&self, columns: &mut Vec<u32>, values: &mut Vec<f32>) {
        values.resize(columns.len(), 1.0);
        for (&column, value) in columns.iter().zip(values.iter_mut()) {
            *value = self.weigh(column as usize, *value);
        }
        if let Some(standardise) = &self.standardise {
            let mut row = vec![0f32; standardise.mean.len()];
            for (&column, &value) in columns.iter().zip(values.iter()) {
                row[column as usize] = value;
            }
            standardise.apply(&mut row);
            (*columns, *values) = (0..).zip(row).filter(|(_, value)| *value != 0.0).unzip();
        }
        if let Some(kept) = &self.kept {
            let mut count = 0;
            for at in 0..columns.len() {
                if let Ok(position) = kept.binary_search(&columns[at]) {
                    (columns[count], values[count]) = (position as u32, values[at]);
                    count += 1;
                }
            }
            columns.truncate(count);
            values.truncate(count);
        }
        self.clip_and_scale(values);
    }
}

/// Stores a fitted vocabulary with the data set that it has produced.
pub fn write_vocabulary(dataset: &Path, vectoriser: &Vectoriser) -> Result<(), DataError> {
    vectoriser.save(&dataset.join(VOCABULARY))
}

/// Copies what new rows need of a data set into a new directory: sizes, transformation, vocabulary and names, but no rows.
pub fn copy_description(dataset: &Path, to: &Path) -> Result<(), DataError> {
    std::fs::create_dir_all(to).map_err(DataError::io("create", to))?;
    for name in [META, TRANSFORM, VOCABULARY, LABEL_NAMES, FEATURE_NAMES, NOMINAL_VALUES] {
        let path = dataset.join(name);
        if path.is_file() {
            std::fs::copy(&path, to.join(name)).map_err(DataError::io("copy", &path))?;
        }
    }
    Ok(())
}

/// How new rows are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRows {
    /// The column or field of the text; `text` by default.
    pub input_column: Option<String>,
    /// 0 or 1; as in the data set by default.
    pub feature_base: Option<u32>,
    /// The column or field that identifies a row, for texts.
    pub id_column: Option<String>,
    /// As in [`ReadOptions::join_column`]: texts with the same value become one row.
    pub join_column: Option<String>,
    /// As in [`ReadOptions::only`].
    pub only: BTreeMap<String, String>,
}

/// New rows with the features of a data set.
#[derive(Debug, PartialEq)]
pub struct EncodedRows {
    pub features: Csr,
    /// What identifies each row, if [`NewRows::id_column`] names a column.
    pub ids: Option<Vec<String>>,
    /// Sentences about what was left out.
    pub warnings: Vec<String>,
}

/// Reads the features of new rows and transforms them like those of the data set. Labels are ignored.
///
/// Numbers are streamed through files in `scratch`; texts are kept in memory.
pub fn read_new_rows(
    file: &Path,
    dataset: &Path,
    new_rows: &NewRows,
    scratch: &Path,
    threads: usize,
) -> Result<EncodedRows, DataError> {
    let data = SplitData::open_unverified(dataset)?;
    let meta = data.meta();
    let encoder = RowEncoder::open(dataset, &data)?;
    let texts = encoder.content() == RowContent::Texts;
    let opened = InputFile::open(file, 1)?;
    let detected = detect(opened.head(), false);
    let expected = ExpectedRows { texts, dense: meta.dense, features: meta.features_before };
    if let Some(reason) = unreadable(opened.head()).filter(|_| detected.is_none()) {
        return Err(DataError::file(file, reason));
    }
    if let Some(found) = expected.mismatch(detected, opened.head()) {
        return Err(DataError::file(file, format!("{found}, but the model needs {expected}")));
    }
    // Files of one format are counted alike; XMC is always counted from 0.
    let known_base = match detected {
        Some(Format::Xmc) => Some(0),
        format if format == Some(meta.report.format) => encoder.first_feature(),
        _ => None,
    };
    if detected == Some(Format::Libsvm) && known_base.is_none() && !texts && new_rows.feature_base.is_none() {
        return Err(DataError::file(
            file,
            "set `--feature-base 0` or `--feature-base 1`: the model was not trained on LIBSVM text, so it is unknown \
             whether the features of this file are counted from 0 or from 1",
        ));
    }
    if let Some(name) = new_rows.id_column.as_deref().filter(|_| !texts) {
        let reason = format!("it contains numbers, so that it has no column `{name}`");
        return Err(DataError::file(file, reason));
    }
    let mut writer = CsrWriter::create(&scratch.join("features.csr"), true)?;
    let (mut ids, mut warnings) = (None, Vec::new());
    if detected == Some(Format::Arff) {
        let known = encoder.attributes().ok_or_else(|| {
            let reason = "ARFF attributes are matched by name, but the features of the model have no names";
            DataError::file(file, reason)
        })?;
        let columns = encoder.source_features();
        let (features, unknown) = read_new_arff(opened, known, columns, &scratch.join("rows.csr"), threads)?;
        write_sparse(&features, &encoder, &mut writer)?;
        let features = writer.finish(meta.features as usize)?;
        return Ok(EncodedRows { features, ids, warnings: unknown_value_warnings(&unknown) });
    }
    let options = ReadOptions {
        // A CSV file with one column has no separator, so it is not detected.
        format: detected.or(texts.then_some(Format::Csv)),
        feature_base: new_rows.feature_base.or(known_base),
        features: Some(meta.features_before as u32),
        label_base: Some(0),
        input_column: new_rows.input_column.clone(),
        id_column: new_rows.id_column.clone(),
        join_column: new_rows.join_column.clone(),
        only: new_rows.only.clone(),
        unlabelled: true,
        ..ReadOptions::default()
    };
    let raw = read(&DataSource::file(file), &options, &scratch.join("rows"), threads)?;
    match raw {
        RawData::Text(text) if texts => {
            (ids, warnings) = (text.ids, text.warnings);
            for text in &text.texts {
                let (columns, values) = encoder.text(text);
                writer.push(&columns, &values)?;
            }
        }
        RawData::Text(_) => {
            return Err(DataError::file(file, format!("it contains texts, but the model needs {expected}")));
        }
        RawData::Set(set) => match &set.features {
            Features::Sparse(features) => write_sparse(features, &encoder, &mut writer)?,
            Features::Dense(features) if features.cols as u64 == meta.features_before => {
                for row in 0..features.rows {
                    let (columns, values) = encoder.dense(features.row(row));
                    writer.push(&columns, &values)?;
                }
            }
            Features::Dense(features) => {
                let reason = format!(
                    "its rows have {} features, but those of the data set have {}",
                    features.cols, meta.features_before
                );
                return Err(DataError::file(file, reason));
            }
        },
    }
    Ok(EncodedRows { features: writer.finish(meta.features as usize)?, ids, warnings })
}

/// The kind of rows that a model was trained on.
struct ExpectedRows {
    texts: bool,
    dense: bool,
    features: u64,
}

impl ExpectedRows {
    /// Returns what the start of a file shows instead of such rows; `None` if it may contain them.
    fn mismatch(&self, detected: Option<Format>, head: &[u8]) -> Option<String> {
        if head.is_empty() {
            return Some("it is empty".to_owned());
        }
        let Some(format) = detected else {
            return (!self.texts)
                .then(|| format!("it looks like text (it starts with `{}`)", first_line(head)));
        };
        match (format.content(), self.texts) {
            (FormatContent::Text, false) => Some(format!("it is {}, which contains texts", format.name())),
            (FormatContent::Numbers, true) => {
                Some(format!("it is {}, which contains numbers", format.name()))
            }
            (FormatContent::Text, true) | (FormatContent::Numbers, false) => None,
        }
    }
}

impl fmt::Display for ExpectedRows {
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

/// Transforms sparse rows, whose features are numbered as in the source of the data set. A matrix of ones has no values.
fn write_sparse(features: &Csr, encoder: &RowEncoder, writer: &mut CsrWriter) -> Result<(), DataError> {
    for row in 0..features.rows() {
        let (columns, values) = encoder.sparse(features.row(row).to_vec(), features.row_values(row).to_vec());
        writer.push(&columns, &values)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::artifact::{DataSetDir, DataSetPart, DataSetSummary};
    use super::super::filter::Filter;
    use super::super::prepare::{Preparation, prepare};
    use super::super::read_report::ReadReport;
    use super::super::source::NominalEncoding;
    use super::super::split_data::PartName;
    use super::super::synthetic::{Synthetic, generate};
    use super::super::weight::{Weight, WeightChoice};
    use super::*;

    const ROWS: &str = "0 1:2 3:1\n1 2:1 3:4\n0,1 1:1 2:2 4:1\n1 3:3\n";

    /// Makes a data set of `ROWS`: the first three are training rows, the last is a test row.
    fn dataset(directory: &Path, preparation: &Preparation) -> SplitData {
        let file = directory.join("rows.svm");
        std::fs::write(&file, ROWS).unwrap();
        let options = ReadOptions::default();
        let RawData::Set(raw) = read(&DataSource::file(&file), &options, &directory.join("raw"), 1).unwrap()
        else {
            panic!("not numbers")
        };
        let target = DataSetDir::create(&directory.join("parted")).unwrap();
        let mut writer = target.sparse_features().unwrap();
        let Features::Sparse(features) = &raw.features else { panic!("sparse") };
        for row in 0..4 {
            writer.push(features.row(row), features.row_values(row)).unwrap();
        }
        let features = Features::Sparse(writer.finish(features.cols).unwrap());
        let parts = vec![DataSetPart::range("train", 0..3), DataSetPart::range("test", 3..4)];
        let report = ReadReport { feature_base: raw.report.feature_base, ..ReadReport::new(Format::Libsvm) };
        let summary = DataSetSummary {
            label_names: None,
            feature_names: None,
            nominal_values: BTreeMap::new(),
            parts,
            report,
        };
        let labels =
            super::super::artifact::write_csr(&directory.join("parted/labels.csr"), &raw.labels).unwrap();
        let raw = target.complete(features, labels, summary).unwrap();
        prepare(&raw, preparation, &directory.join("dataset")).unwrap()
    }

    #[test]
    fn rows_whose_features_cannot_be_numbered_reliably_are_refused() {
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
            let new_rows = NewRows { feature_base: base, ..NewRows::default() };
            read_new_rows(&file, &root.join("dataset"), &new_rows, root, 1).map(|rows| rows.features)
        };
        let error = read("0 1:2 3:1\n1 2:1\n", None).unwrap_err().to_string();
        assert!(error.contains("--feature-base"), "{error}");
        assert_eq!(read("0 1:2 3:1\n1 2:1\n", Some(1)).unwrap().row(0), [0, 2]);
        let error = read("@relation 'x: -C 1'\n@attribute a numeric\n@data\n1\n", Some(1)).unwrap_err();
        assert!(error.to_string().contains("but the features of the model have no names"), "{error}");
    }

    #[test]
    fn new_rows_are_transformed_like_the_rows_of_the_data_set() {
        let weights = [
            "{ tf_idf: true, l2: true }",
            "{ l2: true }",
            "{}",
            "auto",
            "{ log: true, standardise: true, clip: 1 }",
        ];
        for (weight, most) in weights.into_iter().flat_map(|weight| [(weight, None), (weight, Some(2))]) {
            let weight: WeightChoice = serde_yaml::from_str(weight).unwrap();
            let temp = tempfile::tempdir().unwrap();
            let filter = Filter { max_features: most, ..Filter::default() };
            let data = dataset(temp.path(), &Preparation { filter, weight, ..Preparation::default() });
            let fresh = temp.path().join("fresh.svm");
            std::fs::write(&fresh, ROWS.lines().last().unwrap()).unwrap();
            let scratch = temp.path().join("scratch");
            std::fs::create_dir(&scratch).unwrap();
            let dataset = temp.path().join("dataset");
            let ours = read_new_rows(&fresh, &dataset, &NewRows::default(), &scratch, 1).unwrap().features;
            let Features::Sparse(theirs) = data.features(PartName::Test).unwrap() else { panic!("sparse") };
            assert_eq!(ours, theirs, "{weight:?} {most:?}");
        }
    }

    #[test]
    fn an_array_of_new_rows_is_transformed_like_libsvm_text() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let weight = WeightChoice::Given(Weight { tf_idf: true, l2: true, ..Weight::default() });
        let filter = Filter { max_features: Some(2), ..Filter::default() };
        dataset(root, &Preparation { filter, weight, ..Preparation::default() });
        let read = |name: &str, content: &[u8]| {
            let file = root.join(name);
            std::fs::write(&file, content).unwrap();
            read_new_rows(&file, &root.join("dataset"), &NewRows::default(), root, 1).unwrap()
        };
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }";
        let mut array = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        array.extend(format!("{header:<117}\n").bytes());
        array.extend([1.0f32, 2.0, 3.0, 0.0].iter().flat_map(|value| value.to_le_bytes()));
        assert_eq!(read("new.npy", &array), read("new.svm", b"0 1:1 2:2 3:3\n"));
    }

    #[test]
    fn new_rows_in_arff_are_matched_by_the_names_of_their_attributes() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let write = |name: &str, text: &str| {
            std::fs::write(root.join(name), text).unwrap();
            root.join(name)
        };
        let attributes = "@attribute l {0,1}\n@attribute size numeric\n@attribute colour {red,green,blue}\n";
        let data = |rows: &str| format!("@relation 'x: -C 1'\n{attributes}@data\n{rows}");
        let train = write("train", &data("1,2,green\n0,3,blue\n1,1,red\n0,4,green\n0,5,red\n"));
        let test = write("test", &data("1,2,blue\n"));
        let options = ReadOptions { nominal: Some(NominalEncoding::OneHot), ..ReadOptions::default() };
        let RawData::Set(raw) =
            read(&DataSource::parts([("train", train), ("test", test)]), &options, &root.join("raw"), 1)
                .unwrap()
        else {
            panic!("not numbers")
        };
        let filter = Filter { max_features: Some(3), ..Filter::default() };
        let preparation = Preparation { filter, ..Preparation::default() };
        let data = prepare(&raw, &preparation, &root.join("dataset")).unwrap();
        assert_eq!(data.feature_names().unwrap().unwrap(), ["size", "colour=red", "colour=green"]);
        let read = |text: &str| {
            let file = write("new", text);
            read_new_rows(&file, &root.join("dataset"), &NewRows::default(), root, 1)
        };
        let other_order = "@relation x\n@attribute colour {green,pink,red,blue}\n@attribute more numeric\n@attribute size numeric\n";
        let new = format!("{other_order}@data\ngreen,7,5\n{{2 4}}\npink,0,1\nblue,0,1\n");
        let EncodedRows { features: rows, warnings, .. } = read(&new).unwrap();
        let row = |row| (rows.row(row).to_vec(), rows.row_values(row).to_vec());
        assert_eq!(row(0), (vec![0, 2], vec![5.0, 1.0]));
        assert_eq!(
            row(1),
            (vec![0, 2], vec![4.0, 1.0]),
            "an omitted value is the first that the file declares"
        );
        assert_eq!((row(2), row(3)), ((vec![0], vec![1.0]), (vec![0], vec![1.0])));
        assert_eq!(warnings.len(), 1, "the value that the filter left out is known: {warnings:?}");
        assert!(
            warnings[0].contains("the attribute `colour`") && warnings[0].contains(": `pink` (1); "),
            "{warnings:?}"
        );
        // A file may declare fewer values.
        let rows = read("@relation x\n@attribute size numeric\n@attribute id string\n@attribute colour {red,blue}\n@data\n2,'a b',red\n").unwrap().features;
        assert_eq!((rows.row(0), rows.row_values(0)), (&[0, 1][..], &[2.0, 1.0][..]));
        for (attributes, expected) in [
            ("@attribute colour {red,green,blue}", "it has no attribute `size`, which the model needs"),
            (
                "@attribute size numeric\n@attribute colour numeric",
                "the attribute `colour` is numeric, but it has nominal values in the training file",
            ),
            ("@attribute size date\n@attribute colour {red}", "the attribute `size` has the type `date`"),
            (
                "@attribute colour {red,green,blue}\n@attribute size numeric\n@attribute size numeric",
                "more than one attribute is named `size`",
            ),
        ] {
            let error = read(&format!("@relation x\n{attributes}\n@data\n{{}}\n")).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_model_predicts_its_own_training_file_with_two_nominal_values() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let write = |name: &str, text: &str| {
            std::fs::write(root.join(name), text).unwrap();
            root.join(name)
        };
        let rows = "@data\n1,2,m\n0,3,f\n{1 5}\n{0 1,2 m}\n";
        let train = write(
            "train",
            &format!(
                "@relation 'x: -C 1'\n@attribute l {{0,1}}\n@attribute size numeric\n@attribute sex {{f,m}}\n{rows}"
            ),
        );
        let options = ReadOptions::default();
        let RawData::Set(raw) = read(&DataSource::file(&train), &options, &root.join("raw"), 1).unwrap()
        else {
            panic!("not numbers")
        };
        let dataset = root.join("dataset");
        let data = prepare(&raw, &Preparation::default(), &dataset).unwrap();
        let Features::Sparse(trained) = data.features(PartName::Train).unwrap() else { panic!("dense") };
        let read = |file: &Path| read_new_rows(file, &dataset, &NewRows::default(), root, 1);
        assert_eq!(read(&train).unwrap().features, trained);
        // The other order of values, and a value more. An omitted value is then `m`.
        let new =
            "@relation x\n@attribute sex {m,f,x}\n@attribute size numeric\n@data\nm,2\nf,3\n{1 5}\nx,1\n";
        let EncodedRows { features, warnings, .. } = read(&write("new", new)).unwrap();
        let row = |row| (features.row(row).to_vec(), features.row_values(row).to_vec());
        assert_eq!([row(0), row(1)], [(vec![0, 1], vec![2.0, 1.0]), (vec![0], vec![3.0])]);
        assert_eq!([row(2), row(3)], [(vec![0, 1], vec![5.0, 1.0]), (vec![0], vec![1.0])]);
        assert!(warnings.len() == 1 && warnings[0].contains("`sex`"), "{warnings:?}");
        // A data set without the values, as older versions wrote it, cannot know them.
        std::fs::remove_file(dataset.join(NOMINAL_VALUES)).unwrap();
        let error = read(&train).unwrap_err().to_string();
        assert!(error.contains("does not know which number it stands for"), "{error}");
    }

    #[test]
    fn every_line_of_new_rows_is_a_row() {
        let temp = tempfile::tempdir().unwrap();
        dataset(temp.path(), &Preparation::default());
        let fresh = temp.path().join("fresh.svm");
        std::fs::write(&fresh, "0 1:1\n\n \r\n  # no features\n# not a row\n0 2:1\n").unwrap();
        let rows = read_new_rows(&fresh, &temp.path().join("dataset"), &NewRows::default(), temp.path(), 1);
        let rows = rows.unwrap().features;
        let lengths: Vec<usize> = (0..rows.rows()).map(|row| rows.row(row).len()).collect();
        assert_eq!(lengths, [1, 0, 0, 0, 1]);
    }

    #[test]
    fn a_transformation_that_does_not_fit_its_data_set_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        dataset(temp.path(), &Preparation::default());
        let fresh = temp.path().join("fresh.svm");
        std::fs::write(&fresh, "0 1:1 4:1\n").unwrap();
        for (idf, kept) in [
            (Some(vec![1.0]), None),
            (None, Some(vec![0, 1, 2, 9])),
            (None, Some(vec![3, 2, 1, 0])),
            (None, Some(vec![0])),
        ] {
            Transform { idf, kept, ..Transform::default() }.write(&temp.path().join("dataset")).unwrap();
            let refused =
                read_new_rows(&fresh, &temp.path().join("dataset"), &NewRows::default(), temp.path(), 1);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("transform.json") && error.contains("does not fit"), "{error}");
        }
    }

    #[test]
    fn an_error_says_what_was_found_and_what_is_needed() {
        let temp = tempfile::tempdir().unwrap();
        dataset(temp.path(), &Preparation::default());
        let fresh = temp.path().join("fresh");
        for (content, found) in [
            ("text,labels\nhello,a\n", "it is CSV, which contains texts"),
            ("text\nhello\n", "it looks like text (it starts with `text`)"),
            ("{\"text\": \"hello\"}\n", "it is JSON lines, which contains texts"),
            ("", "it is empty"),
        ] {
            std::fs::write(&fresh, content).unwrap();
            let refused =
                read_new_rows(&fresh, &temp.path().join("dataset"), &NewRows::default(), temp.path(), 1);
            let needed = "but the model needs numbers: LIBSVM text (`12:0.3 88:0.07`) of 4 features";
            let expected = format!("{}: {found}, {needed}", fresh.display());
            assert_eq!(refused.unwrap_err().to_string(), expected);
        }
        let texts = ExpectedRows { texts: true, dense: false, features: 9 };
        assert_eq!(
            texts.mismatch(Some(Format::Libsvm), b"1 2:3"),
            Some("it is LIBSVM, which contains numbers".into())
        );
        assert_eq!(texts.mismatch(None, b"text"), None, "a CSV file with one column");
        assert!(texts.to_string().contains("--text-column"), "{texts}");
    }
}
