//! Shows a difference as a page, with the figures of both sides next to each other.

use super::difference::{CellChange, Difference, MetricChange, ParamChange, PrintedChange};
use crate::page::grid::{GridCell, GridColumn, GridRow, PageGrid};
use crate::page::html::{Html, el};
use crate::page::number::signed;
use crate::page::picture::Picture;
use crate::page::{Page, Section, facts};
use pipe_ml::metric::marked::{Marked, Protocol};

/// A figure that changed; `None` on a side that does not have it.
#[derive(Debug, Clone)]
pub struct FigurePair {
    pub name: String,
    pub old: Option<Picture>,
    pub new: Option<Picture>,
}

/// Returns the page.
pub fn page(difference: &Difference, figures: &[FigurePair]) -> Page {
    let lead = facts([
        ("old", difference.old.clone()),
        ("new", difference.new.clone()),
        ("changed", difference.changed.len().to_string()),
        ("the same", difference.same.to_string()),
    ]);
    let sections = [
        parameters(difference),
        tables(difference),
        side_by_side(figures),
        metrics(difference),
        outputs(difference),
        on_one_side(difference),
    ];
    let mut sections: Vec<Section> = sections.into_iter().flatten().collect();
    if sections.is_empty() {
        let mut nothing = Section::new("nothing", "No difference");
        nothing.add(el("p").text("Parameters, metrics and outputs are the same on both sides."));
        sections.push(nothing);
    }
    Page { title: "What changed".to_owned(), lead, sections, ..Page::default() }
}

/// Returns a section with a table; `None` if the table is empty.
fn section(id: &'static str, title: &str, grid: PageGrid) -> Option<Section> {
    let mut section = Section::new(id, title);
    section.add(grid.html());
    (!grid.is_empty()).then_some(section)
}

fn parameters(difference: &Difference) -> Option<Section> {
    let mut rows = Vec::new();
    for stage in &difference.changed {
        for ParamChange { name, old, new } in &stage.params {
            let code = |text: &Option<String>| text.as_ref().map_or_else(GridCell::none, GridCell::code);
            rows.push(GridRow::plain(vec![
                GridCell::text(&stage.stage),
                GridCell::text(name),
                code(old),
                code(new),
            ]));
        }
    }
    let columns = ["stage", "parameter", "old", "new"].map(GridColumn::text).to_vec();
    section("parameters", "Parameters", PageGrid { caption: "Parameters that differ".into(), columns, rows })
}

fn metrics(difference: &Difference) -> Option<Section> {
    let mut rows = Vec::new();
    for stage in &difference.changed {
        rows.extend(stage.metrics.iter().map(|metric| metric_row(&stage.stage, metric)));
    }
    let columns = metric_columns("metric");
    section("metrics", "Metrics", PageGrid { caption: "Metrics that differ".into(), columns, rows })
}

fn tables(difference: &Difference) -> Option<Section> {
    let mut rows = Vec::new();
    for stage in &difference.changed {
        rows.extend(stage.cells.iter().map(|cell| cell_row(&stage.stage, cell)));
    }
    let columns = metric_columns("cell");
    section("tables", "Tables", PageGrid { caption: "Cells of tables that differ".into(), columns, rows })
}

fn metric_columns(name: &str) -> Vec<GridColumn> {
    let mut columns = vec![GridColumn::text("stage"), GridColumn::text(name)];
    columns.extend(["old", "new", "change"].map(GridColumn::number));
    columns.push(GridColumn::text("verdict"));
    columns
}

fn metric_row(stage: &str, metric: &MetricChange) -> GridRow {
    let measured = |value: Option<Marked<f64>>| value.map_or_else(GridCell::none, GridCell::measured);
    let change = metric.change.map(signed);
    let values = [measured(metric.old), measured(metric.new)];
    changed_row(stage, &metric.name, values, change.as_deref(), metric)
}

fn cell_row(stage: &str, cell: &CellChange) -> GridRow {
    let printed = |text: &Option<String>, value: Option<Marked<f64>>| match (text, value.map(Marked::reveal))
    {
        (Some(text), Some((Protocol::Honest, value))) => GridCell::number(text, value),
        (Some(text), Some((Protocol::Oracle, value))) => GridCell::number(text, value).below("oracle"),
        _ => GridCell::none(),
    };
    let PrintedChange { name, old, new, change } = &cell.printed;
    let values = [printed(old, cell.change.old), printed(new, cell.change.new)];
    changed_row(stage, name, values, change.as_deref(), &cell.change)
}

fn changed_row(
    stage: &str,
    name: &str,
    [old, new]: [GridCell; 2],
    change: Option<&str>,
    metric: &MetricChange,
) -> GridRow {
    let change = match (change, metric.change) {
        (Some(text), Some(change)) => GridCell::number(format!("{text} {}", metric.arrow()), change),
        _ => GridCell::none(),
    };
    let verdict = match metric.verdict.word() {
        "better" => GridCell::status("better", "computed"),
        "worse" => GridCell::status("worse", "failed"),
        _ => GridCell::text(""),
    };
    GridRow::plain(vec![GridCell::text(stage), GridCell::text(name), old, new, change, verdict])
}

fn outputs(difference: &Difference) -> Option<Section> {
    let mut rows = Vec::new();
    for stage in &difference.changed {
        for output in &stage.outputs {
            let digest = |blob: Option<pipe_core::digest::BlobId>| {
                blob.map_or_else(GridCell::none, |blob| GridCell::code(blob.short()))
            };
            let cells = vec![
                GridCell::text(&stage.stage),
                GridCell::text(&output.name),
                digest(output.old),
                digest(output.new),
            ];
            rows.push(GridRow::plain(cells));
        }
    }
    let columns = ["stage", "output", "old", "new"].map(GridColumn::text).to_vec();
    section(
        "outputs",
        "Outputs",
        PageGrid { caption: "Outputs whose content changed, by digest".into(), columns, rows },
    )
}

/// Shows both versions of each figure.
fn side_by_side(figures: &[FigurePair]) -> Option<Section> {
    let mut section = Section::new("figures", "Figures");
    for pair in figures {
        let side = |picture: &Option<Picture>| match picture {
            Some(picture) => picture.html(),
            None => Html::from(el("p").class("notice plain").text("This side does not have the figure.")),
        };
        section.add(el("h3").text(&pair.name));
        section.add(el("div").class("side-by-side").child(side(&pair.old)).child(side(&pair.new)));
    }
    (!figures.is_empty()).then_some(section)
}

/// Lists the instances that only one side has.
fn on_one_side(difference: &Difference) -> Option<Section> {
    let mut section = Section::new("one-side", "On one side only");
    for (name, stages) in
        [("Only in the old", &difference.only_old), ("Only in the new", &difference.only_new)]
    {
        if !stages.is_empty() {
            section.add(el("h3").text(name));
            section.add(el("ul").children(stages.iter().map(|stage| el("li").child(el("code").text(stage)))));
        }
    }
    (!section.content.is_empty()).then_some(section)
}
