//! `table`: lays evaluation records out as a table for a paper. See `docs/tables.md`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_untagged::UntaggedEnumVisitor;

use super::one_or_many::{AxisValue, OneOrMany, UserFile};
use pipe_core::artifact::{Artifact, FILE, PlainFile};
use pipe_core::default_value::is_default;
use pipe_core::issue::Issue;
use pipe_core::job::JobInput;
use pipe_core::kind::{AxisUse, AxisUses, InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::data::split_data::PartName;
use pipe_ml::metric::bootstrap::Bootstrap;
use pipe_ml::metric::decisions::Decisions;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::Metric;
use pipe_report::table::Table;
use pipe_report::table::build::build;
use pipe_report::table::display::{ShowN, TableDisplay, TableInterval, TableLayout, TableScale};
use pipe_report::table::exporter::{EXPORTERS, TableExporter};
use pipe_report::table::measured::{EXTERNAL, MeasuredRecord, PART, PROTOCOL};
use pipe_report::table::reference::{Reference, shipped_names};
use pipe_report::table::request::{self, TableRequest};
use pipe_report::table::sheet;
use pipe_report::table::significance::{self, Correction};
use pipe_report::table::term::TableTerm;

/// The parameters of `table`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableStage {
    /// `evaluate` stages, or commands that write JSON `{metric: value}`, whose values are marked as external. The axis
    /// `stage` distinguishes the records of several stages.
    pub from: OneOrMany<StageRef>,
    /// Axes of the matrix, `stage`, `protocol`, `part`; or metrics, if they are not in the columns.
    pub rows: OneOrMany<TableTerm>,
    /// Metrics. Axes in front of them form groups of columns.
    pub columns: OneOrMany<TableTerm>,
    /// Axes whose values are averaged over.
    #[serde(default)]
    pub mean_over: OneOrMany<String>,
    /// For an axis, the values that are shown, in that order.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, OneOrMany<AxisValue>>,
    /// Names for axes, values (`adaptive`, or `variant=adaptive` if two axes have it) and metrics.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// The number of decimals in print, in a table in percent only of the values in percent. The default is 4, and 2 for values
    /// in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digits: Option<u8>,
    /// The number of decimals of individual metrics in print.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, u8>")]
    pub digits_of: BTreeMap<Metric, u8>,
    /// The caption.
    pub caption: Option<String>,
    /// The label for `\ref`; the default is `tab:` and the name.
    pub label: Option<String>,
    /// The name of the table: files are called `NAME.tex`, `NAME.md` and so on, and macros start with it.
    #[serde(default = "default_name")]
    pub name: String,
    /// Whether the table spans both columns of the page (`table*`).
    #[serde(default)]
    pub wide: bool,
    /// The unit of the values: `percent` prints 41.52 instead of 0.4152.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scale: TableScale,
    /// The interval that is printed behind a value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interval: TableInterval,
    /// The cells that state their number of runs, if the numbers differ.
    #[serde(default, skip_serializing_if = "is_default")]
    pub show_n: ShowN,
    /// The width that the LaTeX table is made for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub layout: TableLayout,
    pub significance: Option<Significance>,
    /// Published values to print beside ours: a set that comes with `pipe`, or `{ file: PATH }`.
    #[serde(default)]
    pub reference: OneOrMany<ReferenceSource>,
}

/// Marks values that differ from the best one, or from that of the baseline, by a paired bootstrap over the evaluated rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Significance {
    /// The value of the compared axis to test against; the default is the best one.
    pub baseline: Option<AxisValue>,
    #[serde(default)]
    pub bootstrap: Bootstrap,
    #[serde(default)]
    pub correction: Correction,
}

/// Where published values come from.
#[derive(Debug, Clone, PartialEq)]
pub enum ReferenceSource {
    /// A set that comes with `pipe`.
    Shipped(String),
    /// A file of the user.
    File(String),
}

