//! Tests of composite models as systems, compared with their parts.

use pipe_ml::composite::{Composite, LABEL_RIDGE, ModelPart};
use pipe_ml::config::device::Device;
use pipe_ml::config::model::{ModelBody, ModelConfig};
use pipe_ml::config::signal::Weighting;
use pipe_ml::data::artifact::{ArtifactCheck, open_csr, write_csr};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::dataset_part::DatasetPart;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::cut::CutRule;
use pipe_ml::explanation::{CauseSubject, Explanation};
use pipe_ml::fusion::{Fusion, FusionTerm, LogFloors};
use pipe_ml::label_ridge::{FittedLabelRidge, probabilities};
use pipe_ml::metric::block::{DecisionBlock, Thresholds};
use pipe_ml::score::ScoreScale;
use pipe_ml::score::candidates::Candidates;
use pipe_ml::scorer::ModelSize;
use pipe_ml::system::{BlockSink, ExplainRequest};
use pipe_ml::threshold::cuts::Cuts;
use pipe_ml::threshold::scores::{DenseScores, ScoreLayout};
use serde_json::json;

use super::*;
use crate::fit::FitContext;
use crate::fit::tests::training_data;
use crate::train::host::SilentHost;

const ROWS: usize = 40;
const LABELS: usize = 5;
const SIZE: ModelSize = ModelSize { features: 12, labels: LABELS };

fn settings(threads: usize) -> SystemSettings {
    SystemSettings { device: Device::Cpu, threads, signal: None, train: None }
}

fn model(kind: &str) -> ModelConfig {
    let body: ModelBody = serde_json::from_value(json!({"kind": kind})).unwrap();
    body.resolve(0, Device::Cpu).unwrap()
}

/// Saves a composite of a ridge model and a neighbours model; `change` edits its card before it is written.
fn saved(keep: Option<usize>, change: impl FnOnce(&mut Composite)) -> tempfile::TempDir {
    let neighbours =
        ModelConfig::Neighbours { neighbours: 5, weighting: Weighting::CosineSquared, searched_rows: None };
    saved_of([model("ridge"), neighbours], keep, change)
}

fn saved_of(
    models: [ModelConfig; 2],
    keep: Option<usize>,
    change: impl FnOnce(&mut Composite),
) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    let mut parts = Vec::new();
    for model in models {
        let directory = Composite::part_directory(parts.len());
        let (mut host, scratch) = (SilentHost, tempfile::tempdir().unwrap());
        let mut context = FitContext {
            seed: 0,
            device: tch::Device::Cpu,
            threads: 1,
            checkpoints: None,
            scratch: scratch.path(),
            host: &mut host,
        };
        let fitted = fit::fit(&model, training_data(ROWS, 12, LABELS), &mut context).unwrap();
        fitted.save(&temp.path().join(&directory)).unwrap();
        parts.push(ModelPart { directory, model, chosen_because: None, keep, rest: 0.0 });
    }
    let mut card = Composite::new("m".into(), 12, LABELS, parts);
    card.fusion = Some(fusion());
    change(&mut card);
    card.save(temp.path()).unwrap();
    temp
}

fn fusion() -> Fusion {
    let floors = LogFloors { response: 0.03, share: 0.005 };
    let mut terms = vec![
        FusionTerm::new("ridge", ScoreScale::Response, floors),
        FusionTerm::new("neighbours", ScoreScale::Share, floors),
    ];
    (terms[0].weight, terms[1].weight) = (1.5, 0.5);
    Fusion {
        terms,
        idf_weight: 0.2,
        constant: 1.0,
        products: Vec::new(),
        rows: ROWS as u64,
        counts: vec![9, 8, 7, 6, 0],
    }
}

fn cuts(decision: serde_json::Value) -> Option<Cuts> {
    serde_json::from_value(json!({"labels": LABELS, "decision": decision})).unwrap()
}

