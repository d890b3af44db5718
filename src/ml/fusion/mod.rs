//! [`Fusion`]: one score from the scores of several models.
//!
//! The fused score is a weighted sum of the log of each model's response, the log of probabilities and of the share of neighbours
//! and the rarity of the label. The weights are found by one logistic regression over (row, label) pairs of
//! training rows:
//!
//! s_l = sum_m w_m t_m(r_ml) + w_idf ln(N / max(f_l, 0.5)) + w_0, with t(r) = ln(max(r, 0) + floor), and
//! t(r) = r for log-odds. With products, the sum also has a weight for each product of two of its columns t_m and the
//! rarity, squares included. The scores of the pairs were made without the labels of their rows.

mod pairs;
mod regression;

use serde::{Deserialize, Serialize};

use super::data::csr::Csr;
use super::score::ScoreScale;
use super::score::table::ScoreTable;
pub use pairs::{PairOptions, PairSource, candidates};

/// Added to the probabilities of label trees before the logarithm. On citeulike-t, the log-odds of a label are linear in
/// the logarithm of its score from 1 down to 1e-4; labels that were not found continue this line at about 1e-6.
const PROBABILITY_FLOOR: f64 = 1e-6;

/// If the sum of the positive weights is less than this share of the sum of the negative ones, they do not count.
const NEGLIGIBLE: f64 = 0.01;

/// The reason why a fusion cannot be fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FusionError {
    #[error(
        "no training row has a label, or no model has found one of its labels: there is nothing to fit the fusion on"
    )]
    NoPositives,
    #[error("no label has {least} training rows (`min_label_rows`): there is nothing to fit the fusion on")]
    RareLabels { least: u64 },
    #[error("every label is in every training row: there is nothing to fit the fusion on")]
    NoNegatives,
    #[error("the fusion's regression cannot be solved: the scores contain numbers that are not finite")]
    Unsolvable,
}

/// The term of one model in the sum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FusionTerm {
    /// The kind of model.
    pub model: String,
    pub scale: ScoreScale,
    /// Added to responses and shares before the logarithm.
    pub floor: f64,
    pub weight: f64,
}

/// The fitted sum of all terms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fusion {
    pub terms: Vec<FusionTerm>,
    pub idf_weight: f64,
    pub constant: f64,
    /// The weights of the products of two columns, or none: of the first column with itself and each later one, then of the
    /// second, and so on. The rarity is the last column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub products: Vec<f64>,
    /// Number of training rows, N.
    pub rows: u64,
    /// Number of training rows with each label, f_l.
    pub counts: Vec<u64>,
}

impl Fusion {
    /// Returns whether higher scores of the models make a label less probable: the scores of the training rows then say
    /// nothing about labels. This is so if hardly any label has more than one row, because a row is scored without its labels.
    /// The weight of a model that adds nothing to the others may then be slightly above 0.
    pub fn is_uninformed(&self) -> bool {
        let sum = |sign: f64| self.terms.iter().map(|term| (sign * term.weight).max(0.0)).sum::<f64>();
        sum(1.0) <= NEGLIGIBLE * sum(-1.0)
    }
}

/// The numbers that are added before the logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogFloors {
    pub response: f64,
    pub share: f64,
}

impl FusionTerm {
    /// Creates a term with weight 0.
    pub fn new(model: &str, scale: ScoreScale, floors: LogFloors) -> Self {
        let floor = match scale {
            ScoreScale::Response => floors.response,
            ScoreScale::Share => floors.share,
            ScoreScale::Probability => PROBABILITY_FLOOR,
            ScoreScale::LogOdds => 0.0,
        };
        Self { model: model.to_owned(), scale, floor, weight: 0.0 }
    }

    /// Returns t(score), which is multiplied by the weight.
    pub fn of(&self, score: f32) -> f64 {
        match self.scale {
            ScoreScale::LogOdds => f64::from(score),
            ScoreScale::Response | ScoreScale::Share | ScoreScale::Probability => {
                (f64::from(score).max(0.0) + self.floor).ln()
            }
        }
    }
}

