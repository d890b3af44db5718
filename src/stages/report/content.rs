//! What a report shows, gathered from artifacts of any type.

use std::path::Path;

use anyhow::{Context, Result};

use pipe_ml::data::describe::dataset_stats;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::stats::{Stats, TAIL_BOUNDS};
use pipe_ml::fusion::Fusion;
use pipe_ml::metric::label::LabelRecord;
use pipe_ml::metric::record::Record;
use pipe_report::page::evaluation::{self, Evaluated};
use pipe_report::page::grid::{Cell, Column, Grid, Row};
use pipe_report::page::html::{Html, el};
use pipe_report::page::number::{decimal, grouped};
use pipe_report::page::picture::Picture;
use pipe_report::page::verdict::VerdictCard as Card;
use pipe_report::page::{
    Section, facts, label_tail as tail, oracle_mark as mark, result_table as sheet, table_file,
};

/// Files beyond this are named and not shown.
const LARGEST: u64 = 8 << 20;

#[derive(Default)]
pub struct Content {
    evaluations: Vec<Evaluated>,
    tables: Vec<Html>,
    pictures: Vec<Picture>,
    data: Vec<Described>,
    cards: Vec<Card>,
    fusions: Vec<(String, Fusion)>,
    /// What was there and could not be shown.
    left_out: Vec<String>,
}

struct Described {
    name: String,
    facts: Vec<(&'static str, String)>,
    parts: Vec<(String, Stats)>,
    label_names: Option<Vec<String>>,
}

impl Content {
    /// An evaluation with, where they are at hand, the records of its labels.
    pub fn add_evaluation(
        &mut self,
        axes: Vec<(String, String)>,
        evaluation: &Path,
        labels: Option<&Path>,
    ) -> Result<()> {
        let record: Record = read_json(evaluation)?;
        let labels = labels.map(read_labels).transpose()?;
        self.evaluations.push(Evaluated::new(axes, record, labels));
        Ok(())
    }

    pub fn add_data(&mut self, name: &str, directory: &Path) -> Result<()> {
        let data = SplitData::open(directory)?;
        let meta = data.meta();
        let mut facts = vec![
            ("features", grouped(meta.features)),
            ("labels", grouped(meta.labels)),
            ("split", meta.split.clone()),
        ];
        if let Some(duplicates) = &meta.duplicates {
            facts.push(("test rows that are training rows too", grouped(duplicates.in_train)));
        }
        self.data.push(Described {
            name: name.to_owned(),
            facts,
            parts: dataset_stats(&data)?,
            label_names: data.label_names()?,
        });
        Ok(())
    }

    pub fn add_card(&mut self, name: &str, path: &Path) -> Result<()> {
        self.cards.push(Card { name: name.to_owned(), value: read_json(path)? });
        Ok(())
    }

    /// The weights that a `fuse` stage found.
    pub fn add_fusion(&mut self, name: &str, path: &Path) -> Result<()> {
        self.fusions.push((name.to_owned(), read_json(path)?));
        Ok(())
    }

    /// What a `table` stage made.
    pub fn add_table(&mut self, path: &Path) -> Result<()> {
        self.tables.push(sheet::html(&read_json(path)?));
        Ok(())
    }

