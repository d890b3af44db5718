//! The text of a pipeline for the user's own data.

use std::fmt::Write as _;
use std::path::Path;

use super::findings::FEW_ROWS;
use pipe_core::name::{is_dotted_name, is_name_byte};
use pipe_ml::data::describe::grouped;
use pipe_ml::data::inspect::{InputSummary, Inspection};
use pipe_ml::data::source::NominalEncoding;

/// Up to which sizes the models of `builtin/recipe` are quick enough.
const RECIPE_ROWS: u64 = 20_000;
const RECIPE_LABELS: usize = 5_000;
/// Up to how many rows a second fit, on all rows, takes little time.
const FINAL_ROWS: u64 = 10_000;

const LARGEST_SHARE: &str = "  \
    # A label is never predicted if its cut would give it to more than half of the rows although few rows have it.\n  \
    largest_share: 0.5\n";

/// What the pipeline computes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PipelineKind {
    Recipe,
    Grid,
}

/// A pipeline to write.
pub(super) struct DataPipeline<'a> {
    pub name: &'a str,
    pub file: &'a Path,
    pub found: &'a Inspection,
    pub kind: PipelineKind,
}

/// Which features a stage makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Features {
    Weighted,
    /// As they are in the files, with validation rows: for the paper's networks.
    Plain,
}

impl DataPipeline<'_> {
    /// Returns the text of the file.
    pub(super) fn text(&self) -> String {
        let found = self.found;
        let (rows, labels) = (found.rows, found.label_counts.len());
        let part = match self.kind {
            PipelineKind::Grid => "grid",
            PipelineKind::Recipe if rows > RECIPE_ROWS || labels > RECIPE_LABELS => "long-tail",
            PipelineKind::Recipe => "recipe",
        };
        let contents = match part {
            "grid" => "the paper's variants under both protocols, the recipe, audits",
            "long-tail" => {
                "label trees and neighbours, their fusion, cuts, evaluations on the test rows, an audit"
            }
            _ => {
                "models, their fusions, a choice between them with cuts, evaluations on the test rows, an audit"
            }
        };
        let mut text = format!(
            "# Written by `pipe init`, which found {} rows and {} labels, {:.1} per row.\n\
             #\n\
             #   pipe run {}\n\
             #\n\
             # `builtin/{part}` adds the other stages: {contents},\n\
             # a table, figures and a report. `pipe show --part {part}` prints them. To change one, write a stage with its name here.\n\
             {}\
             name: {}\n\n\
             vars:\n  title: {}\n{}\n\
             stages:\n",
            grouped(rows),
            grouped(labels as u64),
            found.labels_per_row(),
            pipe_core::quote::shell(&self.file.to_string_lossy()),
            self.extended(part),
            self.name,
            scalar(self.name),
            if self.kind == PipelineKind::Recipe { LARGEST_SHARE } else { "" },
        );
        match self.kind {
            PipelineKind::Recipe => self.stage(&mut text, "data", Features::Weighted),
            PipelineKind::Grid => {
                self.stage(&mut text, "data", Features::Plain);
                text.push_str("  # The same rows for the recipe, which needs no validation rows.\n");
                self.stage(&mut text, "weighted", Features::Weighted);
            }
        }
        text
    }

    /// Returns which built-in parts the pipeline extends. A final model takes as long as the models that are evaluated.
    fn extended(&self, part: &str) -> String {
        if self.kind == PipelineKind::Grid {
            return format!("extends: builtin/{part}\n");
        }
        let (cost, comment) = match self.found.rows {
            0..=FINAL_ROWS => ("", ""),
            _ => ("It takes as long as the others together; remove the `#` below to fit it.\n  # ", "# "),
        };
        format!(
            "extends:\n  \
             - builtin/{part}\n  \
             # A final model, fitted on all rows, also those for testing: `pipe serve 'final[macro]'` or `pipe model export`.\n  \
             # {cost}Its quality is estimated by that of `recipe[macro]`, which is fitted on the training rows only.\n  \
             {comment}- builtin/{part}-final\n"
        )
    }

    fn stage(&self, text: &mut String, name: &str, features: Features) {
        let found = self.found;
        let kind = if matches!(found.input, InputSummary::Texts { .. }) { "vectorise" } else { "load" };
        let files: Vec<String> = found
            .files
            .iter()
            .map(|(role, path)| format!("{}: {}", role.name(), scalar(&path.to_string_lossy())))
            .collect();
        let _ = writeln!(text, "  {name}:\n    {kind}:\n      files: {{ {} }}", files.join(", "));
        let read = self.read_options();
        if found.read.join_column.is_some() {
            text.push_str(
                "      # Texts with the same value of `join_column` become one row. `only: { COLUMN: VALUE }` leaves out rows with\n      \
                 # other values in a column.\n",
            );
        }
        if !read.is_empty() {
            let _ = writeln!(text, "      read: {{ {} }}", read.join(", "));
        }
        if !found.has_test_part() {
            text.push_str("      # A fifth of the rows is for testing. Another seed chooses other rows.\n");
            let stratified = if found.rows <= RECIPE_ROWS { ", stratified: true" } else { "" };
            let _ = writeln!(text, "      split: {{ holdout: 0.2, seed: 0{stratified} }}");
        }
        let few = found.labels_under(FEW_ROWS);
        if few > 0 && few < found.label_counts.len() as u64 {
            let _ = writeln!(
                text,
                "      # Labels with fewer than {FEW_ROWS} training rows are left out, also from the evaluation: at least {few} of {}.",
                found.label_counts.len()
            );
            let _ = writeln!(text, "      filter: {{ min_label_count: {FEW_ROWS} }}");
        }
        // Words are weighted by `vectorise` itself.
        if kind == "load" && features == Features::Weighted {
            text.push_str(
                "      # The training rows decide: TF-IDF for counts, standardised numbers, or no change for weights. `pipe show data`\n      \
                 # says what was chosen and why.\n      \
                 weight: auto\n",
            );
        }
        if kind == "vectorise" && self.kind == PipelineKind::Recipe {
            text.push_str(
                "      # Explanations then show the texts of the rows; with `id_column: NAME`, also their ids.\n      \
                 keep: { texts: true, part: all }\n",
            );
        }
        if features == Features::Plain {
            text.push_str("      validation: { fraction: 0.1, seed: 0 }\n");
        }
    }

    fn read_options(&self) -> Vec<String> {
        let read = &self.found.read;
        let named = [
            ("input_column", &read.input_column),
            ("label_column", &read.label_column),
            ("label_separator", &read.label_separator),
            ("join_column", &read.join_column),
        ];
        let mut options: Vec<String> = Vec::new();
        for (name, value) in named {
            options.extend(value.as_ref().map(|value| format!("{name}: {}", scalar(value))));
        }
        if read.nominal == Some(NominalEncoding::OneHot) {
            options.push("nominal: one-hot".to_owned());
        }
        options
    }
}