fn default_name() -> String {
    "table".to_owned()
}

const MAX_DIGITS: u8 = 15;

impl TableStage {
    /// The evaluation records.
    pub const FROM: Slot<EvaluationRecord> = Slot::new("from");
    /// The decisions of the same evaluations, for tests of significance.
    pub const DECISIONS: Slot<Decisions> = Slot::new("decisions").written_in("from");
    /// The table with everything that the other formats are made from.
    pub const JSON: Out<Table> = Out::new("json", "table.json");

    /// Returns the output for the table in a file format.
    pub fn export(exporter: &TableExporter) -> Out<PlainFile> {
        Out::new(exporter.name, exporter.file_suffix)
    }

    /// Returns the slot of a file with published values, by its position in the list of references.
    pub fn reference_slot(position: usize) -> Slot<PlainFile> {
        let slot = match position {
            0 => Slot::new("reference"),
            _ => Slot::named(format!("reference_{}", position + 1)),
        };
        slot.written_in("reference")
    }
}

impl StageKind for TableStage {
    const NAME: &'static str = "table";
    const VERSION: u32 = 4;
    const SUMMARY: &'static str =
        "Lays evaluation records out as a table: LaTeX, Markdown, CSV, JSON, macros";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        let mut inputs = vec![Self::FROM.all(&self.from.0)];
        if self.significance.is_some() {
            inputs.push(Self::DECISIONS.all(&self.from.0));
        }
        inputs
            .extend(self.reference_files().map(|(position, path)| Self::reference_slot(position).file(path)));
        inputs
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        let declared = EXPORTERS.iter().map(|exporter| {
            let file_name = format!("{}{}", self.name, exporter.file_suffix);
            if exporter.name == Self::JSON.name() {
                Self::JSON.decl_as(&file_name)
            } else {
                Self::export(exporter).decl_as(&file_name)
            }
        });
        declared.collect()
    }

    fn issues(&self) -> Vec<Issue> {
        let mut issues = request::issues(&self.rows.0, &self.columns.0, &self.mean_over.0);
        if self.from.0.is_empty() {
            issues.push(Issue::new("from", "name at least one `evaluate` stage"));
        }
        let of_metrics =
            self.digits_of.iter().map(|(metric, digits)| (format!("digits_of.{metric}"), *digits));
        let stated = self.digits.map(|digits| ("digits".to_owned(), digits));
        for (field, digits) in stated.into_iter().chain(of_metrics) {
            if digits > MAX_DIGITS {
                issues.push(Issue::new(field, format!("at most {MAX_DIGITS} decimals make sense")));
            }
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        let letter = self.name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !letter || !self.name.bytes().all(plain) {
            let message = "use letters, digits, `_` and `-`, and start with a letter: files and macros are named after it";
            issues.push(Issue::new("name", message));
        }
        let in_label = |b: u8| plain(b) || matches!(b, b':' | b'.' | b'/' | b'+');
        if self.label.as_ref().is_some_and(|label| label.is_empty() || !label.bytes().all(in_label)) {
            issues.push(Issue::new("label", "use letters, digits and `:` `.` `/` `+` `_` `-`"));
        }
        if self.layout == TableLayout::Narrow && self.wide {
            let hint = "remove one of the two";
            issues.push(
                Issue::new("wide", "a narrow table is made for one column, and `wide` spans both").hint(hint),
            );
        }
        if let Some((axis, _)) = self.only.iter().find(|(_, values)| values.0.is_empty()) {
            issues.push(Issue::new(format!("where.{axis}"), "no value is left to show"));
        }
        for reference in &self.reference.0 {
            if let ReferenceSource::Shipped(name) = reference
                && let Err(error) = Reference::shipped(name)
            {
                issues.push(Issue::new(
                    "reference",
                    format!("{error}, and `{{ file: PATH }}` names one of yours"),
                ));
            }
        }
        if let Some(significance) = &self.significance {
            let bootstrap = significance.bootstrap.issues().into_iter();
            issues.extend(bootstrap.map(|issue| issue.within("significance.bootstrap")));
        }
        issues
    }

    fn axes(&self) -> AxisUses {
        let named = |field, axis: &String| AxisUse { field, axis: axis.clone(), ..AxisUse::default() };
        let shown = [("rows", &self.rows), ("columns", &self.columns)];
        let terms = shown.into_iter().flat_map(|(field, terms)| {
            terms.0.iter().filter_map(move |term| match term {
                TableTerm::Axis(axis) => Some(AxisUse { or_other: true, ..named(field, axis) }),
                TableTerm::Metric(_) => None,
            })
        });
        let averaged = self.mean_over.0.iter().map(|axis| named("mean_over", axis));
        let kept = self.only.iter().flat_map(|(axis, values)| {
            let value =
                move |value: &AxisValue| AxisUse { value: Some(value.0.clone()), ..named("where", axis) };
            std::iter::once(named("where", axis)).chain(values.0.iter().map(value))
        });
        AxisUses {
            slots: vec![Self::FROM.name().to_owned()],
            given: vec![
                (PROTOCOL, [Protocol::Honest, Protocol::Oracle].map(Protocol::name).to_vec()),
                (PART, vec![PartName::Test.name(), PartName::Validation.name(), EXTERNAL]),
            ],
            others: Some(Metric::vocabulary()),
            uses: terms.chain(averaged).chain(kept).collect(),
        }
    }
}

