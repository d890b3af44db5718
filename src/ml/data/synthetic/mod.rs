//! Generated data that resembles real data: a long tail of labels, labels that occur together, and sparse features that
//! depend on the labels.
//!
//! The label counts of the training part are exact. The labels are kept in memory (8 bytes per positive). Each row of
//! features has its own random stream, and rows are written in order, so that the bytes do not depend on the number of
//! threads.

mod alias;
pub mod frequency;
mod placement;
mod words;

use std::path::Path;

use pipe_core::issue::Issue;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::artifact::RowBatch;
use super::attributes::NominalValues;
use super::error::DataError;
use super::format::Format;
use super::random::Random;
use super::read_report::ReadReport;
use super::source_path::SourcePath;
use super::split::{Parts, SplitError, Validation};
use super::split_data::{PartName, SplitData, SplitDataDir, SplitDataOrigin};
use super::transform::Transform;
use super::weight::Weight;
use frequency::FrequencyCurve;
use placement::{LabelPlacement, place};
use words::WordModel;

// The sizes of AmazonCat-13K, which are the default at `scale: 1`.
const FULL_ROWS: usize = 1_186_239;
const FULL_TEST_ROWS: usize = 306_782;
const FULL_FEATURES: usize = 203_882;
const FULL_LABELS: usize = 13_330;

/// The shape of the label frequencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Frequencies {
    /// The estimated frequencies of AmazonCat-13K.
    #[serde(rename = "amazoncat-13k")]
    Amazoncat13k,
    /// The count of the label with rank r is proportional to r^-exponent.
    PowerLaw,
}

/// What is generated. Sizes that are not given are those of AmazonCat-13K times `scale`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Synthetic {
    /// The size, as a multiple of AmazonCat-13K, of everything whose size is not given.
    pub scale: f64,
    /// The number of training rows, including those of the validation part.
    pub rows: Option<usize>,
    /// The number of test rows.
    pub test_rows: Option<usize>,
    /// The number of features.
    pub features: Option<usize>,
    /// The number of labels.
    pub labels: Option<usize>,
    /// The mean number of labels per row.
    pub labels_per_row: f64,
    /// The mean number of features per row.
    pub features_per_row: f64,
    pub frequencies: Frequencies,
    /// The exponent of the power law.
    pub exponent: f64,
    /// A file of label counts instead of `frequencies`: lines `rank,count`, with ranks from 1.
    pub counts: Option<SourcePath>,
    /// From 0 (every feature depends on the labels) to 1 (none does).
    pub difficulty: f64,
    /// The seed of the generated data.
    pub seed: u64,
    pub validation: Option<Validation>,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self {
            scale: 0.01,
            rows: None,
            test_rows: None,
            features: None,
            labels: None,
            labels_per_row: 5.04,
            features_per_row: 71.0,
            frequencies: Frequencies::Amazoncat13k,
            exponent: 1.0,
            counts: None,
            difficulty: 0.5,
            seed: 0,
            validation: None,
        }
    }
}

/// The sizes with all defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntheticSizes {
    pub rows: usize,
    pub test_rows: usize,
    pub features: usize,
    pub labels: usize,
}

