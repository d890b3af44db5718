//! The content of a report page: which artifacts it can show, and how it shows them.

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;

use pipe_core::artifact::{Artifact, ArtifactType, FILE, read_json};
use pipe_core::job::Axes;
use pipe_ml::artifacts::LabelRecords;
use pipe_ml::data::describe::dataset_stats;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::stats::{Stats, TAIL_BOUNDS};
use pipe_ml::fusion::Fusion;
use pipe_ml::metric::audit::Audit;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_report::artifacts::Svg;
use pipe_report::claim::ClaimVerdict;
use pipe_report::page::evaluation::{self, Evaluated};
use pipe_report::page::grid::{GridCell, GridColumn, GridRow, PageGrid};
use pipe_report::page::html::{Html, el};
use pipe_report::page::number::{decimal, grouped};
use pipe_report::page::picture::Picture;
use pipe_report::page::verdict::VerdictCard;
use pipe_report::page::{
    Section, audit_card, claim_card, facts, label_tail, oracle_mark, result_table, table_file,
};
use pipe_report::table::Table;

/// An artifact that is to be shown on a page.
#[derive(Debug, Clone, Copy)]
pub struct ShownArtifact<'a> {
    /// Its type, which decides how it is shown.
    pub artifact: &'a str,
    /// The name of the result.
    pub name: &'a str,
    /// The title of a file that has none of its own.
    pub file_title: &'a str,
    /// The axes that identify an evaluation.
    pub axes: &'a Axes,
    /// Where the artifact is.
    pub path: &'a Path,
    /// The records of an evaluation's labels, if there are any.
    pub labels: Option<&'a Path>,
}

/// An artifact type that a page can show.
struct ShownType {
    artifact: ArtifactType,
    /// Whether the stages that write it also write plain files with the same content.
    has_file_forms: bool,
    add: fn(&mut Content, &ShownArtifact) -> Result<()>,
}

/// What a page can show. The stage `report` and the command `pipe report` both use this table.
const SHOWN: &[ShownType] = &[
    ShownType { artifact: EvaluationRecord::TYPE, has_file_forms: false, add: add::<EvaluationRecord> },
    ShownType { artifact: SplitData::TYPE, has_file_forms: false, add: add::<SplitData> },
    ShownType { artifact: Fusion::TYPE, has_file_forms: false, add: add::<Fusion> },
    ShownType { artifact: Table::TYPE, has_file_forms: true, add: add::<Table> },
    ShownType { artifact: AuditFile::TYPE, has_file_forms: true, add: add::<AuditFile> },
    ShownType { artifact: ClaimVerdict::TYPE, has_file_forms: false, add: add::<ClaimVerdict> },
    ShownType { artifact: Svg::TYPE, has_file_forms: true, add: add_file },
    ShownType { artifact: FILE, has_file_forms: false, add: add_file },
];

fn shown_type(artifact: &str) -> Option<&'static ShownType> {
    SHOWN.iter().find(|shown| shown.artifact == artifact)
}

/// Returns whether a page can show artifacts of a type.
pub fn is_shown(artifact: &str) -> bool {
    shown_type(artifact).is_some()
}

/// Returns whether the stages that write artifacts of a type also write plain files with the same content, which need
/// not be shown a second time.
pub fn has_file_forms(artifact: &str) -> bool {
    shown_type(artifact).is_some_and(|shown| shown.has_file_forms)
}

/// An artifact that can add itself to a page.
trait ShowOnPage: Artifact {
    fn show(self, shown: &ShownArtifact, content: &mut Content) -> Result<()>;
}

fn add<T: ShowOnPage>(content: &mut Content, shown: &ShownArtifact) -> Result<()> {
    T::open(shown.path)?.show(shown, content)
}

fn add_file(content: &mut Content, shown: &ShownArtifact) -> Result<()> {
    content.add_file(shown.file_title, shown.path)
}

impl ShowOnPage for EvaluationRecord {
    fn show(self, shown: &ShownArtifact, content: &mut Content) -> Result<()> {
        let labels = shown.labels.map(LabelRecords::open).transpose()?;
        let labels = labels.map(|LabelRecords(records)| records);
        content.evaluations.push(Evaluated::new(shown.axes.clone(), self, labels));
        Ok(())
    }
}

