//! `report`: writes results as one self-contained HTML page.
//!
//! The page of a stage must have the same bytes for the same inputs, so it contains no time, host or path. The page of
//! `pipe report` does.

mod content;

pub use content::{Content, ShownArtifact, has_file_forms, is_shown};

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pipe_core::artifact::{Artifact, ArtifactType, FILE};
use pipe_core::issue::Issue;
use pipe_core::job::JobInput;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::artifacts::LabelRecords;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::fusion::Fusion;
use pipe_ml::metric::audit::Audit;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_report::artifacts::{HtmlPage, Svg};
use pipe_report::claim::ClaimVerdict;
use pipe_report::page::grid::{GridCell, GridColumn, GridRow, PageGrid};
use pipe_report::page::html::{Html, el};
use pipe_report::page::{Page, Section};
use pipe_report::table::Table;

/// The parameters of `report`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The title of the page.
    #[serde(default = "default_title")]
    pub title: String,
    /// A paragraph below the title.
    #[serde(default)]
    pub introduction: String,
    /// Evaluations. Those of whole `evaluate` stages are shown with the records of their labels.
    #[serde(default)]
    pub evaluations: Vec<StageRef>,
    /// CSV, Markdown or JSON files, or directories of such.
    #[serde(default)]
    pub tables: Vec<StageRef>,
    /// SVG or PNG files, or directories of such.
    #[serde(default)]
    pub figures: Vec<StageRef>,
    /// Data sets, whose statistics are shown. If there is exactly one, labels get their names from it.
    #[serde(default)]
    pub data: Vec<StageRef>,
    /// Audits, or JSON files with the fields `passed` and `sentence`.
    #[serde(default)]
    pub audits: Vec<StageRef>,
    /// `claim` stages, whose verdicts are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<StageRef>,
    /// `fuse` stages, whose weights are shown.
    #[serde(default)]
    pub fusions: Vec<StageRef>,
}

fn default_title() -> String {
    "Report".to_owned()
}

impl Report {
    /// The results of evaluations.
    pub const EVALUATIONS: Slot<EvaluationRecord> = Slot::new("evaluations");
    /// The records of the labels of those evaluations that are given as whole stages.
    pub const LABELS: Slot<LabelRecords> = Slot::new("labels").written_in("evaluations");
    /// Tables, or files.
    pub const TABLES: Slot<Table> = Slot::new("tables");
    /// Figures, or files.
    pub const FIGURES: Slot<Svg> = Slot::new("figures");
    /// Data sets.
    pub const DATA: Slot<SplitData> = Slot::new("data");
    /// Audits, or JSON files.
    pub const AUDITS: Slot<Audit> = Slot::new("audits");
    /// The verdicts of claims.
    pub const CLAIMS: Slot<ClaimVerdict> = Slot::new("claims");
    /// The weights of fusions.
    pub const FUSIONS: Slot<Fusion> = Slot::new("fusions");
    /// The page.
    pub const PAGE: Out<HtmlPage> = Out::new("page", "report.html");
}

impl StageKind for Report {
    const NAME: &'static str = "report";
    const VERSION: u32 = 5;
    const SUMMARY: &'static str = "Writes results as one self-contained HTML page";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        // A reference to a whole `evaluate` stage includes the records of its labels.
        let whole: Vec<StageRef> =
            self.evaluations.iter().filter(|reference| reference.output().is_none()).cloned().collect();
        let slots = [
            (&self.evaluations, Self::EVALUATIONS.many(&self.evaluations)),
            (&whole, Self::LABELS.many(&whole)),
            (&self.tables, Self::TABLES.all(&self.tables)),
            (&self.figures, Self::FIGURES.all(&self.figures)),
            (&self.data, Self::DATA.many(&self.data)),
            (&self.audits, Self::AUDITS.all(&self.audits)),
            (&self.claims, Self::CLAIMS.many(&self.claims)),
            (&self.fusions, Self::FUSIONS.many(&self.fusions)),
        ];
        slots.into_iter().filter(|(references, _)| !references.is_empty()).map(|(_, input)| input).collect()
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::PAGE.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let all = [
            &self.evaluations,
            &self.tables,
            &self.figures,
            &self.data,
            &self.audits,
            &self.claims,
            &self.fusions,
        ];
        if all.iter().all(|references| references.is_empty()) {
            let message = "the report shows nothing: give it `evaluations`, `tables`, `figures`, `data`, `audits`, `claims` or `fusions`";
            vec![Issue::new("", message)]
        } else {
            Vec::new()
        }
    }
}

