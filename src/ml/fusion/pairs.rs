//! The (row, label) pairs that the weights are fitted on: all true pairs, and all or a weighted sample of the others.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::regression::PairSample;
use super::{Fusion, FusionError, product_count, products};
use crate::data::csr::Csr;
use crate::data::random::Random;
use crate::score::table::ScoreTable;

/// By default, all pairs are taken if there are at most this many.
const MOST_PAIRS: usize = 2_000_000;
/// If there are more, this many of the best labels of each model are taken for each row, because they decide what is
/// predicted; fewer if they would be more than [`MOST_PAIRS`] in total.
const BEST_LABELS: usize = 30;
/// If there are more, this many of the other pairs are drawn.
const SPREAD_PAIRS: usize = 1_000_000;

/// How many pairs are read before the memory of the scores is given back. Drawn pairs are spread over the whole files, so
/// without this all of their pages would stay in memory.
const READ_TOGETHER: usize = 1 << 13;

/// How pairs are sampled, and which columns they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairOptions {
    /// The number of pairs to draw independently of each other. True pairs among them are dropped. `None` takes all pairs if they are not too
    /// many, and otherwise a sample that varies less with the seed.
    pub pairs: Option<usize>,
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
    let only_candidates =
        options.source == PairSource::Candidates && tables.iter().any(ScoreTable::is_sparse);
    let (mut pairs, all) = match options.pairs {
        None => {
            let eligible = |row: usize| -> Vec<u32> {
                let labels =
                    if only_candidates { candidates(tables, row) } else { (0..labels.cols as u32).collect() };
                labels.into_iter().filter(|&label| takes_part(label)).collect()
            };
            spread(tables, labels, options.seed, &eligible, Limits::default())
        }
        Some(number) if only_candidates => draw_candidates(tables, labels, number, options.seed, &takes_part),
        Some(number) => draw_all(labels, number, options.seed, &takes_part),
    };
    match options.min_label_rows {
        _ if !pairs.true_pairs.is_empty() => {}
        Some(least) if labels.entries() > 0 => return Err(FusionError::RareLabels { least }),
        _ => return Err(FusionError::NoPositives),
    }
    let positives = pairs.true_pairs.len();
    let (certain, drawn) = (positives + pairs.certain.len(), pairs.drawn.len());
    if certain + drawn == positives {
        return Err(FusionError::NoNegatives);
    }
    let drawn_weight = if drawn == 0 { 1.0 } else { (all - certain) as f64 / drawn as f64 };
    pairs.true_pairs.append(&mut pairs.certain);
    pairs.true_pairs.append(&mut pairs.drawn);
    let pairs = pairs.true_pairs;
    let plain = tables.len() + 1;
    let columns = plain + if options.products { product_count(plain) } else { 0 };
    let mut x = vec![0f64; pairs.len() * columns];
    for (x, pairs) in x.chunks_mut(READ_TOGETHER * columns).zip(pairs.chunks(READ_TOGETHER)) {
        x.par_chunks_mut(columns).zip(pairs).for_each(|(x, &(row, label))| {
            let (x, more) = x.split_at_mut(plain);
            for ((x, term), table) in x.iter_mut().zip(&fusion.terms).zip(tables) {
                *x = term.of(table.score(row, label));
            }
            x[plain - 1] = fusion.idf(label);
            more.iter_mut().zip(products(x)).for_each(|(more, product)| *more = product);
        });
        for table in tables {
            table.release(0..labels.rows());
        }
    }
    Ok(PairSample { columns, x, positives, certain, drawn_weight })
}

type Pair = (usize, u32);

/// The pairs that the weights are fitted on.
#[derive(Debug, Default, PartialEq)]
struct Pairs {
    true_pairs: Vec<Pair>,
    /// Other pairs, each of which counts once.
    certain: Vec<Pair>,
    /// Other pairs that count for all that were not drawn, too.
    drawn: Vec<Pair>,
}

/// Returns whether the pairs of a label take part.
type TakesPart<'a> = &'a (dyn Fn(u32) -> bool + Sync);

/// How many pairs are taken: all up to a number, and otherwise a selection.
#[derive(Clone, Copy)]
struct Limits {
    most: usize,
    best_labels: usize,
    drawn: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { most: MOST_PAIRS, best_labels: BEST_LABELS, drawn: SPREAD_PAIRS }
    }
}

