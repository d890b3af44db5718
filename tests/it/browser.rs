//! The pages in a real browser, with scripts and without.

use std::path::PathBuf;

use pipe_ml::metric::label::{LabelCount, LabelRecord};
use pipe_ml::metric::record::EvaluationRecord;
use pipe_report::page::evaluation::{self, Evaluated};
use pipe_report::page::html::el;
use pipe_report::page::picture::Picture;
use pipe_report::page::{Page, Section, facts};
use serde_json::json;

use crate::fake_worker::FakeWorker;
use crate::serve::{release, start, start_as, waiting};
use crate::support::PipelineTest;
use crate::webdriver::Browser;

const HOSTILE: &str = "<script>window.pwned = 1</script><img src=x onerror=\"window.pwned = 1\">";

fn record(protocol: &str, macro_f1: f64) -> EvaluationRecord {
    let interval = json!({
        "metric": "macro_f1", "estimate": macro_f1, "low": macro_f1 - 0.01, "high": macro_f1 + 0.01,
        "standard_error": 0.005, "bias": 0.0,
    });
    let values = json!({
        "macro_f1": macro_f1, "macro_f1_present": macro_f1 + 0.02, "micro_f1": 0.6, "sample_f1": 0.55, "p_at_1": 0.8,
        "p_at_5": 0.4, "bce": 0.012, "ece": 0.004, "positive_ratio": 0.011,
    });
    let value = json!({
        "part": "test",
        "evaluation": { "protocol": protocol, "rows": 1000, "labels": 500, "values": values },
        "intervals": {
            "bootstrap": { "replicates": 1000, "seed": 0, "confidence": 0.95 }, "values": [interval],
        },
    });
    serde_json::from_value(value).unwrap()
}

/// Returns a page with two honest evaluations, an oracle one, 500 labels of which one has a hostile name, and a figure.
fn page() -> Page {
    let labels = |tp: u32| {
        let count = |label: u32| LabelCount { tp: tp % (label + 1), predicted: 40, actual: 600 - label };
        (0..500).map(|label| LabelRecord::new(label, count(label))).collect::<Vec<_>>()
    };
    let evaluated = |variant: &str, protocol, macro_f1, tp| {
        let axes = vec![("variant".to_owned(), variant.to_owned()), ("seed".to_owned(), "0".to_owned())];
        Evaluated::new(axes, record(protocol, macro_f1), Some(labels(tp)))
    };
    let evaluations = [
        evaluated("adaptive", "honest", 0.41, 7),
        evaluated("static", "honest", 0.38, 5),
        evaluated("paper", "oracle", 0.72, 30),
    ];
    let names: Vec<String> = (0..500)
        .map(|label| if label == 3 { HOSTILE.to_owned() } else { format!("topic {label}") })
        .collect();
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 40 20\"><title>F1</title>\
               <style>rect { fill: teal }</style><rect width=\"30\" height=\"10\"/></svg>";
    let mut results = Section::new("results", "Results");
    results.add(evaluation::headline(&evaluations).html());
    let all = evaluation::all(&evaluations).html();
    results.add(el("details").child(el("summary").text("Every metric")).child(all));
    let mut figures = Section::new("figures", "Figures");
    let picture = Picture::sniff("f1.svg", svg.as_bytes()).unwrap();
    figures.add(el("div").class("figures").child(picture.html()).child(picture.html()));
    let mut by_label = Section::new("labels", "Labels");
    by_label.add(evaluation::labels(&evaluations, Some(&names)).unwrap().html());
    let lead = facts([("name", HOSTILE.to_owned())]);
    Page { title: HOSTILE.to_owned(), lead, sections: vec![results, figures, by_label], ..Page::default() }
}

fn written() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    std::fs::write(&file, page().render()).unwrap();
    (directory, file)
}