/// Returns all decisions as one block.
fn decided(directory: &Path, threads: usize) -> DecisionBlock {
    let features = training_data(ROWS, 12, LABELS).features;
    let rows: Vec<u32> = (0..ROWS as u32).collect();
    let mut system = open(directory, settings(threads)).unwrap();
    assert_eq!((system.features(), system.labels()), (12, LABELS));
    let mut whole = DecisionBlock::default();
    let take: BlockSink = &mut |block| {
        assert_eq!(block.first, whole.rows);
        whole.rows += block.rows;
        whole.labels = block.labels;
        for row in 0..block.rows {
            whole.scores.extend(&*block.row_scores(row));
            whole.probabilities.extend(&*block.row_probabilities(row));
        }
        whole.predicted.extend(block.predicted.clone());
        whole.thresholds = block.thresholds.clone();
        Ok(())
    };
    system.decide(Unlabelled { features: &features, rows: &rows }, take).unwrap();
    whole
}

#[test]
fn scores_are_fused_from_the_parts_and_compared_with_the_cuts() {
    let per_label = json!({"kind": "per_label", "cuts": [-1.0, 0.0, null, 0.5, -2.0]});
    let temp = saved(None, |card| card.cuts = cuts(per_label));
    let block = decided(temp.path(), 2);
    let card = Composite::load(temp.path()).unwrap();
    let features = training_data(ROWS, 12, LABELS).features;
    let rows: Vec<u32> = (0..ROWS as u32).collect();
    let tables = card.parts.iter().map(|part| {
        let path = temp.path().join(&part.directory);
        let mut scores = vec![0.0; ROWS * LABELS];
        let mut scorer = fit::load(&part.model, &path, SIZE, Device::Cpu, 1).unwrap();
        scorer.score(Unlabelled { features: &features, rows: &rows }, &mut scores).unwrap();
        scores
    });
    let tables: Vec<Vec<f32>> = tables.collect();
    for at in 0..ROWS * LABELS {
        let expected = fusion().score((at % LABELS) as u32, tables.iter().map(|table| table[at]));
        assert_eq!(block.scores[at], expected);
        assert!((block.probabilities[at] - 1.0 / (1.0 + (-expected).exp())).abs() < 1e-6);
    }
    let cut = [-1.0, 0.0, f32::INFINITY, 0.5, -2.0];
    assert_eq!(block.thresholds, Thresholds::PerLabel(cut.to_vec()));
    for (row, predicted) in block.predicted.iter().enumerate() {
        let above = |label: &u32| block.scores[row * LABELS + *label as usize] > cut[*label as usize];
        assert_eq!(*predicted, (0..LABELS as u32).filter(above).collect::<Vec<_>>());
    }
}

#[test]
fn a_rule_over_all_rows_decides_the_same_as_on_the_whole_table() {
    let shares = json!({"kind": "shares", "shares": [0.5, 0.25, 0.1, 0.0, 1.0]});
    let temp = saved(None, |card| card.cuts = cuts(shares.clone()));
    let block = decided(temp.path(), 2);
    let scores = DenseScores::new(ROWS, LABELS, ScoreLayout::RowMajor, block.scores.clone().into()).unwrap();
    let expected = cuts(shares).unwrap().predict(&scores).unwrap();
    for row in 0..ROWS {
        assert_eq!(block.predicted[row], expected.row(row), "row {row}");
    }
    assert_eq!(block.thresholds, Thresholds::None);
}

/// Returns the scores of a part for all rows, with `rest` for the labels that it does not keep, and the labels that it keeps.
fn part_scores(directory: &Path, part: &ModelPart) -> (Vec<f32>, Vec<Vec<u32>>) {
    let features = training_data(ROWS, 12, LABELS).features;
    let rows: Vec<u32> = (0..ROWS as u32).collect();
    let mut scores = vec![0.0; ROWS * LABELS];
    let mut scorer = fit::load(&part.model, &directory.join(&part.directory), SIZE, Device::Cpu, 1).unwrap();
    scorer.score(Unlabelled { features: &features, rows: &rows }, &mut scores).unwrap();
    let candidates = Candidates { keep: part.keep.unwrap(), scale: part.model.scale() };
    let kept = scores.chunks_mut(LABELS).map(|row| {
        let mut chosen = Vec::new();
        candidates.of(row, &mut chosen);
        for label in (0..LABELS as u32).filter(|label| !chosen.contains(label)) {
            row[label as usize] = part.rest;
        }
        chosen
    });
    let kept = kept.collect();
    (scores, kept)
}

