//! Why a model of fitted parts decided as it did. The rows are scored in the same chunk as for a prediction, so that
//! the numbers are its numbers to the bit.

use anyhow::Result;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::composite::{self, Decided, model_words, signal_words};
use pipe_ml::explanation::{Evidence, Explanation, LabelExplanation, Subject};
use pipe_ml::metric::marked::Protocol;
use pipe_ml::threshold::cuts::{Cuts, Decision};

use super::composite::{Fused, Scored};
use super::telling::most_telling;
use super::{Asked, Block, System};
use crate::fit::cross_fit::rows_at_once;

/// One row: the scores of each part as they enter the sum, and what the parts leave of them.
struct Row {
    scores: Vec<Vec<f32>>,
    /// The candidates of each part; `None` where every label is one.
    kept: Vec<Option<Vec<u32>>>,
    /// Those of all parts together.
    candidates: Option<Vec<u32>>,
    /// How many rows are decided about together.
    together: usize,
}

impl Row {
    fn may_be_predicted(&self, label: u32) -> bool {
        self.candidates.as_ref().is_none_or(|labels| labels.binary_search(&label).is_ok())
    }
}

impl Fused {
    pub(super) fn explained(&mut self, rows: Unlabelled, asked: &Asked) -> Result<Explanation> {
        self.check(rows)?;
        let size = rows_at_once(self.card.labels);
        let first = asked.row / size * size;
        let chunk = &rows.rows[first..rows.rows.len().min(first + size)];
        let (row, block) = self.decided(rows, chunk, asked.row - first, asked.row)?;
        let labels = match asked.label {
            Some(label) => vec![label],
            None => most_telling(&self.ranking(&row, &block), &block.predicted[0]),
        };
        let place = chunk[asked.row - first] as usize;
        let explain = |label| {
            let mut explained = self.label(&row, &block, label, asked);
            self.add_evidence(&mut explained, &row, |part| {
                self.scorers[part].evidence(rows.features, place, label)
            });
            explained
        };
        Ok(Explanation {
            row: asked.row,
            protocol: Protocol::Honest,
            model: model_words(&self.card, asked.rule.as_ref()),
            signal: signal_words(&self.card).to_owned(),
            labels: labels.into_iter().map(explain).collect(),
        })
    }

    /// The row at `at` of a chunk, `number` among all, and what is decided about it.
    fn decided(&mut self, rows: Unlabelled, chunk: &[u32], at: usize, number: usize) -> Result<(Row, Block)> {
        let labels = self.card.labels;
        let parts = self.parts(Unlabelled { features: rows.features, rows: chunk })?;
        let span = at * labels..(at + 1) * labels;
        let own_scores = parts.tables.iter().map(|table| table[span.clone()].to_vec()).collect();
        let kept = parts.kept.iter().map(|kept| kept.as_ref().map(|kept| kept[at].clone())).collect();
        let all = self.joined(parts);
        let scores = all.scores[span].to_vec();
        let candidates = all.candidates.map(|candidates| candidates[at].clone());
        let predicted = match self.card.cuts.as_ref().map(Cuts::decision) {
            Some(Decision::Shares { .. }) => self.predicted_among_all(rows, number)?,
            _ => {
                let candidates = candidates.clone().map(|own| vec![own]);
                self.predicted(&Scored { scores: scores.clone(), candidates })?.concat()
            }
        };
        let block = Block { predicted: vec![predicted], ..self.block(number, scores) };
        Ok((Row { scores: own_scores, kept, candidates, together: rows.rows.len() }, block))
    }

    fn predicted_among_all(&mut self, rows: Unlabelled, number: usize) -> Result<Vec<u32>> {
        let mut predicted = Vec::new();
        self.decide(rows, &mut |block| {
            if let Some(own) = number.checked_sub(block.first).and_then(|at| block.predicted.get(at)) {
                predicted.clone_from(own);
            }
            Ok(())
        })?;
        Ok(predicted)
    }

