//! `pipe table`: prints the finished tables of a pipeline.

use std::fmt::Write as _;

use super::args::{TableArgs, TableFormat};
use super::exit::{Exit, Failure, Outcome};
use super::pipeline_selection::PipelineSelection;
use super::print_text;
use super::project::{Project, select};
use super::survey::{Survey, manifest};
use super::table::{Grid, prose_width, terminal_width, wrap};
use pipe_core::digest::StageKey;
use pipe_core::paint::Paint;
use pipe_core::stage::StageKind;
use pipe_core::suggest;
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_engine::store::Store;
use pipe_report::table::Table;
use pipe_report::table::markdown::column_titles;
use pipe_report::table::sheet::{Sheet, SheetText, TextPiece, lay_out};
use pipe_stages::table::TableStage;

/// The end of a run shows this many rows of the first table.
const FIRST_ROWS: usize = 12;

/// Runs `pipe table`.
pub(super) fn table(project: &Project, args: &TableArgs) -> Outcome {
    let asked = PipelineSelection::stages(&args.pipeline, args.file.as_ref(), args.stage.as_slice())?;
    let survey = Survey::of(project, asked.file.as_ref(), &args.pipeline, &[])?;
    let is_table = |&index: &InstanceIndex| survey.plan.instance(index).kind == TableStage::NAME;
    let tables: Vec<InstanceIndex> = survey.instances().map(|(index, ..)| index).filter(is_table).collect();
    let wanted = if asked.stages.is_empty() {
        tables.clone()
    } else {
        select(survey.plan.pipeline(), &asked.stages)?.into_iter().filter(is_table).collect()
    };
    if wanted.is_empty() {
        let names: Vec<String> = tables.iter().map(|&index| survey.name(index)).collect();
        return Err(Failure::bad_input(match suggest::listed(names.iter().map(String::as_str)) {
            None => "the pipeline has no `table` stage".to_owned(),
            Some(names) => {
                format!("`{}` is not a `table` stage; those are: {names}", asked.stages.join(" "))
            }
        }));
    }
    let several = wanted.len() > 1;
    let mut out = String::new();
    for index in wanted {
        let name = survey.name(index);
        let outlook = &survey.outlooks[index.0];
        let Some(manifest) = manifest(outlook) else {
            let (state, reason) = survey.words(outlook);
            let message = format!("`{name}` is not up to date ({state}: {reason}); `pipe run` computes it");
            return Err(Failure::new(Exit::StageFailed, message));
        };
        let output = match args.format {
            TableFormat::Text | TableFormat::Json => "json",
            TableFormat::Md => "md",
            TableFormat::Tex => "tex",
            TableFormat::Csv => "csv",
            TableFormat::Macros => "macros",
        };
        let Some(stored) = manifest.outputs.get(output) else {
            return Err(Failure::new(Exit::CacheDamage, format!("`{name}` has no output `{output}`")));
        };
        let content = survey.store.read(stored)?;
        if several && args.format == TableFormat::Text {
            let _ = writeln!(out, "{}\n", project.paint_out.bold(&name));
        }
        if args.format == TableFormat::Text {
            let table: Table = serde_json::from_slice(&content).map_err(anyhow::Error::from)?;
            out.push_str(&render(&lay_out(&table), project.paint_out, terminal_width()));
        } else {
            out.push_str(&String::from_utf8_lossy(&content));
        }
        if several && args.format == TableFormat::Text {
            out.push('\n');
        }
    }
    print_text(&out)
}

/// Returns the rows of a stored table for the end of a run: without caption and notes, and at most [`FIRST_ROWS`] rows.
pub(super) fn first_rows(store: &Store, key: StageKey, paint: Paint) -> Result<Option<String>, Failure> {
    let Some(stored) = store.record(key).and_then(|manifest| manifest.outputs.get("json").copied()) else {
        return Ok(None);
    };
    let table: Table = serde_json::from_slice(&store.read(&stored)?).map_err(anyhow::Error::from)?;
    let mut sheet = lay_out(&table);
    let left_out = sheet.rows.len().saturating_sub(FIRST_ROWS);
    sheet.rows.truncate(FIRST_ROWS);
    let mut text = rows(&sheet, paint, terminal_width());
    if left_out > 0 {
        let _ = writeln!(text, "... and {left_out} more rows");
    }
    Ok(Some(text))
}