#[test]
fn models_that_keep_few_labels_give_the_scores_of_whole_rows() {
    let per_label = json!({"kind": "per_label", "cuts": [-1.0, 0.0, null, 0.5, -2.0]});
    let ranks = json!({"kind": "ranks", "sure": 1, "cut": 0.5, "unseen": [4]});
    let tree = json!({"kind": "label_tree", "largest_leaf": 2});
    let tree: ModelBody = serde_json::from_value(tree).unwrap();
    let tree = tree.resolve(0, Device::Cpu).unwrap();
    for (models, decision) in [
        ([model("ridge"), model("neighbours")], Some(per_label)),
        ([tree, model("neighbours")], Some(ranks)),
        ([model("neighbours"), model("ridge")], None),
    ] {
        let temp = saved_of(models, Some(2), |card| {
            card.parts[0].rest = -0.25;
            card.cuts = decision.and_then(cuts);
        });
        let card = Composite::load(temp.path()).unwrap();
        let parts: Vec<_> = card.parts.iter().map(|part| part_scores(temp.path(), part)).collect();
        let block = decided(temp.path(), 2);
        for row in 0..ROWS {
            let score = |label: usize| {
                fusion().score(label as u32, parts.iter().map(|(scores, _)| scores[row * LABELS + label]))
            };
            let expected: Vec<f32> = (0..LABELS).map(score).collect();
            assert_eq!(*block.row_scores(row), expected);
            let mut masked = vec![f32::NEG_INFINITY; LABELS];
            for &label in parts.iter().flat_map(|(_, kept)| &kept[row]) {
                masked[label as usize] = expected[label as usize];
            }
            let above_zero = (0..LABELS as u32).filter(|&label| masked[label as usize] > 0.0).collect();
            let predicted = card.cuts.as_ref().map_or(above_zero, |cuts| cuts.predict_row(&masked).unwrap());
            assert_eq!(block.predicted[row], predicted);
        }
        assert_eq!(block, decided(temp.path(), 1));
    }
}

#[test]
fn labels_that_are_not_candidates_have_a_score_and_are_never_predicted() {
    let everything = json!({"kind": "per_label", "cuts": [-99.0, -99.0, -99.0, -99.0, -99.0]});
    let temp = saved(Some(1), |card| card.cuts = cuts(everything));
    let block = decided(temp.path(), 1);
    assert!(block.scores.iter().all(|score| score.is_finite()));
    assert!(block.predicted.iter().all(|predicted| predicted.len() <= 2), "one candidate of each part");
    assert!(block.predicted.iter().any(|predicted| !predicted.is_empty()));
}

#[test]
fn a_model_without_fusion_and_cuts_predicts_scores_above_one_half() {
    let temp = saved(None, |card| {
        card.fusion = None;
        card.parts.truncate(1);
    });
    let block = decided(temp.path(), 1);
    assert!(block.probabilities.is_empty());
    assert_eq!(block.thresholds, Thresholds::PerLabel(vec![0.5; LABELS]));
    for (row, predicted) in block.predicted.iter().enumerate() {
        let above = (0..LABELS as u32).filter(|&label| block.row_scores(row)[label as usize] > 0.5);
        assert_eq!(*predicted, above.collect::<Vec<_>>());
    }
}

#[test]
fn decisions_do_not_depend_on_the_number_of_threads() {
    let temp = saved(None, |_| ());
    assert_eq!(decided(temp.path(), 1), decided(temp.path(), 3));
}