impl ShowOnPage for SplitData {
    fn show(self, shown: &ShownArtifact, content: &mut Content) -> Result<()> {
        let meta = self.meta();
        let mut facts = vec![
            ("features", grouped(meta.features)),
            ("labels", grouped(meta.labels)),
            ("split", meta.split.clone()),
        ];
        if let Some(reason) = &meta.weight_reason {
            facts.push(("weights", format!("{}, because {reason}", meta.weight.describe())));
        }
        if let Some(duplicates) = &meta.duplicates {
            facts.push(("test rows that are training rows too", grouped(duplicates.in_train)));
        }
        content.data.push(DescribedData {
            name: shown.name.to_owned(),
            facts,
            parts: dataset_stats(&self)?,
            label_names: self.label_names()?,
        });
        Ok(())
    }
}

/// An audit, or any JSON file that is given as one.
struct AuditFile(Value);

impl Artifact for AuditFile {
    const TYPE: ArtifactType = Audit::TYPE;

    fn open(path: &Path) -> Result<Self> {
        read_json(path).map(Self)
    }
}

impl ShowOnPage for AuditFile {
    fn show(self, shown: &ShownArtifact, content: &mut Content) -> Result<()> {
        content.audits.push(match Audit::deserialize(&self.0) {
            Ok(audit) => audit_card::html(shown.name, &audit),
            Err(_) => VerdictCard { name: shown.name.to_owned(), value: self.0 }.html(),
        });
        Ok(())
    }
}

impl ShowOnPage for ClaimVerdict {
    fn show(self, shown: &ShownArtifact, content: &mut Content) -> Result<()> {
        content.claims.push(claim_card::html(shown.name, &self));
        Ok(())
    }
}

impl ShowOnPage for Fusion {
    fn show(self, shown: &ShownArtifact, content: &mut Content) -> Result<()> {
        content.fusions.push((shown.name.to_owned(), self));
        Ok(())
    }
}

impl ShowOnPage for Table {
    fn show(self, _: &ShownArtifact, content: &mut Content) -> Result<()> {
        content.tables.push(result_table::html(&self));
        Ok(())
    }
}

/// Larger files are named and not shown.
const LARGEST: u64 = 8 << 20;

/// The results that a page shows, sorted by kind.
#[derive(Default)]
pub struct Content {
    evaluations: Vec<Evaluated>,
    tables: Vec<Html>,
    pictures: Vec<Picture>,
    data: Vec<DescribedData>,
    claims: Vec<Html>,
    audits: Vec<Html>,
    fusions: Vec<(String, Fusion)>,
    /// Why some files are not shown.
    left_out: Vec<String>,
}

struct DescribedData {
    name: String,
    facts: Vec<(&'static str, String)>,
    parts: Vec<(String, Stats)>,
    label_names: Option<Vec<String>>,
}

impl Content {
    /// Adds an artifact. One of a type that a page cannot show is ignored.
    pub fn add(&mut self, shown: ShownArtifact) -> Result<()> {
        match shown_type(shown.artifact) {
            Some(shown_type) => (shown_type.add)(self, &shown),
            None => Ok(()),
        }
    }

    /// Adds a table or a figure, depending on the file's content; of a directory, all files in it.
    fn add_file(&mut self, name: &str, path: &Path) -> Result<()> {
        if path.is_dir() {
            let mut names: Vec<_> = std::fs::read_dir(path)?
                .map(|entry| Ok(entry?.file_name()))
                .collect::<std::io::Result<_>>()?;
            names.sort();
            for file in names {
                self.add_file(&file.to_string_lossy(), &path.join(&file))?;
            }
            return Ok(());
        }
        if path.metadata()?.len() > LARGEST {
            self.left_out.push(format!("{name} is larger than {} MiB", LARGEST >> 20));
            return Ok(());
        }
        let bytes = std::fs::read(path)?;
        if let Some(picture) = Picture::sniff(name, &bytes) {
            self.pictures.push(picture);
        } else if let Some(table) =
            std::str::from_utf8(&bytes).ok().and_then(|text| table_file::read(name, text))
        {
            self.tables.push(table.html());
        } else {
            self.left_out
                .push(format!("{name} is neither a table (CSV, Markdown, JSON) nor a figure (SVG, PNG)"));
        }
        Ok(())
    }

