//! `plot`: figures of trainings and evaluations, as SVG and PDF, with the numbers behind them as CSV.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::dataset::DATASET;
use super::evaluate::{CURVES, EVALUATION};
use super::train::HISTORY;
use pipe_core::issue::Issue;
use pipe_core::kind::{ArtifactType, AxisUse, AxisUses, FILE, InputDecl, OutputDecl, Program, SourceDecl};
use pipe_core::reference::StageRef;
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::data::stats::column_counts;
use pipe_ml::history::History;
use pipe_ml::metric::curves::Curves;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::record::Record;
use pipe_report::figure::kind::{FigureKind, Source};
use pipe_report::figure::naming::Axes;
use pipe_report::figure::{Figure, FigureInputs};

/// The artifact: an SVG image.
pub const SVG: ArtifactType = "svg";
/// The artifact: a PDF of one page.
pub const PDF: ArtifactType = "pdf";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Trainings: `["train[*]"]`.
    #[serde(default)]
    pub history: Vec<StageRef>,
    /// Evaluations: `["eval[*]"]`.
    #[serde(default)]
    pub eval: Vec<StageRef>,
    pub data: Option<StageRef>,
    pub figures: Vec<FigureKind>,
    /// The axis whose values are runs of the same: means are taken over it, and deviations shown.
    #[serde(default = "seed")]
    pub mean_over: String,
    /// What to call values of axes in the figures: `{ knn-only: KNN only }`.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
}

fn seed() -> String {
    "seed".to_owned()
}

/// Where several stages feed one slot, this axis tells them apart.
const STAGE_AXIS: &str = "stage";

/// The slot of a source, and the parameter that fills it.
fn slot(source: Source) -> (&'static str, &'static str) {
    match source {
        Source::History => ("history", "history"),
        Source::Evaluation => ("eval", "eval"),
        Source::Curves => ("curves", "eval"),
        Source::Data => ("data", "data"),
    }
}

impl Plot {
    /// A source that no figure asks for is no input: it could only cause reruns.
    fn asks_for(&self, source: Source) -> bool {
        self.figures.iter().any(|figure| figure.source() == source)
    }

    fn references(&self, source: Source) -> Vec<StageRef> {
        match source {
            Source::History => self.history.clone(),
            Source::Evaluation | Source::Curves => self.eval.clone(),
            Source::Data => self.data.iter().cloned().collect(),
        }
    }
}

const SOURCES: [(Source, ArtifactType); 4] = [
    (Source::History, HISTORY),
    (Source::Evaluation, EVALUATION),
    (Source::Curves, CURVES),
    (Source::Data, DATASET),
];

impl StageKind for Plot {
    const NAME: &'static str = "plot";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str = "Draws figures for a paper: SVG, PDF, and CSV with their data";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        let input = |(source, accepts)| {
            let references = self.references(source);
            let from = match (source, references.first()) {
                (_, None) => return None,
                (Source::Data, Some(data)) => SourceDecl::One(data.clone()),
                _ => SourceDecl::Many(references),
            };
            let (slot, parameter) = slot(source);
            let input = InputDecl::new(slot, from, accepts).written_in(parameter);
            self.asks_for(source).then_some(input)
        };
        SOURCES.into_iter().filter_map(input).collect()
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        let of = |figure: &FigureKind| {
            let output = |ending: &str, artifact| OutputDecl {
                name: format!("{}.{ending}", figure.name()),
                artifact,
                file_name: format!("{}.{ending}", figure.file_stem()),
            };
            [output("svg", SVG), output("pdf", PDF), output("csv", FILE)]
        };
        let mut figures = self.figures.clone();
        figures.sort_unstable();
        figures.dedup();
        figures.iter().flat_map(of).collect()
    }

    fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        if self.figures.is_empty() {
            let known: Vec<&str> = FigureKind::ALL.iter().map(|figure| figure.name()).collect();
            let hint = format!("there are {}", known.join(", "));
            issues.push(Issue::new("figures", "no figure is asked for").hint(hint));
        }
        for (place, figure) in self.figures.iter().enumerate() {
            let field = format!("figures[{place}]");
            if self.figures[..place].contains(figure) {
                issues.push(Issue::new(field, format!("`{}` is asked for twice", figure.name())));
            } else if self.references(figure.source()).is_empty() {
                let (_, parameter) = slot(figure.source());
                let message = format!("`{}` needs the parameter `{parameter}`", figure.name());
                let example = match figure.source() {
                    Source::History => "history: [\"train[*]\"]",
                    Source::Evaluation | Source::Curves => "eval: [\"eval[*]\"]",
                    Source::Data => "data: data",
                };
                let hint = format!("for example `{example}`");
                issues.push(Issue::new(field, message).hint(hint));
            }
        }
        issues
    }

    /// The axis that means are taken over unless stated need not be there.
    fn axes(&self) -> AxisUses {
        let stated = (self.mean_over != seed()).then(|| AxisUse {
            field: "mean_over",
            axis: self.mean_over.clone(),
            ..AxisUse::default()
        });
        let of_runs = [Source::History, Source::Evaluation, Source::Curves];
        AxisUses {
            slots: of_runs.map(|source| slot(source).0).to_vec(),
            uses: stated.into_iter().collect(),
            ..AxisUses::default()
        }
    }
}