#[test]
fn rows_and_parts_with_another_number_of_features_are_refused() {
    let temp = saved(None, |_| ());
    let features = training_data(ROWS, 9, LABELS).features;
    let mut system = open(temp.path(), settings(1)).unwrap();
    let rows = Unlabelled { features: &features, rows: &[0] };
    let error = system.decide(rows, &mut |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("12 features") && error.contains("have 9"), "{error}");
    let temp = saved(None, |card| card.features = 13);
    let error = open(temp.path(), settings(1)).err().unwrap().to_string();
    assert!(error.contains("parts/0") && error.contains("12 features"), "{error}");
}

#[test]
fn a_part_that_announces_more_columns_than_its_model_is_refused_before_anything_is_allocated() {
    for kind in ["neighbours", "kernel_ridge"] {
        let temp = saved_of([model(kind), model("ridge")], None, |_| {});
        let features = temp.path().join("parts/0/features.csr");
        let wide = Csr { cols: 1 << 31, ..open_csr(&features, ArtifactCheck::Deep).unwrap() };
        write_csr(&temp.path().join("wide"), &wide).unwrap();
        std::fs::rename(temp.path().join("wide"), &features).unwrap();
        let error = open(temp.path(), settings(1)).err().unwrap().to_string();
        assert!(error.contains("parts/0") && error.contains("2147483648 features"), "{error}");
    }
}

#[test]
fn a_part_with_broken_rows_is_refused_when_the_model_is_opened() {
    let temp = saved_of([model("neighbours"), model("ridge")], None, |_| {});
    let features = temp.path().join("parts/0/features.csr");
    let mut bytes = std::fs::read(&features).unwrap();
    let end = bytes.len();
    bytes[end - 16..end - 8].fill(0xff);
    std::fs::write(&features, bytes).unwrap();
    let error = open(temp.path(), settings(1)).err().unwrap().to_string();
    assert!(error.contains("features.csr") && error.contains("offsets"), "{error}");
}

/// Returns the explanation of a row, after checking that it agrees with the decisions about that row.
fn explained(directory: &Path, request: ExplainRequest) -> Explanation {
    let data = training_data(ROWS, 12, LABELS);
    let rows: Vec<u32> = (0..ROWS as u32).collect();
    let train = DatasetPart { features: data.features.clone(), labels: data.labels, rows: rows.clone() };
    let settings = SystemSettings { train: Some(train), ..settings(2) };
    let mut system = open(directory, settings).unwrap();
    let explanation = system.explain(Unlabelled { features: &data.features, rows: &rows }, &request).unwrap();
    let block = decided(directory, 1);
    for label in &explanation.labels {
        let sum: f64 = label.score_terms.iter().map(|term| term.value).sum();
        assert!((sum - label.score).abs() < 1e-4, "{sum} {}", label.score);
        assert_eq!(label.score, f64::from(block.row_scores(request.row)[label.label as usize]));
        let predicted = block.predicted[request.row].binary_search(&label.label).is_ok();
        assert_eq!(label.predicted, predicted);
        if let (Some(form), Some(margin)) = (&label.paper_form, label.margin) {
            assert!((form.z - form.theta - margin).abs() < 1e-4);
            let no_candidate = label.notes.iter().any(|note| note.contains("no part has it as a candidate"));
            assert_eq!(predicted, margin > 0.0 && !no_candidate);
        }
        for term in label.score_terms.iter().filter(|term| term.evidence.is_some()) {
            let score = term.inputs.iter().find(|input| input.name == "r").unwrap().value;
            let total = term.evidence.as_ref().unwrap().total();
            assert!((total - score).abs() < 1e-4, "{:?}: {total} {score}", term.part);
        }
    }
    if request.label.is_none() {
        let predicted = explanation.labels.iter().filter(|label| label.predicted).count();
        assert_eq!(predicted, block.predicted[request.row].len(), "no predicted label is left out");
    }
    explanation
}