impl TableStage {
    fn reference_files(&self) -> impl Iterator<Item = (usize, &str)> {
        self.reference.0.iter().enumerate().filter_map(|(position, reference)| match reference {
            ReferenceSource::File(path) => Some((position, path.as_str())),
            ReferenceSource::Shipped(_) => None,
        })
    }

    fn request(&self, work: &Work) -> Result<TableRequest> {
        let values = |values: &OneOrMany<AxisValue>| values.0.iter().map(|value| value.0.clone()).collect();
        let mut references = Vec::new();
        for (position, reference) in self.reference.0.iter().enumerate() {
            references.push(match reference {
                ReferenceSource::Shipped(name) => Reference::shipped(name)?,
                ReferenceSource::File(path) => {
                    let PlainFile(bytes) = work.open(Self::reference_slot(position))?;
                    let text = String::from_utf8(bytes).with_context(|| format!("`{path}` is not a text"))?;
                    Reference::parse(path, &text)?
                }
            });
        }
        Ok(TableRequest {
            name: self.name.clone(),
            rows: self.rows.0.clone(),
            columns: self.columns.0.clone(),
            mean_over: self.mean_over.0.clone(),
            only: self.only.iter().map(|(axis, wanted)| (axis.clone(), values(wanted))).collect(),
            names: self.names.clone(),
            digits: self.digits,
            digits_of: self.digits_of.clone(),
            caption: self.caption.clone(),
            label: self.label.clone(),
            wide: self.wide,
            display: TableDisplay {
                scale: self.scale,
                interval: self.interval,
                show_n: self.show_n,
                layout: self.layout,
            },
            references,
        })
    }
}

/// Reads an evaluation, or the values that a command reports.
fn read_record(input: &JobInput) -> Result<MeasuredRecord> {
    let blob = input.blob.context("the job does not say which content its inputs have")?;
    let axes = input.axes.clone();
    if input.artifact != FILE {
        let record = EvaluationRecord::open(&input.path)?;
        return Ok(MeasuredRecord { axes, blob, record, external: false });
    }
    let PlainFile(bytes) = PlainFile::open(&input.path)?;
    let values = serde_json::from_slice::<BTreeMap<Metric, f64>>(&bytes).with_context(|| {
        let named: Vec<String> = axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        format!(
            "the values of the command [{}] cannot be read; expected JSON such as `{{\"macro_f1\": 0.5}}`",
            named.join(", ")
        )
    })?;
    Ok(MeasuredRecord::reported(axes, blob, values))
}

