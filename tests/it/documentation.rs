//! Holds the documentation to the program: links, contents, examples and the commands of the tutorials.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{PipelineTest, Ran, worker_program};

/// A page of the documentation.
struct Page {
    /// Relative to the root of the repository.
    path: PathBuf,
    text: String,
}

impl Page {
    fn read(path: &str) -> Self {
        let file = root().join(path);
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { path: path.into(), text }
    }

    /// Returns the content of the code blocks of a language.
    fn blocks(&self, language: &str) -> Vec<String> {
        let mut blocks = Vec::new();
        let mut current: Option<String> = None;
        for line in self.text.lines() {
            match &mut current {
                None if line == format!("```{language}") => current = Some(String::new()),
                None => {}
                Some(_) if line == "```" => blocks.extend(current.take()),
                Some(block) => *block += &format!("{line}\n"),
            }
        }
        blocks
    }

    /// Returns the text without code blocks.
    fn prose(&self) -> String {
        let mut is_code = false;
        let mut prose = String::new();
        for line in self.text.lines() {
            if line.starts_with("```") {
                is_code = !is_code;
            } else if !is_code && !line.starts_with("    ") {
                prose += &format!("{line}\n");
            }
        }
        prose
    }

    /// Returns the fragments that a link can name, as GitHub and mdbook derive them from headings.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self.text.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|line| {
                let title = line.trim_start_matches('#').trim().to_lowercase();
                let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
                kept.map(|c| if c == ' ' { '-' } else { c }).collect()
            })
            .collect()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the README and every page below `docs`.