#[test]
fn the_page_sorts_searches_and_changes_its_theme_without_an_error() {
    let Some(browser) = Browser::start() else { return };
    let (_directory, file) = written();
    browser.open_file(&file);

    let column = "return [...document.querySelectorAll('#results .grid tbody')[0].rows].map(row => row.cells[0].firstChild.textContent.trim())";
    assert_eq!(browser.run(column), json!(["adaptive", "static", "paper"]));
    let head = "#results .grid thead th:nth-child(3)";
    browser.click(&format!("{head} button"));
    assert_eq!(browser.run(column), json!(["paper", "adaptive", "static"]));
    let sorted = format!("return document.querySelector('{head}').getAttribute('aria-sort')");
    assert_eq!(browser.run(&sorted), "descending");
    browser.click(&format!("{head} button"));
    assert_eq!(
        (browser.run(column), browser.run(&sorted)),
        (json!(["static", "adaptive", "paper"]), json!("ascending"))
    );
    browser.click(&format!("{head} button"));
    assert_eq!(
        browser.run(column),
        json!(["adaptive", "static", "paper"]),
        "a third click restores the order"
    );
    assert_eq!(browser.run("return document.querySelectorAll('#results tr.oracle abbr').length"), 1);

    let labels =
        "return [...document.querySelector('#labels tbody').rows].map(row => row.cells[0].textContent)";
    assert_eq!(browser.run(labels).as_array().unwrap().len(), 200);
    browser.type_into("#labels input", "Topic 49");
    let found = browser.run(labels);
    let expected: Vec<String> =
        std::iter::once(49).chain(490..500).map(|label| format!("topic {label}")).collect();
    assert_eq!(found, json!(expected), "also beyond the first rows");
    assert_eq!(browser.text("#labels output"), "11 of 500");
    browser.run("const field = document.querySelector('#labels input'); field.value = ''; field.dispatchEvent(new Event('input'))");
    browser.click("#labels .more button");
    assert_eq!(browser.run(labels).as_array().unwrap().len(), 500);
    assert_eq!(browser.run(labels)[3], HOSTILE, "it is text");

    let paper = "return getComputedStyle(document.body).backgroundColor";
    browser.click(".theme label:nth-of-type(2)");
    assert_eq!(browser.run(paper), "rgb(255, 255, 255)");
    browser.click(".theme label:nth-of-type(3)");
    assert_eq!(browser.run(paper), "rgb(20, 23, 28)");

    let shown = "return [...document.querySelectorAll('figure img')].map(image => image.complete && image.naturalWidth > 0)";
    assert_eq!(browser.run(shown), json!([true, true]));
    assert_eq!(browser.run("return window.pwned ?? 'nothing ran'"), "nothing ran");
    assert_eq!(browser.log(), [""; 0]);
}

#[test]
fn the_policy_blocks_the_network_and_foreign_scripts() {
    let Some(browser) = Browser::start() else { return };
    let (_directory, file) = written();
    browser.open_file(&file);
    browser.run(
        "const script = document.createElement('script'); script.textContent = 'window.pwned = 1'; document.body.append(script); \
         const image = new Image(); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image)",
    );
    assert_eq!(browser.run("return window.pwned ?? 'nothing ran'"), "nothing ran");
    let log = browser.log();
    assert_eq!(log.iter().filter(|text| text.contains("Content Security Policy")).count(), 2, "{log:?}");
}

#[test]
fn without_scripts_everything_can_be_read() {
    let Some(browser) = Browser::start_without_scripts() else { return };
    let (_directory, file) = written();
    browser.open_file(&file);
    let results = browser.text("#results tbody");
    assert!(
        results.contains("adaptive") && results.contains("0.4100") && results.contains("oracle"),
        "{results}"
    );
    assert!(browser.text("#labels").contains("The first 200 of 500 rows."));
    assert!(browser.text("#labels tbody").contains("topic 199"));
    assert_eq!(browser.text(".theme"), "", "what needs scripts is not shown");
}

