//! [`Audit`], the artifact `audit`: whether the decisions of a model depend on labels that they must not see.
//!
//! The sentences of the findings are part of the artifact: changing one changes stored bytes and needs
//! another version of the `audit` stage.

use std::fmt::Write as _;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::block::{DecisionBlock, Thresholds};
use super::marked::Protocol;
use crate::data::duplicates::Duplicates;
use crate::data::split_data::PartName;
use crate::softplus::softplus;

/// The result of an `audit` stage, stored as one JSON file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// True if no decision depends on the labels of the evaluated rows and the epoch was not chosen by means of them.
    /// `None` if that cannot be tested, because there are only predictions and no model.
    pub passed: Option<bool>,
    pub protocol: Protocol,
    pub part: PartName,
    pub rows: u64,
    pub labels: u64,
    /// The metrics of the unchanged decisions.
    pub as_is: AuditValues,
    /// The same decisions made again with changed labels or features.
    pub trials: Vec<AuditTrial>,
    /// Evaluated rows that are also training rows, if they were looked for.
    pub duplicates: Option<Duplicates>,
    pub coverage: Coverage,
    /// Absent if thresholds are not part of the loss.
    pub loss: Option<LossFloor>,
    pub selection: EpochSelection,
    /// What the decisions alone show, if another program made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictions: Option<PredictionChecks>,
    /// In order of weight, each a sentence with its values.
    pub findings: Vec<AuditFinding>,
}

/// Signs that the decisions of another program depend on more than the features of a row and the training rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionChecks {
    /// Predicted entries with a label that no training row has.
    pub predicted_but_unlearnt: u64,
    /// Those of `predicted_but_unlearnt` that are true.
    pub right_but_unlearnt: u64,
    /// Evaluated rows whose features equal those of an earlier evaluated row.
    pub rows_with_a_twin: u64,
    /// Those of `rows_with_a_twin` that have other decisions than the first row with these features.
    pub decided_unlike_twin: u64,
}

/// The metrics of one set of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditValues {
    pub macro_f1: f64,
    pub micro_f1: f64,
    /// Number of (row, label) entries that are predicted.
    pub predicted: u64,
}

/// What a trial changes before the decisions are made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditChange {
    /// Every evaluated row gets the labels of another one.
    LabelsPermuted,
    /// Every evaluated row loses all its labels.
    LabelsBlanked,
    /// Every evaluated row loses all its features.
    FeaturesBlanked,
}

impl AuditChange {
    /// Returns whether labels are changed, rather than features.
    pub fn of_labels(self) -> bool {
        self != Self::FeaturesBlanked
    }

    /// Returns the change as a phrase.
    pub fn words(self) -> &'static str {
        match self {
            Self::LabelsPermuted => "labels permuted among the rows",
            Self::LabelsBlanked => "labels blanked",
            Self::FeaturesBlanked => "features blanked",
        }
    }
}

/// The decisions after one change, compared with the unchanged ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditTrial {
    pub change: AuditChange,
    /// Number of the rows x labels decisions that differ.
    pub changed_decisions: u64,
    pub changed_rows: u64,
    /// The metrics against the true labels.
    pub figures: AuditValues,
    /// Macro-F1 against the changed labels, if labels were changed.
    pub macro_f1_of_given: Option<f64>,
}

/// How many labels occur in which rows, which bounds macro-F1 over all labels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    pub labels: u64,
    pub absent_from_train: u64,
    /// Labels in no evaluated row: each counts 0 in macro-F1, whatever is predicted.
    pub absent_from_evaluated: u64,
    /// Labels in some evaluated row but in no training row, which cannot be learnt.
    pub evaluated_but_unlearnt: u64,
    /// The largest possible macro-F1: (labels - absent_from_evaluated) / labels.
    pub cap: f64,
    /// The same without the labels that cannot be learnt.
    pub learnable_cap: f64,
}

/// The cross-entropy compared with the one of scores that carry no information.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossFloor {
    pub bce: f64,
    /// The same with every score 0, the mean of a row of standardised scores.
    pub bce_without_scores: f64,
    pub mean_threshold: f64,
}

/// For how many rows the terms of a loss are held in memory.
const ROWS_AT_ONCE: usize = 16;

/// The sums behind a [`LossFloor`].
#[derive(Debug, Default)]
pub struct LossSums {
    entries: u64,
    bce: f64,
    without_scores: f64,
    thresholds: f64,
}