fn pages() -> Vec<Page> {
    let mut pages = vec![Page::read("README.md")];
    let mut directories = vec![root().join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(Page::read(path.strip_prefix(root()).unwrap().to_str().unwrap()));
            }
        }
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    pages
}

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let prose = page.prose();
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.path.clone(),
                path => page.path.parent().unwrap().join(path),
            };
            let leaves_the_book = page.path.starts_with("docs") && path.contains("..");
            if leaves_the_book || !root().join(&target).exists() {
                broken.push(format!("{}: {link}", page.path.display()));
            } else if !fragment.is_empty()
                && !Page::read(target.to_str().unwrap()).anchors().contains(fragment)
            {
                broken.push(format!("{}: {link}: no such heading", page.path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_page_is_in_the_contents_of_the_book() {
    let contents = Page::read("docs/SUMMARY.md");
    for page in pages().iter().filter(|page| page.path.starts_with("docs")) {
        let name = page.path.strip_prefix("docs").unwrap().to_str().unwrap();
        assert!(name == "SUMMARY.md" || contents.text.contains(&format!("]({name})")), "{name}");
    }
}

/// What the examples of the documentation refer to.
const CONTEXT: &str = r#"
name: context
vars: { seeds: [0, 1] }
stages:
  data: { synthetic: { rows: 100, test_rows: 50, features: 300, features_per_row: 20, labels: 40, labels_per_row: 3 } }
  idf: { idf: { data: data } }
  train:
    matrix: { variant: [adaptive, static], seed: "${vars.seeds}" }
    train: { data: data, idf: idf, variant: "${matrix.variant}", seed: "${matrix.seed}" }
  eval:
    each: train
    matrix: { prior: [1, 2], rate: [0.1, 0.2] }
    evaluate: { data: data, model: "${each}" }
  oracle: { each: train, evaluate: { data: data, model: "${each}", protocol: oracle } }
  bibtex_eval: { each: eval, evaluate: { data: data, model: "train[adaptive,seed=0]" } }
  medical_eval: { each: eval, evaluate: { data: data, model: "train[adaptive,seed=0]" } }
  recipe_eval: { each: "train[adaptive]", evaluate: { data: data, model: "${each}" } }
  static_eval: { each: "train[static]", evaluate: { data: data, model: "${each}" } }
  linear_eval: { each: "train[static]", evaluate: { data: data, model: "${each}" } }
  audit: { audit: { data: data, model: "train[adaptive,seed=0]" } }
  table1: { table: { from: ["oracle[*]"], rows: variant, columns: macro_f1, mean_over: seed } }
  figures: { plot: { data: data, figures: [label-frequency] } }
outputs: [table1]
"#;

/// The first keys of examples that are not part of a pipeline: an option of a table, a file with references, settings
/// of a project, the profile of an engine.
const OTHER_FILES: [&str; 4] = ["significance", "heading", "remote", "engine"];
const KEYS_OF_A_PIPELINE: [&str; 7] = ["name", "vars", "stages", "outputs", "extends", "env", "published"];

/// Loads each example on top of [`CONTEXT`]; one that shows only stages is put under `stages`.
#[test]
fn every_pipeline_in_the_documentation_loads() {
    let test = PipelineTest::empty();
    for name in ["context.yaml", "bibtex.yaml", "quickstart.yaml"] {
        test.write(name, CONTEXT);
    }
    let mut loaded = 0;
    for page in pages() {
        for block in page.blocks("yaml") {
            let indent = block.len() - block.trim_start_matches(' ').len();
            let lines = block.lines().map(|line| line.get(indent..).unwrap_or_default());
            let lines: Vec<&str> = lines.collect();
            let keys: Vec<&str> = lines
                .iter()
                .filter(|line| line.starts_with(|c: char| c.is_alphanumeric()))
                .filter_map(|line| line.split(':').next())
                .collect();
            if OTHER_FILES.contains(&keys[0]) {
                continue;
            }
            let is_pipeline = keys.iter().any(|key| KEYS_OF_A_PIPELINE.contains(key));
            let (head, indent) = if is_pipeline { ("", "") } else { ("stages:\n", "  ") };
            let body: String = lines.iter().map(|line| format!("{indent}{line}\n")).collect();
            let extends = if keys.contains(&"extends") { "" } else { "extends: context.yaml\n" };
            test.write("example.yaml", format!("{extends}{head}{body}"));
            let mut command = test.command(&["graph", "example.yaml"]);
            command.env("DATA_DIR", "data");
            println!("{}:\n{block}", page.path.display());
            Ran::finish(command).ok();
            loaded += 1;
        }
    }
    assert!(loaded >= 20, "{loaded}");
}

/// Runs the commands of a tutorial in a shell, in the project.
fn follow(test: &PipelineTest, tutorial: &Page) {
    let programs = worker_program().parent().unwrap().to_owned();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let commands = tutorial.blocks("sh").concat();
    assert!(commands.lines().count() >= 3, "{commands}");
    for line in commands.lines() {
        let mut command = Command::new("sh");
        command.current_dir(test.path()).args(["-c", line]).env_remove("PIPE_CACHE").env("PATH", &path);
        println!("{line}");
        Ran::finish(command).ok();
    }
}

#[test]
fn the_tutorials_about_the_paper_can_be_followed() {
    let test = PipelineTest::empty();
    let quickstart = std::fs::read_to_string(root().join("pipelines/quickstart.yaml")).unwrap();
    test.write("pipelines/quickstart.yaml", quickstart.replace("published:", "# published:"));

    let paper = Page::read("docs/reproduce-the-paper.md");
    follow(&test, &paper);
    let for_paper = Page::read("docs/a-table-for-your-paper.md");
    test.write("pipelines/for-paper.yaml", &for_paper.blocks("yaml")[0]);
    follow(&test, &for_paper);
    let shown = for_paper.blocks("text").concat();
    let macros = test.read("paper/table1-macros.tex");
    let used = shown.split('\\').find(|word| word.starts_with("tableOne")).unwrap().trim_end_matches(".\n");
    assert!(macros.contains(&format!("\\newcommand{{\\{used}}}")), "{used}");
    assert!(test.file("paper/figures/figure1.pdf").is_file());
}

/// Compares with the published table, which `pipe verify` holds to the lock.
#[test]
fn the_values_in_the_tutorial_are_the_published_ones() {
    let published = Page::read("docs/results/quickstart/table1.md").text.replace(['*', '†'], "");
    let published = published.replace("<ins>", "").replace("</ins>", "");
    let shown = Page::read("docs/reproduce-the-paper.md").blocks("text")[0].replace('†', "");
    let rows: Vec<&str> = shown.lines().skip(1).collect();
    assert_eq!(rows.len(), 9);
    for row in rows {
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let cells = &cells[cells.len() - 5..];
        assert!(published.contains(&cells.join(" | ")), "{row}\n{published}");
    }
}

/// Runs every command of the tutorial about own data, on smaller data with the same columns.
#[test]
fn the_tutorial_about_own_data_can_be_followed() {
    let test = PipelineTest::empty();
    test.write("packages.csv", crate::own_data::csv().replacen("key", "package", 1));
    test.write("new.csv", "package,description\nfoo,cat dog tiny\nbar,oak rose huge\n");
    follow(&test, &Page::read("docs/your-own-data.md"));
}
