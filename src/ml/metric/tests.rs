//! Tests of all metrics against the golden vectors and against naive definitions on dense tables.

use proptest::prelude::*;
use serde_json::Value;

use super::bootstrap::{Bootstrap, BootstrapError, Interval};
use super::counts::Counts;
use super::evaluation::{Evaluator, TrainingCounts};
use super::label::Tally;
use super::marked::Protocol;
use super::outcomes::Outcomes;
use super::propensity::Propensity;
use super::ranking::{CUTOFFS, DEPTH};
use super::registry::Metric;
use super::top::Top;
use crate::data::csr::Csr;
use crate::data::random::Random;

type Table = Vec<Vec<bool>>;

fn labels_of(row: &[bool]) -> Vec<u32> {
    (0..row.len() as u32).filter(|&label| row[label as usize]).collect()
}

fn csr(table: &Table) -> Csr {
    let mut indptr = vec![0];
    let mut indices = Vec::new();
    for row in table {
        indices.extend(labels_of(row));
        indptr.push(indices.len() as u64);
    }
    let cols = table.first().map_or(0, Vec::len);
    Csr { cols, indptr: indptr.into(), indices: indices.into(), values: Vec::new().into() }
}

fn assert_close(metric: Metric, ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-12 * theirs.abs().max(1.0), "{metric}: {ours}, expected {theirs}");
}

#[test]
fn the_metrics_match_the_golden_vectors() {
    let golden: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/golden/metrics.json")).unwrap();
    let table = |name: &str| -> Table {
        let rows: Vec<Vec<u8>> = serde_json::from_value(golden[name].clone()).unwrap();
        rows.iter().map(|row| row.iter().map(|&entry| entry == 1).collect()).collect()
    };
    let (truth, predicted) = (table("y_true"), table("y_pred"));
    let scores: Vec<Vec<f32>> = serde_json::from_value(golden["scores"].clone()).unwrap();

    let mut evaluator = Evaluator::new(7, None);
    let mut top = Top::new(DEPTH);
    for ((truth, predicted), scores) in truth.iter().zip(&predicted).zip(&scores) {
        evaluator.add_decisions(&labels_of(truth), &labels_of(predicted));
        evaluator.add_ranking(&labels_of(truth), top.of_dense(scores).unwrap());
    }
    let evaluation = evaluator.finish(Protocol::Honest);

    let released = &golden["released_compute_metrics"];
    let expected = [
        (Metric::MacroF1, &golden["macro_f1_all"]),
        (Metric::MacroF1AbsentAsOne, &golden["macro_f1_all_zd1"]),
        (Metric::MacroF1Present, &golden["macro_f1_present"]),
        (Metric::MacroF1PresentOrPredicted, &golden["macro_f1_present_or_predicted"]),
        (Metric::MicroF1, &golden["micro_f1"]),
        (Metric::MicroPrecision, &golden["micro_precision"]),
        (Metric::MicroRecall, &golden["micro_recall"]),
        (Metric::SampleF1, &golden["samples_f1_zd0"]),
        (Metric::PositiveRatio, &golden["positive_ratio"]),
        (Metric::TruePositiveRatio, &golden["true_positive_ratio"]),
        (Metric::ReleasedMacroF1, &released["macro_f1"]),
        (Metric::ReleasedMacroPrecision, &released["macro_precision"]),
        (Metric::ReleasedMacroRecall, &released["macro_recall"]),
        (Metric::MicroF1, &released["micro_f1"]),
        (Metric::MicroPrecision, &released["micro_precision"]),
        (Metric::MicroRecall, &released["micro_recall"]),
        (Metric::PAt1, &golden["P@1"]),
        (Metric::PAt3, &golden["P@3"]),
        (Metric::PAt5, &golden["P@5"]),
        (Metric::NdcgAt1, &golden["nDCG@1"]),
        (Metric::NdcgAt3, &golden["nDCG@3"]),
        (Metric::NdcgAt5, &golden["nDCG@5"]),
        (Metric::PAt1Nonempty, &golden["P@1_nonempty_rows"]),
        (Metric::PAt3Nonempty, &golden["P@3_nonempty_rows"]),
        (Metric::PAt5Nonempty, &golden["P@5_nonempty_rows"]),
        (Metric::NdcgAt1Nonempty, &golden["nDCG@1_nonempty_rows"]),
        (Metric::NdcgAt3Nonempty, &golden["nDCG@3_nonempty_rows"]),
        (Metric::NdcgAt5Nonempty, &golden["nDCG@5_nonempty_rows"]),
    ];
    for (metric, value) in expected {
        let ours = evaluation.get(metric).unwrap().honest().unwrap();
        assert_close(metric, ours, value.as_f64().unwrap());
    }
    let f1: Vec<f64> = serde_json::from_value(golden["per_label_f1"].clone()).unwrap();
    let f1_zd1: Vec<f64> = serde_json::from_value(golden["per_label_f1_zd1"].clone()).unwrap();
    for (record, (f1, f1_zd1)) in evaluator.label_records(|_| None).iter().zip(f1.iter().zip(f1_zd1)) {
        assert_eq!(record.f1, *f1);
        let never = record.support == 0 && record.fp == 0;
        assert_eq!(if never { 1.0 } else { record.f1 }, f1_zd1);
    }
}

