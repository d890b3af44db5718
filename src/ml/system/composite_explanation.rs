//! Explanations of the decisions of a composite model.
//!
//! Rows are scored in the same chunks as for a prediction, so that the explained values are those of the prediction
//! to the bit.

use anyhow::Result;

use super::composite::{CompositeSystem, FusedScores, first_probabilities};
use super::explained_labels::labels_to_explain;
use super::{ExplainRequest, System};
use crate::data::examples::Unlabelled;
use crate::explanation::composite::{self, Decided, model_words, signal_words};
use crate::explanation::{CauseSubject, Evidence, Explanation, LabelExplanation};
use crate::metric::block::DecisionBlock;
use crate::metric::marked::Protocol;
use crate::scorer::{CAUSES, SCORE, rows_at_once};
use crate::threshold::cuts::{Cuts, Decision};

/// The scores of one row by each part, and the labels that may be predicted for it.
struct ExplainedRow {
    /// The scores by each part, and by the label ridge, as they enter the fusion.
    scores: Vec<Vec<f32>>,
    /// The candidates of each part; `None` if every label is one.
    kept: Vec<Option<Vec<u32>>>,
    /// The candidates of all parts together; `None` if every label is one.
    candidates: Option<Vec<u32>>,
    /// How many rows are decided about together.
    rows_together: usize,
}

impl ExplainedRow {
    fn may_be_predicted(&self, label: u32) -> bool {
        self.candidates.as_ref().is_none_or(|labels| labels.binary_search(&label).is_ok())
    }
}

impl CompositeSystem {
    /// Explains the decisions about the requested row.
    pub(super) fn explained(&mut self, rows: Unlabelled, request: &ExplainRequest) -> Result<Explanation> {
        self.check(rows)?;
        let size = rows_at_once(self.card.labels);
        let first = request.row / size * size;
        let chunk = &rows.rows[first..rows.rows.len().min(first + size)];
        let (row, block) = self.decided(rows, chunk, request.row - first, request.row)?;
        let labels = match request.label {
            Some(label) => vec![label],
            None => labels_to_explain(&self.ranking(&row, &block), &block.predicted[0]),
        };
        let data_row = chunk[request.row - first] as usize;
        let explain_label = |label| {
            let mut explained = self.explained_label(&row, &block, label, request);
            self.add_evidence(&mut explained, &row, |part| {
                self.scorers[part].evidence(rows.features, data_row, label)
            });
            if let (Some(first), Some(ridge)) = (&self.card.first_fusion, &self.label_ridge) {
                let score = |part: usize, label: u32| row.scores[part][label as usize];
                let probabilities = first_probabilities(first, row.candidates.as_deref(), score);
                let evidence = ridge.evidence(SCORE, &probabilities, label, CAUSES);
                explained.score_terms[self.card.parts.len()].evidence = Some(evidence);
            }
            explained
        };
        Ok(Explanation {
            row: request.row,
            protocol: Protocol::Honest,
            model: model_words(&self.card, request.rule.as_ref()),
            signal: signal_words(&self.card).to_owned(),
            labels: labels.into_iter().map(explain_label).collect(),
            notes: Vec::new(),
        })
    }

    /// Returns the row at index `at` of a chunk, which is row `number` of all, and the decision about it.
    fn decided(
        &mut self,
        rows: Unlabelled,
        chunk: &[u32],
        at: usize,
        number: usize,
    ) -> Result<(ExplainedRow, DecisionBlock)> {
        let labels = self.card.labels;
        let parts = self.part_scores(Unlabelled { features: rows.features, rows: chunk })?;
        let span = at * labels..(at + 1) * labels;
        let own_scores = parts.tables.iter().map(|table| table[span.clone()].to_vec()).collect();
        let kept = parts.kept.iter().map(|kept| kept.as_ref().map(|kept| kept[at].clone())).collect();
        let all = self.fuse(parts);
        let scores = all.scores[span].to_vec();
        let candidates = all.candidates.map(|candidates| candidates[at].clone());
        let predicted = match self.card.cuts.as_ref().map(Cuts::decision) {
            Some(Decision::Shares { .. }) => self.predicted_among_all(rows, number)?,
            _ => {
                let candidates = candidates.clone().map(|own| vec![own]);
                self.predicted(&FusedScores { scores: scores.clone(), candidates })?.concat()
            }
        };
        let block = DecisionBlock { predicted: vec![predicted], ..self.block(number, scores) };
        Ok((ExplainedRow { scores: own_scores, kept, candidates, rows_together: rows.rows.len() }, block))
    }

    /// Returns the predicted labels of a row under a rule that decides about all rows together.
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

    /// Returns by how much each label exceeds its cut, or its score if the rule has no cuts. A label that cannot be
    /// predicted gets minus infinity.
    fn ranking(&self, row: &ExplainedRow, block: &DecisionBlock) -> Vec<f32> {
        let mut ranking: Vec<f32> = match block.margins(0) {
            Some(margins) => margins.collect(),
            None => block.row_scores(0).to_vec(),
        };
        let ruled_out = |label: u32| match self.card.cuts.as_ref().map(Cuts::decision) {
            Some(Decision::Ranks { unseen, .. }) => unseen.contains(&label),
            Some(Decision::Shares { shares }) => shares[label as usize] == 0.0,
            Some(Decision::RankInScore { zones, .. }) => zones[label as usize].is_none(),
            _ => false,
        };
        for (value, label) in ranking.iter_mut().zip(0..) {
            if !row.may_be_predicted(label) || ruled_out(label) {
                *value = f32::NEG_INFINITY;
            }
        }
        ranking
    }

