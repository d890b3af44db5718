//! Explains the decisions of a [`Composite`]: its score term by term, its cut, and both in the form of eq. 1.

use super::cut::{CutRule, cut_term};
use super::{ExplanationTerm, LabelExplanation, PaperForm, TermInput};
use crate::composite::Composite;
use crate::fusion::{self, Fusion};
use crate::score::ScoreScale;
use crate::threshold::cuts::Decision;

/// The kind of model whose score is the local signal of eq. 1.
const NEIGHBOURS: &str = "neighbours";

/// The decision about one label of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decided {
    pub label: u32,
    pub score: f32,
    /// `None` if there is no threshold, or if no score can exceed it.
    pub threshold: Option<f32>,
    pub probability: Option<f32>,
    pub predicted: bool,
}

/// Describes a model in words: its parts and its cuts.
pub fn model_words(card: &Composite, rule: Option<&CutRule>) -> String {
    let fused = if card.fusion.is_some() { ", fused" } else { "" };
    let cuts = match (&card.cuts, rule) {
        (None, _) if card.scale() == ScoreScale::LogOdds => "no cuts, log-odds above 0".to_owned(),
        (None, _) => "no cuts, scores above 0.5".to_owned(),
        (Some(_), Some(rule)) => rule.words(),
        (Some(_), None) => "cuts by a rule that a model's directory does not keep".to_owned(),
    };
    format!("{}{fused}; {cuts}", part_names(card).join(", "))
}

/// Describes the local signal of a model in words.
pub fn signal_words(card: &Composite) -> &'static str {
    let has_neighbours = card.parts.iter().any(|part| part.model.name() == NEIGHBOURS);
    if has_neighbours { "labels of the nearest training rows" } else { "none" }
}

/// Returns the kind of each part, and of the label ridge, if there is one; the second part of a kind is numbered.
pub fn part_names(card: &Composite) -> Vec<String> {
    let ridge = card.first_fusion.is_some().then_some("label_ridge");
    let kinds: Vec<&str> = card.parts.iter().map(|part| part.model.name()).chain(ridge).collect();
    let name = |(at, kind): (usize, &&str)| match kinds[..at].iter().filter(|other| *other == kind).count() {
        0 => (*kind).to_owned(),
        before => format!("{kind} {}", before + 1),
    };
    kinds.iter().enumerate().map(name).collect()
}

/// Explains a decision. `scores` are the scores of the parts, as they enter the sum; `frequency` is the
/// number of training rows with the label, if known.
pub fn explain(
    card: &Composite,
    rule: Option<&CutRule>,
    frequency: Option<u64>,
    scores: &[f32],
    decided: Decided,
) -> LabelExplanation {
    let names = part_names(card);
    let terms = match &card.fusion {
        Some(fusion) => score_terms(fusion, &names, decided.label, scores),
        None => {
            let score = f64::from(scores[0]);
            let term = ExplanationTerm::new("r", &[("r", score)], score);
            vec![ExplanationTerm { part: Some(names[0].clone()), ..term }]
        }
    };
    let threshold = decided.threshold.map(f64::from);
    let frequency = frequency.map(|frequency| frequency as f64);
    let threshold_terms = threshold.map(|cut| match &card.cuts {
        Some(_) => cut_term(rule, frequency, cut),
        None => ExplanationTerm::new("no cut was fitted", &[], cut),
    });
    let paper_form = card
        .fusion
        .as_ref()
        .zip(threshold)
        .map(|(fusion, cut)| paper_form(fusion, decided.label, &terms, scores, cut));
    LabelExplanation {
        label: decided.label,
        name: None,
        score_terms: terms,
        score: decided.score.into(),
        threshold_terms: threshold_terms.into_iter().collect(),
        threshold,
        margin: threshold.map(|threshold| f64::from(decided.score) - threshold),
        probability: decided.probability.map(f64::from),
        predicted: decided.predicted,
        paper_form,
        notes: never_predicted(card, decided.label).into_iter().collect(),
    }
}

