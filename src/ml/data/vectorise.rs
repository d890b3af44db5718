//! Turns texts into TF-IDF features. The vocabulary and the document frequencies are fitted on training rows only.
//!
//! A word is a run of at least two letters, digits and underscores; [`super::text_units`] turns words into n-grams. tf is the count, or `1 + ln(count)` if sublinear;
//! idf = `ln((1 + n) / (1 + df)) + 1` over the `n` fitted rows; rows are scaled to length 1. These are the defaults of
//! scikit-learn's `TfidfVectorizer`.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use pipe_core::default_value::is_default;
use pipe_core::issue::Issue;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::artifact::{CsrWriter, dataset::write_json};
use super::error::DataError;
use super::text_units::{NgramRange, Numbers, TextUnit, TextUnits};

/// How texts become features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VectoriseOptions {
    /// Treat `Word` and `word` as the same word.
    pub lowercase: bool,
    /// Keep words that occur in at least this many training rows.
    pub min_rows: u32,
    /// Keep at most this many words: those that occur in the most training rows.
    pub max_features: Option<u32>,
    /// Use `1 + ln(count)` instead of the count.
    pub sublinear_tf: bool,
    /// Multiply by the inverse document frequency.
    pub idf: bool,
    /// Scale every row to length 1.
    pub l2: bool,
    /// Whether features are made of words, or of characters within words.
    #[serde(skip_serializing_if = "is_default")]
    pub unit: TextUnit,
    /// How many consecutive words or characters form a feature: `[1, 2]` for single words and pairs.
    #[serde(skip_serializing_if = "is_default")]
    pub ngrams: NgramRange,
    /// Words that are left out, before n-grams are formed.
    #[serde(skip_serializing_if = "is_default")]
    pub stop_words: BTreeSet<String>,
    /// What words of digits alone become.
    #[serde(skip_serializing_if = "is_default")]
    pub numbers: Numbers,
    /// Keep features that occur in at most this share of the training rows.
    #[serde(skip_serializing_if = "is_default")]
    pub max_share: Option<f64>,
}

impl VectoriseOptions {
    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let mut issues: Vec<Issue> =
            self.ngrams.issue().map(|message| Issue::new("ngrams", message)).into_iter().collect();
        if self.max_share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            issues.push(Issue::new("max_share", "must be above 0 and at most 1, for example 0.5"));
        }
        if let Some(word) =
            self.stop_words.iter().find(|word| self.lowercase && word.to_lowercase() != **word)
        {
            let message = format!(
                "`{word}` is never found, because words are in lower case: write `{}`",
                word.to_lowercase()
            );
            issues.push(Issue::new("stop_words", message));
        }
        issues
    }
}

impl Default for VectoriseOptions {
    fn default() -> Self {
        Self {
            lowercase: true,
            min_rows: 1,
            max_features: None,
            sublinear_tf: false,
            idf: true,
            l2: true,
            unit: TextUnit::default(),
            ngrams: NgramRange::default(),
            stop_words: BTreeSet::new(),
            numbers: Numbers::default(),
            max_share: None,
        }
    }
}

/// A fitted vocabulary, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredVocabulary {
    version: u32,
    options: VectoriseOptions,
    /// The number of rows that it was fitted on.
    rows: u64,
    /// In sorted order. The position of a word is the number of its feature.
    words: Vec<String>,
    /// The number of fitted rows in which each word occurs.
    row_counts: Vec<u64>,
}

const VERSION: u32 = 1;

/// Turns texts into features with a fitted vocabulary.
#[derive(Debug, Clone)]
pub struct Vectoriser {
    vocabulary: StoredVocabulary,
    features_by_word: HashMap<String, u32>,
}

impl Vectoriser {
    /// Fits a vocabulary on the given rows of `texts`.
    pub fn fit(texts: &[String], rows: &[u32], options: &VectoriseOptions) -> Self {
        let counts = rows
            .par_iter()
            .filter_map(|&row| Some((row, texts.get(row as usize)?)))
            .fold(HashMap::new, |mut counts: HashMap<String, RowCount>, (row, text)| {
                TextUnits::of(text, options).visit(options, |unit| match counts.get_mut(unit) {
                    Some(count) => count.add(row),
                    None => {
                        counts.insert(unit.to_owned(), RowCount { rows: 1, last: row });
                    }
                });
                counts
            })
            .map(|counts| counts.into_iter().map(|(word, count)| (word, count.rows)).collect())
            .reduce(HashMap::new, |mut all, counts| {
                for (word, count) in counts {
                    *all.entry(word).or_default() += count;
                }
                all
            });
        let most = options.max_share.map_or(f64::INFINITY, |share| share * rows.len() as f64);
        let is_kept =
            |&(_, count): &(String, u64)| count >= u64::from(options.min_rows) && count as f64 <= most;
        let mut words: Vec<(String, u64)> = counts.into_iter().filter(is_kept).collect();
        if let Some(limit) = options.max_features {
            words.sort_unstable_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
            words.truncate(limit as usize);
        }
        words.sort_unstable();
        let (words, row_counts) = words.into_iter().unzip();
        let rows = rows.len() as u64;
        Self::new(StoredVocabulary { version: VERSION, options: options.clone(), rows, words, row_counts })
    }