impl Synthetic {
    /// Returns the sizes with all defaults filled in.
    pub fn sizes(&self) -> SyntheticSizes {
        let scaled = |full: usize| ((full as f64 * self.scale).round() as usize).max(1);
        SyntheticSizes {
            rows: self.rows.unwrap_or_else(|| scaled(FULL_ROWS)),
            test_rows: self.test_rows.unwrap_or_else(|| scaled(FULL_TEST_ROWS)),
            features: self.features.unwrap_or_else(|| scaled(FULL_FEATURES)),
            labels: self.labels.unwrap_or_else(|| scaled(FULL_LABELS)),
        }
    }

    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let mut issue = |field: &str, message: String| issues.push(Issue::new(field, message));
        if !(self.scale > 0.0 && self.scale <= 100.0) {
            issue("scale", format!("it is {}, but it must be above 0 and at most 100", self.scale));
            return issues;
        }
        let sizes = self.sizes();
        for (field, size) in [
            ("rows", sizes.rows),
            ("test_rows", sizes.test_rows),
            ("features", sizes.features),
            ("labels", sizes.labels),
        ] {
            if size == 0 || size >= u32::MAX as usize {
                issue(field, format!("it is {size}, but it must be between 1 and 4 billion"));
            }
        }
        let most = sizes.labels as f64 / 2.0;
        if !(self.labels_per_row > 0.0 && self.labels_per_row <= most) {
            issue(
                "labels_per_row",
                format!(
                    "with {} labels it must be above 0 and at most {most}, but it is {}; set it, or add labels",
                    sizes.labels, self.labels_per_row
                ),
            );
        } else if self.labels_per_row * (sizes.rows as f64) < sizes.labels as f64 {
            let positives = (self.labels_per_row * sizes.rows as f64) as u64;
            issue(
                "labels",
                format!(
                    "there are only {positives} positives for {} labels, so some label would have no row: set fewer labels or more rows",
                    sizes.labels
                ),
            );
        }
        let most = sizes.features as f64 / 4.0;
        if !(self.features_per_row >= 1.0 && self.features_per_row <= most) {
            issue(
                "features_per_row",
                format!(
                    "with {} features it must be between 1 and {most}, but it is {}; set it, or add features",
                    sizes.features, self.features_per_row
                ),
            );
        }
        if !(0.0..=1.0).contains(&self.difficulty) {
            issue("difficulty", format!("it is {}, but it must be between 0 and 1", self.difficulty));
        }
        if !(0.0..=10.0).contains(&self.exponent) {
            issue("exponent", format!("it is {}, but it must be between 0 and 10", self.exponent));
        }
        if let Some(validation) = &self.validation {
            issues.extend(validation.issues().into_iter().map(|issue| issue.within("validation")));
        }
        issues
    }

    /// Returns the curve of label frequencies, for the case that there is no file `counts`.
    pub fn curve(&self) -> FrequencyCurve {
        match self.frequencies {
            Frequencies::Amazoncat13k => FrequencyCurve::amazoncat(),
            Frequencies::PowerLaw => FrequencyCurve::PowerLaw { exponent: self.exponent },
        }
    }
}

/// Why a data set cannot be generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Split(#[from] SplitError),
}

/// The tables from which rows are generated.
struct Generator {
    sizes: SyntheticSizes,
    train: LabelPlacement,
    test: LabelPlacement,
    words: WordModel,
}

impl Generator {
    fn new(what: &Synthetic, curve: &FrequencyCurve) -> Self {
        let sizes = what.sizes();
        let mut counts = curve.counts(sizes.labels, sizes.rows, what.labels_per_row);
        // The number of a label is independent of its rank.
        Random::new("label numbers", what.seed).shuffle(&mut counts);
        let mut random = Random::new("centres", what.seed);
        let centres: Vec<f64> = counts.iter().map(|_| random.unit()).collect();
        let share = sizes.test_rows as f64 / sizes.rows as f64;
        let test_counts: Vec<u64> =
            counts.iter().map(|&count| (count as f64 * share + random.unit()) as u64).collect();
        let words = WordModel::new(
            sizes.features,
            what.features_per_row,
            what.difficulty,
            &counts,
            sizes.rows,
            what.seed,
        );
        Self {
            sizes,
            train: place(&counts, &centres, sizes.rows, "train", what.seed),
            test: place(&test_counts, &centres, sizes.test_rows, "test", what.seed),
            words,
        }
    }

    /// Generates the features of some rows of a part. Test rows are numbered after the training rows.
    fn features(&self, part: &LabelPlacement, number_from: usize, rows: &[u32]) -> RowBatch {
        let mut buffer = self.words.buffer();
        let mut made = RowBatch::default();
        for &row in rows {
            let number = (number_from + row as usize) as u64;
            let labels = part.labels.row(row as usize);
            let (columns, values) = self.words.row(number, labels, part.topic[row as usize], &mut buffer);
            made.lengths.push(columns.len() as u32);
            made.indices.extend_from_slice(columns);
            made.values.extend_from_slice(values);
        }
        made
    }
}

/// The number of rows that a thread generates at a time.
const BLOCK: usize = 2048;