/// Returns the reason why a label is never predicted, if there is one.
fn never_predicted(card: &Composite, label: u32) -> Option<String> {
    let no_cut = "the rule found no cut for this label, so it is never predicted";
    match card.cuts.as_ref()?.decision() {
        Decision::PerLabel { cuts } => cuts[label as usize].is_none().then(|| no_cut.to_owned()),
        Decision::RankInScore { zones, .. } => zones[label as usize].is_none().then(|| no_cut.to_owned()),
        Decision::Ranks { unseen, .. } => unseen
            .binary_search(&label)
            .is_ok()
            .then(|| "no training row has this label, so it has no rank and is never predicted".to_owned()),
        Decision::Shares { .. } => None,
    }
}

/// Returns the terms of [`Fusion::score`], those of the parts first.
fn score_terms(fusion: &Fusion, names: &[String], label: u32, scores: &[f32]) -> Vec<ExplanationTerm> {
    let explained = |((term, name), &score): ((&fusion::FusionTerm, &String), &f32)| {
        let (transformed, floor) = (term.of(score), term.floor);
        let formula = match term.scale {
            ScoreScale::LogOdds => "w * r".to_owned(),
            ScoreScale::Response => format!("w * ln(max(r, 0) + {floor})"),
            ScoreScale::Share | ScoreScale::Probability => format!("w * ln(r + {floor})"),
        };
        let mut inputs = vec![("w", term.weight), ("r", score.into())];
        if term.scale != ScoreScale::LogOdds {
            inputs.push(("ln", transformed));
        }
        let value = term.weight * transformed;
        ExplanationTerm { part: Some(name.clone()), ..ExplanationTerm::new(&formula, &inputs, value) }
    };
    let mut terms: Vec<ExplanationTerm> = fusion.terms.iter().zip(names).zip(scores).map(explained).collect();
    let (idf, weight, count) = (fusion.idf(label), fusion.idf_weight, fusion.counts[label as usize]);
    let inputs = [("w", weight), ("N", fusion.rows as f64), ("f", count as f64), ("ln", idf)];
    terms.push(ExplanationTerm::new("IDF: w * ln(N / max(f, 0.5))", &inputs, weight * idf));
    if !fusion.products.is_empty() {
        let value = fusion.product_part(label, scores.iter().copied());
        terms.push(ExplanationTerm::new("products of two of these", &[], value));
    }
    terms.push(ExplanationTerm::new("constant", &[], fusion.constant));
    terms
}

