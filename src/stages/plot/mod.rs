//! `plot`: draws figures of trainings and evaluations as SVG and PDF, with their data as CSV.

mod entry;
mod file;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pipe_core::artifact::PlainFile;
use pipe_core::issue::Issue;
use pipe_core::kind::{AxisUse, AxisUses, InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::suggest;
use pipe_core::work::Work;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::data::stats::column_counts;
use pipe_ml::history::History;
use pipe_ml::metric::curves::Curves;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::Metric;
use pipe_report::artifacts::{Pdf, Svg};
use pipe_report::figure::chart::format::{FigureFormat, LegendPosition};
use pipe_report::figure::kind::{FigureKind, FigureSource};
use pipe_report::figure::metric_figure::{ChartKind, FigureX, MetricFigure, MetricFigureContext, nameable};
use pipe_report::figure::naming::RunAxes;
use pipe_report::figure::source::{FigureRecord, OWN_SOURCE, SOURCE_AXIS, STAGE_AXIS};
use pipe_report::figure::{Figure, FigureInputs};

use entry::FigureEntry;
use file::ResultFile;

/// The parameters of `plot`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// `train` stages: `["train[*]"]`.
    #[serde(default)]
    pub history: Vec<StageRef>,
    /// `evaluate` stages: `["eval[*]"]`.
    #[serde(default)]
    pub eval: Vec<StageRef>,
    /// A data set.
    pub data: Option<StageRef>,
    /// Further results for figures of metrics: CSV files, and locks of other pipelines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ResultFile>,
    /// The figures to draw: names of figures, or descriptions of figures of metrics.
    pub figures: Vec<FigureEntry>,
    /// The axis whose values are repetitions: the figures show means and deviations over it.
    #[serde(default = "seed")]
    pub mean_over: String,
    /// Names in the figures: for values of axes (`{ knn-only: KNN only }`), and for axes and metrics.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// The width of the figures in inches; the default, 3.3, is one column of a two-column paper.
    #[serde(default = "default_width")]
    pub width: f64,
    /// The size of axis labels and legends in points. Tick labels and notes are one eighth smaller.
    #[serde(default = "default_font_size")]
    pub font_size: f64,
    /// The position of the legend.
    #[serde(default)]
    pub legend: LegendPosition,
}

fn seed() -> String {
    "seed".to_owned()
}

fn default_width() -> f64 {
    FigureFormat::default().width
}

fn default_font_size() -> f64 {
    FigureFormat::default().font_size
}

impl Plot {
    /// The histories of trainings.
    pub const HISTORY: Slot<History> = Slot::new("history");
    /// The results of evaluations.
    pub const EVAL: Slot<EvaluationRecord> = Slot::new("eval");
    /// The curves of evaluations.
    pub const CURVES: Slot<Curves> = Slot::new("curves").written_in("eval");
    /// A data set.
    pub const DATA: Slot<SplitData> = Slot::new("data");

    /// Returns the slot of a file with results, by its position in the list.
    pub fn file_slot(position: usize) -> Slot<PlainFile> {
        Slot::named(format!("file_{}", position + 1)).written_in("files")
    }

    /// Returns the output of a figure as SVG.
    pub fn svg(figure: &FigureEntry) -> Out<Svg> {
        figure_output(figure, "svg")
    }

    /// Returns the output of a figure as PDF.
    pub fn pdf(figure: &FigureEntry) -> Out<Pdf> {
        figure_output(figure, "pdf")
    }

    /// Returns the output of the data of a figure.
    pub fn csv(figure: &FigureEntry) -> Out<PlainFile> {
        figure_output(figure, "csv")
    }

    /// Returns the parameter that names the stages of a source.
    fn parameter(source: FigureSource) -> &'static str {
        match source {
            FigureSource::History => "history",
            FigureSource::Evaluation | FigureSource::Curves => "eval",
            FigureSource::Data => "data",
        }
    }

    /// Returns whether a figure needs the source. A source that no figure needs is not an input, because it could only
    /// cause reruns.
    fn needs(&self, source: FigureSource) -> bool {
        self.figures.iter().any(|figure| figure.source() == source)
    }

    /// Returns the figures of metrics.
    fn metric_figures(&self) -> Vec<MetricFigure> {
        self.figures.iter().filter_map(FigureEntry::metric_figure).collect()
    }

    fn references(&self, source: FigureSource) -> Vec<StageRef> {
        match source {
            FigureSource::History => self.history.clone(),
            FigureSource::Evaluation | FigureSource::Curves => self.eval.clone(),
            FigureSource::Data => self.data.iter().cloned().collect(),
        }
    }
}