/// Generates a data set in `directory`. `progress` is called with the number of generated rows and of all rows.
pub fn generate(
    what: &Synthetic,
    curve: &FrequencyCurve,
    directory: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<SplitData, GenerateError> {
    let generator = Generator::new(what, curve);
    let SyntheticSizes { rows, test_rows, features, labels } = generator.sizes;
    let mut parts = Parts { train: (0..rows as u32).collect(), ..Parts::default() };
    if let Some(validation) = &what.validation {
        validation.cut(&mut parts, &generator.train.labels)?;
    }
    parts.test = (0..test_rows as u32).collect();

    let mut target = SplitDataDir::create(directory)?;
    let mut done = 0;
    for (name, rows_of, placement, number_from) in [
        (PartName::Train, &parts.train, &generator.train, 0),
        (PartName::Validation, &parts.validation, &generator.train, 0),
        (PartName::Test, &parts.test, &generator.test, rows),
    ] {
        if rows_of.is_empty() {
            continue;
        }
        let (mut to_features, mut to_labels) = (target.sparse_features(name, true)?, target.labels(name)?);
        for blocks in rows_of.chunks(BLOCK * rayon::current_num_threads()) {
            let made: Vec<RowBatch> = blocks
                .par_chunks(BLOCK)
                .map(|block| generator.features(placement, number_from, block))
                .collect();
            made.iter().try_for_each(|block| to_features.append(block))?;
            for &row in blocks {
                to_labels.push(placement.labels.row(row as usize), &[])?;
            }
            done += blocks.len();
            progress(done as u64, (rows + test_rows) as u64);
        }
        to_features.close(features)?;
        to_labels.close(labels)?;
        target.finish_part(name, rows_of.len());
    }
    let origin = SplitDataOrigin {
        split: "generated".to_owned(),
        features,
        labels,
        dense: false,
        features_before: features,
        labels_before: labels,
        weight: Weight { tf_idf: true, l2: true, ..Weight::default() },
        weight_reason: None,
        report: ReadReport::new(Format::Generated),
        duplicates: None,
        label_names: None,
        feature_names: None,
        nominal_values: NominalValues::new(),
    };
    Transform::default().write(directory)?;
    Ok(target.complete(origin)?)
}

#[cfg(test)]
mod tests {
    use super::super::csr::{Csr, Features};
    use super::super::stats::Stats;
    use super::*;

    fn made(what: &Synthetic, directory: &Path) -> SplitData {
        assert_eq!(what.issues(), []);
        generate(what, &what.curve(), directory, |_, _| {}).unwrap()
    }

    fn sparse(data: &SplitData, part: PartName) -> (Csr, Csr) {
        let Features::Sparse(features) = data.features(part).unwrap() else { panic!("not sparse") };
        (features, data.labels(part).unwrap())
    }

    fn assert_near(what: &str, is: f64, wanted: f64, tolerance: f64) {
        assert!((is / wanted - 1.0).abs() <= tolerance, "{what}: {is} instead of {wanted}");
    }

    fn assert_targets(what: &Synthetic, directory: &Path) {
        let data = made(what, directory);
        let sizes = what.sizes();
        for (part, rows) in [(PartName::Train, sizes.rows), (PartName::Test, sizes.test_rows)] {
            let (features, labels) = sparse(&data, part);
            let stats = Stats::of(&features, &labels);
            assert_eq!((features.rows(), labels.rows()), (rows, rows));
            assert_eq!((features.cols, labels.cols), (sizes.features, sizes.labels));
            assert_near("labels per row", stats.labels_per_row(), what.labels_per_row, 0.01);
            assert_near("features per row", stats.features_per_row(), what.features_per_row, 0.02);
            assert_eq!(stats.rows_without_features, 0);
            let unlabelled = stats.rows_without_labels as f64 / stats.rows as f64;
            assert!(unlabelled < 0.03, "{unlabelled} of the rows have no label");
            if part == PartName::Train {
                assert_eq!(stats.curve(), what.curve().counts(sizes.labels, rows, what.labels_per_row));
            }
            let length: f64 = features.row_values(7).iter().map(|&v| f64::from(v).powi(2)).sum();
            assert_near("the squared length of a row", length, 1.0, 1e-5);
        }
    }

    #[test]
    fn statistics_match_their_targets_at_a_hundredth_of_the_size() {
        let temp = tempfile::tempdir().unwrap();
        assert_targets(&Synthetic::default(), temp.path());
    }

    #[test]
    #[ignore = "writes 900 MB"]
    fn statistics_match_their_targets_at_full_size() {
        let temp = tempfile::tempdir().unwrap();
        let full = Synthetic { scale: 1.0, ..Synthetic::default() };
        assert_eq!(
            full.sizes(),
            SyntheticSizes { rows: 1_186_239, test_rows: 306_782, features: 203_882, labels: 13_330 }
        );
        assert_targets(&full, temp.path());
    }

    fn small() -> Synthetic {
        Synthetic {
            rows: Some(3000),
            test_rows: Some(500),
            features: Some(2000),
            labels: Some(120),
            labels_per_row: 3.0,
            features_per_row: 30.0,
            seed: 5,
            ..Synthetic::default()
        }
    }

    fn digest(directory: &Path) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for part in ["train", "validation", "test"] {
            for file in ["features.csr", "labels.csr"] {
                hasher.update(&std::fs::read(directory.join(part).join(file)).unwrap_or_default());
            }
        }
        hasher.finalize()
    }

    #[test]
    fn the_bytes_do_not_depend_on_the_number_of_threads() {
        let with = |threads: usize, seed: u64| {
            let temp = tempfile::tempdir().unwrap();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let validation = Some(Validation { fraction: 0.1, seed: 0, stratified: false });
            pool.install(|| made(&Synthetic { seed, validation, ..small() }, temp.path()));
            digest(temp.path())
        };
        assert_eq!(with(1, 5), with(3, 5));
        assert_ne!(with(1, 5), with(1, 6));
    }

    #[test]
    fn a_validation_part_takes_its_rows_from_the_training_rows() {
        let (with, without) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let validation = Some(Validation { fraction: 0.1, seed: 0, stratified: false });
        let cut = made(&Synthetic { validation, ..small() }, with.path());
        let whole = made(&small(), without.path());
        assert_eq!(PartName::ALL.map(|part| cut.rows(part)), [2700, 300, 500]);
        assert_eq!(PartName::ALL.map(|part| whole.rows(part)), [3000, 0, 500]);
        assert_eq!(sparse(&cut, PartName::Test), sparse(&whole, PartName::Test));
    }

    /// Returns the share of the labels of test rows that their nearest training row also has.
    fn shared_with_nearest(difficulty: f64) -> f64 {
        let temp = tempfile::tempdir().unwrap();
        let data = made(&Synthetic { difficulty, ..small() }, temp.path());
        let (train, train_labels) = sparse(&data, PartName::Train);
        let (test, test_labels) = sparse(&data, PartName::Test);
        let (mut shared, mut all) = (0, 0);
        for row in 0..200 {
            let mut query = vec![0.0; test.cols];
            for (&column, &value) in test.row(row).iter().zip(test.row_values(row)) {
                query[column as usize] = value;
            }
            let cosine = |other: usize| -> f32 {
                train
                    .row(other)
                    .iter()
                    .zip(train.row_values(other))
                    .map(|(&c, v)| query[c as usize] * v)
                    .sum()
            };
            let cosines = (0..train.rows()).map(|other| (cosine(other), other));
            let (_, nearest) = cosines.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            let of_nearest = train_labels.row(nearest);
            shared += test_labels.row(row).iter().filter(|label| of_nearest.contains(label)).count();
            all += test_labels.row(row).len();
        }
        f64::from(shared as u32) / f64::from(all as u32)
    }

    #[test]
    fn difficulty_determines_how_similar_the_labels_of_neighbours_are() {
        let [easy, medium, hopeless] = [0.1, 0.7, 1.0].map(shared_with_nearest);
        assert!(easy > medium + 0.05 && medium > hopeless + 0.1, "{easy} {medium} {hopeless}");
    }

    #[test]
    fn impossible_sizes_are_reported_with_their_field() {
        let fields = |what: Synthetic| what.issues().into_iter().map(|issue| issue.field).collect::<Vec<_>>();
        assert_eq!(fields(Synthetic { rows: Some(10), ..small() }), ["labels"]);
        assert_eq!(fields(Synthetic { labels: Some(4), ..small() }), ["labels_per_row"]);
        assert_eq!(fields(Synthetic { features: Some(40), ..small() }), ["features_per_row"]);
        assert_eq!(fields(Synthetic { difficulty: 1.5, ..small() }), ["difficulty"]);
        assert_eq!(fields(Synthetic { scale: f64::NAN, ..small() }), ["scale"]);
    }
}