    /// A table or a figure, whatever its content says it is; of a directory, all that are in it.
    pub fn add_file(&mut self, name: &str, path: &Path) -> Result<()> {
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

    pub fn sections(&self) -> Vec<Section> {
        let sections = [
            self.results(),
            self.tables(),
            self.figures(),
            self.audits(),
            self.fusions(),
            self.labels(),
            self.data(),
        ];
        sections.into_iter().flatten().collect()
    }

    fn results(&self) -> Option<Section> {
        if self.evaluations.is_empty() {
            return None;
        }
        let mut section = Section::new("results", "Results");
        if evaluation::any_oracle(&self.evaluations) {
            section.add(el("p").class("notice").child(mark_legend()).text(mark::MEANING));
        }
        section.add(evaluation::headline(&self.evaluations).html());
        let all = evaluation::all(&self.evaluations).html();
        section.add(el("details").child(el("summary").text("Every metric, with its definition")).child(all));
        Some(section)
    }

    fn tables(&self) -> Option<Section> {
        let mut section = Section::new("tables", "Tables");
        self.tables.iter().for_each(|table| section.add(table.clone()));
        for what in &self.left_out {
            section.add(el("p").class("notice plain").text(&format!("Not shown: {what}.")));
        }
        (!section.content.is_empty()).then_some(section)
    }

    fn figures(&self) -> Option<Section> {
        let mut section = Section::new("figures", "Figures");
        section.add(el("div").class("figures").children(self.pictures.iter().map(Picture::html)));
        (!self.pictures.is_empty()).then_some(section)
    }

    fn audits(&self) -> Option<Section> {
        let mut section = Section::new("audits", "Audits");
        section.add(el("div").class("cards").children(self.cards.iter().map(Card::html)));
        (!self.cards.is_empty()).then_some(section)
    }

    fn fusions(&self) -> Option<Section> {
        let mut models: Vec<&str> = Vec::new();
        for term in self.fusions.iter().flat_map(|(_, fusion)| &fusion.terms) {
            if !models.contains(&term.model.as_str()) {
                models.push(&term.model);
            }
        }
        let weight = |weight: f64| Cell::number(decimal(weight), weight);
        let row = |(name, fusion): &(String, Fusion)| {
            let of = |model: &&str| fusion.terms.iter().find(|term| term.model == *model);
            let mut cells = vec![Cell::text(name)];
            cells.extend(
                models.iter().map(|model| of(model).map_or_else(Cell::none, |term| weight(term.weight))),
            );
            cells.extend([weight(fusion.idf_weight), weight(fusion.constant)]);
            Row::plain(cells)
        };
        let mut columns = vec![Column::text("fusion")];
        columns.extend(models.iter().map(|model| Column::number(*model)));
        columns.extend([Column::number("IDF"), Column::number("constant")]);
        let rows = self.fusions.iter().map(row).collect();
        let mut section = Section::new("fusions", "Fusion");
        section.add(el("p").text(
            "What each part of a fused score weighs. Beside another that says nearly the same, a weight may be negative.",
        ));
        section.add(Grid { caption: "Weights of the pooled regression".into(), columns, rows }.html());
        (!self.fusions.is_empty()).then_some(section)
    }

    fn labels(&self) -> Option<Section> {
        // Names belong to the labels only where there is one data set that they can come from.
        let names = match self.data.as_slice() {
            [one] => one.label_names.as_deref(),
            _ => None,
        };
        let grid = evaluation::labels(&self.evaluations, names)?;
        let mut section = Section::new("labels", "Labels");
        section.add(grid.html());
        Some(section)
    }

    fn data(&self) -> Option<Section> {
        let mut section = Section::new("data", "Data");
        self.data.iter().for_each(|data| section.add(data.html()));
        (!self.data.is_empty()).then_some(section)
    }
}

impl Described {
    fn html(&self) -> Html {
        let mut html = Html::from(el("h3").text(&self.name));
        html.push(facts(self.facts.iter().cloned()));
        if self.parts.is_empty() {
            return html;
        }
        html.push(self.statistics().html());
        let curve =
            |(part, stats): &(String, Stats)| tail::draw(&format!("rows per label, {part}"), &stats.curve());
        html.push(el("div").class("figures").children(self.parts.iter().take(1).filter_map(curve)));
        html
    }

    fn statistics(&self) -> Grid {
        type Figure = fn(&Stats) -> Cell;
        let count = |n: u64| Cell::number(grouped(n), n as f64);
        let rows: [(&str, Figure); 6] = [
            ("rows", |s| Cell::number(grouped(s.rows), s.rows as f64)),
            ("labels per row", |s| Cell::number(decimal(s.labels_per_row()), s.labels_per_row())),
            ("features per row", |s| Cell::number(decimal(s.features_per_row()), s.features_per_row())),
            ("rows per label", |s| Cell::number(decimal(s.rows_per_label()), s.rows_per_label())),
            ("rows without labels", |s| {
                Cell::number(grouped(s.rows_without_labels), s.rows_without_labels as f64)
            }),
            ("highest possible macro-F1", |s| Cell::number(decimal(s.macro_f1_cap()), s.macro_f1_cap())),
        ];
        let row = |name: &str, figure: &dyn Fn(&Stats) -> Cell| {
            let cells =
                std::iter::once(Cell::text(name)).chain(self.parts.iter().map(|(_, stats)| figure(stats)));
            Row::plain(cells.collect())
        };
        let mut rows: Vec<Row> = rows.iter().map(|(name, figure)| row(name, figure)).collect();
        for bound in TAIL_BOUNDS {
            let under = |stats: &Stats| {
                count(stats.labels_under(bound)).below(format!("{:.1} %", 100.0 * stats.share_under(bound)))
            };
            rows.push(row(&format!("labels on fewer than {bound} rows"), &under));
        }
        let mut columns = vec![Column::text("statistic")];
        columns.extend(self.parts.iter().map(|(part, _)| Column::number(part)));
        Grid { caption: format!("The parts of {}", self.name), columns, rows }
    }
}

fn mark_legend() -> Html {
    let badge = mark::badge(pipe_ml::metric::marked::Protocol::Oracle);
    badge.map_or_else(Html::default, |badge| [badge.into(), Html::text(" ")].into_iter().collect())
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not what it should be", path.display()))
}

fn read_labels(path: &Path) -> Result<Vec<LabelRecord>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let record =
        |line: &str| serde_json::from_str(line).context("a line of the label records cannot be read");
    text.lines().filter(|line| !line.is_empty()).map(record).collect()
}