impl LossSums {
    /// Adds the rows of a block. `truth` has the true labels of each row, ascending. Cuts that a later stage chose are not
    /// part of a loss, so a block without a threshold for each entry adds nothing.
    ///
    /// The terms are computed on all threads, and added in the order of the entries.
    pub fn add(&mut self, block: &DecisionBlock, truth: &[&[u32]]) {
        let Thresholds::PerEntry(thresholds) = &block.thresholds else { return };
        let labels = block.labels;
        let entry = |at: usize| (f64::from(block.scores[at]), f64::from(thresholds[at]));
        let terms = |at: usize| {
            let (score, threshold) = entry(at);
            [softplus(score - threshold), softplus(-threshold), threshold]
        };
        self.entries += (block.rows * labels) as u64;
        for first in (0..block.rows).step_by(ROWS_AT_ONCE) {
            let rows = first..block.rows.min(first + ROWS_AT_ONCE);
            let terms: Vec<_> = (rows.start * labels..rows.end * labels).into_par_iter().map(terms).collect();
            for (row, terms) in rows.zip(terms.chunks(labels.max(1))) {
                for [bce, without_scores, threshold] in terms {
                    self.bce += bce;
                    self.without_scores += without_scores;
                    self.thresholds += threshold;
                }
                for &label in truth[row] {
                    // softplus(-a) is softplus(a) - a.
                    let (score, threshold) = entry(row * labels + label as usize);
                    self.bce -= score - threshold;
                    self.without_scores += threshold;
                }
            }
        }
    }

    /// Returns the means, or `None` without rows or if a score or threshold was not finite.
    pub fn floor(&self) -> Option<LossFloor> {
        let mean = |sum: f64| Some(sum / self.entries as f64).filter(|mean| mean.is_finite());
        Some(LossFloor {
            bce: mean(self.bce)?,
            bce_without_scores: mean(self.without_scores)?,
            mean_threshold: mean(self.thresholds)?,
        })
    }
}

/// How the epoch of the model was chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochSelection {
    /// False if the epoch may have been chosen by validation, and no history was given.
    pub known: bool,
    /// The epoch with the best metric on the validation rows was chosen.
    pub by_validation: bool,
    /// The metric depended on the true labels of the validation rows.
    pub by_oracle: bool,
    /// The validation rows are the evaluated rows.
    pub on_evaluated_rows: bool,
    /// Number of evaluated rows that are also validation rows, if known.
    pub evaluated_in_validation: Option<u64>,
}

/// One sentence of an audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditFinding {
    pub weight: FindingSeverity,
    pub text: String,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingSeverity {
    /// The metrics are not valid.
    Leak,
    /// The metrics are too good, or bounded, to a stated degree.
    Caution,
    /// Something that this audit could not test, with the reason.
    NotChecked,
    Note,
}

/// Everything that an audit has observed. [`AuditObservations::judge`] adds the findings.
pub struct AuditObservations {
    pub protocol: Protocol,
    pub part: PartName,
    pub rows: u64,
    pub as_is: AuditValues,
    pub trials: Vec<AuditTrial>,
    pub duplicates: Option<Duplicates>,
    pub coverage: Coverage,
    pub loss: Option<LossFloor>,
    pub selection: EpochSelection,
    pub predictions: Option<PredictionChecks>,
}

impl Coverage {
    /// Computes the coverage from the number of training rows and of evaluated rows with each label.
    pub fn of(train: &[u32], evaluated: impl Iterator<Item = u32>) -> Self {
        let labels = train.len() as u64;
        let (mut absent_from_evaluated, mut evaluated_but_unlearnt) = (0, 0);
        for (&train, evaluated) in train.iter().zip(evaluated) {
            absent_from_evaluated += u64::from(evaluated == 0);
            evaluated_but_unlearnt += u64::from(evaluated > 0 && train == 0);
        }
        let absent_from_train = train.iter().filter(|count| **count == 0).count() as u64;
        let share = |count: u64| if labels == 0 { 0.0 } else { count as f64 / labels as f64 };
        let cap = share(labels - absent_from_evaluated);
        let learnable_cap = share(labels - absent_from_evaluated - evaluated_but_unlearnt);
        Self { labels, absent_from_train, absent_from_evaluated, evaluated_but_unlearnt, cap, learnable_cap }
    }
}

impl AuditObservations {
    /// Draws the conclusions.
    pub fn judge(self) -> Audit {
        let mut findings = Vec::new();
        let leaks = self.leaks(&mut findings);
        self.cautions(&mut findings);
        findings.sort_by_key(|finding: &AuditFinding| finding.weight);
        Audit {
            passed: self.predictions.is_none().then_some(!leaks && !self.selection.on_evaluated_rows),
            protocol: self.protocol,
            part: self.part,
            rows: self.rows,
            labels: self.coverage.labels,
            as_is: self.as_is,
            trials: self.trials,
            duplicates: self.duplicates,
            coverage: self.coverage,
            loss: self.loss,
            selection: self.selection,
            predictions: self.predictions,
            findings,
        }
    }