impl RunStage for Report {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let mut content = Content::default();
        show(&mut content, work, &Self::EVALUATIONS, "Evaluation", EvaluationRecord::TYPE)?;
        // These two slots also take plain files, whose content decides how they are shown.
        show(&mut content, work, &Self::TABLES, "Table", FILE)?;
        show(&mut content, work, &Self::FIGURES, "Figure", FILE)?;
        show(&mut content, work, &Self::DATA, "Data set", SplitData::TYPE)?;
        show(&mut content, work, &Self::AUDITS, "Audit", Audit::TYPE)?;
        show(&mut content, work, &Self::CLAIMS, "Claim", ClaimVerdict::TYPE)?;
        show(&mut content, work, &Self::FUSIONS, "Fusion", Fusion::TYPE)?;
        let lead = if stage.introduction.is_empty() {
            Html::default()
        } else {
            el("p").text(&stage.introduction).into()
        };
        let mut sections = content.sections();
        sections.push(provenance(work));
        let page = Page { title: stage.title.clone(), lead, sections, ..Page::default() };
        work.save(Self::PAGE, &HtmlPage(page.render().into()))
    }
}

/// Adds the artifacts of a slot to the page. A plain file is shown like an artifact of the type `file_as`.
fn show<T>(
    content: &mut Content,
    work: &Work,
    slot: &Slot<T>,
    noun: &str,
    file_as: ArtifactType,
) -> Result<()> {
    let labels = work.inputs(&Report::LABELS);
    for (position, input) in work.inputs(slot).iter().enumerate() {
        let name = input_name(noun, position, input);
        let labels = labels.iter().find(|labels| labels.axes == input.axes);
        content.add(ShownArtifact {
            artifact: if is_shown(&input.artifact) && input.artifact != FILE {
                &input.artifact
            } else {
                file_as
            },
            file_title: &name,
            name: &name,
            axes: &input.axes,
            path: &input.path,
            labels: labels.map(|labels| labels.path.as_path()),
        })?;
    }
    Ok(())
}