    /// Explains one label of a row, without the evidence of the parts.
    fn explained_label(
        &self,
        row: &ExplainedRow,
        block: &DecisionBlock,
        label: u32,
        request: &ExplainRequest,
    ) -> LabelExplanation {
        let at = label as usize;
        let decided = Decided {
            label,
            score: block.row_scores(0)[at],
            threshold: block.row_thresholds(0).map(|cuts| cuts[at]).filter(|cut| cut.is_finite()),
            probability: block.row_probabilities(0).get(at).copied(),
            predicted: block.predicted[0].binary_search(&label).is_ok(),
        };
        let scores: Vec<f32> = row.scores.iter().map(|scores| scores[at]).collect();
        let rule = request.rule.as_ref();
        let mut explained = composite::explain(&self.card, rule, self.frequency(label), &scores, decided);
        if !row.may_be_predicted(label) {
            let note = "no part has it as a candidate in this row, so it is not predicted whatever its score";
            explained.notes.push(note.to_owned());
        }
        explained.notes.extend(self.rule_note(row, block, label));
        explained
    }

    /// Returns the number of training rows that have the label, if it is known.
    fn frequency(&self, label: u32) -> Option<u64> {
        match (&self.card.fusion, &self.train_labels) {
            (Some(fusion), _) => Some(fusion.counts[label as usize]),
            (None, Some(labels)) => {
                Some(labels.indices.iter().filter(|&&other| other == label).count() as u64)
            }
            (None, None) => None,
        }
    }

    /// Describes how a label fares under a rule that is not a cut per label.
    fn rule_note(&self, row: &ExplainedRow, block: &DecisionBlock, label: u32) -> Option<String> {
        match self.card.cuts.as_ref()?.decision() {
            Decision::PerLabel { .. } => None,
            Decision::Ranks { sure, cut, unseen } => {
                let next = cut.map(|cut| format!(", and the next one if its score is above {cut:.4}"));
                let next = next.unwrap_or_default();
                rank(row, block, label, unseen).map(|rank| {
                    format!("its rank is {rank}; the first {sure} labels of a row are predicted{next}")
                })
            }
            Decision::RankInScore { zones, k, unseen } => {
                let (zone, rank) = (zones[label as usize]?, rank(row, block, label, unseen)?);
                Some(format!(
                    "its rank is {rank}; it is predicted above {:.4}, and above {:.4} if it is among the first {k} labels of the row",
                    zone.top, zone.bottom
                ))
            }
            Decision::Shares { shares } => Some(format!(
                "it is predicted for the fraction {:.4} of the {} rows, decided about together, where its score is highest",
                shares[label as usize], row.rows_together
            )),
        }
    }

    /// Adds the evidence for the score of each part, or a note if the label is not a candidate of that part.
    fn add_evidence(
        &self,
        explained: &mut LabelExplanation,
        row: &ExplainedRow,
        of: impl Fn(usize) -> Evidence,
    ) {
        let label = explained.label;
        for (number, part) in self.card.parts.iter().enumerate() {
            let term = &mut explained.score_terms[number];
            match (&row.kept[number], part.keep) {
                (Some(kept), Some(keep)) if kept.binary_search(&label).is_err() => {
                    let name = term.part.as_deref().unwrap_or_default();
                    let rest = part.rest;
                    explained.notes.push(format!(
                        "{name} does not have it among the best {keep} labels of the row: its score counts as {rest:.4}"
                    ));
                }
                _ => term.evidence = Some(self.mark_labelled_rows(of(number), label)),
            }
        }
    }

    /// Marks which training rows in the evidence have the label, for parts that do not keep labels.
    fn mark_labelled_rows(&self, mut evidence: Evidence, label: u32) -> Evidence {
        let Some(labels) = &self.train_labels else { return evidence };
        for cause in &mut evidence.causes {
            if let CauseSubject::TrainingRow { row, .. } = cause.what
                && cause.has_label.is_none()
                && (row as usize) < labels.rows()
            {
                cause.has_label = Some(labels.row(row as usize).binary_search(&label).is_ok());
            }
        }
        evidence
    }
}

/// Returns the rank of a label in a row, from 1; `None` if it has none.
fn rank(row: &ExplainedRow, block: &DecisionBlock, label: u32, unseen: &[u32]) -> Option<usize> {
    let scores = block.row_scores(0);
    let own = scores[label as usize];
    let ranked = |other: &u32| unseen.binary_search(other).is_err() && row.may_be_predicted(*other);
    let ranks_before = |other: &u32| {
        let score = scores[*other as usize];
        score > own || (score == own && *other < label)
    };
    ranked(&label).then(|| 1 + (0..scores.len() as u32).filter(ranked).filter(ranks_before).count())
}
