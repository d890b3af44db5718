//! `pipe report`: writes one HTML page with the state of a pipeline, its results, and how to reproduce them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::args::ReportArgs;
use super::cache::warn_of_damage;
use super::exit::{Failure, Outcome};
use super::history::PastRun;
use super::pipeline_selection::PipelineSelection;
use super::project::Project;
use super::survey::{Survey, manifest};
use super::variant_files::set_arguments;
use super::{text, write_result};
use pipe_core::artifact::Artifact;
use pipe_core::captured::captured;
use pipe_core::kind::FILE;
use pipe_core::quote;
use pipe_engine::plan::{Why, key};
use pipe_engine::runner::Outlook;
use pipe_engine::spec::pipeline::{Instance, InstanceIndex};
use pipe_engine::store::TemporaryDirectory;
use pipe_engine::store::manifest::{Manifest, Stored};
use pipe_ml::artifacts::LabelRecords;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_report::page::dag::{self, DagNode};
use pipe_report::page::grid::{GridCell, GridColumn, GridRow, PageGrid};
use pipe_report::page::html::{Html, el};
use pipe_report::page::status::Status;
use pipe_report::page::{Page, Section, facts};
use pipe_stages::report::{Content, ShownArtifact, has_file_forms, is_shown};

/// How many past runs are listed.
const LISTED_RUNS: usize = 10;

/// Runs `pipe report`.
pub(super) fn report(project: &Project, args: &ReportArgs) -> Outcome {
    let selection = PipelineSelection::file(&args.pipeline, args.file.as_ref())?;
    let survey = Survey::of(project, selection.file.as_ref(), &args.pipeline, &[])?;
    let pipeline = survey.plan.pipeline();
    let runs = past_runs(&survey)?;
    let page = PipelineReport { survey: &survey, runs, set: &args.pipeline.set }.page()?;
    warn_of_damage(project, &survey.store);
    let default = || PathBuf::from(format!("results/{}.html", pipeline.name));
    write_result(&args.output.clone().unwrap_or_else(default), &page.render())
}

/// Returns the newest runs of this pipeline.
fn past_runs(survey: &Survey) -> Result<Vec<PastRun>, Failure> {
    let mut runs = Vec::new();
    for record in survey.store.runs()? {
        let past = PastRun::read(&survey.store, record)?;
        if past.pipeline() == survey.plan.pipeline().name {
            runs.push(past);
        }
        if runs.len() == LISTED_RUNS {
            break;
        }
    }
    Ok(runs)
}

/// Everything that the page is made of.
struct PipelineReport<'a> {
    survey: &'a Survey,
    runs: Vec<PastRun>,
    set: &'a [String],
}