impl RunStage for TableStage {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let request = stage.request(work)?;
        let measured = work.inputs(&Self::FROM).iter().map(read_record).collect::<Result<Vec<_>>>()?;
        let mut table = build(&request, &measured)?;
        for name in request.unused_names(&table) {
            work.warn(format!("`names` has `{name}`, but nothing has that name"));
        }
        if let Some((first, second)) = separate_different_rows(&mut table, &measured) {
            work.warn(format!(
                "`{first}` and `{second}` were not evaluated on the same rows, so the table does not rank them"
            ));
            table.different_rows = Some((first, second));
        }
        if let Some(significance) = &stage.significance {
            let settings = significance::SignificanceSettings {
                baseline: significance.baseline.as_ref().map(|value| value.0.clone()),
                bootstrap: significance.bootstrap,
                correction: significance.correction,
            };
            let axes: Vec<_> = table.records.iter().map(|record| record.axes.clone()).collect();
            let load = |record: usize| -> Result<_, LoadError> {
                let found = work.inputs(&Self::DECISIONS).iter().find(|input| input.axes == axes[record]);
                Ok(Decisions::open(&found.ok_or(LoadError::Missing)?.path)?.outcomes()?)
            };
            significance::test(&mut table, &settings, load)?;
        }
        let sheet = sheet::lay_out(&table);
        for exporter in EXPORTERS.iter().filter(|exporter| exporter.name != Self::JSON.name()) {
            work.save(Self::export(exporter), &(exporter.export)(&table, &sheet).into())?;
        }
        work.save(Self::JSON, &table)
    }
}

/// Removes the ranks of results that compete but were not evaluated on the same rows, and returns the names of the first two
/// of them. Their numbers of rows, labels and true entries differ, except by chance.
fn separate_different_rows(table: &mut Table, measured: &[MeasuredRecord]) -> Option<(String, String)> {
    let mut different = None;
    for contest in table.contests() {
        let mut competitors = contest.iter().filter_map(|&(row, column)| {
            let cell = table.cells[row][column].as_ref()?;
            let name = table.entry_on(&table.compared, row, column).map_or("", |entry| entry.title.as_str());
            // The mean over folds is a value on the rows of all folds.
            let rows = cell.records.iter().filter_map(|&record| rows_of(table, measured, record));
            Some((name.to_owned(), rows.collect::<BTreeSet<_>>()))
        });
        let Some((first, rows)) = competitors.next() else { continue };
        let Some((other, _)) = competitors.find(|(_, others)| *others != rows) else { continue };
        different.get_or_insert((first, other));
        for (row, column) in contest {
            if let Some(cell) = &mut table.cells[row][column] {
                cell.rank = None;
            }
        }
    }
    different
}

/// Returns what tells the rows of a record apart from other rows.
fn rows_of(table: &Table, measured: &[MeasuredRecord], record: usize) -> Option<(u64, u64, u64)> {
    let axes = &table.records.get(record)?.axes;
    let evaluation = &measured.iter().find(|measured| measured.axes == *axes)?.record.evaluation;
    let true_entries = evaluation.get(Metric::TruePositiveRatio).map_or(0.0, |share| share.reveal().1);
    Some((evaluation.rows(), evaluation.labels(), true_entries.to_bits()))
}

#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("there are no decisions for one of the evaluations")]
    Missing,
    #[error(transparent)]
    Data(#[from] pipe_ml::data::error::DataError),
    #[error(transparent)]
    Shape(#[from] pipe_ml::metric::counts::ShapeMismatch),
}

/// The path of a file is not part of the key; its content is, as an input.
impl Serialize for ReferenceSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Shipped(name) => serializer.serialize_str(name),
            Self::File(_) => serializer.serialize_unit(),
        }
    }
}

