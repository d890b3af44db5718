//! Runs every pipeline in `pipelines/`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::PipelineTest;

/// Creates a project with all shipped pipelines.
fn shipped() -> PipelineTest {
    crate::support::worker_program();
    let test = PipelineTest::new("");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(root.join("pipelines")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            test.write(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    test
}

const QUICKSTART: &str = "pipelines/quickstart.yaml";

/// Returns the results of a pipeline; fails unless Table 1, Figures 1 to 3 and the page are among them.
fn results(test: &PipelineTest, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let found = test.files_below(&format!("results/{name}"));
    let table = ["tex", "md", "csv", "json"].map(|ending| format!("table1.{ending}"));
    let figures =
        [1, 2, 3].into_iter().flat_map(|number| ["svg", "pdf", "csv"].map(|e| format!("figure{number}.{e}")));
    for file in table.into_iter().chain(figures).chain(["report.html".to_owned()]) {
        let content = found.get(Path::new(&file));
        assert!(content.is_some_and(|content| !content.is_empty()), "{name} did not write {file}");
    }
    found
}

#[test]
fn quickstart_writes_a_table_figures_and_a_page_and_is_then_cached() {
    let test = shipped();
    let run = ["run", QUICKSTART, "--json", "--set", "vars.epochs=2"];
    let first = test.pipe(&run).ok();
    let trained = first.computed().into_iter().filter(|name| name.starts_with("train[")).count();
    assert_eq!(trained, 4);
    assert_eq!(test.pipe(&run).ok().computed(), [""; 0]);
    let found = results(&test, "quickstart");
    let table = String::from_utf8_lossy(&found[Path::new("table1.md")]).into_owned();
    assert!(table.contains("adaptive†") && table.contains("Recipe"), "{table}");
}

#[test]
fn two_runs_with_different_numbers_of_jobs_give_the_same_bytes() {
    let run = |jobs: &str| {
        let test = shipped();
        test.pipe(&["run", QUICKSTART, "--set", "vars.epochs=2", "--jobs", jobs]).ok();
        results(&test, "quickstart")
    };
    assert!(run("1") == run("2"));
}

/// Runs the grid on a data set, shortened; skipped if the data is missing.
fn grid(name: &str, set: &str, smaller: &[&str]) {
    let Some(data) = crate::support::data_directory(set) else { return };
    let test = shipped();
    let file = format!("pipelines/{name}.yaml");
    let short = ["run", &file, "--set", "vars.epochs=2", "--set", "vars.seeds=[0]"];
    let mut command = test.command(&[&short[..], smaller].concat());
    let output = command.env("PIPE_DATA_DIR", data).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    results(&test, name);
}

#[test]
fn the_grid_runs_on_medical() {
    grid("medical", "medical", &[]);
}

#[test]
fn the_grid_runs_on_bibtex() {
    grid("bibtex", "bibtex", &[]);
}

#[test]
fn the_grid_runs_on_delicious() {
    grid("delicious", "delicious", &[]);
}

#[test]
fn the_grid_runs_on_citeulike() {
    grid("citeulike", "citeulike-t", &["--set", "vars.labels=150", "--set", "vars.features=1500"]);
}

#[test]
fn the_recipe_for_long_tails_runs_on_citeulike() {
    let Some(data) = crate::support::data_directory("citeulike-t") else { return };
    let test = shipped();
    let mut command = test.command(&[
        "run",
        "pipelines/citeulike-tree.yaml",
        "--set",
        "vars.labels=150",
        "--set",
        "vars.features=1500",
    ]);
    let output = command.env("PIPE_DATA_DIR", data).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = test.files_below("results/citeulike-tree");
    let table = String::from_utf8_lossy(&table[Path::new("table1.md")]).into_owned();
    assert!(table.contains("Recipe, macro") && table.contains("Recipe, micro"), "{table}");
}

#[test]
fn the_grid_runs_on_generated_data_of_the_shape_of_amazoncat() {
    let test = shipped();
    let file = "pipelines/amazoncat-synthetic.yaml";
    let small = [
        "vars.scale=0.002",
        "vars.rows=null",
        "vars.test_rows=null",
        "vars.searched_rows=1000",
        "vars.epochs={ adaptive: 2, knn-only: 2, idf-only: 2, static: 2 }",
    ];
    let small = small.into_iter().flat_map(|set| ["--set", set]);
    test.pipe(&["run", file].into_iter().chain(small).collect::<Vec<_>>()).ok();
    results(&test, "amazoncat-synthetic");
}

#[test]
fn the_honest_table_compares_all_variants_with_and_without_cuts() {
    let test = shipped();
    test.pipe(&["plan", "pipelines/honest-table1.yaml"])
        .ok()
        .says("network[delicious,variant=adaptive,seed=2]");
    let short = ["vars.scale=0.01", "vars.rows=400", "vars.test_rows=150", "vars.seeds=[0]"];
    let short = short.into_iter().chain(["vars.epochs.amazoncat-shape=2"]).flat_map(|set| ["--set", set]);
    let run = ["run", "pipelines/honest-table1-amazoncat.yaml"];
    test.pipe(&run.into_iter().chain(short).collect::<Vec<_>>()).ok();
    let files = test.files_below("results/honest-table1-amazoncat");
    let table = String::from_utf8_lossy(&files[Path::new("table1.md")]).into_owned();
    for row in ["Static", "IDF only", "KNN only", "Adaptive", "cut at 0", "cuts per label"] {
        assert!(table.contains(row), "{row}\n{table}");
    }
    assert!(table.contains("Adaptive†"), "the best possible cuts are marked:\n{table}");
}

#[test]
fn the_honest_table_of_the_variants_has_a_row_for_each_and_shares_the_other_stages() {
    let Some(data) = crate::support::data_directory("medical") else { return };
    let test = shipped();
    let short =
        ["vars.datasets=[medical]", "vars.epochs.medical=1", "vars.seeds=[0]", "vars.folds.medical=2"];
    let short: Vec<&str> = short.into_iter().flat_map(|set| ["--set", set]).collect();
    let run = |pipeline: &str| {
        let mut command = test.command(&[&["run", pipeline], &short[..]].concat());
        let output = command.env("PIPE_DATA_DIR", &data).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    run("pipelines/honest-table1-variants.yaml");
    let files = test.files_below("results/honest-table1-variants");
    let table = String::from_utf8_lossy(&files[Path::new("table1.md")]).into_owned();
    for row in
        ["logit space", "θ between 0 and 1", "fallback to IDF", "full TF-IDF", "learned neighbourhoods"]
    {
        assert!(table.contains(row), "{row}\n{table}");
    }
    let again = run("pipelines/honest-table1.yaml");
    assert!(!again.contains("start   network["), "the networks of both pipelines are the same:\n{again}");
}

#[test]
fn the_recipe_compares_fusions_on_training_rows() {
    let Some(data) = crate::support::data_directory("medical") else { return };
    let test = shipped();
    let set = ["--set", "vars.datasets=[medical]", "--set", "vars.seeds=[0]"];
    let run = |words: &[&str]| {
        let mut command = test.command(&[words, &set].concat());
        let output = command.env("PIPE_DATA_DIR", &data).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["run", "pipelines/recipe.yaml"]);
    let choice = run(&["get", "pipelines/recipe.yaml", "recipe[objective=macro].choice"]);
    assert!(choice.matches("together").count() == 2 && choice.matches("alone").count() == 2, "{choice}");
    let files = test.files_below("results/recipe");
    let table = String::from_utf8_lossy(&files[Path::new("table.md")]).into_owned();
    assert!(table.contains("medical") && table.contains("micro-F1"), "{table}");
}

#[test]
fn the_pipeline_of_amazoncat_can_be_planned_for_some_rows_and_for_all() {
    let test = shipped();
    test.pipe(&["plan", "pipelines/amazoncat.yaml"]).ok().says("recipe_audit");
    test.pipe(&["plan", "pipelines/amazoncat.yaml", "--set", "vars.rows=null"]).ok().says("recipe_audit");
}

#[test]
fn pipelines_with_other_programs_can_be_planned_without_them() {
    let test = shipped();
    let files = ["baselines/baseline.py", "baselines/requirements.txt"];
    let more = ["embeddings/embed.py", "embeddings/packages.csv.gz", "embeddings/requirements.txt"];
    for file in files.into_iter().chain(more).map(|name| format!("pipelines/{name}")) {
        let content = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file)).unwrap();
        test.write(&file, content);
    }
    test.pipe(&["plan", "pipelines/baselines.yaml"]).ok().says("baseline_eval[micro,method=napkinxc]");
    test.pipe(&["plan", "pipelines/embeddings.yaml"])
        .ok()
        .says("paper_head[minilm,method=paper,variant=adaptive,seed=0]");
}

/// The part of the paper audit that needs no files: generated data in the shape of AmazonCat-13K, smaller.
const GENERATED: &str = "
extends: paper-audit.yaml
name: paper-audit
vars: { hidden: [32], sets: [{ dataset: amazoncat, epochs: 8, lr: 0.01 }] }
stages:
  bibtex: null
  delicious: null
  amazoncat: { synthetic: { rows: 3000, test_rows: 500, features: 600, labels: 200 } }
  report: { report: { evaluations: ['eval[*]'], audits: ['audit[*]'], data: [amazoncat] } }
outputs: [table1, blanked, bce, amazoncat-table, report]
";

#[test]
fn the_paper_audit_can_be_planned_and_its_generated_part_finds_the_leak() {
    crate::support::worker_program();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/paper-audit.yaml");
    let test = PipelineTest::new(GENERATED);
    test.write("paper-audit.yaml", std::fs::read_to_string(file).unwrap());
    test.pipe(&["plan", "paper-audit.yaml"]).ok().says("audit[bibtex");
    test.run().ok();
    let results = test.files_below("results/paper-audit");
    for table in ["table1", "blanked", "bce", "amazoncat"] {
        assert!(results.contains_key(Path::new(&format!("{table}.tex"))), "{:?}", results.keys());
    }
    let page = String::from_utf8_lossy(&results[Path::new("report.html")]).into_owned();
    assert!(page.contains("the predictions read the labels"), "no leak was found");
    assert!(page.contains("if every score were 0"), "the BCE column is not explained");
}

#[test]
fn the_committed_schema_is_the_one_that_pipe_prints() {
    let test = PipelineTest::new("");
    let printed = test.pipe(&["schema"]).ok().stdout;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pipeline.schema.json");
    let committed = std::fs::read_to_string(file).unwrap_or_default();
    assert!(printed == committed, "run: target/release/pipe schema > docs/pipeline.schema.json");
}