/// Returns the decision in the form z_l > theta_l(x) = tau_l - w_0 - w_idf IDF_l - w_near ln(KNN_l(x) + floor). Products of
/// two signals are part of z.
fn paper_form(fusion: &Fusion, label: u32, terms: &[ExplanationTerm], scores: &[f32], cut: f64) -> PaperForm {
    let values = |local: bool| {
        let parts = fusion.terms.iter().zip(terms);
        parts.filter(move |(term, _)| (term.model == NEIGHBOURS) == local).map(|(_, term)| term.value)
    };
    let idf = fusion.idf_weight * fusion.idf(label);
    let mut sides = vec![("cut", cut), ("constant", -fusion.constant), ("IDF", -idf)];
    if values(true).next().is_some() {
        sides.push(("local", -values(true).sum::<f64>()));
    }
    let theta = sides.iter().map(|side| side.1).sum();
    let theta_terms = sides.into_iter().map(|(name, value)| TermInput { name: name.into(), value }).collect();
    let z = values(false).sum::<f64>() + fusion.product_part(label, scores.iter().copied());
    PaperForm { z, theta_terms, theta }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::composite::ModelPart;
    use crate::config::model::ModelConfig;
    use crate::config::signal::Weighting;
    use crate::fusion::LogFloors;

    /// Two ridges and neighbours, fused, with cuts for two of three labels.
    fn card() -> Composite {
        let ridge = ModelConfig::Ridge { ridge: 1.0, constant: 0.3 };
        let near =
            ModelConfig::Neighbours { neighbours: 5, weighting: Weighting::Uniform, searched_rows: None };
        let part = |model| ModelPart {
            directory: "parts/0".into(),
            model,
            chosen_because: None,
            keep: None,
            rest: 0.0,
        };
        let parts = vec![part(ridge.clone()), part(near), part(ridge)];
        let floors = LogFloors { response: 0.03, share: 0.005 };
        let mut terms: Vec<fusion::FusionTerm> = parts
            .iter()
            .map(|part| fusion::FusionTerm::new(part.model.name(), part.model.scale(), floors))
            .collect();
        for (term, weight) in terms.iter_mut().zip([1.5, 0.5, 0.25]) {
            term.weight = weight;
        }
        let mut card = Composite::new(String::new(), 4, 3, parts);
        card.fusion = Some(Fusion {
            terms,
            idf_weight: 0.7,
            constant: 2.0,
            products: Vec::new(),
            rows: 100,
            counts: vec![10, 3, 0],
        });
        let decision = json!({"kind": "per_label", "cuts": [-1.0, 0.5, null]});
        card.cuts = serde_json::from_value(json!({"labels": 3, "decision": decision})).unwrap();
        card
    }

    fn explained(label: u32, scores: [f32; 3], threshold: Option<f32>) -> LabelExplanation {
        let score = card().fusion.unwrap().score(label, scores);
        let predicted = threshold.is_some_and(|threshold| score > threshold);
        let decided = Decided { label, score, threshold, probability: None, predicted };
        explain(&card(), None, Some(10), &scores, decided)
    }

    #[test]
    fn the_terms_add_up_to_the_score_and_both_forms_agree() {
        for (label, scores, cut) in [(0, [0.6, 0.2, -0.1], -1.0), (1, [-0.3, 0.0, 0.9], 0.5)] {
            let label = explained(label, scores, Some(cut));
            let sum: f64 = label.score_terms.iter().map(|term| term.value).sum();
            assert!((sum - label.score).abs() < 1e-6, "{sum} {}", label.score);
            let form = label.paper_form.unwrap();
            let theta: f64 = form.theta_terms.iter().map(|term| term.value).sum();
            assert!((theta - form.theta).abs() < 1e-12);
            assert!((form.z - form.theta - label.margin.unwrap()).abs() < 1e-6);
            let responses = label.score_terms[0].value + label.score_terms[2].value;
            assert_eq!(form.z, responses, "the term of the neighbours is part of theta");
        }
    }

    #[test]
    fn products_are_a_term_of_their_own() {
        let mut card = card();
        if let Some(fusion) = &mut card.fusion {
            fusion.products = (1..=10).map(|number| f64::from(number) / 10.0).collect();
        }
        let scores = [0.6, 0.2, -0.1];
        let score = card.fusion.as_ref().unwrap().score(0, scores);
        let decided = Decided { label: 0, score, threshold: Some(-1.0), probability: None, predicted: true };
        let label = explain(&card, None, Some(10), &scores, decided);
        let sum: f64 = label.score_terms.iter().map(|term| term.value).sum();
        assert!((sum - label.score).abs() < 1e-4, "{sum} {}", label.score);
        let form = label.paper_form.unwrap();
        assert!((form.z - form.theta - label.margin.unwrap()).abs() < 1e-4);
    }

    #[test]
    fn parts_of_the_same_kind_are_numbered() {
        assert_eq!(part_names(&card()), ["ridge", "neighbours", "ridge 2"]);
        let words = model_words(&card(), None);
        assert!(words.starts_with("ridge, neighbours, ridge 2, fused; cuts by a rule"), "{words}");
        assert_eq!(signal_words(&card()), "labels of the nearest training rows");
    }

    #[test]
    fn a_label_without_a_cut_has_a_note_that_it_is_never_predicted() {
        let label = explained(2, [0.5; 3], None);
        assert_eq!((label.threshold, label.margin, label.paper_form), (None, None, None));
        assert!(label.notes[0].contains("never predicted"), "{:?}", label.notes);
        assert!(explained(0, [0.5; 3], Some(-1.0)).notes.is_empty());
    }
}