/// Returns a table for the terminal. With `paint`, the best value is bold and the second best underlined.
fn render(sheet: &Sheet, paint: Paint, width: Option<usize>) -> String {
    let mut out = String::new();
    let legend =
        sheet.legend.iter().enumerate().filter(|(at, _)| paint.0 || sheet.rank_sentence != Some(*at));
    let mut caption: Vec<String> = sheet.caption.iter().map(|caption| plain(caption)).collect();
    caption.extend(legend.map(|(_, sentence)| marked(sentence, paint)));
    if !caption.is_empty() {
        let _ = writeln!(out, "{}\n", wrap(&caption.join(" "), prose_width()));
    }
    out.push_str(&rows(sheet, paint, width));
    for note in &sheet.notes {
        let _ = write!(out, "\n{}", wrap(&marked(note, paint), prose_width()));
    }
    if !sheet.notes.is_empty() {
        out.push('\n');
    }
    out
}

/// Returns the heads and the rows of a table. The first value column is the most important one.
fn rows(sheet: &Sheet, paint: Paint, width: Option<usize>) -> String {
    let mut heading: Vec<String> = sheet.stub.iter().map(|title| plain(title)).collect();
    heading.extend(column_titles(sheet).iter().map(|path| {
        let lines: Vec<String> = path.iter().map(|title| marked(title, paint)).collect();
        lines.join("\n")
    }));
    let names: Vec<usize> = (0..sheet.stub.len()).collect();
    let values: Vec<usize> = (sheet.stub.len()..heading.len()).collect();
    let optional: Vec<usize> = values.iter().skip(1).rev().copied().collect();
    let mut grid = Grid::new(&heading).right_aligned(&values).wrapped(&names).optional(&optional).gap(2);
    for row in &sheet.rows {
        grid.row(row.heads.iter().chain(&row.cells).map(|cell| marked(cell, paint)));
    }
    grid.fitted(width)
}

/// Returns the text of a cell.
fn marked(text: &SheetText, paint: Paint) -> String {
    text.iter()
        .map(|piece| match piece {
            TextPiece::Text(text) => plain(text),
            TextPiece::Best(number) => paint.bold(number),
            TextPiece::Second(number) => paint.underlined(number),
            other => other.plain().to_owned(),
        })
        .collect()
}

/// Replaces control characters, and isolates right-to-left text so that it does not reorder the text next to it.
fn plain(text: &str) -> String {
    let is_control =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown: String = text.chars().map(|c| if is_control(c) { ' ' } else { c }).collect();
    let is_right_to_left =
        |c: char| matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}');
    if shown.contains(is_right_to_left) { format!("\u{2068}{shown}\u{2069}") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_report::table::sheet::{SheetHead, SheetRow};

    #[test]
    fn columns_line_up_under_their_headings() {
        let word = |text: &str| vec![TextPiece::Text(text.to_owned())];
        let head = |text: SheetText, columns| SheetHead { text, columns };
        let sheet = Sheet {
            stub: vec!["Variant".to_owned()],
            heads: vec![
                vec![head(vec![TextPiece::Text("Macro F1".into()), TextPiece::Up], 2)],
                vec![head(word("ours"), 1), head(word("Paper"), 1)],
            ],
            rows: vec![
                SheetRow {
                    ruled: false,
                    heads: vec![vec![TextPiece::Text("adaptive".into()), TextPiece::Oracle]],
                    cells: vec![
                        vec![TextPiece::Best("0.38".into()), TextPiece::Differs],
                        vec![TextPiece::Number("0.17".into())],
                    ],
                },
                SheetRow {
                    ruled: false,
                    heads: vec![word("\u{1b}[31mred \u{202e}name")],
                    cells: vec![vec![TextPiece::Second("0.3".into())], vec![TextPiece::Nothing]],
                },
            ],
            caption: Some("Two variants.".to_owned()),
            legend: vec![word("Best in bold, second best underlined.")],
            rank_sentence: Some(0),
            notes: vec![vec![TextPiece::Oracle, TextPiece::Text(" Oracle.".into())]],
        };
        let piped = render(&sheet, Paint(false), None);
        insta::assert_snapshot!(piped);

        let shown = render(&sheet, Paint(true), None);
        assert!(shown.contains("Best in bold, second best underlined."), "{shown}");
        assert!(
            shown.contains("\u{1b}[1m0.38\u{1b}[0m*") && shown.contains("\u{1b}[4m0.3\u{1b}[0m"),
            "{shown}"
        );
        let without_codes = shown.replace("\u{1b}[1m", "").replace("\u{1b}[4m", "").replace("\u{1b}[0m", "");
        let rows = |text: &str| {
            text.lines().filter(|line| line.contains("0.")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(rows(&without_codes), rows(&piped), "codes have no width");
    }
}