    /// Returns whether any decision depends on the labels of the evaluated rows, and adds the findings about it.
    fn leaks(&self, findings: &mut Vec<AuditFinding>) -> bool {
        let mut say = |text: String| findings.push(AuditFinding { weight: FindingSeverity::Leak, text });
        let mut leaks = false;
        for trial in self.trials.iter().filter(|trial| trial.change.of_labels()) {
            if trial.changed_decisions == 0 {
                continue;
            }
            leaks = true;
            let (changed, rows, all) = (trial.changed_decisions, trial.changed_rows, self.rows);
            let mut text = format!(
                "with the {}, {changed} decisions in {rows} of {all} rows change: the predictions read the labels of the \
                 rows that they are judged by",
                trial.change.words()
            );
            if let Some(given) =
                trial.macro_f1_of_given.filter(|_| trial.change == AuditChange::LabelsPermuted)
            {
                let _ = write!(
                    text,
                    "; macro-F1 is {given:.3} against the wrong labels that were handed in, and {:.3} against the true ones",
                    trial.figures.macro_f1
                );
            }
            say(text);
        }
        let blind = self.trials.iter().find(|trial| trial.change == AuditChange::FeaturesBlanked);
        if let Some(trial) = blind.filter(|_| leaks) {
            let (blind, as_is) = (trial.figures.macro_f1, self.as_is.macro_f1);
            say(if blind >= 0.5 * as_is {
                format!(
                    "with every feature blanked, macro-F1 is still {blind:.2} (as it is: {as_is:.2}): the thresholds \
                     read the answers"
                )
            } else {
                format!("with every feature blanked, macro-F1 is {blind:.2} (as it is: {as_is:.2})")
            });
        }
        leaks
    }

    /// Adds the findings that are not about decisions that depend on labels.
    fn cautions(&self, findings: &mut Vec<AuditFinding>) {
        let mut say = |weight, text: String| findings.push(AuditFinding { weight, text });
        if self.selection.on_evaluated_rows {
            say(
                FindingSeverity::Leak,
                "the epoch was chosen by its values on the rows that are evaluated here".into(),
            );
        }
        if self.selection.by_oracle {
            say(
                FindingSeverity::Caution,
                "epochs were compared by values that the true labels of the validation rows had entered"
                    .into(),
            );
        }
        if let Some(shared) = self.selection.evaluated_in_validation.filter(|shared| *shared > 0) {
            let text =
                format!("{shared} of {} evaluated rows have the features of a validation row", self.rows);
            say(FindingSeverity::Caution, text);
        }
        if let Some(duplicates) = self.duplicates.filter(|duplicates| duplicates.in_train > 0) {
            say(
                FindingSeverity::Caution,
                format!(
                    "{} of {} evaluated rows have the features of a training row, {} of them its labels too",
                    duplicates.in_train, self.rows, duplicates.with_equal_labels
                ),
            );
        }
        let coverage = &self.coverage;
        if coverage.absent_from_evaluated > 0 || coverage.evaluated_but_unlearnt > 0 {
            let unlearnt = match coverage.evaluated_but_unlearnt {
                0 => String::new(),
                labels => format!(", and {labels} more in no training row"),
            };
            let without_luck = match coverage.evaluated_but_unlearnt {
                0 => String::new(),
                _ => format!(", and {:.3} without luck", coverage.learnable_cap),
            };
            let text = format!(
                "{} of {} labels are in no evaluated row{unlearnt}: macro-F1 over all labels can reach {:.3} at most{without_luck}",
                coverage.absent_from_evaluated, coverage.labels, coverage.cap
            );
            say(FindingSeverity::Caution, text);
        }
        let near =
            |loss: &LossFloor| (loss.bce - loss.bce_without_scores).abs() <= 0.1 * loss.bce_without_scores;
        if let Some(LossFloor { bce, bce_without_scores, mean_threshold }) = self.loss.filter(near) {
            say(
                FindingSeverity::Caution,
                format!(
                    "the cross-entropy is {bce:.4}, and would be {bce_without_scores:.4} if every score were 0: it tells where \
                     the thresholds lie ({mean_threshold:.3} on average), not how good the predictions are"
                ),
            );
        }
        if let Some(checks) = &self.predictions {
            checks.findings(&mut say);
        } else if !self.selection.known {
            say(
                FindingSeverity::Note,
                "no training history was handed in: how the epoch was chosen is not known".into(),
            );
        } else if self.selection.by_validation && !self.selection.on_evaluated_rows {
            say(
                FindingSeverity::Note,
                "the epoch was chosen on validation rows, which are not the evaluated ones".into(),
            );
        }
    }
}

