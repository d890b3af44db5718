//! The (row, label) pairs that the weights are fitted on: all true pairs, and a weighted sample of the others.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::regression::PairSample;
use super::{Fusion, FusionError, product_count, products};
use crate::data::csr::Csr;
use crate::data::random::Random;
use crate::score::table::ScoreTable;

/// How pairs are sampled, and which columns they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairOptions {
    /// The number of pairs to draw. True pairs among them are dropped.
    pub pairs: usize,
    pub seed: u64,
    pub source: PairSource,
    /// Whether the products of two columns are columns too.
    pub products: bool,
    /// Pairs of labels with fewer training rows are left out; `None` leaves out none.
    pub min_label_rows: Option<u64>,
}

/// Which pairs the weights are fitted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairSource {
    /// Every row with every label.
    #[default]
    All,
    /// Every row with the labels that at least one model has kept for it. Only these can be predicted.
    Candidates,
}

/// Returns the labels that at least one table has kept for a row, ascending; all labels if no table leaves any out.
pub fn candidates(tables: &[ScoreTable], row: usize) -> Vec<u32> {
    if !tables.iter().any(ScoreTable::is_sparse) {
        return (0..tables.first().map_or(0, |table| table.card().labels as u32)).collect();
    }
    let mut kept: Vec<u32> = tables.iter().filter_map(|table| table.kept(row)).flatten().copied().collect();
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// Samples pairs and computes their columns.
pub(super) fn sample(
    fusion: &Fusion,
    tables: &[ScoreTable],
    labels: &Csr,
    options: PairOptions,
) -> Result<PairSample, FusionError> {
    let takes_part =
        |label: u32| options.min_label_rows.is_none_or(|least| fusion.counts[label as usize] >= least);
    let (mut pairs, all) = match options.source {
        PairSource::Candidates if tables.iter().any(ScoreTable::is_sparse) => {
            draw_candidates(tables, labels, options, &takes_part)
        }
        _ => draw_all(labels, options, &takes_part),
    };
    match options.min_label_rows {
        _ if !pairs.true_pairs.is_empty() => {}
        Some(least) if labels.entries() > 0 => return Err(FusionError::RareLabels { least }),
        _ => return Err(FusionError::NoPositives),
    }
    let positives = pairs.true_pairs.len();
    let negatives = pairs.others.len();
    if negatives == 0 {
        return Err(FusionError::NoNegatives);
    }
    pairs.true_pairs.append(&mut pairs.others);
    let pairs = pairs.true_pairs;
    let plain = tables.len() + 1;
    let columns = plain + if options.products { product_count(plain) } else { 0 };
    let mut x = vec![0f64; pairs.len() * columns];
    x.par_chunks_mut(columns).zip(&pairs).for_each(|(x, &(row, label))| {
        let (x, more) = x.split_at_mut(plain);
        for ((x, term), table) in x.iter_mut().zip(&fusion.terms).zip(tables) {
            *x = term.of(table.score(row, label));
        }
        x[plain - 1] = fusion.idf(label);
        more.iter_mut().zip(products(x)).for_each(|(more, product)| *more = product);
    });
    let weight = (all - positives) as f64 / negatives as f64;
    Ok(PairSample { columns, x, positives, negative_weight: weight })
}

type Pair = (usize, u32);

struct DrawnPairs {
    true_pairs: Vec<Pair>,
    others: Vec<Pair>,
}

/// Returns whether the pairs of a label take part.
type TakesPart<'a> = &'a (dyn Fn(u32) -> bool + Sync);

/// Draws from every row with every label. Returns the pairs, and how many there are to draw from.
fn draw_all(labels: &Csr, options: PairOptions, takes_part: TakesPart) -> (DrawnPairs, usize) {
    let rows = 0..labels.rows();
    let true_pairs = rows.flat_map(|row| labels.row(row).iter().map(move |&label| (row, label)));
    let true_pairs: Vec<Pair> = true_pairs.filter(|pair| takes_part(pair.1)).collect();
    let all = labels.rows() * labels.cols;
    if true_pairs.is_empty() {
        return (DrawnPairs { true_pairs, others: Vec::new() }, all);
    }
    let mut random = Random::new("fusion pairs", options.seed);
    let drawn = (0..options.pairs).map(|_| random.below(all));
    let drawn = drawn.map(|place| (place / labels.cols, (place % labels.cols) as u32));
    let is_other = |&(row, label): &Pair| takes_part(label) && labels.row(row).binary_search(&label).is_err();
    let others = drawn.filter(is_other).collect();
    let taking_part = (0..labels.cols as u32).filter(|&label| takes_part(label)).count();
    (DrawnPairs { true_pairs, others }, labels.rows() * taking_part)
}

/// Draws from the candidates of every row. If there are no more of them than pairs to draw, all are taken.
fn draw_candidates(
    tables: &[ScoreTable],
    labels: &Csr,
    options: PairOptions,
    takes_part: TakesPart,
) -> (DrawnPairs, usize) {
    let candidates = |row: usize| -> Vec<u32> {
        candidates(tables, row).into_iter().filter(|&label| takes_part(label)).collect()
    };
    let mut ends: Vec<usize> = (0..labels.rows()).into_par_iter().map(|row| candidates(row).len()).collect();
    let mut all = 0;
    for end in &mut ends {
        all += *end;
        *end = all;
    }
    let is_true = |&(row, label): &Pair| labels.row(row).binary_search(&label).is_ok();
    let pairs_of = |row: usize| candidates(row).into_iter().map(move |label| (row, label));
    let true_pairs: Vec<Pair> = (0..labels.rows())
        .into_par_iter()
        .flat_map_iter(|row| pairs_of(row).filter(is_true).collect::<Vec<_>>())
        .collect();
    if true_pairs.is_empty() {
        return (DrawnPairs { true_pairs, others: Vec::new() }, all);
    }
    let drawn: Vec<Pair> = if all <= options.pairs {
        (0..labels.rows()).into_par_iter().flat_map_iter(pairs_of).collect()
    } else {
        let mut random = Random::new("fusion candidates", options.seed);
        let places: Vec<usize> = (0..options.pairs).map(|_| random.below(all)).collect();
        let pair_at = |place: usize| {
            let row = ends.partition_point(|&end| end <= place);
            let found = candidates(row);
            (row, found[found.len() - (ends[row] - place)])
        };
        places.into_par_iter().map(pair_at).collect()
    };
    let others = drawn.into_iter().filter(|pair| !is_true(pair)).collect();
    (DrawnPairs { true_pairs, others }, all)
}
