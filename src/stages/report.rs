//! `report`: results as one self-contained HTML page.
//!
//! The page of a stage must be the same bytes for the same inputs, so that it has no clock, no host and no path in it.
//! `pipe report` makes the page that has those.

mod content;

pub use content::Content;

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audit::AUDIT;
use super::dataset::DATASET;
use super::evaluate::{EVALUATION, LABELS};
use super::fuse::FUSION;
use super::plot::SVG;
use super::table::TABLE;
use pipe_core::issue::Issue;
use pipe_core::job::JobInput;
use pipe_core::kind::{ArtifactType, InputDecl, OutputDecl, Program, SourceDecl};
use pipe_core::reference::StageRef;
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_report::page::grid::{Cell, Column, Grid, Row};
use pipe_report::page::html::{Html, el};
use pipe_report::page::{Page, Section};

/// The artifact: an HTML file that needs nothing else.
pub const PAGE: ArtifactType = "page";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// What stands above it all.
    #[serde(default = "default_title")]
    pub title: String,
    /// A paragraph below the title.
    #[serde(default)]
    pub introduction: String,
    /// Evaluations, each with the records of its labels.
    #[serde(default)]
    pub evaluations: Vec<StageRef>,
    /// CSV, Markdown or JSON files, or directories of such.
    #[serde(default)]
    pub tables: Vec<StageRef>,
    /// SVG or PNG files, or directories of such.
    #[serde(default)]
    pub figures: Vec<StageRef>,
    /// Data sets, of which the statistics are shown. With exactly one, labels get their names from it.
    #[serde(default)]
    pub data: Vec<StageRef>,
    /// JSON files with a verdict: `passed`, and a `sentence`.
    #[serde(default)]
    pub audits: Vec<StageRef>,
    /// `fuse` stages, of which the weights are shown.
    #[serde(default)]
    pub fusions: Vec<StageRef>,
}

fn default_title() -> String {
    "Report".to_owned()
}

impl StageKind for Report {
    const NAME: &'static str = "report";
    const VERSION: u32 = 3;
    const SUMMARY: &'static str = "Writes results as one self-contained HTML page";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        // A reference to the whole of an `evaluate` stage brings its labels along.
        let whole: Vec<StageRef> =
            self.evaluations.iter().filter(|reference| reference.output().is_none()).cloned().collect();
        let many: fn(Vec<StageRef>) -> SourceDecl = SourceDecl::Many;
        let all: fn(Vec<StageRef>) -> SourceDecl = SourceDecl::All;
        let slots = [
            ("evaluations", many, &self.evaluations, EVALUATION),
            ("labels", many, &whole, LABELS),
            ("tables", all, &self.tables, TABLE),
            ("figures", all, &self.figures, SVG),
            ("data", many, &self.data, DATASET),
            ("audits", all, &self.audits, AUDIT),
            ("fusions", many, &self.fusions, FUSION),
        ];
        let given = slots.into_iter().filter(|(_, _, references, _)| !references.is_empty());
        let input = |(slot, source, references, accepts): (&'static str, fn(_) -> _, &Vec<StageRef>, _)| {
            let parameter = if slot == "labels" { "evaluations" } else { slot };
            InputDecl::new(slot, source(references.clone()), accepts).written_in(parameter)
        };
        given.map(input).collect()
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![OutputDecl::new("page", PAGE, "report.html")]
    }

    fn issues(&self) -> Vec<Issue> {
        let all = [&self.evaluations, &self.tables, &self.figures, &self.data, &self.audits, &self.fusions];
        if all.iter().all(|references| references.is_empty()) {
            let message =
                "it shows nothing: give it `evaluations`, `tables`, `figures`, `data`, `audits` or `fusions`";
            vec![Issue::new("", message)]
        } else {
            Vec::new()
        }
    }
}

impl RunStage for Report {
    fn run(&self, work: &mut Work) -> Result<()> {
        let mut content = Content::default();
        let labels = work.inputs("labels").unwrap_or_default();
        for evaluation in work.inputs("evaluations").unwrap_or_default() {
            let own = labels.iter().find(|labels| labels.axes == evaluation.axes);
            content.add_evaluation(
                evaluation.axes.clone(),
                &evaluation.path,
                own.map(|labels| labels.path.as_path()),
            )?;
        }
        for (slot, noun) in [("tables", "Table"), ("figures", "Figure")] {
            for (number, input) in work.inputs(slot).unwrap_or_default().iter().enumerate() {
                let name = name(noun, number, input);
                match input.artifact == TABLE {
                    true => content.add_table(&input.path)?,
                    false => content.add_file(&name, &input.path)?,
                }
            }
        }
        for (number, input) in work.inputs("data").unwrap_or_default().iter().enumerate() {
            content.add_data(&name("Data set", number, input), &input.path)?;
        }
        for (number, input) in work.inputs("audits").unwrap_or_default().iter().enumerate() {
            content.add_card(&name("Audit", number, input), &input.path)?;
        }
        for (number, input) in work.inputs("fusions").unwrap_or_default().iter().enumerate() {
            content.add_fusion(&name("Fusion", number, input), &input.path)?;
        }
        let lead = match self.introduction.is_empty() {
            true => Html::default(),
            false => el("p").text(&self.introduction).into(),
        };
        let mut sections = content.sections();
        sections.push(provenance(work));
        let page = Page { title: self.title.clone(), lead, sections, ..Page::default() };
        std::fs::write(work.output("page")?, page.render())?;
        Ok(())
    }
}