    fn new(vocabulary: StoredVocabulary) -> Self {
        let features_by_word =
            vocabulary.words.iter().zip(0..).map(|(word, feature)| (word.clone(), feature)).collect();
        Self { vocabulary, features_by_word }
    }

    /// Returns the words, which are the names of the features.
    pub fn words(&self) -> &[String] {
        &self.vocabulary.words
    }

    /// Returns the features and values of a text.
    pub fn transform(&self, text: &str) -> (Vec<u32>, Vec<f32>) {
        let options = &self.vocabulary.options;
        let mut counts: HashMap<u32, u32> = HashMap::new();
        TextUnits::of(text, options).visit(options, |unit| {
            if let Some(&feature) = self.features_by_word.get(unit) {
                *counts.entry(feature).or_default() += 1;
            }
        });
        let mut weights: Vec<(u32, f64)> = counts
            .into_iter()
            .map(|(feature, count)| {
                let tf = f64::from(count);
                let tf = if options.sublinear_tf { 1.0 + tf.ln() } else { tf };
                (feature, tf * self.idf(feature))
            })
            .collect();
        weights.sort_unstable_by_key(|&(feature, _)| feature);
        let norm = if options.l2 {
            weights.iter().map(|(_, weight)| weight * weight).sum::<f64>().sqrt()
        } else {
            1.0
        };
        weights.into_iter().map(|(feature, weight)| (feature, (weight / norm) as f32)).unzip()
    }

    /// Writes the features of all texts in order, using all cores.
    pub fn transform_all(&self, texts: &[String], features: &mut CsrWriter) -> Result<(), DataError> {
        for texts in texts.chunks(4096) {
            let rows: Vec<_> = texts.par_iter().map(|text| self.transform(text)).collect();
            for (indices, values) in rows {
                features.push(&indices, &values)?;
            }
        }
        Ok(())
    }

    fn idf(&self, feature: u32) -> f64 {
        if !self.vocabulary.options.idf {
            return 1.0;
        }
        let rows_with_word = self.vocabulary.row_counts[feature as usize] as f64;
        ((1.0 + self.vocabulary.rows as f64) / (1.0 + rows_with_word)).ln() + 1.0
    }

    /// Writes the vocabulary as JSON, for new texts.
    pub fn save(&self, path: &Path) -> Result<(), DataError> {
        write_json(path, &self.vocabulary)
    }

    /// Reads what [`Vectoriser::save`] wrote.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let text = std::fs::read(path).map_err(DataError::io("read", path))?;
        let vocabulary: StoredVocabulary =
            serde_json::from_slice(&text).map_err(|e| DataError::artifact(path, e.to_string()))?;
        let sorted = vocabulary.words.is_sorted_by(|a, b| a < b);
        if vocabulary.version != VERSION || vocabulary.words.len() != vocabulary.row_counts.len() || !sorted {
            return Err(DataError::artifact(path, "it is not a vocabulary of this version"));
        }
        Ok(Self::new(vocabulary))
    }
}

/// The number of rows that contain a word, and the last of them.
struct RowCount {
    rows: u64,
    last: u32,
}