impl PredictionChecks {
    fn findings(&self, say: &mut impl FnMut(FindingSeverity, String)) {
        if self.right_but_unlearnt > 0 {
            let text = format!(
                "{} predicted entries have a label that no training row has, and {} of them are right: the program knows more \
                 than the training rows",
                self.predicted_but_unlearnt, self.right_but_unlearnt
            );
            say(FindingSeverity::Caution, text);
        }
        if self.decided_unlike_twin > 0 {
            let text = format!(
                "{} of {} evaluated rows with the features of an earlier one have other decisions than it: decisions depend on \
                 more than the features of a row",
                self.decided_unlike_twin, self.rows_with_a_twin
            );
            say(FindingSeverity::Caution, text);
        }
        for text in [
            "whether decisions depend on the labels of the evaluated rows: only a model can decide again with changed labels",
            "how the program was trained and tuned, and on which rows",
        ] {
            say(FindingSeverity::NotChecked, text.to_owned());
        }
    }
}

impl Audit {
    /// Returns the trial with this change.
    pub fn trial(&self, change: AuditChange) -> Option<&AuditTrial> {
        self.trials.iter().find(|trial| trial.change == change)
    }

    /// Returns the audit as a Markdown page.
    pub fn page(&self) -> String {
        let mut page = String::new();
        let protocol = match self.protocol {
            Protocol::Honest => "honest",
            Protocol::Oracle => "oracle",
        };
        let verdict = match self.passed {
            Some(true) => "passed",
            Some(false) => "FAILED",
            None => "not checked for leaks",
        };
        let _ = writeln!(page, "# Audit: {verdict}\n");
        let _ = writeln!(
            page,
            "Protocol {protocol}; {} rows of the {} part, {} labels.\n",
            self.rows,
            self.part.name(),
            self.labels
        );
        for finding in &self.findings {
            let mark = match finding.weight {
                FindingSeverity::Leak => "**Leak.** ",
                FindingSeverity::Caution => "Caution: ",
                FindingSeverity::NotChecked => "Not checked: ",
                FindingSeverity::Note => "",
            };
            let _ = writeln!(page, "- {mark}{}.", capitalised(&finding.text, mark.is_empty()));
        }
        let _ = writeln!(
            page,
            "\n| what was changed | decisions changed | rows changed | macro-F1 | micro-F1 | macro-F1 of the given labels |"
        );
        let _ = writeln!(page, "|---|--:|--:|--:|--:|--:|");
        let both_f1 = |values: &AuditValues| format!("{:.4} | {:.4}", values.macro_f1, values.micro_f1);
        let _ = writeln!(page, "| nothing | | | {} | |", both_f1(&self.as_is));
        for trial in &self.trials {
            let given = trial.macro_f1_of_given.map(|given| format!("{given:.4}")).unwrap_or_default();
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {given} |",
                trial.change.words(),
                trial.changed_decisions,
                trial.changed_rows,
                both_f1(&trial.figures)
            );
        }
        page.push_str(
            "\nMacro-F1 is over all labels and against the true labels, unless the column says otherwise.\n",
        );
        page
    }
}

