//! Tests of each rule against an exhaustive search on small tables.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::cuts::{Cuts, Decision};
use super::error::ThresholdError;
use super::rule::{Costs, Objective, PoorLabel, Rule, Scale};
use super::scores::{CandidateScores, DenseScores, ScoreLayout, Scores};
use crate::data::csr::Csr;
use crate::metric::counts::Counts;
use crate::metric::label::Tally;

/// A small table of scores, and which entries are true.
#[derive(Debug, Clone)]
struct Case {
    scores: Vec<Vec<f32>>,
    truth: Vec<Vec<bool>>,
}

const BOTH: [Objective; 2] = [Objective::Macro, Objective::Micro];
const MEANS: [Objective; 3] = [Objective::Macro, Objective::Micro, Objective::Samples];

impl Case {
    fn rows(&self) -> usize {
        self.scores.len()
    }

    fn labels(&self) -> usize {
        self.scores[0].len()
    }

    fn dense(&self, layout: ScoreLayout) -> DenseScores {
        let values = match layout {
            ScoreLayout::RowMajor => self.scores.concat(),
            ScoreLayout::LabelMajor => {
                (0..self.labels()).flat_map(|l| self.scores.iter().map(move |row| row[l])).collect()
            }
        };
        DenseScores::new(self.rows(), self.labels(), layout, values.into()).unwrap()
    }

    fn truth(&self) -> Csr {
        csr(&self.truth)
    }

    fn positives(&self, label: usize) -> usize {
        self.truth.iter().filter(|row| row[label]).count()
    }

    fn fit(&self, rule: &Rule, objective: Objective) -> Cuts {
        rule.fit(&self.dense(ScoreLayout::RowMajor), &self.truth(), objective).unwrap()
    }

    fn predict(&self, cuts: &Cuts) -> Vec<Vec<bool>> {
        let predicted = cuts.predict(&self.dense(ScoreLayout::LabelMajor)).unwrap();
        let decisions =
            |row: usize| (0..self.labels() as u32).map(|l| predicted.row(row).contains(&l)).collect();
        (0..self.rows()).map(decisions).collect()
    }

    /// Returns the objective of some predictions.
    fn value(&self, predicted: &[Vec<bool>], objective: Objective) -> f64 {
        let counts = Counts::of(&self.truth(), &csr(predicted)).unwrap();
        let tally = Tally::over(counts.iter());
        match objective {
            Objective::Macro => tally.macro_f1(),
            Objective::Micro => tally.micro_f1(),
            Objective::Samples => counts.sample_f1(),
            _ => panic!("not an F1"),
        }
    }

    fn reached(&self, rule: &Rule, objective: Objective) -> f64 {
        self.value(&self.predict(&self.fit(rule, objective)), objective)
    }

    /// Returns the predictions of one cut per label.
    fn above(&self, cut: impl Fn(usize) -> f32) -> Vec<Vec<bool>> {
        let decide = |(label, &score): (usize, &f32)| self.positives(label) > 0 && score > cut(label);
        self.scores.iter().map(|row| row.iter().enumerate().map(decide).collect()).collect()
    }

    /// Returns every cut that separates some scores from others.
    fn all_cuts(&self) -> Vec<f32> {
        let mut cuts: Vec<f32> = self.scores.concat();
        cuts.push(-100.0);
        cuts
    }
}

fn csr(table: &[Vec<bool>]) -> Csr {
    let mut indptr = vec![0];
    let mut indices = Vec::new();
    for row in table {
        indices.extend((0..row.len() as u32).filter(|&label| row[label as usize]));
        indptr.push(indices.len() as u64);
    }
    Csr { cols: table[0].len(), indptr: indptr.into(), indices: indices.into(), values: vec![].into() }
}

fn cases(max_rows: usize, max_labels: usize) -> impl Strategy<Value = Case> {
    (1..=max_rows, 1..=max_labels).prop_flat_map(|(rows, labels)| {
        // Few distinct scores, so that ties happen.
        let score = (-6..7i8).prop_map(|score| f32::from(score) / 4.0);
        let scores = prop::collection::vec(prop::collection::vec(score, labels), rows);
        let truth = prop::collection::vec(prop::collection::vec(prop::bool::weighted(0.35), labels), rows);
        (scores, truth).prop_map(|(scores, truth)| Case { scores, truth })
    })
}

