//! Metrics of the labels with the highest scores: P@k, nDCG@k and their propensity-scored forms.

use super::exact::ExactSum;
use super::registry::Metric;

/// The values of k.
pub const CUTOFFS: [usize; 3] = [1, 3, 5];
/// The number of labels per row that is enough for every cutoff.
pub const DEPTH: usize = CUTOFFS[CUTOFFS.len() - 1];

const PRECISION: [Metric; 3] = [Metric::PAt1, Metric::PAt3, Metric::PAt5];
const NDCG: [Metric; 3] = [Metric::NdcgAt1, Metric::NdcgAt3, Metric::NdcgAt5];
const PRECISION_NONEMPTY: [Metric; 3] = [Metric::PAt1Nonempty, Metric::PAt3Nonempty, Metric::PAt5Nonempty];
const NDCG_NONEMPTY: [Metric; 3] =
    [Metric::NdcgAt1Nonempty, Metric::NdcgAt3Nonempty, Metric::NdcgAt5Nonempty];
const PSP: [Metric; 3] = [Metric::PspAt1, Metric::PspAt3, Metric::PspAt5];
const PSNDCG: [Metric; 3] = [Metric::PsndcgAt1, Metric::PsndcgAt3, Metric::PsndcgAt5];

/// The metrics of one row at the three cutoffs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RowRanking {
    pub precision: [f64; 3],
    pub ndcg: [f64; 3],
}

/// Sums over rows, from which the metrics follow.
#[derive(Debug, Clone, Default)]
pub struct Ranking {
    rows: u64,
    nonempty: u64,
    hits: [u64; 3],
    ndcg: [ExactSum; 3],
    propensity_scored: Option<PropensityScored>,
}

/// Sums in which each label is weighted by its inverse propensity.
#[derive(Debug, Clone)]
struct PropensityScored {
    inverse: Vec<f64>,
    precision: [Gain; 3],
    dcg: [Gain; 3],
    /// The weights of a row's true labels, heaviest first.
    ideal: Vec<f64>,
}

/// The gain of the ranked labels, and the largest gain that a ranking could have.
#[derive(Debug, Clone, Copy, Default)]
struct Gain {
    reached: ExactSum,
    possible: ExactSum,
}

impl Gain {
    fn share(self) -> f64 {
        let possible = self.possible.value();
        if possible == 0.0 { 0.0 } else { self.reached.value() / possible }
    }
}

impl Ranking {
    /// Creates sums over no rows. `inverse_propensities` come from
    /// [`super::propensity::Propensity::inverse`]; without them the propensity-scored metrics are left out.
    pub fn new(inverse_propensities: Option<Vec<f64>>) -> Self {
        let propensity_scored = inverse_propensities.map(|inverse| PropensityScored {
            inverse,
            precision: Default::default(),
            dcg: Default::default(),
            ideal: Vec::new(),
        });
        Self { propensity_scored, ..Self::default() }
    }

    /// Adds one row: its true labels in ascending order, and the [`DEPTH`] labels with the highest scores,
    /// best first (fewer if there are fewer labels).
    pub fn add(&mut self, truth: &[u32], top: &[u32]) -> RowRanking {
        let mut row = RowRanking::default();
        self.rows += 1;
        if truth.is_empty() {
            return row;
        }
        self.nonempty += 1;
        let hit: [bool; DEPTH] =
            std::array::from_fn(|rank| top.get(rank).is_some_and(|label| truth.binary_search(label).is_ok()));
        for (at, &k) in CUTOFFS.iter().enumerate() {
            let hits = hit[..k].iter().filter(|&&hit| hit).count();
            self.hits[at] += hits as u64;
            row.precision[at] = hits as f64 / k as f64;
            let dcg: f64 = (0..k).filter(|&rank| hit[rank]).map(discount).sum();
            row.ndcg[at] = dcg / best_dcg(truth.len().min(k));
            self.ndcg[at] += row.ndcg[at];
        }
        if let Some(scored) = &mut self.propensity_scored {
            scored.add(truth, top, &hit);
        }
        row
    }

    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.nonempty += other.nonempty;
        for at in 0..CUTOFFS.len() {
            self.hits[at] += other.hits[at];
            self.ndcg[at] += other.ndcg[at];
        }
        if let (Some(scored), Some(other)) = (&mut self.propensity_scored, &other.propensity_scored) {
            let gains = scored.precision.iter_mut().chain(&mut scored.dcg);
            for (gain, other) in gains.zip(other.precision.iter().chain(&other.dcg)) {
                gain.reached += other.reached;
                gain.possible += other.possible;
            }
        }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the metrics.
    pub fn values(&self) -> Vec<(Metric, f64)> {
        let mean = |sum: f64, rows: u64| sum / rows.max(1) as f64;
        let mut values = Vec::new();
        for (at, k) in CUTOFFS.into_iter().enumerate() {
            let (hits, ndcg) = (self.hits[at] as f64 / k as f64, self.ndcg[at].value());
            values.push((PRECISION[at], mean(hits, self.rows)));
            values.push((NDCG[at], mean(ndcg, self.rows)));
            values.push((PRECISION_NONEMPTY[at], mean(hits, self.nonempty)));
            values.push((NDCG_NONEMPTY[at], mean(ndcg, self.nonempty)));
            if let Some(scored) = &self.propensity_scored {
                values.push((PSP[at], scored.precision[at].share()));
                values.push((PSNDCG[at], scored.dcg[at].share()));
            }
        }
        values
    }
}

impl PropensityScored {
    fn add(&mut self, truth: &[u32], top: &[u32], hit: &[bool; DEPTH]) {
        self.ideal.clear();
        self.ideal.extend(truth.iter().map(|&label| self.inverse[label as usize]));
        self.ideal.sort_unstable_by(|a, b| b.total_cmp(a));
        for (at, &k) in CUTOFFS.iter().enumerate() {
            let depth = truth.len().min(k);
            let best = best_dcg(depth);
            for rank in (0..k).filter(|&rank| hit[rank]) {
                let weight = self.inverse[top[rank] as usize];
                self.precision[at].reached += weight;
                self.dcg[at].reached += weight * discount(rank) / best;
            }
            for (rank, &weight) in self.ideal[..depth].iter().enumerate() {
                self.precision[at].possible += weight;
                self.dcg[at].possible += weight * discount(rank) / best;
            }
        }
    }
}

/// Returns the gain of a true label at a rank, counted from 0.
fn discount(rank: usize) -> f64 {
    1.0 / (rank as f64 + 2.0).log2()
}

/// Returns the gain of a ranking that starts with this many true labels.
fn best_dcg(hits: usize) -> f64 {
    (0..hits).map(discount).sum()
}