fn about(row: usize) -> ExplainRequest {
    ExplainRequest { row, ..ExplainRequest::default() }
}

const CUTS: [f32; LABELS] = [-1.0, 0.0, -0.5, 0.5, -2.0];

#[test]
fn an_explanation_adds_up_to_the_decision() {
    let temp = saved(None, |card| card.cuts = cuts(json!({"kind": "per_label", "cuts": CUTS})));
    let mut misses = 0;
    for row in [0, 7, ROWS - 1] {
        let explanation = explained(temp.path(), about(row));
        assert_eq!(explanation.signal, "labels of the nearest training rows");
        misses += explanation.labels.iter().filter(|label| !label.predicted).count();
        for label in &explanation.labels {
            let near = label.score_terms[1].evidence.as_ref().unwrap();
            assert_eq!(near.causes.len(), 5, "every neighbour is named");
        }
    }
    assert!(misses > 0, "labels that are not predicted are explained too");
}

#[test]
fn the_training_rows_of_a_kernel_are_marked_with_whether_they_have_the_label() {
    let temp = saved_of([model("kernel_ridge"), model("neighbours")], None, |_| ());
    let labels = training_data(ROWS, 12, LABELS).labels;
    let explanation = explained(temp.path(), ExplainRequest { row: 3, label: Some(1), rule: None });
    let evidence = explanation.labels[0].score_terms[0].evidence.as_ref().unwrap();
    assert_eq!((evidence.causes.len(), evidence.others), (10, ROWS - 10));
    for cause in &evidence.causes {
        let CauseSubject::TrainingRow { row, .. } = cause.what else { panic!("{cause:?}") };
        assert_eq!(cause.has_label, Some(labels.row(row as usize).contains(&1)));
    }
}

#[test]
fn the_cut_rule_is_named_if_it_is_known() {
    let temp = saved(None, |card| card.cuts = cuts(json!({"kind": "per_label", "cuts": CUTS})));
    let rule = serde_json::from_value(json!({"kind": "soft"})).unwrap();
    let rule = Some(CutRule { rule, objective: Default::default() });
    let with_rule = explained(temp.path(), ExplainRequest { row: 0, label: Some(3), rule });
    assert!(with_rule.model.ends_with("soft cuts, prior 50, for macro-F1"), "{}", with_rule.model);
    let [cut] = &with_rule.labels[0].threshold_terms[..] else { panic!("{with_rule:?}") };
    assert_eq!(cut.inputs[0].value, 6.0, "the count that the fusion keeps: {cut:?}");
    let without_rule = explained(temp.path(), about(0));
    assert!(without_rule.model.contains("does not keep"), "{}", without_rule.model);
}

#[test]
fn a_label_that_is_not_a_candidate_is_noted_with_the_score_it_counts_as() {
    let everything = json!({"kind": "per_label", "cuts": [-99.0, -99.0, -99.0, -99.0, -99.0]});
    let temp = saved(Some(1), |card| card.cuts = cuts(everything));
    let predicted = &decided(temp.path(), 1).predicted[0];
    for label in 0..LABELS as u32 {
        let explanation = explained(temp.path(), ExplainRequest { row: 0, label: Some(label), rule: None });
        let label = &explanation.labels[0];
        let notes = label.notes.join("\n");
        let never = !predicted.contains(&label.label);
        assert_eq!(notes.contains("no part has it as a candidate"), never, "{notes}");
        let without = label.score_terms[..2].iter().filter(|term| term.evidence.is_none()).count();
        assert_eq!(notes.matches("among the best 1 labels").count(), without, "{notes}");
    }
}