fn figure_output<T>(figure: &FigureEntry, ending: &str) -> Out<T> {
    Out::named(format!("{}.{ending}", figure.name()), format!("{}.{ending}", figure.file_stem()))
}

impl StageKind for Plot {
    const NAME: &'static str = "plot";
    const VERSION: u32 = 3;
    const SUMMARY: &'static str = "Draws figures for a paper: SVG, PDF, and CSV with their data";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        let given = |source| self.needs(source) && !self.references(source).is_empty();
        let mut inputs = Vec::new();
        if given(FigureSource::History) {
            inputs.push(Self::HISTORY.many(&self.history));
        }
        if given(FigureSource::Evaluation) {
            inputs.push(Self::EVAL.many(&self.eval));
        }
        if given(FigureSource::Curves) {
            inputs.push(Self::CURVES.many(&self.eval));
        }
        if let Some(data) = self.data.as_ref().filter(|_| given(FigureSource::Data)) {
            inputs.push(Self::DATA.one(data));
        }
        for (position, file) in self.files.iter().enumerate() {
            inputs.push(Self::file_slot(position).from(file.file.0.declare()));
        }
        inputs
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        // The order of the list is not part of the key. Figures of one name are an issue.
        let figures: BTreeMap<_, &FigureEntry> =
            self.figures.iter().map(|figure| (figure.order(), figure)).collect();
        let outputs = |figure| [Self::svg(figure).decl(), Self::pdf(figure).decl(), Self::csv(figure).decl()];
        figures.into_values().flat_map(outputs).collect()
    }

    fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        if self.figures.is_empty() {
            let known: Vec<&str> = FigureKind::ALL.iter().map(|figure| figure.name()).collect();
            let hint = format!("the figures are {}", known.join(", "));
            issues.push(Issue::new("figures", "name at least one figure").hint(hint));
        }
        for (place, figure) in self.figures.iter().enumerate() {
            let field = format!("figures[{place}]");
            let (name, stem) = (figure.name(), figure.file_stem());
            let others = &self.figures[..place];
            if others.contains(figure) {
                issues.push(Issue::new(field, format!("`{name}` is listed twice")));
                continue;
            }
            if others.iter().any(|other| other.name() == name || other.file_stem() == stem) {
                let hint = "give one of them another `name`";
                issues.push(Issue::new(field, format!("two figures are called `{name}`")).hint(hint));
                continue;
            }
            let of_figure = figure.issues(&self.mean_over, !self.files.is_empty());
            issues.extend(of_figure.into_iter().map(|issue| issue.within(&field)));
            let has_results = matches!(figure, FigureEntry::Metrics(_)) && !self.files.is_empty();
            if self.references(figure.source()).is_empty() && !has_results {
                let parameter = Self::parameter(figure.source());
                let message = format!("`{name}` needs the parameter `{parameter}`");
                let example = match figure.source() {
                    FigureSource::History => "history: [\"train[*]\"]",
                    FigureSource::Evaluation | FigureSource::Curves => "eval: [\"eval[*]\"]",
                    FigureSource::Data => "data: data",
                };
                let hint = format!("for example `{example}`");
                issues.push(Issue::new(field, message).hint(hint));
            }
        }
        for (position, file) in self.files.iter().enumerate() {
            let field = format!("files[{position}]");
            issues.extend(file.issues().into_iter().map(|issue| issue.within(&field)));
            if self.files[..position].iter().any(|other| other.name() == file.name()) {
                let message = format!("two files are called `{}`", file.name());
                issues.push(Issue::new(field, message).hint("give one of them another `name`"));
            }
        }
        if !self.files.is_empty() && self.metric_figures().is_empty() {
            let message = "no figure uses them: only figures of metrics do";
            issues.push(
                Issue::new("files", message)
                    .hint("for example `figures: [{ kind: bar, x: source, y: macro_f1 }]`"),
            );
        }
        if !(1.0..=20.0).contains(&self.width) {
            issues.push(Issue::new("width", "the width must lie between 1 and 20 inches"));
        }
        if !(4.0..=24.0).contains(&self.font_size) {
            issues.push(Issue::new("font_size", "the font size must lie between 4 and 24 points"));
        }
        issues
    }

    /// Returns the axes of figures of metrics, and that of `mean_over`, if it is stated. The default axis need not exist.
    fn axes(&self) -> AxisUses {
        let stated = (self.mean_over != seed()).then(|| AxisUse {
            field: "mean_over",
            axis: self.mean_over.clone(),
            ..AxisUse::default()
        });
        // The axes of files are known when the files are read.
        let figures = if self.files.is_empty() { self.metric_figures() } else { Vec::new() };
        let stated = stated.filter(|_| self.files.is_empty());
        let shown = figures.iter().flat_map(|figure| {
            let or_other = figure.chart == ChartKind::Scatter;
            figure.axes().into_iter().map(move |axis| AxisUse {
                field: "figures",
                axis: axis.to_owned(),
                or_other,
                ..AxisUse::default()
            })
        });
        AxisUses {
            slots: [Self::HISTORY.name(), Self::EVAL.name(), Self::CURVES.name()].map(str::to_owned).to_vec(),
            uses: stated.into_iter().chain(shown).collect(),
            others: Some(Metric::vocabulary()),
            ..AxisUses::default()
        }
    }
}