fn max(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, f64::max)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// Returns at least one rule of every kind; a test checks that none is missing.
fn all_rules() -> Vec<Rule> {
    let scale = Scale::Logit;
    vec![
        Rule::Fixed { cut: 0.0 },
        Rule::Global {},
        Rule::Scut {},
        Rule::ScutFbr { fbr: 0.6, poor: PoorLabel::Never },
        Rule::ScutFbr { fbr: 0.6, poor: PoorLabel::AboveHighest },
        Rule::Soft { prior: 50.0, scale },
        Rule::Shrunk { kappa: 3.0 },
        Rule::Rcut { k: None, max_k: 20 },
        Rule::Rcut { k: Some(2), max_k: 20 },
        Rule::Pcut { factor: None },
        Rule::Pcut { factor: Some(1.5) },
        Rule::Rtcut { max_k: 20 },
        Rule::MicroMacro {},
        Rule::Rinscut { max_k: 20 },
        Rule::PlugIn { scale },
        Rule::Online { epochs: 2, a: 1.0, b: 2.0, scale },
    ]
}

/// Returns at least one objective of every kind.
fn all_objectives() -> Vec<Objective> {
    let costs = Costs { false_positive: 1.0, false_negative: 2.5 };
    vec![
        Objective::Macro,
        Objective::Micro,
        Objective::Samples,
        Objective::Precision(0.6),
        Objective::Recall(0.6),
        Objective::OverallPrecision(0.6),
        Objective::OverallRecall(0.6),
        Objective::Cost(costs),
    ]
}

/// Returns the hits, the predictions and the positives of some labels with one cut each.
fn counted(case: &Case, labels: &[usize], cut: impl Fn(usize) -> f32) -> (f64, f64, f64) {
    let (mut hits, mut predicted, mut positives) = (0.0, 0.0, 0.0);
    for (scores, truth) in case.scores.iter().zip(&case.truth) {
        for &label in labels {
            let above = scores[label] > cut(label);
            predicted += f64::from(u8::from(above));
            positives += f64::from(u8::from(truth[label]));
            hits += f64::from(u8::from(above && truth[label]));
        }
    }
    (hits, predicted, positives)
}

