//! `pipe table`: prints the finished tables of a pipeline.

use std::fmt::Write as _;

use tabled::builder::Builder;
use tabled::settings::formatting::AlignmentStrategy;
use tabled::settings::object::{Columns, Rows};
use tabled::settings::{Alignment, Padding, Style, Width};

use super::args::{TableArgs, TableFormat};
use super::exit::{Exit, Failure, Outcome};
use super::pipeline_selection::PipelineSelection;
use super::print_text;
use super::project::{Project, select};
use super::survey::{Survey, manifest};
use pipe_core::stage::StageKind;
use pipe_core::suggest;
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_report::table::Table;
use pipe_report::table::markdown::column_titles;
use pipe_report::table::sheet::{Sheet, SheetText, TextPiece, lay_out};
use pipe_stages::table::TableStage;

/// Longer row names are wrapped.
const NAME_WIDTH: usize = 48;

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
            out.push_str(&render(&lay_out(&table)));
        } else {
            out.push_str(&String::from_utf8_lossy(&content));
        }
        if several && args.format == TableFormat::Text {
            out.push('\n');
        }
    }
    print_text(&out)
}

/// Returns a table for the terminal.
fn render(sheet: &Sheet) -> String {
    let mut out = String::new();
    let mut caption: Vec<String> = sheet.caption.iter().map(|caption| plain(caption)).collect();
    caption.extend(sheet.legend.iter().map(text));
    if !caption.is_empty() {
        let _ = writeln!(out, "{}\n", caption.join(" "));
    }
    let mut builder = Builder::default();
    let titles = column_titles(sheet);
    let depth = titles.iter().map(Vec::len).max().unwrap_or(1);
    let mut head: Vec<String> =
        sheet.stub.iter().map(|title| format!("{}{}", "\n".repeat(depth - 1), plain(title))).collect();
    head.extend(titles.iter().map(|path| {
        let lines: Vec<String> = path.iter().map(|title| text(title)).collect();
        format!("{}{}", "\n".repeat(depth - lines.len()), lines.join("\n"))
    }));
    builder.push_record(head);
    for row in &sheet.rows {
        builder.push_record(row.heads.iter().chain(&row.cells).map(text));
    }
    let mut grid = builder.build();
    grid.with(Style::blank()).with(Padding::new(0, 2, 0, 0));
    grid.modify(Columns::new(..sheet.stub.len()), Width::wrap(NAME_WIDTH));
    grid.modify(Columns::new(sheet.stub.len()..), Alignment::right());
    grid.modify(Rows::first(), AlignmentStrategy::PerLine);
    for line in grid.to_string().lines() {
        let _ = writeln!(out, "{}", line.trim_end());
    }
    for note in &sheet.notes {
        let _ = write!(out, "\n{}", text(note));
    }
    if !sheet.notes.is_empty() {
        out.push('\n');
    }
    out
}

/// Returns the text of a cell. The best value is set in `**` and the second best in `__`, also on a colour terminal,
/// because `tabled` counts escape codes as width.
fn text(text: &SheetText) -> String {
    text.iter()
        .map(|piece| match piece {
            TextPiece::Text(text) => plain(text),
            TextPiece::Best(number) => format!("**{number}**"),
            TextPiece::Second(number) => format!("__{number}__"),
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
            legend: Vec::new(),
            notes: vec![vec![TextPiece::Oracle, TextPiece::Text(" Oracle.".into())]],
        };
        insta::assert_snapshot!(render(&sheet));
    }
}