/// Generates true and predicted tables of one shape, and scores.
fn tables() -> impl Strategy<Value = (Table, Table, Vec<Vec<f32>>)> {
    (1..9usize, 1..8usize).prop_flat_map(|(rows, labels)| {
        let table = |share| {
            let row = prop::collection::vec(prop::bool::weighted(share), labels);
            prop::collection::vec(row, rows)
        };
        // Few distinct scores, so that ties happen.
        let score = (0..6u8).prop_map(|score| f32::from(score) / 5.0);
        (table(0.3), table(0.4), prop::collection::vec(prop::collection::vec(score, labels), rows))
    })
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn f1(pairs: impl IntoIterator<Item = (bool, bool)>) -> f64 {
    let (mut both, mut all) = (0.0, 0.0);
    for (truth, predicted) in pairs {
        both += f64::from(u8::from(truth && predicted));
        all += f64::from(u8::from(truth)) + f64::from(u8::from(predicted));
    }
    if all == 0.0 { 0.0 } else { 2.0 * both / all }
}

/// Computes most metrics from dense tables, straight from their definitions.
fn brute_force(
    truth: &Table,
    predicted: &Table,
    scores: &[Vec<f32>],
    training: &[u32],
    rows: usize,
) -> Vec<(Metric, f64)> {
    let (n, labels) = (truth.len(), truth[0].len());
    let pairs = |l: usize| (0..n).map(move |i| (truth[i][l], predicted[i][l]));
    let all = || (0..labels).flat_map(pairs);
    let share = |which: &dyn Fn(bool, bool) -> bool, of: &dyn Fn(bool, bool) -> bool, over: &[usize]| {
        let chosen = || over.iter().flat_map(|&l| pairs(l)).filter(|&(t, p)| of(t, p));
        let part = chosen().filter(|&(t, p)| which(t, p)).count();
        if part == 0 { 0.0 } else { part as f64 / chosen().count() as f64 }
    };
    let everything: Vec<usize> = (0..labels).collect();
    let is_true = |t: bool, _: bool| t;
    let is_predicted = |_: bool, p: bool| p;
    let any = |_: bool, _: bool| true;
    let present = |l: usize| pairs(l).any(|(t, _)| t);
    let covered = |l: usize| pairs(l).any(|(_, p)| p);
    let f1_over = |keep: &dyn Fn(usize) -> bool| mean((0..labels).filter(|&l| keep(l)).map(|l| f1(pairs(l))));
    let absent_as_one = |l: usize| if present(l) || covered(l) { f1(pairs(l)) } else { 1.0 };
    let mut values = vec![
        (Metric::MacroF1, f1_over(&|_| true)),
        (Metric::MacroF1Present, f1_over(&present)),
        (Metric::MacroF1PresentOrPredicted, f1_over(&|l| present(l) || covered(l))),
        (Metric::MacroF1AbsentAsOne, mean((0..labels).map(absent_as_one))),
        (Metric::MacroPrecision, mean((0..labels).map(|l| share(&is_true, &is_predicted, &[l])))),
        (Metric::MacroRecall, mean((0..labels).map(|l| share(&is_predicted, &is_true, &[l])))),
        (Metric::MicroF1, f1(all())),
        (Metric::MicroPrecision, share(&is_true, &is_predicted, &everything)),
        (Metric::MicroRecall, share(&is_predicted, &is_true, &everything)),
        (Metric::SampleF1, mean((0..n).map(|i| f1((0..labels).map(|l| (truth[i][l], predicted[i][l])))))),
        (Metric::PositiveRatio, share(&is_predicted, &any, &everything)),
        (Metric::TruePositiveRatio, share(&is_true, &any, &everything)),
        (Metric::LabelCoverage, mean((0..labels).map(|l| f64::from(u8::from(covered(l)))))),
        (Metric::HammingLoss, share(&|t, p| t != p, &any, &everything)),
        (Metric::SubsetAccuracy, mean((0..n).map(|i| f64::from(u8::from(truth[i] == predicted[i]))))),
        (
            Metric::Brier,
            mean(
                (0..labels)
                    .flat_map(|l| (0..n).map(move |i| (i, l)))
                    .map(|(i, l)| (f64::from(scores[i][l]) - f64::from(u8::from(truth[i][l]))).powi(2)),
            ),
        ),
    ];
    for (metric, under) in
        [(Metric::MacroF1Under5, 5), (Metric::MacroF1Under10, 10), (Metric::MacroF1Under100, 100)]
    {
        let inside = |l: usize| training[l] > 0 && training[l] < under && present(l);
        if (0..labels).any(inside) {
            values.push((metric, f1_over(&inside)));
        }
    }
    let inverse = Propensity::default().inverse(rows, training);
    let order = |keys: &dyn Fn(usize) -> f64| {
        let mut order: Vec<usize> = (0..labels).collect();
        order.sort_by(|&a, &b| keys(b).total_cmp(&keys(a)));
        order
    };
    let at = |k: usize, weight: &dyn Fn(usize) -> f64, discount: &dyn Fn(usize) -> f64, i: usize| {
        let gain = |order: &[usize]| -> f64 {
            let top = order.iter().take(k).enumerate().filter(|&(_, &l)| truth[i][l]);
            top.map(|(rank, &l)| weight(l) * discount(rank)).sum()
        };
        let by_score = order(&|l| f64::from(scores[i][l]));
        let ideal = order(&|l| if truth[i][l] { weight(l) } else { 0.0 });
        (gain(&by_score), gain(&ideal))
    };
    let log = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
    let ratio = |(reached, possible): (f64, f64)| if possible == 0.0 { 0.0 } else { reached / possible };
    let sum = |gains: Vec<(f64, f64)>| ratio(gains.iter().fold((0.0, 0.0), |s, g| (s.0 + g.0, s.1 + g.1)));
    let names = |name: &str, k: usize| format!("{name}_at_{k}").parse::<Metric>().unwrap();
    for k in CUTOFFS {
        values.push((names("p", k), mean((0..n).map(|i| at(k, &|_| 1.0, &|_| 1.0, i).0 / k as f64))));
        values.push((names("ndcg", k), mean((0..n).map(|i| ratio(at(k, &|_| 1.0, &log, i))))));
        let psp = (0..n).map(|i| at(k, &|l| inverse[l], &|_| 1.0, i)).collect();
        values.push((names("psp", k), sum(psp)));
        let psndcg = (0..n).map(|i| {
            let (reached, possible) = at(k, &|l| inverse[l], &log, i);
            let plain = at(k, &|_| 1.0, &log, i).1;
            if plain == 0.0 { (0.0, 0.0) } else { (reached / plain, possible / plain) }
        });
        values.push((names("psndcg", k), sum(psndcg.collect())));
    }
    values
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_metric_matches_its_definition(
        (truth, predicted, scores) in tables(),
        training in prop::collection::vec(0..120u32, 8),
    ) {
        let labels = truth[0].len();
        let training = &training[..labels];
        let known = TrainingCounts { rows: 500, positives: training.to_vec(), propensity: Propensity::default() };
        let empty = Evaluator::new(labels, Some(known));
        let mut parts = [empty.clone(), empty.clone()];
        let mut top = Top::new(DEPTH);
        for (i, scores) in scores.iter().enumerate() {
            let (t, p) = (labels_of(&truth[i]), labels_of(&predicted[i]));
            let part = &mut parts[i % 2];
            part.add_decisions(&t, &p);
            part.add_ranking(&t, top.of_dense(scores).unwrap());
            part.add_probabilities(&t, scores).unwrap();
        }
        let merged = |order: [usize; 2]| {
            let mut whole = empty.clone();
            for part in order {
                whole.merge(&parts[part]);
            }
            whole.finish(Protocol::Honest)
        };
        let evaluation = merged([0, 1]);
        prop_assert_eq!(&evaluation, &merged([1, 0]));
        for (metric, expected) in brute_force(&truth, &predicted, &scores, training, 500) {
            assert_close(metric, evaluation.get(metric).unwrap().honest().unwrap(), expected);
        }
        let text = serde_json::to_string(&evaluation).unwrap();
        prop_assert_eq!(serde_json::from_str::<super::evaluation::Evaluation>(&text).unwrap(), evaluation);
    }

    #[test]
    fn weighted_outcomes_count_like_repeated_rows(
        (truth, predicted, _) in tables(),
        weights in prop::collection::vec(0..4u8, 9),
    ) {
        let repeat = |table: &Table| -> Table {
            let rows = table.iter().zip(&weights);
            rows.flat_map(|(row, &weight)| std::iter::repeat_n(row.clone(), weight.into())).collect()
        };
        let (n, labels) = (truth.len(), truth[0].len());
        let outcomes = Outcomes::new(&csr(&truth), &csr(&predicted)).unwrap();
        let lanes: Vec<[u8; 2]> = weights[..n].iter().map(|&weight| [1, weight]).collect();
        let measured = outcomes.measure(&lanes);
        let mut repeated = Counts::new(labels);
        for (t, p) in repeat(&truth).iter().zip(repeat(&predicted)) {
            repeated.add(&labels_of(t), &labels_of(&p));
        }
        for (lane, counts) in [Counts::of(&csr(&truth), &csr(&predicted)).unwrap(), repeated].iter().enumerate() {
            let expected = Tally::over(counts.iter()).values(n as u64).map(|(_, value)| value);
            prop_assert_eq!(&measured[lane][..expected.len()], &expected[..]);
            let sample_f1 = counts.sample_f1() * counts.rows() as f64 / n as f64;
            assert_close(Metric::SampleF1, measured[lane][expected.len()], sample_f1);
        }
    }
}

/// Simulates predictions that are right with about the probability `quality`.
fn simulated(rows: usize, labels: usize, quality: f64, seed: u64) -> (Table, Table) {
    let mut truth_random = Random::new("truth", 0);
    let mut random = Random::new("predictions", seed);
    let truth: Table = (0..rows)
        .map(|_| (0..labels).map(|l| truth_random.unit() < 0.5 / (l + 1) as f64).collect())
        .collect();
    let mut guess = |&entry: &bool| if random.unit() < quality { entry } else { random.unit() < 0.2 };
    let predicted = truth.iter().map(|row| row.iter().map(&mut guess).collect()).collect();
    (truth, predicted)
}

#[test]
fn intervals_contain_the_estimate_and_do_not_depend_on_the_number_of_threads() {
    let (truth, predicted) = simulated(200, 20, 0.7, 1);
    let outcomes = Outcomes::new(&csr(&truth), &csr(&predicted)).unwrap();
    let bootstrap = Bootstrap { replicates: 250, ..Bootstrap::default() };
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| bootstrap.intervals(&outcomes).unwrap())
    };
    let intervals = with_threads(1);
    assert_eq!(intervals, with_threads(3));
    assert_ne!(intervals, Bootstrap { seed: 1, ..bootstrap }.intervals(&outcomes).unwrap());
    for interval in &intervals {
        let Interval { estimate, low, high, .. } = *interval;
        assert!(low <= estimate && estimate <= high, "{interval:?}");
    }
    let micro = intervals.iter().find(|interval| interval.metric == Metric::MicroF1).unwrap();
    assert!(micro.high - micro.low > 0.01 && micro.high - micro.low < 0.2, "{micro:?}");
}