/// Returns the name of an input on the page: its axes, or a number. Stage names are not used, because they must not
/// change the page.
fn input_name(noun: &str, position: usize, input: &JobInput) -> String {
    if input.axes.is_empty() {
        return format!("{noun} {}", position + 1);
    }
    let words = input.axes.iter().map(|(axis, value)| match axis.as_str() {
        "stage" | "output" => value.clone(),
        axis => format!("{axis} {value}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the section that lists the inputs of the page with their digests.
fn provenance(work: &Work) -> Section {
    let mut rows = Vec::new();
    for (slot, inputs) in &work.job().inputs {
        for (position, input) in inputs.iter().enumerate() {
            rows.push(GridRow::plain(vec![
                GridCell::text(input_name(slot, position, input)),
                GridCell::text(slot),
                GridCell::text(&input.artifact),
                GridCell::code(input.blob.map(|blob| blob.to_string()).unwrap_or_default()),
            ]));
        }
    }
    let columns = vec![
        GridColumn::text("input"),
        GridColumn::text("slot"),
        GridColumn::text("type"),
        GridColumn::text("blake3"),
    ];
    let mut section = Section::folded("provenance", "Made from");
    section.add(el("p").text(
        "The page follows from these inputs and nothing else: equal digests give an equal page. \
         `pipe report` and the pipeline's file make one with the graph, timings, environment and keys.",
    ));
    section.add(PageGrid { caption: "Inputs, by content".into(), columns, rows }.html());
    section
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::super::stage_test::StageTest;
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
    fn the_page_shows_its_inputs_and_has_the_same_bytes_every_time() {
        let page = || {
            let temp = tempfile::tempdir().unwrap();
            let test = StageTest::of::<Report>(body(), inputs(temp.path()));
            std::fs::read_to_string(test.output("page")).unwrap()
        };
        let html = page();
        assert_eq!(html, page(), "paths must not change the page");
        for part in ["data-key=\"0.25\"", "data:image/svg+xml;base64,", "nothing leaks", ">passed</span>"] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<script>alert") && !html.contains("<img src=x"), "{html}");
    }

    #[test]
    fn a_file_that_cannot_be_shown_is_named_on_the_page() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x");
        std::fs::write(&path, "\\begin{tabular}").unwrap();
        let test = StageTest::of::<Report>(json!({ "tables": ["t"] }), [("tables", path)]);
        let html = std::fs::read_to_string(test.output("page")).unwrap();
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
        let test = StageTest::of::<Report>(json!({ "fusions": ["f"] }), [("fusions", path)]);
        let html = std::fs::read_to_string(test.output("page")).unwrap();
        for part in ["ridge", "-1.5570", "0.5000", "2.2500"] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn two_models_of_one_kind_have_a_column_each() {
        let temp = tempfile::tempdir().unwrap();
        let term = |model: &str, weight: f64| json!({ "model": model, "scale": "response", "floor": 0.03, "weight": weight });
        let fusion = |name: &str, terms: serde_json::Value| {
            let fusion =
                json!({ "terms": terms, "idf_weight": 0.5, "constant": 2.25, "rows": 9, "counts": [1] });
            let path = temp.path().join(name);
            std::fs::write(&path, fusion.to_string()).unwrap();
            ("fusions", path)
        };
        let three = fusion("three", json!([term("kernel_ridge", 0.125), term("ridge", 0.25)]));
        let five = fusion(
            "five",
            json!([term("kernel_ridge", 1.5), term("kernel_ridge", 1.75), term("ridge", 0.75)]),
        );
        let test = StageTest::of::<Report>(json!({ "fusions": ["f"] }), [three, five]);
        let html = std::fs::read_to_string(test.output("page")).unwrap();
        let at = |part: &str| html.find(part).unwrap_or_else(|| panic!("{part}: {html}"));
        let order =
            [">kernel_ridge", "kernel_ridge 2", ">ridge", "0.1250", "0.2500", "1.5000", "1.7500", "0.7500"];
        assert!(order.map(at).is_sorted(), "{html}");
        assert!(!html.contains("ridge 3") && html.contains("in the order of `models`"), "{html}");
    }

    #[test]
    fn claims_are_shown_and_not_part_of_the_key_unless_given() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x");
        let comparison = json!({
            "than": "static", "holds": true, "value": 0.5, "other": 0.25, "difference": 0.25, "low": 0.125, "high": 0.375,
            "confidence": 0.95,
        });
        let claim = json!({
            "sentence": "it is better", "passed": true, "metric": "macro_f1", "protocol": "honest", "significant": true,
            "comparisons": [comparison],
        });
        std::fs::write(&path, claim.to_string()).unwrap();
        let test = StageTest::of::<Report>(json!({ "claims": ["wins"] }), [("claims", path)]);
        let html = std::fs::read_to_string(test.output("page")).unwrap();
        assert!(html.contains("<p>it is better.</p>") && html.contains(">significantly better<"), "{html}");

        let without: Report = serde_json::from_value(body()).unwrap();
        assert!(!serde_json::to_string(&without).unwrap().contains("claims"));
    }

    #[test]
    fn a_report_of_nothing_is_refused() {
        let report: Report = serde_json::from_value(json!({})).unwrap();
        assert!(report.issues()[0].message.contains("the report shows nothing"));
    }

    #[test]
    fn whole_evaluations_include_the_records_of_their_labels() {
        let slots = |reference: &str| {
            let report: Report = serde_json::from_value(json!({ "evaluations": [reference] })).unwrap();
            report.inputs().into_iter().map(|input| input.slot).collect::<Vec<_>>()
        };
        assert_eq!(slots("eval[*]"), ["evaluations", "labels"]);
        assert_eq!(slots("eval[*].evaluation"), ["evaluations"]);
    }
}