    /// By how much each label exceeds its cut, or its score where the rule has no cuts.
    fn ranking(&self, row: &Row, block: &Block) -> Vec<f32> {
        let mut ranking: Vec<f32> = match block.margins(0) {
            Some(margins) => margins.collect(),
            None => block.row_scores(0).to_vec(),
        };
        let ruled_out = |label: u32| match self.card.cuts.as_ref().map(Cuts::decision) {
            Some(Decision::Ranks { unseen, .. }) => unseen.contains(&label),
            Some(Decision::Shares { shares }) => shares[label as usize] == 0.0,
            _ => false,
        };
        for (value, label) in ranking.iter_mut().zip(0..) {
            if !row.may_be_predicted(label) || ruled_out(label) {
                *value = f32::NEG_INFINITY;
            }
        }
        ranking
    }

    fn label(&self, row: &Row, block: &Block, label: u32, asked: &Asked) -> LabelExplanation {
        let at = label as usize;
        let decided = Decided {
            label,
            score: block.row_scores(0)[at],
            threshold: block.row_thresholds(0).map(|cuts| cuts[at]).filter(|cut| cut.is_finite()),
            probability: block.row_probabilities(0).get(at).copied(),
            predicted: block.predicted[0].binary_search(&label).is_ok(),
        };
        let scores: Vec<f32> = row.scores.iter().map(|scores| scores[at]).collect();
        let rule = asked.rule.as_ref();
        let mut explained = composite::explain(&self.card, rule, self.frequency(label), &scores, decided);
        if !row.may_be_predicted(label) {
            let note = "it is a candidate of no part in this row, so it is not predicted whatever it scores";
            explained.notes.push(note.to_owned());
        }
        explained.notes.extend(self.standing(row, block, label));
        explained
    }

    /// How many training rows have the label, where that is known.
    fn frequency(&self, label: u32) -> Option<u64> {
        match (&self.card.fusion, &self.train_labels) {
            (Some(fusion), _) => Some(fusion.counts[label as usize]),
            (None, Some(labels)) => {
                Some(labels.indices.iter().filter(|&&other| other == label).count() as u64)
            }
            (None, None) => None,
        }
    }

    /// Where a label stands under a rule that is not a cut per label.
    fn standing(&self, row: &Row, block: &Block, label: u32) -> Option<String> {
        match self.card.cuts.as_ref()?.decision() {
            Decision::PerLabel { .. } => None,
            Decision::Ranks { sure, cut, unseen } => {
                let scores = block.row_scores(0);
                let own = scores[label as usize];
                let ranked =
                    |other: &u32| unseen.binary_search(other).is_err() && row.may_be_predicted(*other);
                let before = |other: &u32| {
                    let score = scores[*other as usize];
                    score > own || (score == own && *other < label)
                };
                let rank = 1 + (0..scores.len() as u32).filter(ranked).filter(before).count();
                let next = cut.map(|cut| format!(", and the next one where it scores above {cut:.4}"));
                let next = next.unwrap_or_default();
                ranked(&label)
                    .then(|| format!("it ranks {rank}; the first {sure} labels of a row are predicted{next}"))
            }
            Decision::Shares { shares } => Some(format!(
                "it is predicted for the best {:.4} of the {} rows that are decided about together",
                shares[label as usize], row.together
            )),
        }
    }

    /// What the score of each part comes from, unless the part did not keep it.
    fn add_evidence(&self, explained: &mut LabelExplanation, row: &Row, of: impl Fn(usize) -> Evidence) {
        let label = explained.label;
        for (number, part) in self.card.parts.iter().enumerate() {
            let term = &mut explained.score_terms[number];
            match (&row.kept[number], part.keep) {
                (Some(kept), Some(keep)) if kept.binary_search(&label).is_err() => {
                    let name = term.part.as_deref().unwrap_or_default();
                    let rest = part.rest;
                    explained.notes.push(format!(
                        "{name} does not have it among the best {keep} labels of the row: it counts as {rest:.4}"
                    ));
                }
                _ => term.evidence = Some(self.with_labels(of(number), label)),
            }
        }
    }

    /// Says of training rows whether they have the label, where their model cannot.
    fn with_labels(&self, mut evidence: Evidence, label: u32) -> Evidence {
        let Some(labels) = &self.train_labels else { return evidence };
        for cause in &mut evidence.causes {
            if let Subject::TrainingRow { row } = cause.what
                && cause.has_label.is_none()
                && (row as usize) < labels.rows()
            {
                cause.has_label = Some(labels.row(row as usize).binary_search(&label).is_ok());
            }
        }
        evidence
    }
}