impl RunStage for Plot {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let metric_figures = stage.metric_figures();
        let histories = work.open_all(Self::HISTORY)?;
        let evaluations = work.open_all(Self::EVAL)?;
        let results_by_stage = stage.results(work, &evaluations)?;
        let results = without_stage(results_by_stage.clone(), FigureRecord::protocol);
        let records = without_stage(evaluations, EvaluationRecord::protocol);
        let curves = without_stage(work.open_all(Self::CURVES)?, |curves| curves.protocol);
        let label_counts = if stage.needs(FigureSource::Data) { label_counts(work)? } else { Vec::new() };
        let inputs = FigureInputs { histories, records, curves, label_counts };
        let naming = inputs.naming(&stage.mean_over, &stage.names);
        let nameable = if metric_figures.is_empty() {
            BTreeSet::new()
        } else {
            nameable(&metric_figures, &results_by_stage.iter().map(|(axes, _)| axes).collect::<Vec<_>>())
        };
        for name in naming.unused_names(&inputs.runs()).into_iter().filter(|name| !nameable.contains(*name)) {
            work.warn(format!("`names` has `{name}`, but nothing has that name"));
        }
        let format = FigureFormat { width: stage.width, font_size: stage.font_size, legend: stage.legend };
        let context = MetricFigureContext { mean_over: &stage.mean_over, names: &stage.names, format };
        let total = stage.figures.len() as u64;
        for (done, entry) in stage.figures.iter().enumerate() {
            let name = entry.name();
            work.progress(done as u64, Some(total), "figures", &*name);
            let planned = match entry {
                FigureEntry::Named(kind) => inputs.plan(*kind, &naming)?,
                FigureEntry::Metrics(entry) => {
                    let mut figure = entry.metric_figure();
                    settle_x(&mut figure, &results_by_stage);
                    let by_stage = figure.axes().contains(&STAGE_AXIS);
                    let results = if by_stage { &results_by_stage } else { &results };
                    check_words(&figure, results)
                        .with_context(|| format!("the figure `{name}` cannot be drawn"))?;
                    figure
                        .plan(context, results)
                        .with_context(|| format!("the figure `{name}` cannot be drawn"))?
                }
            };
            write(work, entry, &planned.draw(format))?;
        }
        work.progress(total, Some(total), "figures", "done");
        Ok(())
    }
}