/// Takes all eligible pairs, or the true ones, those of the best labels, and a sample of the others at equal distances from each other. Returns
/// the pairs, and how many there are in total. `eligible` returns the labels of a row, ascending.
fn spread(
    tables: &[ScoreTable],
    labels: &Csr,
    seed: u64,
    eligible: &(dyn Fn(usize) -> Vec<u32> + Sync),
    limits: Limits,
) -> (Pairs, usize) {
    let rows = 0..labels.rows();
    let all: usize = rows.clone().into_par_iter().map(|row| eligible(row).len()).sum();
    let best = (MOST_PAIRS / (labels.rows() * tables.len()).max(1)).clamp(1, limits.best_labels);
    // Of each row: true labels, labels that are certain to be taken, and the others.
    let divided = |row: usize| -> [Vec<u32>; 3] {
        let best = (all > limits.most).then(|| best_labels(tables, row, best));
        let mut divided = [const { Vec::new() }; 3];
        for label in eligible(row) {
            let is_certain = || best.as_ref().is_none_or(|best| best.binary_search(&label).is_ok());
            let group = match labels.row(row).binary_search(&label) {
                Ok(_) => 0,
                Err(_) if is_certain() => 1,
                Err(_) => 2,
            };
            divided[group].push(label);
        }
        divided
    };
    let mut others: Vec<usize> = rows.clone().into_par_iter().map(|row| divided(row)[2].len()).collect();
    let mut before = 0;
    for count in &mut others {
        before += std::mem::replace(count, before);
    }
    let total = before;
    let distance = (total as f64 / limits.drawn as f64).max(1.0);
    let start = Random::new("fusion spread", seed).unit();
    // The places of the sample are the whole parts of distance * (start + 0), distance * (start + 1), ...
    let number_before = |place: usize| (place as f64 / distance - start).ceil().max(0.0) as usize;
    let of_row = |row: usize| -> Pairs {
        let [true_labels, certain, mut drawn] = divided(row);
        if distance > 1.0 {
            let first = others[row];
            let places = number_before(first)..number_before(first + drawn.len());
            let label = |number: usize| {
                let place = (distance * (start + number as f64)) as usize;
                drawn[place.clamp(first, first + drawn.len() - 1) - first]
            };
            drawn = places.map(label).collect();
        }
        let pairs = |labels: Vec<u32>| labels.into_iter().map(|label| (row, label)).collect();
        Pairs { true_pairs: pairs(true_labels), certain: pairs(certain), drawn: pairs(drawn) }
    };
    let mut pairs = Pairs::default();
    for mut of_row in rows.into_par_iter().map(of_row).collect::<Vec<_>>() {
        pairs.true_pairs.append(&mut of_row.true_pairs);
        pairs.certain.append(&mut of_row.certain);
        pairs.drawn.append(&mut of_row.drawn);
    }
    (pairs, all)
}

/// Returns the labels that are among the best ones of at least one table for a row, ascending.
fn best_labels(tables: &[ScoreTable], row: usize, most: usize) -> Vec<u32> {
    let mut best: Vec<u32> = tables.iter().flat_map(|table| table.best(row, most)).collect();
    best.sort_unstable();
    best.dedup();
    best
}

/// Draws from every row with every label. Returns the pairs, and how many there are to draw from.
fn draw_all(labels: &Csr, number: usize, seed: u64, takes_part: TakesPart) -> (Pairs, usize) {
    let rows = 0..labels.rows();
    let true_pairs = rows.flat_map(|row| labels.row(row).iter().map(move |&label| (row, label)));
    let true_pairs: Vec<Pair> = true_pairs.filter(|pair| takes_part(pair.1)).collect();
    let all = labels.rows() * labels.cols;
    if true_pairs.is_empty() {
        return (Pairs::default(), all);
    }
    let mut random = Random::new("fusion pairs", seed);
    let drawn = (0..number).map(|_| random.below(all));
    let drawn = drawn.map(|place| (place / labels.cols, (place % labels.cols) as u32));
    let is_other = |&(row, label): &Pair| takes_part(label) && labels.row(row).binary_search(&label).is_err();
    let drawn = drawn.filter(is_other).collect();
    let taking_part = (0..labels.cols as u32).filter(|&label| takes_part(label)).count();
    (Pairs { true_pairs, certain: Vec::new(), drawn }, labels.rows() * taking_part)
}