impl RowCount {
    /// Counts a row, once even if it contains the word several times.
    fn add(&mut self, row: u32) {
        self.rows += u64::from(self.last != row);
        self.last = row;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Vec<String> {
        ["The cat sat. The cat!", "a dog sat", "zebra zebra unseen"].map(str::to_owned).to_vec()
    }

    #[test]
    fn weights_follow_the_formula() {
        let fitted = Vectoriser::fit(&texts(), &[0, 1], &VectoriseOptions::default());
        assert_eq!(fitted.words(), ["cat", "dog", "sat", "the"]);
        let (indices, values) = fitted.transform("The cat sat. The cat!");
        let rare = (3.0_f64 / 2.0).ln() + 1.0;
        let common = (3.0_f64 / 3.0).ln() + 1.0;
        let norm = (2.0 * (2.0 * rare).powi(2) + common * common).sqrt();
        assert_eq!(indices, [0, 2, 3]);
        assert_eq!(values, [2.0 * rare / norm, common / norm, 2.0 * rare / norm].map(|v| v as f32));
    }

    #[test]
    fn rows_outside_the_training_part_have_no_influence() {
        let mut other = texts();
        other[2] = "something else".into();
        let fit = |texts: &[String]| Vectoriser::fit(texts, &[0, 1], &VectoriseOptions::default());
        assert_eq!(fit(&texts()).vocabulary, fit(&other).vocabulary);
        assert_eq!(fit(&texts()).transform("zebra unseen"), (vec![], vec![]));
    }

    #[test]
    fn options_limit_the_words_and_switch_weighting_off() {
        let options =
            VectoriseOptions { max_features: Some(2), idf: false, l2: false, ..VectoriseOptions::default() };
        let fitted = Vectoriser::fit(&texts(), &[0, 1], &options);
        assert_eq!(fitted.words(), ["cat", "sat"]);
        assert_eq!(fitted.transform("cat cat CAT sat"), (vec![0, 1], vec![3.0, 1.0]));
        let options = VectoriseOptions { min_rows: 2, sublinear_tf: true, ..options };
        let fitted = Vectoriser::fit(&texts(), &[0, 1], &options);
        assert_eq!(fitted.words(), ["sat"]);
        assert_eq!(fitted.transform("sat sat").1, [1.0 + 2_f32.ln()]);
    }

    fn words_with(options: &str) -> Vec<String> {
        let options: VectoriseOptions = serde_yaml::from_str(options).unwrap();
        assert_eq!(options.issues(), []);
        Vectoriser::fit(&texts(), &[0, 1], &options).words().to_vec()
    }

    #[test]
    fn frequent_words_are_left_out_by_their_share_of_training_rows() {
        assert_eq!(words_with("max_share: 0.5"), ["cat", "dog", "the"]);
        assert_eq!(words_with("max_share: 1"), ["cat", "dog", "sat", "the"]);
        let fields = |options: &str| -> Vec<String> {
            let options: VectoriseOptions = serde_yaml::from_str(options).unwrap();
            options.issues().into_iter().map(|issue| issue.field).collect()
        };
        assert_eq!(fields("{ max_share: 0, ngrams: [2, 1] }"), ["ngrams", "max_share"]);
        assert_eq!(fields("{ max_share: 1.5, ngrams: [0, 1] }"), ["ngrams", "max_share"]);
        assert_eq!(fields("{ stop_words: [The] }"), ["stop_words"]);
        assert_eq!(fields("{ stop_words: [The], lowercase: false }"), [""; 0]);
    }

    #[test]
    fn n_grams_are_features_of_training_and_of_new_texts() {
        let words = ["cat", "cat sat", "dog", "dog sat", "sat", "sat the", "the", "the cat"];
        assert_eq!(words_with("ngrams: [1, 2]"), words);
        let options = serde_yaml::from_str("{ ngrams: [2, 2], idf: false, l2: false }").unwrap();
        let fitted = Vectoriser::fit(&texts(), &[0, 1], &options);
        assert_eq!(fitted.words(), ["cat sat", "dog sat", "sat the", "the cat"]);
        assert_eq!(fitted.transform("THE CAT, the cat, a dog"), (vec![3], vec![2.0]));
    }

    #[test]
    fn options_that_are_not_set_are_not_stored() {
        let stored = serde_json::to_string(&VectoriseOptions::default()).unwrap();
        let before = r#"{"lowercase":true,"min_rows":1,"max_features":null,"sublinear_tf":false,"idf":true,"l2":true}"#;
        assert_eq!(stored, before);
    }

    #[test]
    fn a_saved_vocabulary_is_read_back() {
        let temp = tempfile::tempdir().unwrap();
        let fitted = Vectoriser::fit(&texts(), &[0, 2], &VectoriseOptions::default());
        let path = temp.path().join("vocabulary.json");
        fitted.save(&path).unwrap();
        let loaded = Vectoriser::load(&path).unwrap();
        assert_eq!(loaded.transform(&texts()[0]), fitted.transform(&texts()[0]));
        let mut writer = CsrWriter::create(&temp.path().join("x.csr"), true).unwrap();
        loaded.transform_all(&texts(), &mut writer).unwrap();
        assert_eq!(writer.finish(loaded.words().len()).unwrap().row(0), fitted.transform(&texts()[0]).0);
    }
}