impl Plot {
    /// Returns the evaluations and the results in files, which the axis `source` distinguishes if there are files.
    fn results(
        &self,
        work: &Work,
        evaluations: &[(RunAxes, EvaluationRecord)],
    ) -> Result<Vec<(RunAxes, FigureRecord)>> {
        let own = evaluations.iter().map(|(axes, record)| (axes.clone(), FigureRecord::from(record)));
        let mut results: Vec<(RunAxes, FigureRecord)> = own.collect();
        if !self.files.is_empty() {
            for (axes, _) in &mut results {
                axes.insert(0, (SOURCE_AXIS.to_owned(), OWN_SOURCE.to_owned()));
            }
        }
        let figures = self.metric_figures();
        let is_value = |name: &str| figures.iter().any(|figure| figure.values().any(|value| value == name));
        // The x of a scatter plot may be an axis or a value, and only `axes` of a file says that numbers are an axis.
        let axes = figures.iter().flat_map(|figure| {
            let is_open = figure.chart == ChartKind::Scatter && matches!(figure.x, FigureX::Axis(_));
            figure.axes().into_iter().skip(usize::from(is_open))
        });
        let shown: BTreeSet<&str> =
            axes.chain([self.mean_over.as_str()]).filter(|axis| !is_value(axis)).collect();
        for (position, file) in self.files.iter().enumerate() {
            let PlainFile(bytes) = work.open(Self::file_slot(position))?;
            let source = file.source();
            let text =
                String::from_utf8(bytes).with_context(|| format!("`{}` is not a text", source.path))?;
            results.extend(source.read(&text, &shown)?);
        }
        Ok(results)
    }
}

/// Makes the x of a scatter plot a value if it is a column of numbers and not an axis.
fn settle_x(figure: &mut MetricFigure, results: &[(RunAxes, FigureRecord)]) {
    let FigureX::Axis(name) = &figure.x else { return };
    let is_axis = results.iter().any(|(axes, _)| axes.iter().any(|(axis, _)| axis == name));
    let is_value = results.iter().any(|(_, record)| record.get(name).is_some());
    if figure.chart == ChartKind::Scatter && is_value && !is_axis {
        figure.x = FigureX::Value(name.clone());
    }
}

/// Checks that at least one result has each axis and each value that a figure shows.
fn check_words(figure: &MetricFigure, results: &[(RunAxes, FigureRecord)]) -> Result<()> {
    let axes: BTreeSet<&str> =
        results.iter().flat_map(|(axes, _)| axes).map(|(axis, _)| axis.as_str()).collect();
    let values: BTreeSet<&str> = results.iter().flat_map(|(_, record)| record.names()).collect();
    let check = |noun: &str, word: &str, known: &BTreeSet<&str>| {
        if known.contains(word) {
            return Ok(());
        }
        let meant = suggest::closest(word, known.iter().copied());
        let meant = meant.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
        let known: Vec<&str> = known.iter().copied().collect();
        bail!("no result has the {noun} `{word}`{meant}; there is {}", known.join(", "))
    };
    figure.axes().into_iter().try_for_each(|axis| check("axis", axis, &axes))?;
    figure.values().try_for_each(|name| check("value", name, &values))
}

/// Removes the axis of the stage if the other axes and the protocol still distinguish the results: a variant that two
/// stages evaluate, each under its own protocol, is one variant.
fn without_stage<T>(results: Vec<(RunAxes, T)>, protocol: impl Fn(&T) -> Protocol) -> Vec<(RunAxes, T)> {
    let others =
        |axes: &RunAxes| axes.iter().filter(|(axis, _)| axis != STAGE_AXIS).cloned().collect::<RunAxes>();
    let left: BTreeSet<(RunAxes, Protocol)> =
        results.iter().map(|(axes, result)| (others(axes), protocol(result))).collect();
    if left.len() == results.len() {
        results.into_iter().map(|(axes, result)| (others(&axes), result)).collect()
    } else {
        results
    }
}

fn label_counts(work: &Work) -> Result<Vec<u64>> {
    let labels = work.open(Plot::DATA)?.labels(PartName::Train)?;
    Ok(column_counts(&labels, 0..labels.rows() as u32))
}