impl Fusion {
    /// Finds the weights from scores of training rows, one table per term, and the labels of the same rows.
    pub fn fit(
        terms: Vec<FusionTerm>,
        tables: &[ScoreTable],
        labels: &Csr,
        options: PairOptions,
    ) -> Result<Self, FusionError> {
        let mut counts = vec![0u64; labels.cols];
        for &label in labels.indices.iter() {
            counts[label as usize] += 1;
        }
        let rows = labels.rows() as u64;
        let products = Vec::new();
        let mut fusion = Self { terms, idf_weight: 0.0, constant: 0.0, products, rows, counts };
        let sample = pairs::sample(&fusion, tables, labels, options)?;
        let mut weights = regression::fit(&sample).ok_or(FusionError::Unsolvable)?;
        fusion.constant = weights.pop().unwrap_or_default();
        fusion.products = weights.split_off(fusion.terms.len() + 1);
        fusion.idf_weight = weights.pop().unwrap_or_default();
        for (term, weight) in fusion.terms.iter_mut().zip(weights) {
            term.weight = weight;
        }
        Ok(fusion)
    }

    /// Returns whether the fusion is one of so many models and labels.
    pub fn fits(&self, models: usize, labels: usize) -> bool {
        let products = [0, product_count(models + 1)];
        self.terms.len() == models && self.labels() == labels && products.contains(&self.products.len())
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.counts.len()
    }

    /// Returns the rarity of a label, ln(N / max(f, 0.5)).
    pub fn idf(&self, label: u32) -> f64 {
        (self.rows as f64 / (self.counts[label as usize] as f64).max(0.5)).ln()
    }

    /// Returns the fused score, which is the log-odds of a label, from the scores of the models.
    pub fn score(&self, label: u32, scores: impl IntoIterator<Item = f32>) -> f32 {
        if !self.products.is_empty() {
            let columns = self.columns(label, scores);
            let plain = self.terms.iter().map(|term| term.weight).chain([self.idf_weight]);
            let plain: f64 = plain.zip(&columns).map(|(weight, column)| weight * column).sum();
            return (plain + self.sum_of_products(&columns) + self.constant) as f32;
        }
        let terms: f64 =
            self.terms.iter().zip(scores).map(|(term, score)| term.weight * term.of(score)).sum();
        (terms + self.idf_weight * self.idf(label) + self.constant) as f32
    }

    /// Returns the part of the fused score that comes from products; 0 without them.
    pub fn product_part(&self, label: u32, scores: impl IntoIterator<Item = f32>) -> f64 {
        self.sum_of_products(&self.columns(label, scores))
    }

    /// Returns the transformed scores and the rarity.
    fn columns(&self, label: u32, scores: impl IntoIterator<Item = f32>) -> Vec<f64> {
        let terms = self.terms.iter().zip(scores).map(|(term, score)| term.of(score));
        terms.chain([self.idf(label)]).collect()
    }

    fn sum_of_products(&self, columns: &[f64]) -> f64 {
        self.products.iter().zip(products(columns)).map(|(weight, product)| weight * product).sum()
    }
}

/// Returns the products of two columns, in the order of [`Fusion::products`].
fn products(columns: &[f64]) -> impl Iterator<Item = f64> {
    columns.iter().enumerate().flat_map(|(at, first)| columns[at..].iter().map(move |second| first * second))
}