#[test]
fn the_page_follows_a_run_until_its_end() {
    let Some(browser) = Browser::start() else { return };
    let test = waiting();
    let (mut child, url) = start(&test);
    browser.open(&url);
    browser.wait_for("return document.querySelector('circle').dataset.status === 'running'");
    release(&test);
    browser.wait_for("return document.querySelector('circle').dataset.status === 'computed'");
    browser.wait_for("return document.getElementById('said').textContent.startsWith('Ended after')");
    let states =
        browser.run("return [...document.querySelectorAll('tbody .status')].map(word => word.textContent)");
    assert_eq!(states, json!(["computed", "failed"]));
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(browser.log(), [""; 0]);
}

#[test]
fn every_row_of_a_large_run_is_updated() {
    let Some(browser) = Browser::start() else { return };
    let numbers: Vec<String> = (0..203).map(|number| number.to_string()).collect();
    let test = PipelineTest::new(&format!(
        "
name: large
stages:
  first:
    command: {{ run: \"until [ -e \\\"$GO\\\" ]; do sleep 0.05; done; echo 1 > x\", outputs: [x], env: [GO] }}
  many:
    matrix: {{ number: [{}] }}
    command: {{ run: \"echo ${{matrix.number}} > x\", outputs: [x], inputs: {{ first: first }} }}
",
        numbers.join(", ")
    ));
    let (mut child, url) = start(&test);
    browser.open(&url);
    browser.wait_for("return document.querySelector('circle').dataset.status === 'running'");
    // Rows that a search has hidden must be up to date when they are shown again.
    let search = |word: &str| {
        let typed = format!("field.value = '{word}'; field.dispatchEvent(new Event('input'))");
        browser.run(&format!("const field = document.querySelector('.search input'); {typed}"));
    };
    search("first");
    release(&test);
    browser.wait_for("return document.getElementById('said').textContent.startsWith('Ended after')");
    search("");
    browser.click(".more button");
    let states = browser
        .run("return [...document.querySelectorAll('tbody .status')].map(word => word.textContent)")
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(states.len(), 204);
    assert!(states.iter().all(|state| state == "computed"), "{states:?}");
    assert!(child.wait().unwrap().success());
    assert_eq!(browser.log(), [""; 0]);
}

#[test]
fn learning_curves_grow_while_a_stage_learns() {
    let Some(browser) = Browser::start() else { return };
    let test = PipelineTest::new(
        "
name: learning
stages:
  data: { synthetic: { rows: 50, test_rows: 10, features: 20, labels: 5, labels_per_row: 1, features_per_row: 2 } }
  idf: { idf: { data: data } }
  train:
    matrix: { variant: [adaptive, static] }
    train: { data: data, idf: idf, variant: \"${matrix.variant}\" }
",
    );
    let worker = FakeWorker::of(&test);
    let (mut child, url) = start_as(&test, worker.command(&test, &[]));
    browser.open(&url);
    browser.wait_for("return document.querySelectorAll('.curve').length === 2");
    browser.wait_for("return document.querySelectorAll('.curve polyline').length === 4");
    browser.wait_for(
        "return [...document.querySelectorAll('.curve polyline')].every(line => line.points.length === 8)",
    );
    let above = "return document.getElementById('curves').compareDocumentPosition(document.getElementById('pipeline')) === 4";
    assert_eq!(
        browser.run(above),
        true,
        "curves come before the graph, so that nobody has to scroll to them"
    );
    browser.wait_for("return /^2 of 4 stages, \\d+ s, about \\d+ s left$/.test(document.getElementById('progress').textContent)");
    let legend = browser.text(".curve[data-metric=train_loss] ul");
    assert!(legend.contains("train[adaptive] 0.125") && legend.contains("train[static] 0.125"), "{legend}");
    release(&test);
    browser.wait_for("return document.getElementById('said').textContent.startsWith('Ended after')");
    assert!(child.wait().unwrap().success());
    assert_eq!(browser.log(), [""; 0]);
}