/// The standard error of a mean over rows is known in closed form.
#[test]
fn the_bootstrap_finds_the_standard_error_of_a_mean() {
    let (truth, predicted) = simulated(400, 3, 0.7, 1);
    let exact = mean(truth.iter().zip(&predicted).map(|(t, p)| f64::from(u8::from(t == p))));
    let known = (exact * (1.0 - exact) / 400.0).sqrt();
    let outcomes = Outcomes::new(&csr(&truth), &csr(&predicted)).unwrap();
    let intervals = Bootstrap::default().intervals(&outcomes).unwrap();
    let found = intervals.iter().find(|interval| interval.metric == Metric::SubsetAccuracy).unwrap();
    assert!((found.standard_error / known - 1.0).abs() < 0.1, "{found:?}, known {known}");
    assert!((found.high - found.low) / (2.0 * 1.96 * known) - 1.0 < 0.1, "{found:?}");
}

#[test]
fn a_paired_difference_has_a_smaller_standard_error_than_one_estimate() {
    let (truth, ours) = simulated(300, 10, 0.7, 1);
    let mut theirs = ours.clone();
    for row in theirs.iter_mut().step_by(10) {
        row.fill(false);
    }
    let outcomes = |table: &Table| Outcomes::new(&csr(&truth), &csr(table)).unwrap();
    let (ours, theirs) = (outcomes(&ours), outcomes(&theirs));
    let bootstrap = Bootstrap { replicates: 200, ..Bootstrap::default() };
    let micro =
        |intervals: Vec<Interval>| intervals.into_iter().find(|i| i.metric == Metric::MicroF1).unwrap();
    let difference = micro(bootstrap.differences(&ours, &theirs).unwrap());
    let alone = micro(bootstrap.intervals(&ours).unwrap());
    assert!(difference.estimate > 0.0 && difference.excludes_zero(), "{difference:?}");
    assert!(difference.standard_error < alone.standard_error);
    assert!(bootstrap.differences(&ours, &ours).unwrap().iter().all(|i| i.high == 0.0 && !i.excludes_zero()));
}