    /// Returns the sections of the page.
    pub fn sections(&self) -> Vec<Section> {
        let sections = [
            self.results(),
            cards("claims", "Claims", &self.claims),
            self.figures(),
            cards("audits", "Audits", &self.audits),
            self.fusions(),
            self.labels(),
            self.data(),
        ];
        sections.into_iter().flatten().collect()
    }

    /// Returns the tables, and the evaluations below them. Without tables, the means over seeds come first.
    fn results(&self) -> Option<Section> {
        let mut section = Section::new("results", "Results");
        for table in &self.tables {
            section.add(table.clone());
        }
        for reason in &self.left_out {
            section.add(el("p").class("notice plain").text(&format!("Not shown: {reason}.")));
        }
        if !self.evaluations.is_empty() {
            let mut single = evaluation::headline(&self.evaluations).html();
            if evaluation::any_oracle(&self.evaluations) {
                single.push(el("p").class("notice").child(mark_legend()).text(oracle_mark::MEANING));
            }
            let means = evaluation::means(&self.evaluations).filter(|_| self.tables.is_empty());
            let is_folded = means.is_some() || !self.tables.is_empty();
            if let Some(means) = means {
                section.add(means.html());
            }
            section.add(if is_folded { fold("Every evaluation by itself", single) } else { single });
            section.add(fold("Every metric, with its definition", evaluation::all(&self.evaluations).html()));
        }
        (!section.content.is_empty()).then_some(section)
    }

    fn figures(&self) -> Option<Section> {
        let mut section = Section::new("figures", "Figures");
        section.add(el("div").class("figures").children(self.pictures.iter().map(Picture::html)));
        (!self.pictures.is_empty()).then_some(section)
    }

    fn fusions(&self) -> Option<Section> {
        // Two terms of one kind of model, such as two kernels, have a column each.
        let mut terms: Vec<(&str, usize)> = Vec::new();
        for (_, fusion) in &self.fusions {
            for (model, number) in numbered(fusion) {
                if !terms.contains(&(model, number)) {
                    // Next to those of the same kind.
                    let after = terms.iter().rposition(|&(other, _)| other == model);
                    terms.insert(after.map_or(terms.len(), |at| at + 1), (model, number));
                }
            }
        }
        let weight = |weight: f64| GridCell::number(decimal(weight), weight);
        let row = |(name, fusion): &(String, Fusion)| {
            let weight_of = |term: &(&str, usize)| {
                let at = numbered(fusion).position(|other| other == *term)?;
                Some(weight(fusion.terms[at].weight))
            };
            let mut cells = vec![GridCell::text(name)];
            cells.extend(terms.iter().map(|term| weight_of(term).unwrap_or_else(GridCell::none)));
            cells.extend([weight(fusion.idf_weight), weight(fusion.constant)]);
            GridRow::plain(cells)
        };
        let mut columns = vec![GridColumn::text("fusion")];
        columns.extend(terms.iter().map(|&(model, number)| {
            GridColumn::number(if number > 1 { format!("{model} {number}") } else { model.to_owned() })
        }));
        columns.extend([GridColumn::number("IDF"), GridColumn::number("constant")]);
        let rows = self.fusions.iter().map(row).collect();
        let mut section = Section::folded("fusions", "Fusion");
        section.add(el("p").text(
            "What each part of a fused score weighs. Beside another that says nearly the same, a weight may be negative.",
        ));
        section.add(PageGrid { caption: "Weights of the pooled regression".into(), columns, rows }.html());
        if terms.iter().any(|&(_, number)| number > 1) {
            section.add(el("p").text("Models of one kind are numbered in the order of `models`."));
        }
        if self.fusions.iter().any(|(_, fusion)| !fusion.products.is_empty()) {
            section.add(el("p").text(
                "Some of these fusions also weigh products of two signals, so that the effect of a signal depends on the others; \
                 the output `fusion` has all weights.",
            ));
        }
        (!self.fusions.is_empty()).then_some(section)
    }