/// Checks one cut, which decides about some labels, against every other cut.
fn check_operating_point(case: &Case, labels: &[usize], cut: Option<f32>, objective: Objective) {
    let cuts = case.all_cuts().into_iter().map(|cut| counted(case, labels, |_| cut));
    let cuts: Vec<(f64, f64, f64)> = cuts.filter(|(_, predicted, _)| *predicted > 0.0).collect();
    let reached = cut.map(|cut| counted(case, labels, |_| cut));
    match objective {
        Objective::Precision(least) | Objective::OverallPrecision(least) => {
            let allowed = cuts.iter().filter(|(hits, predicted, _)| hits / predicted >= least);
            let most_hits = max(allowed.map(|(hits, ..)| *hits));
            assert_eq!(reached.map_or(0.0, |(hits, ..)| hits), most_hits);
            assert!(reached.is_none_or(|(hits, predicted, _)| hits / predicted >= least));
            assert_eq!(reached.is_none(), most_hits == 0.0, "never predicted if it cannot be reached");
        }
        Objective::Recall(least) | Objective::OverallRecall(least) => {
            let allowed = cuts.iter().filter(|(hits, _, positives)| hits / positives >= least);
            let precision = max(allowed.map(|(hits, predicted, _)| hits / predicted));
            let (hits, predicted, positives) = reached.unwrap();
            assert!(hits / positives >= least);
            assert_eq!(hits / predicted, precision);
        }
        Objective::Cost(Costs { false_positive, false_negative }) => {
            let cost = |(hits, predicted, positives): (f64, f64, f64)| {
                false_positive * (predicted - hits) + false_negative * (positives - hits)
            };
            let positives = counted(case, labels, |_| 100.0).2;
            let nothing = cost((0.0, 0.0, positives));
            let lowest = cuts.into_iter().map(cost).fold(nothing, f64::min);
            assert!(close(reached.map_or(nothing, cost), lowest));
        }
        _ => panic!("not an operating point"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_global_cut_is_the_best_single_cut(case in cases(7, 4)) {
        for objective in MEANS {
            let best = max(case.all_cuts().into_iter().map(|cut| case.value(&case.above(|_| cut), objective)));
            assert!(close(case.reached(&Rule::Global {}, objective), best));
        }
    }

    #[test]
    fn scut_is_the_best_for_every_label(case in cases(8, 3)) {
        let predicted = case.predict(&case.fit(&Rule::Scut {}, Objective::Macro));
        for label in 0..case.labels() {
            let f1 = |predicted: &[Vec<bool>]| {
                Counts::of(&case.truth(), &csr(predicted)).unwrap().label(label).f1()
            };
            let best = max(case.all_cuts().into_iter().map(|cut| f1(&case.above(|_| cut))));
            assert!(close(f1(&predicted), best));
        }
    }

    #[test]
    fn scut_for_the_micro_objective_is_the_best_of_all_combinations(case in cases(5, 3)) {
        let cuts: Vec<Vec<f32>> = (0..3).map(|label| {
            let mut cuts = vec![f32::INFINITY, -100.0];
            cuts.extend(case.scores.iter().filter_map(|row| row.get(label)));
            cuts.sort_by(f32::total_cmp);
            cuts.dedup();
            cuts
        }).collect();
        let mut best = 0f64;
        for a in &cuts[0] {
            for b in &cuts[1] {
                for c in &cuts[2] {
                    let predicted = case.above(|label| [*a, *b, *c][label]);
                    best = best.max(case.value(&predicted, Objective::Micro));
                }
            }
        }
        assert!(close(case.reached(&Rule::Scut {}, Objective::Micro), best));
    }

    #[test]
    fn soft_cuts_maximise_f1_against_soft_targets(case in cases(8, 3), prior in prop::sample::select(vec![0.0, 2.0, 50.0])) {
        let cuts = case.fit(&Rule::Soft { prior, scale: Scale::Logit }, Objective::Macro);
        for label in 0..case.labels() {
            let f = case.positives(label) as f64;
            let s: Vec<f64> = case.scores.iter().map(|row| f64::from(row[label])).collect();
            let p: Vec<f64> = s.iter().map(|s| 1.0 / (1.0 + (-s).exp())).collect();
            let c = f / p.iter().sum::<f64>();
            let rho = if f == 0.0 { 1.0 } else { prior / (prior + f) };
            let y = |i: usize| f64::from(u8::from(case.truth[i][label]));
            let target = |i: usize| (1.0 - rho) * y(i) + rho * (c * p[i]).min(1.0);
            let value = |cut: f64| {
                let above: Vec<usize> = (0..s.len()).filter(|&i| s[i] > cut).collect();
                2.0 * above.iter().map(|&i| target(i)).sum::<f64>() / (above.len() as f64 + f).max(1.0)
            };
            match cuts.cut(label) {
                None => assert_eq!(f, 0.0),
                Some(cut) => {
                    let best = max(case.all_cuts().into_iter().map(|cut| value(f64::from(cut))));
                    assert!(close(value(f64::from(cut)), best));
                }
            }
        }
        if prior == 0.0 {
            assert_eq!(cuts, case.fit(&Rule::Scut {}, Objective::Macro));
        }
    }

    #[test]
    fn an_operating_point_of_each_label_is_the_best_that_meets_its_condition(case in cases(8, 3), least in 0.05..1.0f64) {
        let costs = Costs { false_positive: 1.0, false_negative: 4.0 * least };
        for objective in [Objective::Precision(least), Objective::Recall(least), Objective::Cost(costs)] {
            let cuts = case.fit(&Rule::Scut {}, objective);
            for label in (0..case.labels()).filter(|&label| case.positives(label) > 0) {
                check_operating_point(&case, &[label], cuts.cut(label), objective);
            }
        }
    }

    #[test]
    fn an_overall_operating_point_is_the_best_single_cut_that_meets_its_condition(case in cases(7, 4), least in 0.05..1.0f64) {
        let costs = Costs { false_positive: 1.0, false_negative: 4.0 * least };
        let seen: Vec<usize> = (0..case.labels()).filter(|&label| case.positives(label) > 0).collect();
        prop_assume!(!seen.is_empty());
        for objective in
            [Objective::OverallPrecision(least), Objective::OverallRecall(least), Objective::Cost(costs)]
        {
            let cut = case.fit(&Rule::Global {}, objective).cut(seen[0]);
            check_operating_point(&case, &seen, cut, objective);
        }
    }

    #[test]
    fn a_soft_cut_meets_a_precision_by_its_own_targets(case in cases(8, 3), least in 0.05..1.0f64) {
        let prior = 3.0;
        let cuts = case.fit(&Rule::Soft { prior, scale: Scale::Logit }, Objective::Precision(least));
        let probability = |score: f32| 1.0 / (1.0 + (-f64::from(score)).exp());
        for label in (0..case.labels()).filter(|&label| case.positives(label) > 0) {
            let positives = case.positives(label) as f64;
            let sum: f64 = case.scores.iter().map(|row| probability(row[label])).sum();
            let rho = prior / (prior + positives);
            let hits = |cut: f32| {
                let above = (0..case.rows()).filter(|&row| case.scores[row][label] > cut);
                let target = |row: usize| {
                    let expected = (positives / sum * probability(case.scores[row][label])).min(1.0);
                    (1.0 - rho) * f64::from(u8::from(case.truth[row][label])) + rho * expected
                };
                (above.clone().map(target).sum::<f64>(), above.count() as f64)
            };
            let precise = |(hits, predicted): &(f64, f64)| *predicted > 0.0 && hits / predicted >= least - 1e-9;
            let best = max(case.all_cuts().into_iter().map(hits).filter(precise).map(|(hits, _)| hits));
            let reached = cuts.cut(label).map_or((0.0, 0.0), hits);
            assert!(reached.1 == 0.0 || precise(&reached));
            assert!(reached.0 >= best - 1e-6 || close(reached.0, best), "{reached:?} {best}");
        }
    }

    #[test]
    fn shrunk_cuts_are_weighted_means_of_scut_and_the_global_cut(case in cases(8, 3)) {
        for objective in BOTH {
            let fit = |rule| case.fit(&rule, objective);
            let (shrunk, own) = (fit(Rule::Shrunk { kappa: 3.0 }), fit(Rule::Scut {}));
            let global = (0..case.labels()).find_map(|label| fit(Rule::Global {}).cut(label));
            for label in 0..case.labels() {
                let f = case.positives(label) as f32;
                let expected = own.cut(label).map(|own| (f * own + 3.0 * global.unwrap()) / (f + 3.0));
                match (shrunk.cut(label), expected) {
                    (Some(cut), Some(expected)) => assert!((cut - expected).abs() < 1e-5),
                    (cut, expected) => assert_eq!(cut, expected),
                }
            }
            assert_eq!(fit(Rule::Shrunk { kappa: 0.0 }), own);
        }
    }

    #[test]
    fn scut_fbr_changes_the_cuts_of_poor_labels_only(case in cases(8, 3)) {
        let fit = |rule| case.fit(&rule, Objective::Macro);
        let own = fit(Rule::Scut {});
        let counts = Counts::of(&case.truth(), &csr(&case.predict(&own))).unwrap();
        let never = fit(Rule::ScutFbr { fbr: 0.6, poor: PoorLabel::Never });
        let highest = fit(Rule::ScutFbr { fbr: 0.6, poor: PoorLabel::AboveHighest });
        for label in 0..case.labels() {
            if counts.label(label).f1() >= 0.6 {
                assert_eq!((never.cut(label), highest.cut(label)), (own.cut(label), own.cut(label)));
            } else {
                assert_eq!(never.cut(label), None);
                let top = case.scores.iter().map(|row| row[label]).fold(f32::MIN, f32::max);
                assert_eq!(highest.cut(label), Some(top).filter(|_| case.positives(label) > 0));
            }
        }
    }

    #[test]
    fn rank_rules_reach_the_best_objective_of_their_kind(case in cases(6, 4)) {
        // The seen labels of each row, best first.
        let ranked: Vec<Vec<usize>> = case.scores.iter().map(|row| {
            let mut order: Vec<usize> = (0..row.len()).filter(|&l| case.positives(l) > 0).collect();
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
            order
        }).collect();
        let chosen = |sure: usize, cut: f32| -> Vec<Vec<bool>> {
            case.scores.iter().zip(&ranked).map(|(scores, order)| {
                let mut row = vec![false; scores.len()];
                for (rank, &label) in order.iter().enumerate() {
                    row[label] = rank < sure || (rank == sure && scores[label] > cut);
                }
                row
            }).collect()
        };
        for objective in MEANS {
            let rcut = max((0..=4).map(|k| case.value(&chosen(k, f32::INFINITY), objective)));
            assert!(close(case.reached(&Rule::Rcut { k: None, max_k: 20 }, objective), rcut));
            let sure = 0..=4;
            let every = sure.flat_map(|sure| case.all_cuts().into_iter().map(move |cut| (sure, cut)));
            let rtcut = max(every.map(|(sure, cut)| case.value(&chosen(sure, cut), objective)));
            assert!(close(case.reached(&Rule::Rtcut { max_k: 20 }, objective), rtcut));
        }
        for k in 1..4 {
            assert_eq!(
                case.predict(&case.fit(&Rule::Rcut { k: Some(k), max_k: 20 }, Objective::Macro)),
                chosen(k, f32::INFINITY)
            );
        }
    }

    #[test]
    fn the_micro_macro_rule_takes_the_best_cut_of_one_label_after_the_other(case in cases(7, 4)) {
        let fitted = case.predict(&case.fit(&Rule::MicroMacro {}, Objective::Macro));
        let mut order: Vec<usize> = (0..case.labels()).filter(|&label| case.positives(label) > 0).collect();
        order.sort_by_key(|&label| std::cmp::Reverse(case.positives(label)));
        let f1 = |(hits, predicted, positives): (f64, f64, f64)| 2.0 * hits / (predicted + positives);
        for (before, &label) in order.iter().enumerate() {
            // The labels so far as the rule has cut them, and this label with every possible cut.
            let value = |own: &dyn Fn(usize) -> bool| {
                let (mut pooled, mut alone) = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0));
                for (row, decided) in fitted.iter().enumerate() {
                    for &other in &order[..=before] {
                        let predicted = if other == label { own(row) } else { decided[other] };
                        let truth = case.truth[row][other];
                        let number = |is: bool| f64::from(u8::from(is));
                        let one = (number(predicted && truth), number(predicted), number(truth));
                        let add = |sum: &mut (f64, f64, f64)| *sum = (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2);
                        add(&mut pooled);
                        if other == label {
                            add(&mut alone);
                        }
                    }
                }
                f1(alone) / (before + 1) as f64 + f1(pooled)
            };
            let mut cuts = case.all_cuts();
            cuts.push(100.0);
            let best = max(cuts.into_iter().map(|cut| value(&|row| case.scores[row][label] > cut)));
            assert!(close(value(&|row| fitted[row][label]), best));
        }
    }

    #[test]
    fn rinscut_decides_by_rank_between_the_missed_positives_and_the_wrong_negatives(case in cases(7, 4)) {
        for objective in BOTH {
            let scut = case.fit(&Rule::Scut {}, objective);
            let zones: Vec<Option<(f32, f32)>> = (0..case.labels()).map(|label| {
                let cut = scut.cut(label)?;
                let mean = |wanted: &dyn Fn(f32, bool) -> bool| {
                    let scores = case.scores.iter().zip(&case.truth).map(|(scores, truth)| (scores[label], truth[label]));
                    let scores: Vec<f32> = scores.filter(|(score, truth)| wanted(*score, *truth)).map(|(score, _)| score).collect();
                    let sum: f64 = scores.iter().copied().map(f64::from).sum();
                    if scores.is_empty() { cut } else { (sum / scores.len() as f64) as f32 }
                };
                Some((mean(&|score, truth| truth && score <= cut), mean(&|score, truth| !truth && score > cut)))
            }).collect();
            let decide = |k: usize| -> Vec<Vec<bool>> {
                let row = |scores: &Vec<f32>| {
                    let mut order: Vec<usize> = (0..scores.len()).filter(|&l| case.positives(l) > 0).collect();
                    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
                    let mut predicted = vec![false; scores.len()];
                    for (rank, label) in order.into_iter().enumerate() {
                        predicted[label] = zones[label].is_some_and(|(bottom, top)| {
                            scores[label] > top || (scores[label] > bottom && rank < k)
                        });
                    }
                    predicted
                };
                case.scores.iter().map(row).collect()
            };
            let cuts = case.fit(&Rule::Rinscut { max_k: 20 }, objective);
            let best = max((0..=case.labels()).map(|k| case.value(&decide(k), objective)));
            assert!(close(case.value(&case.predict(&cuts), objective), best));
            let Decision::RankInScore { k, .. } = cuts.decision() else { panic!("{cuts:?}") };
            assert_eq!(case.predict(&cuts), decide(*k));
        }
    }

    #[test]
    fn pcut_predicts_labels_as_often_as_they_occur_and_treats_ties_alike(case in cases(8, 3)) {
        let predicted = case.predict(&case.fit(&Rule::Pcut { factor: Some(1.0) }, Objective::Macro));
        for label in 0..case.labels() {
            let rows: Vec<usize> = (0..case.rows()).filter(|&row| predicted[row][label]).collect();
            assert!(rows.len() <= case.positives(label));
            let mut scores: Vec<f32> = case.scores.iter().map(|row| row[label]).collect();
            scores.sort_by(|a, b| b.total_cmp(a));
            let boundary = case.positives(label);
            let tied = boundary > 0 && boundary < scores.len() && scores[boundary - 1] == scores[boundary];
            assert_eq!(rows.len() < boundary, tied);
            let lowest_in = rows.iter().map(|&row| case.scores[row][label]).fold(f32::INFINITY, f32::min);
            assert!((0..case.rows()).all(|row| predicted[row][label] || case.scores[row][label] < lowest_in));
        }
        for objective in BOTH {
            let fitted = case.reached(&Rule::Pcut { factor: None }, objective);
            assert!(fitted >= case.value(&predicted, objective) - 1e-12);
        }
    }

    #[test]
    fn the_plug_in_cut_reaches_the_best_expected_f1(case in cases(8, 3)) {
        let probability = |score: f32| 1.0 / (1.0 + (-f64::from(score)).exp());
        let expected_f1 = |labels: &[usize], cut: f32| {
            let all = || labels.iter().flat_map(|&label| case.scores.iter().map(move |row| row[label]));
            let above: Vec<f64> = all().filter(|&score| score > cut).map(probability).collect();
            let sum: f64 = all().map(probability).sum();
            2.0 * above.iter().sum::<f64>() / (above.len() as f64 + sum)
        };
        let best = |labels: &[usize]| max(case.all_cuts().into_iter().map(|cut| expected_f1(labels, cut)));
        let seen: Vec<usize> = (0..case.labels()).filter(|&label| case.positives(label) > 0).collect();
        let fit = |objective| case.fit(&Rule::PlugIn { scale: Scale::Logit }, objective);
        for &label in &seen {
            let cut = fit(Objective::Macro).cut(label).unwrap();
            assert!(close(expected_f1(&[label], cut), best(&[label])));
            assert!((probability(cut) - best(&[label]) / 2.0).abs() < 1e-6, "the cut is F*/2");
            let pooled = fit(Objective::Micro).cut(label).unwrap();
            assert!(close(expected_f1(&seen, pooled), best(&seen)));
        }
    }

    #[test]
    fn online_cuts_are_half_of_the_running_f1(case in cases(8, 3)) {
        let probability = |score: f32| 1.0 / (1.0 + (-f64::from(score)).exp());
        let rule = Rule::Online { epochs: 2, a: 1.0, b: 2.0, scale: Scale::Logit };
        let cut = |tau: f64| (tau / (1.0 - tau)).ln() as f32;
        let seen = |label: &usize| case.positives(*label) > 0;
        for label in (0..case.labels()).filter(seen) {
            let (mut a, mut b) = (1.0, 2.0);
            for row in (0..case.rows()).chain(0..case.rows()) {
                let y = f64::from(u8::from(case.truth[row][label]));
                let yhat = f64::from(u8::from(probability(case.scores[row][label]) > a / b));
                a += y * yhat;
                b += y + yhat;
            }
            assert_eq!(case.fit(&rule, Objective::Macro).cut(label), Some(cut(a / b)));
        }
        let (mut a, mut b) = (1.0, 2.0);
        for row in (0..case.rows()).chain(0..case.rows()) {
            let tau = a / b;
            for label in (0..case.labels()).filter(seen) {
                let y = f64::from(u8::from(case.truth[row][label]));
                let yhat = f64::from(u8::from(probability(case.scores[row][label]) > tau));
                a += y * yhat;
                b += y + yhat;
            }
        }
        let pooled = case.fit(&rule, Objective::Micro);
        assert!((0..case.labels()).filter(seen).all(|label| pooled.cut(label) == Some(cut(a / b))));
    }

    #[test]
    fn a_finer_rule_is_never_worse_on_its_fitting_rows(case in cases(10, 4)) {
        for objective in BOTH {
            let reached = |rule: Rule| case.reached(&rule, objective) + 1e-12;
            let (fixed, global) = (reached(Rule::Fixed { cut: 0.0 }), reached(Rule::Global {}));
            assert!(global >= fixed && reached(Rule::Scut {}) >= global);
            assert!(reached(Rule::Rtcut { max_k: 20 }) >= reached(Rule::Rcut { k: None, max_k: 20 }));
        }
    }

    #[test]
    fn labels_without_positives_and_missing_scores_are_never_predicted(mut case in cases(8, 4)) {
        for row in &mut case.truth {
            row[0] = false;
        }
        case.scores[0].fill(f32::NEG_INFINITY);
        for rule in all_rules() {
            for objective in all_objectives().into_iter().filter(|objective| rule.supports(*objective)) {
                let predicted = case.predict(&case.fit(&rule, objective));
                assert!(predicted.iter().all(|row| !row[0]), "{:?}", rule);
                assert!(predicted[0].iter().all(|&entry| !entry), "{:?}", rule);
            }
        }
    }

    #[test]
    fn scores_that_are_not_stored_are_minus_infinity(mut case in cases(8, 4), missing in prop::collection::vec(any::<bool>(), 32)) {
        for (at, score) in case.scores.iter_mut().flatten().enumerate().filter(|(at, _)| missing[*at]) {
            *score = if at % 3 == 0 { *score } else { f32::NEG_INFINITY };
        }
        let stored = |row: &Vec<f32>| (0..).zip(row.clone()).filter(|entry| entry.1 > f32::NEG_INFINITY).collect();
        let stored: Vec<Vec<(u32, f32)>> = case.scores.iter().map(stored).collect();
        let mut indptr = vec![0u64];
        indptr.extend(stored.iter().scan(0, |end, row| {
            *end += row.len() as u64;
            Some(*end)
        }));
        let stored = Csr {
            cols: case.labels(),
            indptr: indptr.into(),
            indices: stored.iter().flatten().map(|entry| entry.0).collect::<Vec<_>>().into(),
            values: stored.iter().flatten().map(|entry| entry.1).collect::<Vec<_>>().into(),
        };
        // Arranged by label at once, or some labels at a time.
        let sparse = [100, 5, 0].map(|count| CandidateScores::new(stored.clone()).arranging(count));
        for rule in all_rules() {
            for objective in all_objectives().into_iter().filter(|objective| rule.supports(*objective)) {
                for scores in &sparse {
                    let cuts = rule.fit(scores, &case.truth(), objective).unwrap();
                    prop_assert_eq!(&cuts, &case.fit(&rule, objective), "{:?}", rule);
                }
            }
        }
    }

    #[test]
    fn cuts_do_not_depend_on_layout_threads_or_row_order(case in cases(8, 4)) {
        let triples = |row: &Vec<f32>| (0..row.len() as u32).zip(row.clone()).collect::<Vec<_>>();
        let flat: Vec<(u32, f32)> = case.scores.iter().flat_map(triples).collect();
        let sparse = CandidateScores::new(Csr {
            cols: case.labels(),
            indptr: (0..=case.rows()).map(|row| (row * case.labels()) as u64).collect::<Vec<_>>().into(),
            indices: flat.iter().map(|entry| entry.0).collect::<Vec<_>>().into(),
            values: flat.iter().map(|entry| entry.1).collect::<Vec<_>>().into(),
        });
        let mut reversed = case.clone();
        reversed.scores.reverse();
        reversed.truth.reverse();
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        for rule in all_rules() {
            for objective in all_objectives().into_iter().filter(|objective| rule.supports(*objective)) {
                let cuts = case.fit(&rule, objective);
                let of = |scores: &dyn Scores| rule.fit(scores, &case.truth(), objective).unwrap();
                assert_eq!(&cuts, &of(&case.dense(ScoreLayout::LabelMajor)));
                assert_eq!(&cuts, &of(&sparse));
                assert_eq!(&cuts, &one_thread.install(|| case.fit(&rule, objective)));
                let predicted = cuts.predict(&sparse).unwrap();
                assert_eq!(case.predict(&cuts), case.predict(&case.fit(&rule, objective)));
                for row in 0..case.rows() {
                    match cuts.predict_row(&case.scores[row]) {
                        Ok(labels) => assert_eq!(&labels[..], predicted.row(row)),
                        Err(error) => {
                            assert_eq!(error, ThresholdError::NeedsAllRows);
                            assert!(matches!(cuts.decision(), Decision::Shares { .. }));
                        }
                    }
                }
                // The last bits of sums of floats depend on the order of rows.
                if !matches!(rule, Rule::Online { .. } | Rule::Soft { .. } | Rule::PlugIn { .. }) {
                    assert_eq!(&cuts, &reversed.fit(&rule, objective));
                }
                let text = serde_json::to_string(&cuts).unwrap();
                assert_eq!(&serde_json::from_str::<Cuts>(&text).unwrap(), &cuts);
            }
        }
    }

    #[test]
    fn doubled_scores_give_the_same_decisions_by_rules_that_only_compare_scores(case in cases(8, 4)) {
        let mut doubled = case.clone();
        for score in doubled.scores.iter_mut().flatten() {
            *score *= 2.0;
        }
        let comparing = [
            Rule::Global {}, Rule::Scut {}, Rule::Shrunk { kappa: 3.0 }, Rule::Pcut { factor: None },
            Rule::Rcut { k: None, max_k: 20 }, Rule::Rtcut { max_k: 20 }, Rule::MicroMacro {},
            Rule::Rinscut { max_k: 20 },
        ];
        for rule in comparing {
            for objective in BOTH {
                let predicted = |case: &Case| case.predict(&case.fit(&rule, objective));
                assert_eq!(predicted(&case), predicted(&doubled));
            }
        }
    }
}