impl<'de> Deserialize<'de> for ReferenceSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("the name of a reference, or `{ file: PATH }`")
            .string(|name| Ok(Self::Shipped(name.to_owned())))
            .map(|fields| fields.deserialize::<UserFile>().map(|field| Self::File(field.file)))
            .deserialize(deserializer)
    }
}

impl JsonSchema for ReferenceSource {
    fn schema_name() -> Cow<'static, str> {
        "TableReference".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let shipped: Vec<_> = shipped_names().collect();
        json_schema!({
            "anyOf": [
                { "enum": shipped },
                {
                    "type": "object",
                    "properties": { "file": { "type": "string", "description": "A file of yours, relative to the project directory." } },
                    "required": ["file"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::json;

    use super::super::stage_test::StageTest;
    use super::*;
    use pipe_core::digest::{BlobId, Digest};
    use pipe_ml::data::csr::Csr;
    use pipe_ml::metric::counts::Counts;
    use pipe_ml::metric::evaluation::Evaluator;

    fn check(yaml: &str) -> Vec<String> {
        let stage: TableStage = serde_yaml::from_str(yaml).unwrap();
        stage.issues().into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
    }

    #[test]
    fn one_value_and_a_list_of_one_value_give_the_same_key() {
        let params = |yaml: &str| {
            let stage: TableStage = serde_yaml::from_str(yaml).unwrap();
            serde_json::to_value(&stage).unwrap()
        };
        let one =
            "{ from: eval, rows: variant, columns: macro_f1, where: { seed: 1 }, reference: paper-table-1 }";
        let many = "{ from: ['eval[*]'], rows: [variant], columns: [macro_f1], where: { seed: ['1'] }, reference: [paper-table-1] }";
        assert_eq!(params(one), params(many));
        let file = |path: &str| {
            params(&format!("{{ from: e, rows: v, columns: bce, reference: {{ file: {path} }} }}"))
        };
        let plain = params("{ from: e, rows: v, columns: bce }");
        let defaults = "scale: fraction, interval: deviation, show_n: all, layout: normal";
        assert_eq!(plain, params(&format!("{{ from: e, rows: v, columns: bce, {defaults} }}")));
        let percent =
            |more: &str| params(&format!("{{ from: e, rows: v, columns: bce, scale: percent{more} }}"));
        assert_ne!(percent(""), percent(", digits: 4"), "they print two and four decimals");
        assert!(
            plain.get("scale").is_none(),
            "options that came later must not change the keys of older tables"
        );
        assert_eq!(file("a.yaml"), file("b.yaml"), "the path of a file is not part of the key");
    }

    #[test]
    fn a_value_that_cannot_be_used_is_an_issue() {
        let issues = |yaml: &str| check(yaml).join("\n");
        assert_eq!(issues("{ from: eval, rows: variant, columns: [data, macro_f1, bce] }"), "");
        for (yaml, expected) in [
            (
                "{ from: e, rows: variant, columns: macro_fi }",
                "columns: there is no metric `macro_fi`; did you",
            ),
            ("{ from: e, rows: variant, columns: [seed, macro_fi] }", "columns[1]: there is no metric"),
            ("{ from: e, rows: variant, columns: seed }", "no metric is named"),
            ("{ from: e, rows: bce, columns: macro_f1 }", "metrics are in the rows already"),
            ("{ from: e, rows: [v, v], columns: bce }", "rows[1]: `v` is given twice"),
            ("{ from: e, rows: v, columns: bce, mean_over: v }", "averaged over"),
            ("{ from: e, rows: v, columns: bce, digits: 16 }", "digits: at most 15"),
            ("{ from: e, rows: v, columns: bce, digits_of: { bce: 16 } }", "digits_of.bce: at most 15"),
            ("{ from: e, rows: v, columns: bce, wide: true, layout: narrow }", "wide: a narrow table"),
            ("{ from: e, rows: v, columns: bce, name: 1st }", "name: use letters"),
            ("{ from: e, rows: v, columns: bce, label: 'a}b' }", "label: use letters"),
            ("{ from: e, rows: v, columns: bce, reference: paper-table-9 }", "paper-table-1"),
            ("{ from: e, rows: v, columns: bce, where: { v: [] } }", "where.v: no value is left"),
            (
                "{ from: e, rows: v, columns: bce, significance: { bootstrap: { replicates: 1 } } }",
                "replicates",
            ),
        ] {
            assert!(issues(yaml).contains(expected), "{yaml}: {}", issues(yaml));
        }
    }

    #[test]
    fn every_mentioned_axis_is_declared_so_that_it_can_be_checked() {
        let yaml = "{ from: e, rows: [v, part], columns: bce, mean_over: seed, where: { protocol: honest, lr: [0.1] } }";
        let stage: TableStage = serde_yaml::from_str(yaml).unwrap();
        let shown = |named: &AxisUse| format!("{} {} {:?}", named.field, named.axis, named.value);
        assert_eq!(
            stage.axes().uses.iter().map(shown).collect::<Vec<_>>(),
            [
                "rows v None",
                "rows part None",
                "mean_over seed None",
                "where lr None",
                "where lr Some(\"0.1\")",
                "where protocol None",
                "where protocol Some(\"honest\")"
            ]
        );
    }

    #[test]
    fn decisions_are_inputs_only_if_significance_is_tested() {
        let slots = |yaml: &str| -> Vec<String> {
            let stage: TableStage = serde_yaml::from_str(yaml).unwrap();
            stage.inputs().into_iter().map(|input| input.slot).collect()
        };
        assert_eq!(slots("{ from: e, rows: v, columns: bce }"), ["from"]);
        assert_eq!(slots("{ from: e, rows: v, columns: bce, significance: {} }"), ["from", "decisions"]);
    }

    /// Writes the outputs of an `evaluate` stage with five labels, where every n-th row is predicted wrongly.
    fn evaluate(directory: &Path, wrong_every: usize) -> (PathBuf, PathBuf) {
        evaluate_rows(directory, 150, wrong_every)
    }

    fn evaluate_rows(directory: &Path, rows: usize, wrong_every: usize) -> (PathBuf, PathBuf) {
        let truth: Vec<Vec<u32>> = (0..rows as u32).map(|row| vec![row % 5]).collect();
        let guess = |(at, row): (usize, &Vec<u32>)| vec![(row[0] + u32::from(at % wrong_every == 0)) % 5];
        let predicted: Vec<Vec<u32>> = truth.iter().enumerate().map(guess).collect();
        let [truth, predicted] = [truth, predicted].map(|rows| Csr::from_rows(5, &rows));
        let mut evaluator = Evaluator::new(5, None);
        evaluator.add_counts(&Counts::of(&truth, &predicted).unwrap());
        let evaluation = evaluator.finish(Protocol::Honest);
        let record = EvaluationRecord { part: PartName::Test, evaluation, intervals: None };
        std::fs::create_dir_all(directory).unwrap();
        let file = directory.join("evaluation.json");
        std::fs::write(&file, serde_json::to_vec(&record).unwrap()).unwrap();
        Decisions::write(&directory.join("decisions"), Protocol::Honest, &truth, &predicted).unwrap();
        (file, directory.join("decisions"))
    }

    #[test]
    fn results_on_different_rows_are_not_ranked() {
        let directory = tempfile::tempdir().unwrap();
        let run = |rows: [usize; 2]| {
            let mut inputs = BTreeMap::<String, Vec<JobInput>>::new();
            for ((variant, wrong_every), rows) in [("a", 7), ("b", 3)].into_iter().zip(rows) {
                let (path, _) =
                    evaluate_rows(&directory.path().join(format!("{variant}{rows}")), rows, wrong_every);
                let axes = vec![("variant".to_owned(), variant.to_owned())];
                let blob = Some(BlobId::new(Digest::of(&std::fs::read(&path).unwrap())));
                let input = JobInput { axes, artifact: "evaluation".to_owned(), path, blob };
                inputs.entry("from".to_owned()).or_default().push(input);
            }
            let body = json!({ "from": "eval", "rows": "variant", "columns": "macro_f1" });
            let ran = StageTest::run_job::<TableStage>(body, inputs).unwrap();
            let warnings = ran.warnings().iter().map(ToString::to_string).collect::<Vec<String>>();
            (warnings, std::fs::read_to_string(ran.output("md")).unwrap())
        };
        let (warnings, text) = run([150, 150]);
        assert!(warnings.is_empty() && text.contains("**"), "{warnings:?} {text}");
        let (warnings, text) = run([150, 145]);
        assert!(warnings[0].starts_with("`a` and `b` were not evaluated on the same rows"), "{warnings:?}");
        assert!(
            !text.contains("**") && text.contains("a and b were not evaluated on the same rows"),
            "{text}"
        );
    }

    #[test]
    fn the_stage_writes_every_format_the_same_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let mut inputs = BTreeMap::<String, Vec<JobInput>>::new();
        for (variant, seed, wrong_every) in
            [("good", "0", 40), ("good", "1", 50), ("bad", "0", 2), ("bad", "1", 3)]
        {
            let (evaluation, decisions) =
                evaluate(&directory.path().join(format!("{variant}{seed}")), wrong_every);
            let axes = vec![("variant".to_owned(), variant.to_owned()), ("seed".to_owned(), seed.to_owned())];
            let blob = Some(BlobId::new(Digest::of(&std::fs::read(&evaluation).unwrap())));
            for (slot, path) in [("from", evaluation), ("decisions", decisions)] {
                let input = JobInput { axes: axes.clone(), artifact: slot.to_owned(), path, blob };
                inputs.entry(slot.to_owned()).or_default().push(input);
            }
        }
        let refs = directory.path().join("refs.yaml");
        let yaml = "{heading: Theirs, citation: A. Nonymous, protocol: honest, rows: [{name: Good, match: {variant: good}, values: {macro_f1: 0.5}}]}";
        std::fs::write(&refs, yaml).unwrap();
        let blob = Some(BlobId::new(Digest::of(yaml.as_bytes())));
        let file = JobInput { axes: Vec::new(), artifact: "file".to_owned(), path: refs, blob };
        inputs.insert("reference".to_owned(), vec![file]);
        let body = json!({
            "from": "eval", "rows": "variant", "columns": ["macro_f1", "hamming_loss"], "mean_over": "seed",
            "significance": { "baseline": "bad", "bootstrap": { "replicates": 200 } },
            "reference": { "file": "refs.yaml" },
            "names": { "variant=good": "good", "macro_f1": "F1", "seed": "run", "god": "nobody" },
        });
        let run = || StageTest::run_job::<TableStage>(body.clone(), inputs.clone()).unwrap();
        let (first, second) = (run(), run());
        for output in ["tex", "standalone", "md", "csv", "json", "macros"] {
            let text = std::fs::read_to_string(first.output(output)).unwrap();
            assert_eq!(text, std::fs::read_to_string(second.output(output)).unwrap());
            assert!(!text.contains(directory.path().to_str().unwrap()), "{output} names a path");
        }
        let unused = ["god", "seed"].map(|name| format!("`names` has `{name}`, but nothing has that name"));
        assert_eq!(first.warnings(), unused);
        let md = std::fs::read_to_string(first.output("md")).unwrap();
        assert!(md.contains("\\* differs from bad"), "{md}");
        assert!(md.contains("| good | **0.9"), "{md}");
        assert!(md.contains("Theirs: A. Nonymous."), "{md}");
    }
}