#[test]
fn rank_and_share_rules_are_described_in_a_note() {
    let ranks = json!({"kind": "ranks", "sure": 2, "cut": null, "unseen": [4]});
    let temp = saved(None, |card| card.cuts = cuts(ranks));
    let explanation = explained(temp.path(), about(5));
    // One of the five labels is in no training row.
    assert_eq!(explanation.labels.len(), 2 + 2);
    let notes = |at: usize| explanation.labels[at].notes.join("\n");
    assert!(notes(0).contains("rank is 1; the first 2 labels"), "{}", notes(0));
    assert_eq!(explanation.labels[0].threshold, None);
    let unseen = explained(temp.path(), ExplainRequest { row: 5, label: Some(4), rule: None });
    assert!(unseen.labels[0].notes.join("").contains("no training row has this label"));

    let shares = json!({"kind": "shares", "shares": [0.5, 0.25, 0.1, 0.0, 1.0]});
    let temp = saved(None, |card| card.cuts = cuts(shares));
    let explanation = explained(temp.path(), about(5));
    let note = explanation.labels[0].notes.join("");
    assert!(note.contains(&format!("of the {ROWS} rows")), "{note}");
}

#[test]
fn a_label_ridge_reads_the_probabilities_of_the_parts_and_is_one_more_term() {
    for keep in [None, Some(2)] {
        let plain = decided(saved(keep, |_| {}).path(), 1);
        let temp = saved(keep, |card| {
            let mut both = fusion();
            let floors = LogFloors { response: 0.03, share: 0.005 };
            both.terms.push(FusionTerm {
                weight: 0.8,
                ..FusionTerm::new(LABEL_RIDGE, ScoreScale::Response, floors)
            });
            card.first_fusion = card.fusion.replace(both);
        });
        let rows: Vec<_> = (0..ROWS)
            .map(|row| {
                let score = |label: u32| (label, ((row + 3 * label as usize) % 7) as f32 - 4.0);
                probabilities((0..LABELS as u32).map(score))
            })
            .collect();
        let ridge = FittedLabelRidge::fit(&rows, &training_data(ROWS, 12, LABELS).labels, 1.0).unwrap().model;
        ridge.save(&temp.path().join(LABEL_RIDGE)).unwrap();
        let block = decided(temp.path(), 2);
        if keep.is_none() {
            for row in 0..ROWS {
                let first = &plain.scores[row * LABELS..][..LABELS];
                let mut scores = [0.0; LABELS];
                ridge.score(&probabilities((0..).zip(first.iter().copied())), &mut scores);
                let found = &block.scores[row * LABELS..][..LABELS];
                for ((found, first), score) in found.iter().zip(first).zip(scores) {
                    assert!((found - first - 0.8 * (score.max(0.0) + 0.03).ln()).abs() < 1e-4);
                }
            }
        }
        let explanation = explained(temp.path(), about(3));
        assert!(
            explanation.model.starts_with("ridge, neighbours, label_ridge, fused"),
            "{}",
            explanation.model
        );
        for label in &explanation.labels {
            let sum: f64 = label.score_terms.iter().map(|term| term.value).sum();
            assert!((sum - label.score).abs() < 1e-4, "{sum} {}", label.score);
            let ridge = &label.score_terms[2];
            let evidence = ridge.evidence.as_ref().unwrap();
            assert_eq!(ridge.part.as_deref(), Some(LABEL_RIDGE));
            assert!((evidence.total() - ridge.inputs[1].value).abs() < 1e-5, "{evidence:?}");
        }
        std::fs::remove_dir_all(temp.path().join(LABEL_RIDGE)).unwrap();
        assert!(open(temp.path(), settings(1)).is_err());
    }
}

#[test]
fn a_model_with_one_part_is_explained_without_a_sum() {
    let temp = saved(None, |card| {
        card.fusion = None;
        card.parts.truncate(1);
    });
    let explanation = explained(temp.path(), about(2));
    assert_eq!(explanation.model, "ridge; no cuts, scores above 0.5");
    assert_eq!(explanation.signal, "none");
    let label = &explanation.labels[0];
    assert_eq!((label.score_terms.len(), label.threshold, &label.paper_form), (1, Some(0.5), &None));
}