fn small() -> Case {
    Case {
        scores: vec![vec![0.5, 1.0], vec![-0.5, 2.0], vec![1.5, 0.0]],
        truth: vec![vec![true, false], vec![false, true], vec![true, true]],
    }
}

#[test]
fn a_nan_score_is_an_error_with_its_row_and_label() {
    let mut case = small();
    case.scores[1][0] = f32::NAN;
    let not_a_number = ThresholdError::NotANumber { row: 1, label: 0 };
    for rule in all_rules().into_iter().skip(1) {
        let fit = rule.fit(&case.dense(ScoreLayout::RowMajor), &case.truth(), Objective::Micro);
        if !matches!(rule, Rule::Rcut { k: Some(_), .. } | Rule::Pcut { factor: Some(_) }) {
            assert_eq!(fit, Err(not_a_number.clone()), "{rule:?}");
        }
        let cuts = small().fit(&rule, Objective::Micro);
        assert_eq!(
            cuts.predict(&case.dense(ScoreLayout::RowMajor)).err(),
            Some(not_a_number.clone()),
            "{rule:?}"
        );
    }
}

#[test]
fn scores_of_another_shape_are_refused() {
    let (case, mut other) = (small(), small());
    other.truth.pop();
    let error =
        Rule::Scut {}.fit(&case.dense(ScoreLayout::RowMajor), &other.truth(), Objective::Macro).unwrap_err();
    assert!(error.to_string().contains("3 rows x 2 labels, but the labels are 2 x 2"), "{error}");
    let cuts = case.fit(&Rule::Scut {}, Objective::Macro);
    assert!(matches!(cuts.predict_row(&[1.0]), Err(ThresholdError::Shape { .. })));
    assert!(DenseScores::new(2, 2, ScoreLayout::RowMajor, vec![0.0; 3].into()).is_none());
}