/// Draws from the candidates of every row. If there are no more of them than pairs to draw, all are taken.
fn draw_candidates(
    tables: &[ScoreTable],
    labels: &Csr,
    number: usize,
    seed: u64,
    takes_part: TakesPart,
) -> (Pairs, usize) {
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
        return (Pairs::default(), all);
    }
    let drawn: Vec<Pair> = if all <= number {
        (0..labels.rows()).into_par_iter().flat_map_iter(pairs_of).collect()
    } else {
        let mut random = Random::new("fusion candidates", seed);
        let places: Vec<usize> = (0..number).map(|_| random.below(all)).collect();
        let pair_at = |place: usize| {
            let row = ends.partition_point(|&end| end <= place);
            let found = candidates(row);
            (row, found[found.len() - (ends[row] - place)])
        };
        places.into_par_iter().map(pair_at).collect()
    };
    let drawn = drawn.into_iter().filter(|pair| !is_true(pair)).collect();
    (Pairs { true_pairs, certain: Vec::new(), drawn }, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::table::{ScoreTableSpec, ScoreWriter};
    use crate::score::{ScoreOrigin, ScoreScale};

    const ROWS: usize = 60;
    const LABELS: usize = 40;

    /// Returns a table with random scores, and the labels of its rows.
    fn drawn() -> (tempfile::TempDir, [ScoreTable; 1], Csr) {
        let mut random = Random::new("pairs test", 3);
        let temp = tempfile::tempdir().unwrap();
        let (scale, made) = (ScoreScale::LogOdds, ScoreOrigin::LeaveOneOut {});
        let spec = ScoreTableSpec { mark: String::new(), labels: LABELS, scale, made, keep: None };
        let mut writer = ScoreWriter::create(temp.path(), spec).unwrap();
        let mut labels = Vec::new();
        for _ in 0..ROWS {
            writer.push(&[(); LABELS].map(|()| random.normal() as f32)).unwrap();
            labels.push((0..LABELS as u32).filter(|_| random.unit() < 0.1).collect::<Vec<_>>());
        }
        (temp, [writer.finish().unwrap()], Csr::from_rows(LABELS, &labels))
    }

    fn every_label(_: usize) -> Vec<u32> {
        (0..LABELS as u32).collect()
    }

    #[test]
    fn few_pairs_are_all_taken_with_any_seed() {
        let (_temp, tables, labels) = drawn();
        let (pairs, all) = spread(&tables, &labels, 1, &every_label, Limits::default());
        assert_eq!((all, pairs.true_pairs.len(), pairs.drawn.len()), (ROWS * LABELS, labels.entries(), 0));
        assert_eq!(pairs.certain.len(), all - labels.entries());
        assert_eq!(pairs, spread(&tables, &labels, 2, &every_label, Limits::default()).0);
    }

    #[test]
    fn of_many_pairs_the_best_are_taken_and_the_others_at_equal_distances() {
        let (_temp, tables, labels) = drawn();
        let limits = Limits { most: 100, best_labels: 3, drawn: 500 };
        let take = |seed| spread(&tables, &labels, seed, &every_label, limits);
        let (pairs, all) = take(1);
        assert_eq!((all, pairs.true_pairs.len()), (ROWS * LABELS, labels.entries()));
        let is_true = |&(row, label): &Pair| labels.row(row).contains(&label);
        let is_best = |&(row, label): &Pair| tables[0].best(row, 3).contains(&label);
        assert!(pairs.true_pairs.iter().all(is_true));
        let expected: Vec<Pair> =
            (0..ROWS).flat_map(|row| every_label(row).into_iter().map(move |l| (row, l))).collect();
        let certain: Vec<Pair> =
            expected.iter().copied().filter(|pair| !is_true(pair) && is_best(pair)).collect();
        assert_eq!(pairs.certain, certain);
        let others: Vec<Pair> =
            expected.into_iter().filter(|pair| !is_true(pair) && !is_best(pair)).collect();
        assert!(pairs.drawn.len().abs_diff(500) <= 1, "{}", pairs.drawn.len());
        let places: Vec<usize> =
            pairs.drawn.iter().map(|pair| others.iter().position(|other| other == pair).unwrap()).collect();
        let distance = others.len() as f64 / 500.0;
        for two in places.windows(2) {
            assert!(((two[1] - two[0]) as f64 - distance).abs() < 1.0, "{two:?} {distance}");
        }
        assert_ne!(pairs.drawn, take(2).0.drawn);
        assert_eq!(pairs.certain, take(2).0.certain);
    }

    #[test]
    fn if_few_others_remain_all_of_them_are_taken() {
        let (_temp, tables, labels) = drawn();
        let (pairs, all) =
            spread(&tables, &labels, 1, &every_label, Limits { most: 0, best_labels: 3, drawn: 5000 });
        assert_eq!(pairs.true_pairs.len() + pairs.certain.len() + pairs.drawn.len(), all);
    }
}