    fn labels(&self) -> Option<Section> {
        // The labels can be named only if there is exactly one data set.
        let names = match self.data.as_slice() {
            [one] => one.label_names.as_deref(),
            _ => None,
        };
        let grid = evaluation::labels(&self.evaluations, names)?;
        let mut section = Section::folded("labels", "Labels");
        section.add(grid.html());
        section.add(el("p").class("note").text(
            "The output `labels` of each evaluation has the values of all labels, and `pipe labels` prints them.",
        ));
        Some(section)
    }

    fn data(&self) -> Option<Section> {
        let mut section = Section::folded("data", "Data");
        for data in &self.data {
            section.add(data.html());
        }
        (!self.data.is_empty()).then_some(section)
    }
}

impl DescribedData {
    fn html(&self) -> Html {
        let mut html = Html::from(el("h3").text(&self.name));
        html.push(facts(self.facts.iter().cloned()));
        if self.parts.is_empty() {
            return html;
        }
        html.push(self.statistics().html());
        let curve = |(part, stats): &(String, Stats)| {
            label_tail::draw(&format!("rows per label, {part}"), &stats.curve())
        };
        html.push(el("div").class("figures").children(self.parts.iter().take(1).filter_map(curve)));
        html
    }

    fn statistics(&self) -> PageGrid {
        type Statistic = fn(&Stats) -> GridCell;
        let count = |n: u64| GridCell::number(grouped(n), n as f64);
        let rows: [(&str, Statistic); 6] = [
            ("rows", |s| GridCell::number(grouped(s.rows), s.rows as f64)),
            ("labels per row", |s| GridCell::number(decimal(s.labels_per_row()), s.labels_per_row())),
            ("features per row", |s| GridCell::number(decimal(s.features_per_row()), s.features_per_row())),
            ("rows per label", |s| GridCell::number(decimal(s.rows_per_label()), s.rows_per_label())),
            ("rows without labels", |s| {
                GridCell::number(grouped(s.rows_without_labels), s.rows_without_labels as f64)
            }),
            ("highest possible macro-F1", |s| GridCell::number(decimal(s.macro_f1_cap()), s.macro_f1_cap())),
        ];
        let row = |name: &str, statistic: &dyn Fn(&Stats) -> GridCell| {
            let cells = std::iter::once(GridCell::text(name))
                .chain(self.parts.iter().map(|(_, stats)| statistic(stats)));
            GridRow::plain(cells.collect())
        };
        let mut rows: Vec<GridRow> = rows.iter().map(|(name, statistic)| row(name, statistic)).collect();
        for bound in TAIL_BOUNDS {
            let under = |stats: &Stats| {
                count(stats.labels_under(bound)).below(format!("{:.1} %", 100.0 * stats.share_under(bound)))
            };
            rows.push(row(&format!("labels on fewer than {bound} rows"), &under));
        }
        let mut columns = vec![GridColumn::text("statistic")];
        columns.extend(self.parts.iter().map(|(part, _)| GridColumn::number(part)));
        PageGrid { caption: format!("The parts of {}", self.name), columns, rows }
    }
}

/// Returns the kind of each term, and how many of this kind there are up to it.
fn numbered(fusion: &Fusion) -> impl Iterator<Item = (&str, usize)> {
    let terms = &fusion.terms;
    terms.iter().enumerate().map(|(at, term)| {
        (term.model.as_str(), terms[..=at].iter().filter(|other| other.model == term.model).count())
    })
}

/// Returns a section with cards; `None` if there are none.
fn cards(id: &'static str, title: &str, cards: &[Html]) -> Option<Section> {
    let mut section = Section::new(id, title);
    section.add(el("div").class("cards").children(cards.iter().cloned()));
    (!cards.is_empty()).then_some(section)
}

/// Returns content that is closed until the reader opens it.
fn fold(title: &str, content: Html) -> Html {
    el("details").child(el("summary").text(title)).child(content).into()
}

fn mark_legend() -> Html {
    let badge = oracle_mark::badge(pipe_ml::metric::marked::Protocol::Oracle);
    badge.map_or_else(Html::default, |badge| [badge.into(), Html::text(" ")].into_iter().collect())
}