/// Stages have names for people only, so what is shown is counted, or told apart by its axes.
fn name(noun: &str, number: usize, input: &JobInput) -> String {
    match input.axes.as_slice() {
        [] => format!("{noun} {}", number + 1),
        axes => {
            let words = axes.iter().map(|(axis, value)| match axis.as_str() {
                "stage" | "output" => value.clone(),
                axis => format!("{axis} {value}"),
            });
            words.collect::<Vec<_>>().join(", ")
        }
    }
}

/// What the page was made from, by content.
fn provenance(work: &Work) -> Section {
    let mut rows = Vec::new();
    for (slot, inputs) in &work.job().inputs {
        for (number, input) in inputs.iter().enumerate() {
            rows.push(Row::plain(vec![
                Cell::text(name(slot, number, input)),
                Cell::text(slot),
                Cell::text(&input.artifact),
                Cell::code(input.blob.map(|blob| blob.to_string()).unwrap_or_default()),
            ]));
        }
    }
    let columns =
        vec![Column::text("input"), Column::text("slot"), Column::text("type"), Column::text("blake3")];
    let mut section = Section::new("provenance", "Made from");
    section.add(el("p").text(
        "The page follows from these inputs and nothing else: equal digests give an equal page. \
         `pipe report` and the pipeline's file make one with the graph, timings, environment and keys.",
    ));
    section.add(Grid { caption: "Inputs, by content".into(), columns, rows }.html());
    section
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::super::trial::Trial;
    use super::*;

    fn body() -> serde_json::Value {
        json!({ "title": "<script>alert(1)</script>", "tables": ["t"], "figures": ["f"], "audits": ["a"] })
    }

    fn inputs(directory: &std::path::Path) -> Vec<(&'static str, PathBuf)> {
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        vec![
            ("tables", write("1", "label,f1\n<script>alert(1)</script>,0.5\nb,0.25\n")),
            ("figures", write("2", "<svg xmlns=\"http://www.w3.org/2000/svg\"><title>F1</title></svg>")),
            (
                "audits",
                write("3", r#"{ "passed": true, "sentence": "nothing leaks <img src=x onerror=alert(1)>" }"#),
            ),
        ]
    }

    #[test]
    fn the_page_shows_what_it_is_given_and_is_the_same_bytes_every_time() {
        let page = || {
            let temp = tempfile::tempdir().unwrap();
            let trial = Trial::of::<Report>(body(), inputs(temp.path()));
            std::fs::read_to_string(trial.output("page")).unwrap()
        };
        let html = page();
        assert_eq!(html, page(), "whatever the paths");
        for part in ["data-key=\"0.25\"", "data:image/svg+xml;base64,", "nothing leaks", ">passed</span>"] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<script>alert") && !html.contains("<img src=x"), "{html}");
    }

    #[test]
    fn what_cannot_be_shown_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x");
        std::fs::write(&path, "\\begin{tabular}").unwrap();
        let trial = Trial::of::<Report>(json!({ "tables": ["t"] }), [("tables", path)]);
        let html = std::fs::read_to_string(trial.output("page")).unwrap();
        assert!(html.contains("Not shown: Table 1 is neither a table"), "{html}");
    }

    #[test]
    fn the_weights_of_a_fusion_are_shown() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x");
        let term = json!({ "model": "ridge", "scale": "response", "floor": 0.03, "weight": -1.557 });
        let fusion =
            json!({ "terms": [term], "idf_weight": 0.5, "constant": 2.25, "rows": 9, "counts": [1] });
        std::fs::write(&path, fusion.to_string()).unwrap();
        let trial = Trial::of::<Report>(json!({ "fusions": ["f"] }), [("fusions", path)]);
        let html = std::fs::read_to_string(trial.output("page")).unwrap();
        for part in ["ridge", "-1.5570", "0.5000", "2.2500"] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn a_report_of_nothing_is_refused() {
        let report: Report = serde_json::from_value(json!({})).unwrap();
        assert!(report.issues()[0].message.contains("it shows nothing"));
    }

    #[test]
    fn evaluations_bring_their_labels_unless_one_output_is_meant() {
        let slots = |reference: &str| {
            let report: Report = serde_json::from_value(json!({ "evaluations": [reference] })).unwrap();
            report.inputs().into_iter().map(|input| input.slot).collect::<Vec<_>>()
        };
        assert_eq!(slots("eval[*]"), ["evaluations", "labels"]);
        assert_eq!(slots("eval[*].evaluation"), ["evaluations"]);
    }
}
