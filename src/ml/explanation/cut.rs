//! Explains a cut by the rule that it was fitted with.

use serde::{Deserialize, Serialize};

use super::ExplanationTerm;
use crate::threshold::rule::{Objective, Rule};

/// The parameters of the stage `threshold`. A stored model has the cuts, but not the rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutRule {
    pub rule: Rule,
    pub objective: Objective,
}

impl CutRule {
    /// Returns the rule as a phrase: "soft cuts, prior 50, for macro-F1".
    pub fn words(&self) -> String {
        let rule = match self.rule {
            Rule::Fixed { cut } => return format!("one fixed cut of {cut}"),
            Rule::Global {} => "one global cut".to_owned(),
            Rule::Scut {} => "SCut".to_owned(),
            Rule::ScutFbr { fbr, .. } => format!("SCutFBR, fbr {fbr}"),
            Rule::Soft { prior, .. } => format!("soft cuts, prior {prior}"),
            Rule::Shrunk { kappa } => format!("SCut shrunk to the global cut, kappa {kappa}"),
            Rule::Rcut { k: Some(k), .. } => return format!("RCut, the first {k} labels of a row"),
            Rule::Rcut { k: None, .. } => "RCut".to_owned(),
            Rule::Pcut { .. } => "PCut".to_owned(),
            Rule::Rtcut { .. } => "RTCut".to_owned(),
            Rule::MicroMacro {} => return "the micro-macro rule".to_owned(),
            Rule::Rinscut { .. } => "RinSCut".to_owned(),
            Rule::PlugIn { .. } => "plug-in cuts".to_owned(),
            Rule::Online { epochs, .. } => format!("online cuts, epochs {epochs}"),
        };
        format!("{rule}, for {}", self.objective.words())
    }

    /// Returns the cut of a label that `frequency` training rows have.
    fn term(&self, frequency: Option<f64>, cut: f64) -> ExplanationTerm {
        let mut inputs: Vec<(&str, f64)> = frequency.map(|f| ("f", f)).into_iter().collect();
        let formula = match self.rule {
            Rule::Fixed { .. } => return ExplanationTerm::new("fixed cut", &[], cut),
            Rule::Global {} => return ExplanationTerm::new("global cut", &[], cut),
            Rule::Scut {} if matches!(self.objective, Objective::Macro | Objective::Micro) => {
                "SCut, best F1 of the label"
            }
            Rule::Scut {} => "SCut",
            Rule::ScutFbr { fbr, .. } => {
                inputs.push(("fbr", fbr));
                "SCutFBR"
            }
            Rule::Soft { prior, .. } => {
                inputs.push(("prior", prior));
                let rho = frequency.map(|f| prior / (prior + f)).filter(|rho| rho.is_finite());
                inputs.extend(rho.map(|rho| ("rho", rho)));
                "soft cut, rho = prior / (prior + f)"
            }
            Rule::Shrunk { kappa } => {
                inputs.push(("kappa", kappa));
                "(f * own cut + kappa * global cut) / (f + kappa)"
            }
            Rule::PlugIn { .. } => "plug-in cut, half of the F1 that is promised",
            Rule::Online { .. } => "online cut, a / b",
            Rule::MicroMacro {} => "micro-macro cut",
            Rule::Rcut { .. } | Rule::Pcut { .. } | Rule::Rtcut { .. } | Rule::Rinscut { .. } => "cut",
        };
        ExplanationTerm::new(formula, &inputs, cut)
    }
}

/// Returns the cut of a label as a single term.
pub fn cut_term(rule: Option<&CutRule>, frequency: Option<f64>, cut: f64) -> ExplanationTerm {
    match rule {
        Some(rule) => rule.term(frequency, cut),
        None => {
            let inputs: Vec<(&str, f64)> = frequency.map(|f| ("f", f)).into_iter().collect();
            ExplanationTerm::new("fitted cut", &inputs, cut)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(rule: serde_json::Value) -> CutRule {
        CutRule { rule: serde_json::from_value(rule).unwrap(), objective: Objective::Macro }
    }

    #[test]
    fn a_rule_is_described_with_its_parameters() {
        let words = |value| rule(value).words();
        assert_eq!(words(json!({"kind": "soft"})), "soft cuts, prior 50, for macro-F1");
        assert_eq!(words(json!({"kind": "fixed", "cut": 0.5})), "one fixed cut of 0.5");
        assert_eq!(words(json!({"kind": "rcut", "k": 3})), "RCut, the first 3 labels of a row");
    }

    #[test]
    fn a_soft_cut_shows_the_weight_of_the_scores() {
        let term = cut_term(Some(&rule(json!({"kind": "soft", "prior": 30}))), Some(10.0), -0.5);
        let inputs: Vec<(&str, f64)> =
            term.inputs.iter().map(|input| (input.name.as_str(), input.value)).collect();
        assert_eq!(inputs, [("f", 10.0), ("prior", 30.0), ("rho", 30.0 / 40.0)]);
        assert_eq!(term.value, -0.5);
    }
}