#[test]
fn differences_between_other_rows_are_refused() {
    let (truth, predicted) = simulated(20, 3, 0.7, 1);
    let ours = Outcomes::new(&csr(&truth), &csr(&predicted)).unwrap();
    let theirs = Outcomes::new(&csr(&predicted), &csr(&predicted)).unwrap();
    assert_eq!(Bootstrap::default().differences(&ours, &theirs), Err(BootstrapError::NotPaired));
    let nothing = Outcomes::new(&csr(&Vec::new()), &csr(&Vec::new())).unwrap();
    assert_eq!(Bootstrap::default().intervals(&nothing), Err(BootstrapError::NoRows));
}

#[test]
fn losses_are_means_over_their_terms_and_must_be_finite() {
    let mut evaluator = Evaluator::new(2, None);
    evaluator.add_loss(Metric::Bce, 3.0, 4).unwrap();
    evaluator.add_loss(Metric::Bce, 1.0, 4).unwrap();
    let evaluation = evaluator.finish(Protocol::Oracle);
    assert_eq!(evaluation.get(Metric::Bce).unwrap().reveal(), (Protocol::Oracle, 0.5));
    assert_eq!(evaluation.get(Metric::MacroF1), None, "no decisions were given");
    assert!(evaluator.add_loss(Metric::Bce, f64::NAN, 4).is_err());
}

#[test]
fn a_full_evaluation_computes_every_registered_metric() {
    let positives = vec![1000, 500, 60, 8, 3];
    let labels = positives.len();
    let training = TrainingCounts { rows: 2000, positives, propensity: Propensity::default() };
    let mut evaluator = Evaluator::new(labels, Some(training));
    let every_label: Vec<u32> = (0..labels as u32).collect();
    evaluator.add_decisions(&every_label, &every_label);
    evaluator.add_ranking(&every_label, &every_label[..DEPTH.min(labels)]);
    evaluator.add_probabilities(&every_label, &vec![0.5; labels]).unwrap();
    for loss in [Metric::Bce, Metric::TrainingLoss] {
        evaluator.add_loss(loss, 1.0, 1).unwrap();
    }
    let evaluation = evaluator.finish(Protocol::Honest);
    let missing: Vec<&Metric> =
        Metric::ALL.iter().filter(|metric| evaluation.get(**metric).is_none()).collect();
    assert!(missing.is_empty(), "registered, but computed by nothing: {missing:?}");
}