impl PipelineReport<'_> {
    fn page(&self) -> Result<Page, Failure> {
        let pipeline = self.survey.plan.pipeline();
        let mut sections = self.content()?.sections();
        sections.push(self.pipeline());
        sections.extend([self.parameters(), self.runs(), self.environment()].into_iter().flatten());
        sections.push(self.reproduce());
        let lead = self.lead();
        Ok(Page { title: pipeline.name.clone(), lead, sections, ..Page::default() })
    }

    fn lead(&self) -> Html {
        let all = self.survey.outlooks.len();
        let fresh = self.manifests().count();
        let state = match all - fresh {
            0 => format!("all {} fresh", text::count(all, "stage")),
            stale => format!("{fresh} of {} fresh, {stale} to run", text::count(all, "stage")),
        };
        let written = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
        let lead = el("p").text(&format!("{}: {state}, written {written}", self.file().display()));
        let unmet = self.survey.unmet_expectations();
        if unmet.is_empty() {
            return lead.into();
        }
        let sentences = unmet.iter().map(|sentence| el("li").text(sentence));
        let notice = el("div")
            .class("notice")
            .text("Not as the pipeline expects:")
            .child(el("ul").children(sentences));
        el("div").child(lead).child(notice).into()
    }

    /// Returns what was computed and how long it took.
    fn facts(&self) -> Html {
        let seconds: f64 = self.manifests().map(|(_, manifest)| manifest.seconds).sum();
        let mut entries = vec![("computing it took", text::duration(seconds))];
        if let Some(revision) = revision() {
            entries.push(("revision", revision));
        }
        entries.push(("pipe", env!("CARGO_PKG_VERSION").to_owned()));
        facts(entries)
    }

    /// Returns the path of the pipeline, relative to the project if possible, because the page is read on other
    /// machines too.
    fn file(&self) -> PathBuf {
        let file = &self.survey.plan.pipeline().file;
        let here = std::env::current_dir().and_then(|here| here.canonicalize());
        let inside = here.ok().and_then(|here| Some(file.strip_prefix(here).ok()?.to_owned()));
        inside.unwrap_or_else(|| file.clone())
    }

    fn manifests(&self) -> impl Iterator<Item = (&Instance, &Manifest)> {
        self.survey.instances().filter_map(|(_, instance, outlook)| Some((instance, manifest(outlook)?)))
    }

    /// Returns the status of an instance, from the cache and from the latest run, and a note.
    fn status(&self, index: InstanceIndex) -> (Status, String) {
        let outlook = &self.survey.outlooks[index.0];
        let (_, reason) = self.survey.words(outlook);
        let name = self.survey.name(index);
        let failed = self.runs.first().and_then(|past| {
            past.instances().into_iter().find(|end| end.instance == name && end.outcome == "failed")
        });
        match (outlook, failed) {
            (Outlook::Fresh(_) | Outlook::NotSelected, _) => (Status::Fresh, String::new()),
            (_, Some(end)) => (Status::Failed, end.note),
            (Outlook::CannotRun(problem), None) => (Status::Failed, problem.clone()),
            (
                Outlook::WillRun(Why::Failed { .. })
                | Outlook::MayRun { known: Some(Why::Failed { .. }), .. },
                None,
            ) => (Status::Failed, reason),
            (Outlook::WillRun(Why::NeverRun) | Outlook::MayRun { known: Some(Why::NeverRun), .. }, None) => {
                (Status::Waiting, "never run".to_owned())
            }
            _ => (Status::Stale, reason),
        }
    }

    fn pipeline(&self) -> Section {
        let plan = &self.survey.plan;
        let mut nodes = Vec::new();
        let mut rows = Vec::new();
        let mut noted = false;
        for (index, instance, outlook) in self.survey.instances() {
            let (status, note) = self.status(index);
            let name = self.survey.name(index);
            let manifest = manifest(outlook);
            let note = manifest.map_or(note, |manifest| manifest.warnings.join("; "));
            noted |= !note.is_empty();
            nodes.push(DagNode {
                name: name.clone(),
                stage: instance.id.stage.clone(),
                kind: instance.kind.to_owned(),
                status,
                took: manifest.map(|manifest| text::duration(manifest.seconds)),
                needs: plan.dependencies(index).map(|need| need.0).collect(),
            });
            let mut cells = vec![
                GridCell::text(name),
                GridCell::text(instance.kind),
                GridCell::status(status.word(), status.word()),
            ];
            cells.extend(match manifest {
                None => [
                    GridCell::none(),
                    GridCell::none(),
                    GridCell::none(),
                    GridCell::none(),
                    GridCell::text(note),
                ],
                Some(m) => [
                    GridCell::number(text::duration(m.seconds), m.seconds),
                    GridCell::number(text::duration(m.cpu_seconds), m.cpu_seconds),
                    GridCell::number(text::bytes(m.max_rss_bytes), m.max_rss_bytes as f64),
                    GridCell::text(&m.finished),
                    GridCell::text(note),
                ],
            });
            rows.push(GridRow::plain(cells));
        }
        let mut columns = ["stage", "kind", "state"].map(GridColumn::text).to_vec();
        columns.push(GridColumn::number("took"));
        columns.push(GridColumn::number("processor").help("time on all processors together"));
        columns.push(GridColumn::number("memory").help("at most, resident"));
        columns.push(GridColumn::text("computed"));
        if noted {
            columns.push(GridColumn::text("note"));
        }
        let mut section = Section::new("pipeline", "Pipeline");
        section.add(self.facts());
        section.add(dag::draw(&nodes));
        section.add(PageGrid { caption: "Stages".into(), columns, rows }.html());
        section
    }

    /// Tables, figures, evaluations, data sets and audits of the fresh stages.
    fn content(&self) -> Result<Content, Failure> {
        let scratch = TemporaryDirectory::new()?;
        let mut content = Content::default();
        let evaluating: BTreeSet<&str> = self
            .manifests()
            .filter(|(instance, _)| {
                instance.outputs.iter().any(|output| output.artifact == EvaluationRecord::TYPE)
            })
            .map(|(instance, _)| instance.id.stage.as_str())
            .collect();
        for (index, instance, outlook) in self.survey.instances() {
            let Some(manifest) = manifest(outlook) else { continue };
            let path = |stored: &Stored| self.survey.store.artifact(stored, &scratch);
            let name = self.survey.name(index);
            let mut axes = instance.id.axes.clone();
            if evaluating.len() > 1 {
                axes.insert(0, ("stage".to_owned(), instance.id.stage.clone()));
            }
            for output in &instance.outputs {
                let Some(stored) = manifest.outputs.get(&output.name) else { continue };
                let wanted = match output.artifact {
                    FILE => self.is_shown_file(index, &output.name, &output.file_name),
                    artifact => is_shown(artifact),
                };
                if !wanted {
                    continue;
                }
                let title = match instance.outputs.len() {
                    1 => name.clone(),
                    _ => format!("{name}: {}", output.file_name),
                };
                let labels = instance.outputs.iter().find(|beside| {
                    output.artifact == EvaluationRecord::TYPE && beside.artifact == LabelRecords::TYPE
                });
                let labels = labels.and_then(|labels| manifest.outputs.get(&labels.name));
                content.add(ShownArtifact {
                    artifact: output.artifact,
                    name: &name,
                    file_title: &title,
                    axes: &axes,
                    path: &path(stored)?,
                    labels: labels.map(path).transpose()?.as_deref(),
                })?;
            }
        }
        Ok(content)
    }

    /// A plain file is shown if the pipeline places it, and if it looks like a table or a figure by its name.
    fn is_shown_file(&self, index: InstanceIndex, output: &str, file_name: &str) -> bool {
        let placements = &self.survey.plan.pipeline().placements;
        let placed = placements.iter().any(|place| place.instance == index && place.output == output);
        let ending = Path::new(file_name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let instance = self.survey.plan.instance(index);
        // The page shows the typed artifact of such a stage, which has the same content as its files.
        let twice = instance.outputs.iter().any(|output| has_file_forms(output.artifact));
        placed && !twice && ["csv", "tsv", "md", "svg", "png"].contains(&ending)
    }

    /// Returns, for each stage with several instances, the parameters that differ; and all parameters of every stage.
    fn parameters(&self) -> Option<Section> {
        let mut section = Section::folded("parameters", "Parameters");
        let mut stages: Vec<(&str, Vec<&Instance>)> = Vec::new();
        for instance in &self.survey.plan.pipeline().instances {
            match stages.last_mut() {
                Some((stage, members)) if *stage == instance.id.stage => members.push(instance),
                _ => stages.push((&instance.id.stage, vec![instance])),
            }
        }
        for (stage, instances) in &stages {
            if let Some(grid) = differing(stage, instances) {
                section.add(grid.html());
            }
        }
        for (stage, instances) in &stages {
            let first = params(instances[0]);
            let rows = first
                .iter()
                .map(|(name, value)| GridRow::plain(vec![GridCell::text(name), GridCell::code(value)]));
            let columns = ["parameter", "value"].map(GridColumn::text).to_vec();
            let caption = instances[0].id.to_string();
            let grid = PageGrid { caption, columns, rows: rows.collect() };
            if !grid.is_empty() {
                let summary = el("summary").text(&format!("All parameters of {stage}"));
                section.add(el("details").child(summary).child(grid.html()));
            }
        }
        (!section.content.is_empty()).then_some(section)
    }

    fn runs(&self) -> Option<Section> {
        let row = |past: &PastRun| {
            let count = |outcome| {
                let count = past.count(outcome);
                GridCell::number(count.to_string(), count as f64)
            };
            let took = past.summary().map_or_else(GridCell::none, |summary| {
                GridCell::number(text::duration(summary.seconds), summary.seconds)
            });
            GridRow::plain(vec![
                GridCell::text(&past.record.id),
                GridCell::text(past.started()),
                GridCell::text(past.state()),
                count("computed"),
                count("cached"),
                count("failed"),
                took,
            ])
        };
        let mut columns = ["run", "started", "state"].map(GridColumn::text).to_vec();
        columns.extend(["computed", "cached", "failed", "took"].map(GridColumn::number));
        let grid =
            PageGrid { caption: "Newest first".into(), columns, rows: self.runs.iter().map(row).collect() };
        let mut section = Section::folded("runs", "Runs");
        section.add(grid.html());
        (!grid.is_empty()).then_some(section)
    }

    fn environment(&self) -> Option<Section> {
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut rows = Vec::new();
        for (instance, manifest) in self.manifests() {
            for (name, value) in &manifest.environment {
                values.entry(name).or_default().insert(value);
            }
            rows.push(GridRow::plain(vec![
                GridCell::text(instance.id.to_string()),
                GridCell::code(manifest.key.to_string()),
            ]));
        }
        let mut section = Section::folded("environment", "Environment and keys");
        let together = |values: BTreeSet<&str>| values.into_iter().collect::<Vec<_>>().join("; ");
        section.add(facts(values.into_iter().map(|(name, values)| (name, together(values)))));
        let columns = ["stage", "key"].map(GridColumn::text).to_vec();
        let grid = PageGrid {
            caption: "The key of each result, which is a digest of everything that it depends on".into(),
            columns,
            rows,
        };
        section.add(grid.html());
        (!grid.is_empty()).then_some(section)
    }

    fn reproduce(&self) -> Section {
        let file = quote::shell(&self.file().to_string_lossy());
        let set = set_arguments(self.set);
        let mut commands = String::new();
        if let Some(revision) = revision() {
            commands.push_str(&format!("git checkout {}\n", revision.split(' ').next().unwrap_or_default()));
        }
        commands.push_str(&format!(
            "pipe run {file}{set}            # computes what is not in the cache\n\
             pipe plan {file}{set} --check   # exits with 0 if every result is up to date with code and data\n\
             pipe report {file}{set}         # writes this page\n"
        ));
        let mut section = Section::new("reproduce", "How to reproduce this");
        section.add(el("p").text(
            "Every result is stored under a key made of the version of the code, the parameters and the content of \
             the inputs. Run these commands in the project directory:",
        ));
        section.add(el("pre").child(el("code").text(&commands)));
        section
    }
}