#[test]
fn logits_are_refused_as_probabilities() {
    let rule = Rule::PlugIn { scale: Scale::Probability };
    let fit = rule.fit(&small().dense(ScoreLayout::RowMajor), &small().truth(), Objective::Macro);
    assert_eq!(fit.unwrap_err(), ThresholdError::NotAProbability { label: 0, value: -0.5 });
}

#[test]
fn a_rule_is_fitted_for_the_objectives_that_it_supports_and_no_others() {
    for rule in all_rules() {
        for objective in all_objectives() {
            let fitted = rule.fit(&small().dense(ScoreLayout::RowMajor), &small().truth(), objective);
            let expected = if rule.supports(objective) { None } else { Some(ThresholdError::Objective) };
            assert_eq!(fitted.err(), expected, "{rule:?} {objective:?}");
        }
    }
    let supported = |objective| all_rules().iter().any(|rule| rule.supports(objective));
    assert!(all_objectives().into_iter().all(supported));
}

#[test]
fn an_objective_is_a_word_or_an_operating_point() {
    let read = |value: serde_json::Value| {
        Objective::deserialize(pipe_core::strict_json::StrictJson(&value)).map_err(|error| error.to_string())
    };
    for objective in all_objectives() {
        assert_eq!(read(serde_json::to_value(objective).unwrap()), Ok(objective));
        assert_eq!(objective.issues(), []);
    }
    assert_eq!(serde_json::to_value(Objective::Macro).unwrap(), "macro", "stored keys contain this word");
    assert!(read(json!("makro")).unwrap_err().contains("`samples`"));
    assert!(read(json!({"precison": 0.9})).unwrap_err().contains("`overall_precision`"));
    assert!(read(json!({"precision": 0.9, "recall": 0.8})).is_err());
    let field = |value| read(value).unwrap().issues()[0].field.clone();
    assert_eq!(field(json!({"recall": 1.5})), "recall");
    assert_eq!(field(json!({"cost": {"false_positive": 0, "false_negative": 1}})), "cost.false_positive");
}