/// Returns a name for a file of a pipeline: the name of the file of data without its endings.
pub(super) fn name_of_data(data: &Path) -> String {
    let stem = data.file_name().unwrap_or_default().to_string_lossy();
    let plain = plain(stem.split('.').next().unwrap_or_default());
    let words =
        plain.split(['-', '_']).filter(|word| !word.is_empty() && !["train", "training"].contains(word));
    valid(words.collect::<Vec<_>>().join("-"))
}

/// Returns the name of the pipeline in a file: that of the file, so that two pipelines have two directories of results.
pub(super) fn name(pipeline: &Path) -> String {
    valid(plain(&pipeline.file_stem().unwrap_or_default().to_string_lossy()))
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii() && is_name_byte(c as u8) { c } else { '-' }).collect()
}

fn valid(name: String) -> String {
    if is_dotted_name(&name) { name } else { format!("data-{name}").trim_end_matches('-').to_owned() }
}

/// Returns a text as a YAML value. JSON strings are YAML, too.
fn scalar(text: &str) -> String {
    let is_plain = |b: u8| is_name_byte(b) || b == b'.' || b == b'/';
    let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'/');
    let keyword = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if starts_well && text.bytes().all(is_plain) && !keyword.contains(&text.to_lowercase().as_str()) {
        return text.to_owned();
    }
    serde_json::Value::from(text.replace("${", "$${")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_is_named_after_its_file() {
        assert_eq!(name(Path::new("pipelines/one.yaml")), "one");
        assert_eq!(name(Path::new("my train_2.v3.yaml")), "my-train_2-v3");
        assert_eq!(name(Path::new("2024.yaml")), "data-2024");
    }

    #[test]
    fn the_file_of_a_pipeline_is_named_after_the_file_of_data() {
        let named = |path: &str| name_of_data(Path::new(path));
        assert_eq!(named("data/packages.csv.gz"), "packages");
        assert_eq!(named("medical-train.arff"), "medical");
        assert_eq!(named("train.csv"), "data");
        assert_eq!(named("2024 réponses.csv"), "data-2024-r-ponses");
    }

    #[test]
    fn values_that_yaml_would_read_differently_are_quoted() {
        assert_eq!(scalar("data/my-file.csv"), "data/my-file.csv");
        assert_eq!(scalar(","), "\",\"");
        assert_eq!(scalar("no"), "\"no\"");
        assert_eq!(scalar("2024"), "\"2024\"");
        assert_eq!(scalar("a: ${b} \"c\""), r#""a: $${b} \"c\"""#);
    }
}