/// Returns the text with a capital first letter, if wanted.
pub fn capitalised(text: &str, wanted: bool) -> String {
    let mut letters = text.chars();
    match letters.next().filter(|_| wanted) {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(macro_f1: f64) -> AuditValues {
        AuditValues { macro_f1, micro_f1: 0.5, predicted: 10 }
    }

    fn trial(change: AuditChange, changed: u64, macro_f1: f64) -> AuditTrial {
        let given = change.of_labels().then_some(0.6);
        AuditTrial {
            change,
            changed_decisions: changed,
            changed_rows: changed.min(4),
            figures: values(macro_f1),
            macro_f1_of_given: given,
        }
    }

    fn observed(changed: u64) -> AuditObservations {
        AuditObservations {
            protocol: if changed > 0 { Protocol::Oracle } else { Protocol::Honest },
            part: PartName::Test,
            rows: 4,
            as_is: values(0.61),
            trials: vec![
                trial(AuditChange::LabelsPermuted, changed, 0.01),
                trial(AuditChange::LabelsBlanked, changed, 0.0),
                trial(AuditChange::FeaturesBlanked, 9, 0.65),
            ],
            duplicates: None,
            coverage: Coverage::of(&[3, 0, 0, 8], [1, 2, 0, 1].into_iter()),
            loss: None,
            selection: EpochSelection::default(),
            predictions: None,
        }
    }

    #[test]
    fn a_leak_is_reported_with_its_values() {
        let audit = observed(7).judge();
        assert_eq!(audit.passed, Some(false));
        let page = audit.page();
        assert!(page.contains("with every feature blanked, macro-F1 is still 0.65"), "{page}");
        assert!(page.contains("7 decisions in 4 of 4 rows change"), "{page}");
        assert_eq!(audit.findings[0].weight, FindingSeverity::Leak);
    }

    #[test]
    fn decisions_that_depend_on_features_only_are_no_leak() {
        let audit = observed(0).judge();
        assert_eq!(audit.passed, Some(true), "{audit:?}");
        assert!(audit.findings.iter().all(|finding| finding.weight != FindingSeverity::Leak));
    }

    #[test]
    fn an_epoch_chosen_on_the_evaluated_rows_does_not_pass() {
        let selection = EpochSelection {
            known: true,
            by_validation: true,
            on_evaluated_rows: true,
            ..EpochSelection::default()
        };
        let audit = AuditObservations { selection, ..observed(0) }.judge();
        assert_eq!(audit.passed, Some(false));
    }

    fn block(scores: Vec<f32>, thresholds: Vec<f32>) -> DecisionBlock {
        let labels = scores.len();
        let thresholds = Thresholds::PerEntry(thresholds);
        DecisionBlock { rows: 1, labels, scores, thresholds, ..DecisionBlock::default() }
    }

    #[test]
    fn the_sums_of_a_loss_have_the_same_bits_for_any_number_of_threads() {
        let (rows, labels) = (40, 7);
        let value = |at: usize| (at as f32 * 0.37).sin() * 3.0;
        let block = DecisionBlock {
            rows,
            labels,
            scores: (0..rows * labels).map(value).collect(),
            thresholds: Thresholds::PerEntry((0..rows * labels).map(|at| value(at + 1000)).collect()),
            ..DecisionBlock::default()
        };
        let truth: Vec<&[u32]> = (0..rows).map(|row| if row % 2 == 0 { &[1, 4][..] } else { &[] }).collect();
        let mut one_by_one = [0.0; 3];
        for (row, truth) in truth.iter().enumerate() {
            let (scores, thresholds) = (block.row_scores(row), block.row_thresholds(row).unwrap());
            for (&score, &threshold) in scores.iter().zip(thresholds) {
                let (score, threshold) = (f64::from(score), f64::from(threshold));
                one_by_one[0] += softplus(score - threshold);
                one_by_one[1] += softplus(-threshold);
                one_by_one[2] += threshold;
            }
            for label in truth.iter().map(|&label| label as usize) {
                one_by_one[0] -= f64::from(scores[label]) - f64::from(thresholds[label]);
                one_by_one[1] += f64::from(thresholds[label]);
            }
        }
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut sums = LossSums::default();
            pool.install(|| sums.add(&block, &truth));
            assert_eq!([sums.bce, sums.without_scores, sums.thresholds], one_by_one);
        }
    }

    #[test]
    fn a_loss_that_depends_on_the_thresholds_alone_is_a_caution() {
        let mut sums = LossSums::default();
        sums.add(&block(vec![0.0; 100], vec![1.0; 100]), &[&[]]);
        sums.add(&block(vec![0.1, -0.1], vec![1.0, 1.0]), &[&[0]]);
        let loss = sums.floor().unwrap();
        let expected = (101.0 * softplus(-1.0) + softplus(1.0)) / 102.0;
        assert!((loss.bce_without_scores - expected).abs() < 1e-12, "{loss:?}");
        let expected = (100.0 * softplus(-1.0) + softplus(0.9) + softplus(-1.1)) / 102.0;
        assert!((loss.bce - expected).abs() < 1e-7, "{loss:?}");
        let page = AuditObservations { loss: Some(loss), ..observed(0) }.judge().page();
        assert!(page.contains("would be 0.3231 if every score were 0"), "{page}");
        let learnt = LossFloor { bce: 0.1, ..loss };
        assert!(
            !AuditObservations { loss: Some(learnt), ..observed(0) }
                .judge()
                .page()
                .contains("every score were 0")
        );
    }

    #[test]
    fn absent_labels_bound_macro_f1() {
        let coverage = observed(0).coverage;
        assert_eq!((coverage.absent_from_train, coverage.absent_from_evaluated), (2, 1));
        assert_eq!((coverage.evaluated_but_unlearnt, coverage.cap, coverage.learnable_cap), (1, 0.75, 0.5));
    }
}