#[test]
fn a_rule_is_read_strictly_and_with_defaults() {
    let read = |text: &str| serde_yaml::from_str::<Rule>(text);
    assert_eq!(read("kind: soft").unwrap(), Rule::Soft { prior: 50.0, scale: Scale::Logit });
    assert_eq!(read("{ kind: rcut, k: 3 }").unwrap(), Rule::Rcut { k: Some(3), max_k: 20 });
    assert_eq!(
        read("{ kind: scut_fbr, poor: never }").unwrap(),
        Rule::ScutFbr { fbr: 0.1, poor: PoorLabel::Never }
    );
    for wrong in ["kind: best", "{ kind: soft, piror: 3 }", "{ kind: scut, cut: 1 }", "prior: 3"] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    assert!(all_rules().iter().all(|rule| rule.issues().is_empty()));
    let online = Rule::Online { epochs: 0, a: 3.0, b: 2.0, scale: Scale::Logit };
    assert_eq!(online.issues().into_iter().map(|issue| issue.field).collect::<Vec<_>>(), ["epochs", "b"]);
}

#[test]
fn the_tests_cover_every_kind_of_rule() {
    let kind = |rule: &Rule| serde_json::to_value(rule).unwrap()["kind"].as_str().unwrap().to_owned();
    let tested: BTreeSet<String> = all_rules().iter().map(kind).collect();
    assert_eq!(tested, Rule::kinds().into_iter().collect());
    assert!(tested.contains("scut"));
}