/// Returns the parameters as they enter the key; those without a value are left out.
fn params(instance: &Instance) -> BTreeMap<String, String> {
    let parts = key::parts(instance, &[]);
    let params = parts.iter().filter_map(|(name, value)| Some((name.strip_prefix("params.")?, value)));
    params
        .filter(|(_, value)| *value != "null")
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Returns a table of the parameters in which the instances of a stage differ.
fn differing(stage: &str, instances: &[&Instance]) -> Option<PageGrid> {
    let all: Vec<BTreeMap<String, String>> = instances.iter().map(|instance| params(instance)).collect();
    let names: BTreeSet<&String> = all.iter().flat_map(|params| params.keys()).collect();
    let differs = |name: &&&String| all.iter().any(|params| params.get(**name) != all[0].get(**name));
    let names: Vec<&String> = names.iter().filter(differs).copied().collect();
    if names.is_empty() {
        return None;
    }
    let mut columns = vec![GridColumn::text("stage")];
    columns.extend(names.iter().map(|name| GridColumn::text(*name)));
    let row = |(instance, params): (&&Instance, &BTreeMap<String, String>)| {
        let value = |name: &&String| params.get(*name).map_or_else(GridCell::none, GridCell::code);
        let cells = std::iter::once(GridCell::text(instance.id.to_string())).chain(names.iter().map(value));
        GridRow::plain(cells.collect())
    };
    let rows = instances.iter().zip(&all).map(row).collect();
    Some(PageGrid { caption: format!("Where the instances of {stage} differ"), columns, rows })
}

/// Returns the commit that is checked out, and whether files differ from it; `None` outside of a git repository.
fn revision() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output =
            captured(Command::new("git").args(arguments)).ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit} with uncommitted changes") })
}