impl RunStage for Plot {
    fn run(&self, work: &mut Work) -> Result<()> {
        let histories: Vec<(Axes, History)> = self.read(work, Source::History)?;
        let records: Vec<(Axes, Record)> = self.read(work, Source::Evaluation)?;
        let records = without_stage(records, Record::protocol);
        let curves: Vec<(Axes, Curves)> = self.read(work, Source::Curves)?;
        let curves = without_stage(curves, |curves| curves.protocol);
        let label_counts = if self.asks_for(Source::Data) { label_counts(work)? } else { Vec::new() };
        let inputs = FigureInputs { histories, records, curves, label_counts };
        let naming = inputs.naming(&self.mean_over, &self.names);
        for name in naming.unused_names(&inputs.runs()) {
            work.warn(format!("`names` has `{name}`, but nothing is called so"));
        }
        let total = self.figures.len() as u64;
        for (done, &kind) in self.figures.iter().enumerate() {
            work.progress(done as u64, Some(total), "figures", kind.name());
            let figure = inputs.draw(kind, &naming)?;
            write(work, kind, &figure)?;
        }
        work.progress(total, Some(total), "figures", "done");
        Ok(())
    }
}

impl Plot {
    fn read<T: DeserializeOwned>(&self, work: &Work, source: Source) -> Result<Vec<(Axes, T)>> {
        if !self.asks_for(source) {
            return Ok(Vec::new());
        }
        let inputs = work.inputs(slot(source).0)?;
        inputs.iter().map(|input| Ok((input.axes.clone(), read_json(&input.path)?))).collect()
    }
}