fn write(work: &mut Work, entry: &FigureEntry, figure: &Figure) -> Result<()> {
    if figure.is_empty() {
        work.warn(format!("`{}` shows nothing: its inputs have no values for it", entry.name()));
    }
    let missing: String = figure.missing_characters().into_iter().take(20).collect();
    if !missing.is_empty() {
        work.warn(format!(
            "{}.pdf shows empty boxes for `{missing}`, which its font lacks: use `names`, or the SVG",
            entry.file_stem()
        ));
    }
    work.save(Plot::svg(entry), &Svg(figure.svg().into()))?;
    work.save(Plot::pdf(entry), &Pdf(PlainFile(figure.pdf())))?;
    work.save(Plot::csv(entry), &figure.csv().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stage_test::StageTest;
    use pipe_core::kind::Kind;
    use pipe_core::stage::KindOf;

    fn checked(yaml: &str) -> pipe_core::kind::CheckedBody {
        KindOf::<Plot>::new().check(&serde_yaml::from_str(yaml).unwrap()).unwrap()
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
        assert_eq!(issues("{ figures: [] }"), ["figures: name at least one figure"]);
        let twice = "{ data: d, figures: [label-frequency, label-frequency] }";
        assert_eq!(issues(twice), ["figures[1]: `label-frequency` is listed twice"]);
    }

    #[test]
    fn a_variant_evaluated_by_two_stages_under_two_protocols_is_one_variant() {
        let axes =
            |stage: &str| -> RunAxes { vec![("stage".into(), stage.into()), ("variant".into(), "a".into())] };
        let axes_left = |protocols: [Protocol; 2]| -> Vec<RunAxes> {
            let results = ["x", "y"].map(axes).into_iter().zip(protocols).collect();
            without_stage(results, |protocol| *protocol).into_iter().map(|(axes, _)| axes).collect()
        };
        let variant: RunAxes = vec![("variant".into(), "a".into())];
        assert_eq!(axes_left([Protocol::Honest, Protocol::Oracle]), [variant.clone(), variant]);
        assert_eq!(axes_left([Protocol::Honest, Protocol::Honest]), [axes("x"), axes("y")]);
    }

    #[test]
    fn a_stated_mean_over_must_be_an_axis_and_the_default_need_not_be() {
        let uses =
            |over: &str| checked(&format!("{{ eval: [e], figures: [final-f1]{over} }}")).axes.uses.len();
        assert_eq!((uses(""), uses(", mean_over: fold")), (0, 1));
    }

    #[test]
    fn only_the_sources_that_a_figure_needs_are_inputs() {
        let slots = |figures: &str| -> Vec<String> {
            let yaml = format!("{{ history: [train], eval: [eval], data: data, figures: {figures} }}");
            checked(&yaml).inputs.into_iter().map(|input| input.slot).collect()
        };
        assert_eq!(slots("[threshold-weights]"), ["history"]);
        assert_eq!(slots("[reliability, final-f1]"), ["eval", "curves"]);
        assert_eq!(slots("[label-frequency]"), ["data"]);
    }

    #[test]
    fn files_of_the_papers_figures_are_numbered_and_the_others_named() {
        let yaml = "{ history: [t], eval: [e], figures: [f1-over-epochs, thresholds] }";
        let outputs = checked(yaml).outputs.into_iter().map(|output| (output.name, output.file_name));
        let (names, files): (Vec<String>, Vec<String>) = outputs.unzip();
        assert_eq!(names[..3], ["f1-over-epochs.svg", "f1-over-epochs.pdf", "f1-over-epochs.csv"]);
        assert_eq!(files[2..5], ["figure1.csv", "thresholds.svg", "thresholds.pdf"]);
    }

    #[test]
    fn a_figure_of_metrics_is_an_entry_like_the_named_ones() {
        let yaml =
            "{ eval: [e], figures: [final-f1, { kind: line, x: prior, y: macro_f1, group: variant }] }";
        let checked = checked(yaml);
        assert!(checked.issues.is_empty(), "{:?}", checked.issues);
        let files: Vec<String> = checked.outputs.into_iter().map(|output| output.file_name).collect();
        assert_eq!(files[2..5], ["figure2.csv", "macro_f1-by-prior.svg", "macro_f1-by-prior.pdf"]);
        let shown = |named: &AxisUse| format!("{} {}", named.field, named.axis);
        let uses: Vec<String> = checked.axes.uses.iter().map(shown).collect();
        assert_eq!(uses, ["figures prior", "figures variant"]);
    }

    #[test]
    fn a_wrong_figure_of_metrics_is_an_issue_at_its_field() {
        let line = "{ kind: line, x: prior, y: macro_f1 }";
        let of = |figures: &str| issues(&format!("{{ eval: [e], figures: [{figures}] }}"));
        assert_eq!(
            of("{ kind: bar, x: bce, y: macro_f1 }"),
            ["figures[0].x: `bce` is a metric, but this kind of figure needs an axis"]
        );
        assert_eq!(
            of(&format!("{line}, {{ kind: heat, x: prior, y: macro_f1 }}")),
            ["figures[1]: two figures are called `macro_f1-by-prior`"]
        );
        assert!(
            of("{ name: a/b, kind: line, x: prior, y: macro_f1 }")[0]
                .starts_with("figures[0].name: use letters")
        );
        assert_eq!(
            issues(&format!("{{ figures: [{line}] }}")),
            ["figures[0]: `macro_f1-by-prior` needs the parameter `eval`"]
        );
        assert_eq!(
            issues("{ data: d, figures: [label-frequency], width: 0, font_size: 99 }"),
            [
                "width: the width must lie between 1 and 20 inches",
                "font_size: the font size must lie between 4 and 24 points"
            ]
        );
        let metric = of("{ kind: line, x: prior, y: [bce, macro_fi] }").join(" ");
        assert!(
            metric.starts_with("figures[0].y[1]: there is no metric `macro_fi` (did you mean"),
            "{metric}"
        );
        let error = |figures: &str| {
            let yaml = format!("{{ eval: [e], figures: [{figures}] }}");
            let error = KindOf::<Plot>::new().check(&serde_yaml::from_str(&yaml).unwrap()).unwrap_err();
            format!("{}: {}", error.path(), error.inner())
        };
        let field = error("{ kind: line, x: prior, y: bce, colour: red }");
        assert!(field.contains("unknown field `colour`"), "{field}");
    }

    #[test]
    fn the_path_of_a_file_is_not_part_of_the_key_but_the_name_that_is_shown_is() {
        let params = |file: &str| {
            let figure = "{ kind: bar, x: source, y: macro_f1 }";
            checked(&format!("{{ files: [{file}], figures: [{figure}] }}")).params
        };
        assert_eq!(params("{ file: a/runs.csv }"), params("{ file: b/runs.csv }"));
        assert_eq!(params("{ file: a.csv, name: runs }"), params("{ file: runs.csv }"));
        assert_ne!(params("{ file: a.csv }"), params("{ file: b.csv }"));
        assert!(checked("{ eval: [e], figures: [final-f1] }").params.get("files").is_none());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_an_issue() {
        let figure = "{ kind: bar, x: source, y: [macro_f1, seconds] }";
        let of = |files: &str| issues(&format!("{{ files: [{files}], figures: [{figure}] }}"));
        assert_eq!(of("{ file: runs.csv }, { file: { stage: mine.values } }"), [""; 0]);
        assert!(of("{ file: pipelines/x.yaml }")[0].starts_with("files[0].file: results are in the lock"));
        assert_eq!(of("{ file: a/x.csv }, { file: b/x.csv }"), ["files[1]: two files are called `x`"]);
        assert!(of("{ file: here.csv }")[0].starts_with("files[0].name: `here` stands for"));
        let unused = issues("{ files: [{ file: x.csv }], eval: [e], figures: [final-f1] }");
        assert_eq!(unused, ["files: no figure uses them: only figures of metrics do"]);
    }

    #[test]
    fn figures_show_evaluations_beside_the_results_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str, content: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let evaluation = json!({
            "part": "test", "intervals": null,
            "evaluation": {"protocol": "honest", "rows": 2, "labels": 2, "values": {"macro_f1": 0.5}},
        });
        let axes = vec![("variant".to_owned(), "ours".to_owned()), ("seed".to_owned(), "0".to_owned())];
        let inputs = || {
            vec![
                ("eval", axes.clone(), path("e", &evaluation.to_string())),
                ("file_1", Vec::new(), path("f", "variant,seed,macro_f1\ntheirs,0,0.25\ntheirs,1,0.75\n")),
            ]
        };
        let body = |figure: serde_json::Value| json!({"eval": ["e"], "files": [{"file": "peers.csv"}], "figures": [figure]});
        let bars = json!({"name": "bars", "kind": "bar", "x": "variant", "y": "macro_f1", "group": "source"});
        let test = StageTest::of_many::<Plot>(body(bars), inputs());
        insta::assert_snapshot!(std::fs::read_to_string(test.output("bars.csv")).unwrap(), @r"
        protocol,metric,panel,name,x,mean,standard_deviation,low,high,runs
        honest,macro_f1,,here,ours,0.5,,,,1
        honest,macro_f1,,peers,theirs,0.5,0.3535533905932738,0.1464466094067262,0.8535533905932737,2
        ");
    }

    #[test]
    fn a_column_can_be_the_x_of_a_scatter_plot_and_the_y_of_another_figure() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.csv");
        std::fs::write(&path, "seed,prior,f,seconds\n0,1,0.25,2\n1,1,0.75,4\n0,2,0.5,8\n1,2,0.5,8\n")
            .unwrap();
        let body = json!({
            "files": [{"file": "runs.csv", "axes": "prior"}],
            "figures": [
                {"kind": "line", "name": "line", "x": "prior", "y": ["f", "seconds"], "group": []},
                {"kind": "scatter", "name": "cost", "x": "seconds", "y": "f", "group": []},
            ],
        });
        let test = StageTest::of_many::<Plot>(body, vec![("file_1", Vec::new(), path)]);
        let read = |name: &str| std::fs::read_to_string(test.output(name)).unwrap();
        insta::assert_snapshot!(read("cost.csv"), @r"
        protocol,metric,panel,name,x,mean,standard_deviation,low,high,runs
        honest,f,,,3,0.5,0.3535533905932738,0.1464466094067262,0.8535533905932737,2
        honest,f,,,8,0.5,0,0.5,0.5,2
        ");
        assert!(read("line.csv").contains("honest,seconds,,,1,3,"), "{}", read("line.csv"));
    }

    #[test]
    fn a_word_that_no_result_has_gets_a_suggestion() {
        let axes = vec![("variant".to_owned(), "a".to_owned())];
        let source =
            pipe_report::figure::source::SourceFile { path: "x.csv", name: "x", axes: &[], stages: &[] };
        let mut results = source.read("variant,macro_f1\na,1\n", &BTreeSet::new()).unwrap();
        results[0].0 = axes;
        let error = |x: &str, y: &str| {
            let yaml = format!("{{ kind: line, x: {x}, y: {y} }}");
            let FigureEntry::Metrics(entry) = serde_yaml::from_str(&yaml).unwrap() else { unreachable!() };
            check_words(&entry.metric_figure(), &results).map_err(|error| error.to_string())
        };
        assert_eq!(error("variant", "macro_f1"), Ok(()));
        assert_eq!(
            error("varaint", "macro_f1").unwrap_err(),
            "no result has the axis `varaint` (did you mean `variant`?); there is variant"
        );
        assert_eq!(error("variant", "bce").unwrap_err(), "no result has the value `bce`; there is macro_f1");
    }

    #[test]
    fn figures_are_drawn_from_histories_and_evaluations() {
        let directory = tempfile::tempdir().unwrap();
        let axes = |variant: &str, seed: &str| -> RunAxes {
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
        let test = StageTest::of_many::<Plot>(
            json!({
                "history": ["t"], "eval": ["e"],
                "figures": ["f1-over-epochs", "final-f1", {"name": "bars", "kind": "bar", "x": "variant", "y": "macro_f1"}],
                "names": {"a": "Ours 中", "c": "nobody", "macro_f1": "F1"}, "width": 5,
            }),
            vec![
                ("history", axes("a", "0"), file("h", history)),
                ("eval", axes("a", "0"), file("a0", evaluation(0.25))),
                ("eval", axes("a", "1"), file("a1", evaluation(0.75))),
                ("eval", axes("b", "0"), file("b0", evaluation(0.125))),
            ],
        );
        let read = |name: &str| std::fs::read_to_string(test.output(name)).unwrap();
        insta::assert_snapshot!(read("final-f1.csv"), @r"
        protocol,name,macro_f1,standard_deviation,runs,min,max
        honest,Ours 中,0.5,0.3535533905932738,2,0.25,0.75
        honest,b,0.125,,1,0.125,0.125
        ");
        assert!(read("f1-over-epochs.svg").contains(">Ours 中†<"));
        assert!(read("bars.svg").contains(">F1<") && read("bars.svg").contains("width=\"360pt\""));
        assert!(std::fs::read(test.output("final-f1.pdf")).unwrap().starts_with(b"%PDF-1.4"));
        let warnings = test.warnings();
        assert_eq!(warnings[0], "`names` has `c`, but nothing has that name");
        assert!(warnings[1].starts_with("figure1.pdf shows empty boxes for `中`"), "{warnings:?}");
    }
}