/// Returns how many products so many columns have.
fn product_count(columns: usize) -> usize {
    columns * (columns + 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::random::Random;
    use crate::score::ScoreOrigin;
    use crate::score::table::{ScoreTableSpec, ScoreWriter};

    const FLOORS: LogFloors = LogFloors { response: 0.03, share: 0.005 };
    const LABELS: usize = 12;

    /// Draws the labels of rows with known weights of two scores.
    fn drawn(
        rows: usize,
        keep: Option<usize>,
    ) -> (Vec<tempfile::TempDir>, Vec<ScoreTable>, Csr, Vec<FusionTerm>) {
        let mut random = Random::new("fusion test", 5);
        let scales = [ScoreScale::Response, ScoreScale::LogOdds];
        let terms: Vec<FusionTerm> = scales.map(|scale| FusionTerm::new("x", scale, FLOORS)).into();
        let temps: Vec<_> = scales.iter().map(|_| tempfile::tempdir().unwrap()).collect();
        let mut writers: Vec<ScoreWriter> = temps
            .iter()
            .zip(scales)
            .map(|(temp, scale)| {
                let made = ScoreOrigin::LeaveOneOut {};
                let purpose = ScoreTableSpec { mark: String::new(), labels: LABELS, scale, made, keep };
                ScoreWriter::create(temp.path(), purpose).unwrap()
            })
            .collect();
        let mut labels = Vec::new();
        for _ in 0..rows {
            let response: Vec<f32> = (0..LABELS).map(|_| (random.unit() * 1.2 - 0.2) as f32).collect();
            let odds: Vec<f32> = (0..LABELS).map(|_| random.normal() as f32).collect();
            let mut row = Vec::new();
            for label in 0..LABELS {
                let s = 1.5 * terms[0].of(response[label]) + 0.7 * f64::from(odds[label]) + 0.5;
                if random.unit() < 1.0 / (1.0 + (-s).exp()) {
                    row.push(label as u32);
                }
            }
            labels.push(row);
            writers[0].push(&response).unwrap();
            writers[1].push(&odds).unwrap();
        }
        let tables = writers.into_iter().map(|writer| writer.finish().unwrap()).collect();
        (temps, tables, Csr::from_rows(LABELS, &labels), terms)
    }

    fn fitted(rows: usize, keep: Option<usize>, pairs: usize) -> Fusion {
        let (_temps, tables, labels, terms) = drawn(rows, keep);
        Fusion::fit(
            terms,
            &tables,
            &labels,
            PairOptions { pairs: Some(pairs), seed: 1, ..PairOptions::default() },
        )
        .unwrap()
    }

    #[test]
    fn known_weights_are_recovered() {
        let fusion = fitted(20_000, None, 200_000);
        let weights = [fusion.terms[0].weight, fusion.terms[1].weight];
        assert!((weights[0] - 1.5).abs() < 0.05 && (weights[1] - 0.7).abs() < 0.05, "{weights:?}");
        let constant = fusion.constant + fusion.idf_weight * fusion.idf(0);
        assert!((constant - 0.5).abs() < 0.1, "{constant} {}", fusion.idf_weight);
    }

    #[test]
    fn the_weights_do_not_depend_on_the_number_of_threads() {
        let fit = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| fitted(3000, None, 20_000))
        };
        assert_eq!(fit(1), fit(3));
    }

    #[test]
    fn another_seed_draws_other_pairs() {
        let (_temps, tables, labels, terms) = drawn(500, None);
        let fit = |seed| {
            Fusion::fit(
                terms.clone(),
                &tables,
                &labels,
                PairOptions { pairs: Some(2000), seed, ..PairOptions::default() },
            )
            .unwrap()
            .constant
        };
        assert_eq!(fit(1), fit(1));
        assert_ne!(fit(1), fit(2));
    }

    #[test]
    fn products_that_do_not_matter_get_small_weights_and_belong_to_the_score() {
        let (_temps, tables, labels, terms) = drawn(20_000, None);
        let options = PairOptions { pairs: Some(200_000), seed: 1, products: true, ..PairOptions::default() };
        let fusion = Fusion::fit(terms.clone(), &tables, &labels, options).unwrap();
        assert!(fusion.fits(2, LABELS) && fusion.products.len() == 6);
        // Rows are drawn without products, so the score is nearly that of the known weights.
        for (response, odds) in [(0.9, 1.0), (0.4, -0.5), (0.7, 0.2f32)] {
            let known = 1.5 * terms[0].of(response) + 0.7 * f64::from(odds) + 0.5;
            let score = f64::from(fusion.score(3, [response, odds]));
            assert!((score - known).abs() < 0.15, "{score} {known}");
            let plain = Fusion { products: Vec::new(), ..fusion.clone() };
            let sum = f64::from(plain.score(3, [response, odds])) + fusion.product_part(3, [response, odds]);
            assert!((sum - score).abs() < 1e-5, "{sum} {score}");
        }
    }

    #[test]
    fn candidates_are_the_labels_that_a_table_keeps_and_only_they_are_fitted_on() {
        let (_temps, tables, labels, terms) = drawn(3000, Some(4));
        let row: Vec<u32> = tables.iter().flat_map(|table| table.kept(7).unwrap()).copied().collect();
        let found = candidates(&tables, 7);
        assert!(found.is_sorted() && found.iter().all(|label| row.contains(label)));
        assert!(row.iter().all(|label| found.contains(label)));
        let fit = |source| {
            let options = PairOptions { pairs: Some(20_000), source, ..PairOptions::default() };
            Fusion::fit(terms.clone(), &tables, &labels, options).unwrap()
        };
        let mean = |fusion: &Fusion, row: usize| {
            let found = candidates(&tables, row);
            let score =
                |&label: &u32| fusion.score(label, tables.iter().map(|table| table.score(row, label)));
            let probability = |score: f32| 1.0 / (1.0 + f64::from(-score).exp());
            found.iter().map(|label| probability(score(label))).sum::<f64>()
        };
        let true_pairs = |row: usize| {
            let found = candidates(&tables, row);
            labels.row(row).iter().filter(|label| found.binary_search(label).is_ok()).count() as f64
        };
        // Fitted on the candidates, the probabilities of the candidates add up to their true labels.
        let fusion = fit(PairSource::Candidates);
        let expected: f64 = (0..3000).map(true_pairs).sum();
        let predicted: f64 = (0..3000).map(|row| mean(&fusion, row)).sum();
        assert!((predicted / expected - 1.0).abs() < 0.03, "{predicted} {expected}");
        assert_ne!(fusion, fit(PairSource::All));
    }

    #[test]
    fn the_pairs_of_rare_labels_can_be_left_out() {
        for keep in [None, Some(4)] {
            let (_temps, tables, labels, terms) = drawn(3000, keep);
            // Label 0 is kept for one row only, so it is rare.
            let first = (0..3000).find(|&row| labels.row(row).contains(&0)).unwrap();
            let rare = |row: usize| {
                labels.row(row).iter().copied().filter(|&label| label > 0 || row == first).collect()
            };
            let rows: Vec<Vec<u32>> = (0..3000).map(rare).collect();
            let rare = Csr::from_rows(LABELS, &rows);
            let source = if keep.is_some() { PairSource::Candidates } else { PairSource::All };
            let options = PairOptions { pairs: Some(40_000), source, ..PairOptions::default() };
            let fit = |min_label_rows| {
                let options = PairOptions { min_label_rows, ..options };
                Fusion::fit(terms.clone(), &tables, &rare, options)
            };
            let (all, without) = (fit(None).unwrap(), fit(Some(2)).unwrap());
            assert_eq!(all, fit(Some(1)).unwrap(), "every label has a row");
            assert_ne!(all, without);
            // The false negatives of label 0 would make the probabilities of the other labels too low.
            if keep.is_none() {
                let probability = |row: usize, label: u32| {
                    let score = without.score(label, tables.iter().map(|table| table.score(row, label)));
                    1.0 / (1.0 + f64::from(-score).exp())
                };
                let others = 1..LABELS as u32;
                let predicted: f64 = (0..3000)
                    .flat_map(|row| others.clone().map(move |l| (row, l)))
                    .map(|(r, l)| probability(r, l))
                    .sum();
                let expected = (rare.entries() - 1) as f64;
                assert!((predicted / expected - 1.0).abs() < 0.03, "{predicted} {expected}");
            }
            assert_eq!(fit(Some(5000)), Err(FusionError::RareLabels { least: 5000 }));
        }
    }

    #[test]
    fn a_fusion_with_negative_weights_and_hardly_any_others_is_uninformed() {
        let with = |weights: [f64; 2]| {
            let term = |weight| FusionTerm { weight, ..FusionTerm::new("x", ScoreScale::Response, FLOORS) };
            let terms = weights.map(term).into();
            Fusion { terms, idf_weight: 0.5, constant: 0.0, products: Vec::new(), rows: 9, counts: vec![1] }
        };
        assert!(with([-2.0, 0.0]).is_uninformed() && with([-400.0, 8e-4]).is_uninformed());
        assert!(!with([-1.6, 4.7]).is_uninformed() && !with([0.0, 0.1]).is_uninformed());
    }

    #[test]
    fn rows_without_any_label_are_refused() {
        let (_temps, tables, _, terms) = drawn(10, None);
        let labels = Csr::from_rows(LABELS, &vec![Vec::<u32>::new(); 10]);
        let options = PairOptions { pairs: Some(100), ..PairOptions::default() };
        assert_eq!(Fusion::fit(terms, &tables, &labels, options), Err(FusionError::NoPositives));
    }
}