/// Takes the stage out of what tells results apart, if the other axes and the protocol still do: a variant that two
/// stages judge, each under a protocol of its own, is one variant.
fn without_stage<T>(results: Vec<(Axes, T)>, protocol: impl Fn(&T) -> Protocol) -> Vec<(Axes, T)> {
    let others = |axes: &Axes| axes.iter().filter(|(axis, _)| axis != STAGE_AXIS).cloned().collect::<Axes>();
    let left: BTreeSet<(Axes, Protocol)> =
        results.iter().map(|(axes, result)| (others(axes), protocol(result))).collect();
    match left.len() == results.len() {
        true => results.into_iter().map(|(axes, result)| (others(&axes), result)).collect(),
        false => results,
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not what it should be", path.display()))
}

fn label_counts(work: &Work) -> Result<Vec<u64>> {
    let labels = SplitData::open(&work.input("data")?.path)?.labels(PartName::Train)?;
    Ok(column_counts(&labels, 0..labels.rows() as u32))
}

fn write(work: &mut Work, kind: FigureKind, figure: &Figure) -> Result<()> {
    if figure.is_empty() {
        work.warn(format!("`{}` shows nothing: its inputs have no values for it", kind.name()));
    }
    let missing: String = figure.missing_characters().into_iter().take(20).collect();
    if !missing.is_empty() {
        work.warn(format!(
            "{}.pdf shows empty boxes for `{missing}`, which its font lacks: use `names`, or the SVG",
            kind.file_stem()
        ));
    }
    let output = |ending: &str| work.output(&format!("{}.{ending}", kind.name()));
    for (ending, bytes) in
        [("svg", figure.svg().into_bytes()), ("pdf", figure.pdf()), ("csv", figure.csv().into_bytes())]
    {
        let path = output(ending)?;
        std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::trial::Trial;
    use super::*;
    use pipe_core::kind::Kind;
    use pipe_core::stage::KindOf;

    fn checked(yaml: &str) -> pipe_core::kind::CheckedBody {
        KindOf::<Plot>::new().check(serde_yaml::from_str(yaml).unwrap()).unwrap()
    }

    fn issues(yaml: &str) -> Vec<String> {
        checked(yaml).issues.into_iter().map(|issue| format!("{}: {}", issue.field, issue.message)).collect()
    }

    #[test]
    fn a_figure_without_its_input_says_which_parameter_is_missing() {
        assert_eq!(
            issues("{ history: [train], figures: [f1-over-epochs, final-f1, label-frequency] }"),
            [
                "figures[1]: `final-f1` needs the parameter `eval`",
                "figures[2]: `label-frequency` needs the parameter `data`"
            ]
        );
        assert_eq!(issues("{ figures: [] }"), ["figures: no figure is asked for"]);
        let twice = "{ data: d, figures: [label-frequency, label-frequency] }";
        assert_eq!(issues(twice), ["figures[1]: `label-frequency` is asked for twice"]);
    }

    #[test]
    fn a_variant_judged_by_two_stages_under_two_protocols_is_one_variant() {
        let axes =
            |stage: &str| -> Axes { vec![("stage".into(), stage.into()), ("variant".into(), "a".into())] };
        let told = |protocols: [Protocol; 2]| -> Vec<Axes> {
            let results = ["x", "y"].map(axes).into_iter().zip(protocols).collect();
            without_stage(results, |protocol| *protocol).into_iter().map(|(axes, _)| axes).collect()
        };
        let variant: Axes = vec![("variant".into(), "a".into())];
        assert_eq!(told([Protocol::Honest, Protocol::Oracle]), [variant.clone(), variant]);
        assert_eq!(told([Protocol::Honest, Protocol::Honest]), [axes("x"), axes("y")]);
    }

    #[test]
    fn the_axis_of_the_means_has_to_be_there_if_it_is_stated() {
        let uses =
            |over: &str| checked(&format!("{{ eval: [e], figures: [final-f1]{over} }}")).axes.uses.len();
        assert_eq!((uses(""), uses(", mean_over: fold")), (0, 1));
    }

    #[test]
    fn only_what_a_figure_asks_for_is_an_input() {
        let slots = |figures: &str| -> Vec<String> {
            let yaml = format!("{{ history: [train], eval: [eval], data: data, figures: {figures} }}");
            checked(&yaml).inputs.into_iter().map(|input| input.slot).collect()
        };
        assert_eq!(slots("[threshold-weights]"), ["history"]);
        assert_eq!(slots("[reliability, final-f1]"), ["eval", "curves"]);
        assert_eq!(slots("[label-frequency]"), ["data"]);
    }

    #[test]
    fn the_papers_figures_have_numbers_and_the_others_names() {
        let yaml = "{ history: [t], eval: [e], figures: [f1-over-epochs, thresholds] }";
        let outputs = checked(yaml).outputs.into_iter().map(|output| (output.name, output.file_name));
        let (names, files): (Vec<String>, Vec<String>) = outputs.unzip();
        assert_eq!(names[..3], ["f1-over-epochs.svg", "f1-over-epochs.pdf", "f1-over-epochs.csv"]);
        assert_eq!(files[2..5], ["figure1.csv", "thresholds.svg", "thresholds.pdf"]);
    }

    #[test]
    fn what_was_trained_and_evaluated_is_drawn() {
        let directory = tempfile::tempdir().unwrap();
        let axes = |variant: &str, seed: &str| -> Axes {
            vec![("variant".to_owned(), variant.to_owned()), ("seed".to_owned(), seed.to_owned())]
        };
        let file = |name: &str, content: serde_json::Value| {
            let path = directory.path().join(name);
            std::fs::write(&path, content.to_string()).unwrap();
            path
        };
        let evaluation = |macro_f1: f64| {
            let values = json!({"macro_f1": macro_f1});
            let evaluation = json!({"protocol": "honest", "rows": 2, "labels": 2, "values": values});
            json!({"part": "test", "evaluation": evaluation, "intervals": null})
        };
        let spread = json!({"mean": 0.5, "std": 0.1});
        let epoch = json!({
            "epoch": 1, "loss": {"bce": 0.1, "margin": 0.0, "total": 0.1},
            "validation": {"macro_f1": 0.5, "macro_f1_present": 0.5, "micro_f1": 0.5, "positive_ratio": 0.1},
            "alpha": spread, "beta": spread, "lambda": spread, "theta": spread, "lr": 0.1,
        });
        let history = json!({"epochs": [epoch], "kept": 1, "oracle": true});
        let trial = Trial::of_many::<Plot>(
            json!({
                "history": ["t"], "eval": ["e"], "figures": ["f1-over-epochs", "final-f1"],
                "names": {"a": "Ours 中", "c": "nobody"},
            }),
            vec![
                ("history", axes("a", "0"), file("h", history)),
                ("eval", axes("a", "0"), file("a0", evaluation(0.25))),
                ("eval", axes("a", "1"), file("a1", evaluation(0.75))),
                ("eval", axes("b", "0"), file("b0", evaluation(0.125))),
            ],
        );
        let read = |name: &str| std::fs::read_to_string(trial.output(name)).unwrap();
        insta::assert_snapshot!(read("final-f1.csv"), @r"
        protocol,name,macro_f1,standard_deviation,runs,min,max
        honest,Ours 中,0.5,0.3535533905932738,2,0.25,0.75
        honest,b,0.125,,1,0.125,0.125
        ");
        assert!(read("f1-over-epochs.svg").contains(">Ours 中†<"));
        assert!(std::fs::read(trial.output("final-f1.pdf")).unwrap().starts_with(b"%PDF-1.4"));
        let warnings = trial.warnings();
        assert_eq!(warnings[0], "`names` has `c`, but nothing is called so");
        assert!(warnings[1].starts_with("figure1.pdf shows empty boxes for `中`"), "{warnings:?}");
    }
}
