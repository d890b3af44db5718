//! Tables of invented records, in every format.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::build::{TableError, build};
use super::display::{ShowN, TableDisplay, TableInterval, TableLayout, TableScale};
use super::measured::MeasuredRecord;
use super::reference::Reference;
use super::request::TableRequest;
use super::sheet::{Sheet, TextPiece, lay_out};
use super::significance::{self, Correction, SignificanceSettings};
use super::{Rank, Table};
use super::{csv, latex, latex_text, macros, markdown};
use pipe_core::digest::{BlobId, Digest};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::split_data::PartName;
use pipe_ml::metric::bootstrap::Bootstrap;
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::outcomes::Outcomes;
use pipe_ml::metric::record::{EvaluationRecord, Intervals};
use pipe_ml::metric::registry::{Direction, Metric};

const AWKWARD: &str = "A&B_%$#~^\\{}|<>\"'`--";

/// Returns a record with these values. An evaluation can only be created from JSON, which names its protocol.
fn record(axes: &[(&str, &str)], protocol: Protocol, values: &[(Metric, f64)]) -> MeasuredRecord {
    let values: BTreeMap<Metric, f64> = values.iter().copied().collect();
    let evaluation = serde_json::json!({ "protocol": protocol, "rows": 100, "labels": 10, "values": values });
    let evaluation = serde_json::from_value(evaluation).unwrap();
    let record = EvaluationRecord { part: PartName::Test, evaluation, intervals: None };
    let axes: Vec<_> = axes.iter().map(|(axis, value)| (axis.to_string(), value.to_string())).collect();
    let blob = BlobId::new(Digest::of(serde_json::to_string(&(&axes, &record)).unwrap().as_bytes()));
    MeasuredRecord { axes, blob, record, external: false }
}

/// Returns a record with macro F1, BCE and the ratio of positives for a variant and a seed.
fn run(variant: &str, seed: &str, protocol: Protocol, f1: f64, bce: f64, ratio: f64) -> MeasuredRecord {
    let values = [(Metric::MacroF1, f1), (Metric::Bce, bce), (Metric::PositiveRatio, ratio)];
    record(&[("variant", variant), ("seed", seed)], protocol, &values)
}

/// Returns records of four variants with two seeds.
fn grid(protocol: Protocol) -> Vec<MeasuredRecord> {
    let variants = [
        ("adaptive", 0.3821, 0.3125, 0.0102),
        ("knn-only", 0.3456, 0.3171, 0.0131),
        ("idf-only", 0.2094, 0.3327, 0.0091),
        ("static", 0.1035, 0.4754, 0.0423),
    ];
    let pair = |(variant, f1, bce, ratio): (&str, f64, f64, f64)| {
        [
            run(variant, "0", protocol, f1, bce, ratio),
            run(variant, "1", protocol, f1 + 0.01, bce - 0.002, ratio),
        ]
    };
    variants.into_iter().flat_map(pair).collect()
}

fn terms(words: &[&str]) -> Vec<super::term::TableTerm> {
    words.iter().map(|word| word.to_string().into()).collect()
}

fn request() -> TableRequest {
    TableRequest {
        name: "table1".to_owned(),
        rows: terms(&["variant"]),
        columns: terms(&["macro_f1", "bce", "positive_ratio"]),
        mean_over: vec!["seed".to_owned()],
        caption: Some("The four variants on synthetic data.".to_owned()),
        ..TableRequest::default()
    }
}

fn reference(request: &mut TableRequest, names: &[&str]) {
    request.references = names.iter().map(|name| Reference::shipped(name).unwrap()).collect();
}

fn made(request: &TableRequest, measured: &[MeasuredRecord]) -> (Table, Sheet) {
    let table = build(request, measured).unwrap();
    let sheet = lay_out(&table);
    (table, sheet)
}

fn all_formats(table: &Table) -> [String; 5] {
    let sheet = lay_out(table);
    [
        latex::table(table, &sheet),
        markdown::markdown(&sheet),
        csv::csv(table),
        table.json(),
        macros::macros(table),
    ]
}

#[test]
fn the_plain_table_in_every_format() {
    let (table, sheet) = made(&request(), &grid(Protocol::Honest));
    insta::assert_snapshot!("plain.tex", latex::table(&table, &sheet));
    insta::assert_snapshot!("plain.md", markdown::markdown(&sheet));
    insta::assert_snapshot!("plain.csv", csv::csv(&table));
    insta::assert_snapshot!("plain.json", table.json());
    insta::assert_snapshot!("plain-macros.tex", macros::macros(&table));
    assert_eq!(serde_json::from_str::<Table>(&table.json()).unwrap(), table);
}

#[test]
fn differences_from_the_paper_are_printed_for_oracle_rows_only() {
    let mut request = request();
    request.rows = terms(&["protocol", "variant"]);
    request.names.insert("adaptive".into(), "Adaptive".into());
    reference(&mut request, &["paper-table-1", "paper-prior-work"]);
    let mut measured = grid(Protocol::Oracle);
    measured.extend(grid(Protocol::Honest).into_iter().map(|mut measured| {
        measured.axes.insert(0, ("stage".into(), "honest".into()));
        measured
    }));
    let (table, sheet) = made(&request, &measured);
    insta::assert_snapshot!("paper.tex", latex::table(&table, &sheet));
    insta::assert_snapshot!("paper.md", markdown::markdown(&sheet));
    insta::assert_snapshot!("paper.csv", csv::csv(&table));
    insta::assert_snapshot!("paper-macros.tex", macros::macros(&table));
    for (_, _, cell) in table.cells() {
        let comparison = cell.comparisons[0].as_ref().unwrap();
        assert_eq!(comparison.difference.is_some(), cell.value.protocol() == Protocol::Oracle);
    }
}

/// Returns the request with other ways to print values.
fn displayed(display: TableDisplay) -> TableRequest {
    TableRequest { display, ..request() }
}

#[test]
fn shares_are_printed_in_percent_and_losses_are_not() {
    let percent = displayed(TableDisplay { scale: TableScale::Percent, ..TableDisplay::default() });
    let (table, sheet) = made(&percent, &grid(Protocol::Honest));
    let md = markdown::markdown(&sheet);
    assert!(md.contains("| Variant | Macro F1 (%) ↑ | BCE ↓ | Positive ratio (%) |"), "{md}");
    assert!(md.contains("| adaptive | **38.71** ± 0.71 | **0.3115** ± 0.0014 | 1.02 ± 0.00 |"), "{md}");
    assert!(
        csv::csv(&table).contains("adaptive,macro_f1,honest,test,2,0.3871"),
        "CSV has the values as computed"
    );
    assert!(macros::macros(&table).contains("{\\tableOneAdaptiveMacroFOne}{38.71}"));
    assert_eq!(serde_json::from_str::<Table>(&table.json()).unwrap(), table);
    let short = TableRequest { digits: Some(1), ..percent.clone() };
    let (_, sheet) = made(&short, &grid(Protocol::Honest));
    let md = markdown::markdown(&sheet);
    assert!(md.contains("| adaptive | **38.7** ± 0.7 | **0.3115** ± 0.0014 | 1.0 ± 0.0 |"), "{md}");
    let mut shares = TableRequest { columns: terms(&["macro_f1", "positive_ratio"]), ..percent };
    shares.digits = Some(1);
    let (_, sheet) = made(&shares, &grid(Protocol::Honest));
    let md = markdown::markdown(&sheet);
    assert!(md.contains("All values in percent. Mean ± standard deviation over seed (n = 2)."), "{md}");
    assert!(
        md.contains("| Variant | Macro F1 ↑ | Positive ratio |") && md.contains("**38.7** ± 0.7"),
        "{md}"
    );
}

#[test]
fn published_values_and_differences_are_converted_to_percent_with_their_precision() {
    let mut percent = displayed(TableDisplay { scale: TableScale::Percent, ..TableDisplay::default() });
    reference(&mut percent, &["paper-table-1"]);
    let (table, sheet) = made(&percent, &grid(Protocol::Oracle));
    let cell = table.cells[0][0].as_ref().unwrap();
    let theirs = cell.comparisons[0].as_ref().unwrap().published.as_ref().reveal().1;
    assert!(theirs.text.starts_with("0.") && theirs.text.len() == 6, "{theirs:?}");
    let md = markdown::markdown(&sheet);
    let difference = super::number::signed((0.3871 - theirs.value) * 100.0, 2);
    assert!(md.contains(&format!("| {:.2} | {difference} |", theirs.value * 100.0)), "{md}");
}

#[test]
fn an_interval_can_replace_the_deviation() {
    let of = |interval| {
        let request = displayed(TableDisplay { interval, ..TableDisplay::default() });
        let (table, sheet) = made(&request, &grid(Protocol::Honest));
        (markdown::markdown(&sheet), csv::csv(&table), macros::macros(&table))
    };
    let (md, csv, macros) = of(TableInterval::Range);
    assert!(md.contains("**0.3871** [0.3821, 0.3921]"), "{md}");
    assert!(md.contains("Mean, in brackets the smallest and the largest value, over seed (n = 2)."), "{md}");
    assert!(csv.contains("differs,low,high") && csv.contains(",0.3821,0.3921"), "{csv}");
    assert!(macros.contains("AdaptiveMacroFOneLow}{0.3821}") && macros.contains("FOneHigh}{0.3921}"));
    let (md, _, _) = of(TableInterval::Confidence);
    // 0.3871 -+ 12.7062 * 0.0070711 / sqrt(2)
    assert!(md.contains("[0.3236, 0.4506]") && md.contains("95 % confidence interval, over seed"), "{md}");
    let (md, csv, _) = of(TableInterval::None);
    assert!(!md.contains('±') && md.contains("Mean over seed (n = 2).") && !csv.contains("low"), "{md}");
}

#[test]
fn the_intervals_of_evaluations_are_shown_for_single_evaluations() {
    let bootstrap = |seed: u64| Bootstrap { seed, ..Bootstrap::default() };
    let with_interval = |seed: &str, bootstrap: Bootstrap| {
        let mut measured = run("a", seed, Protocol::Honest, 0.5, 0.25, 0.0);
        let interval = serde_json::json!({
            "metric": "macro_f1", "estimate": 0.5, "low": 0.4375, "high": 0.5625, "standard_error": 0.1, "bias": 0.0
        });
        let values = vec![serde_json::from_value(interval).unwrap()];
        measured.record.intervals = Some(Intervals { bootstrap, values });
        measured
    };
    let display = TableDisplay { interval: TableInterval::Bootstrap, ..TableDisplay::default() };
    let by_seed = TableRequest { rows: terms(&["seed"]), mean_over: Vec::new(), ..displayed(display) };
    let measured = [with_interval("0", bootstrap(1)), with_interval("1", bootstrap(2))];
    let md = markdown::markdown(&made(&by_seed, &measured).1);
    assert!(md.contains("| 0 | 0.5000 [0.4375, 0.5625] | 0.2500 |"), "{md}");
    assert!(
        md.contains("95 % confidence interval (bootstrap over the evaluated rows, 1000 replicates)."),
        "{md}"
    );
    let averaged =
        TableRequest { rows: terms(&["variant"]), mean_over: vec!["seed".to_owned()], ..by_seed.clone() };
    let error = build(&averaged, &measured).unwrap_err().to_string();
    assert!(error.contains("each of which has an interval of its own"), "{error}");
    let other = Bootstrap { confidence: 0.9, ..Bootstrap::default() };
    let mixed = [measured[0].clone(), with_interval("1", other)];
    assert_eq!(build(&by_seed, &mixed), Err(TableError::DifferentBootstraps));
    let plain = [run("a", "0", Protocol::Honest, 0.5, 0.25, 0.0)];
    assert_eq!(build(&by_seed, &plain), Err(TableError::NoIntervals));
}

#[test]
fn only_the_cells_with_another_number_of_runs_state_it() {
    let mut measured = grid(Protocol::Honest);
    measured.pop();
    let md = |show_n| {
        let display = TableDisplay { show_n, ..TableDisplay::default() };
        markdown::markdown(&made(&displayed(display), &measured).1)
    };
    let all = md(ShowN::All);
    assert!(all.contains("(n in brackets)") && all.matches("(n=2)").count() == 9, "{all}");
    let differing = md(ShowN::Differing);
    assert!(differing.contains("(n = 2 unless stated)"), "{differing}");
    assert_eq!(
        (differing.matches("(n=2)").count(), differing.matches("(n=1)").count()),
        (0, 3),
        "{differing}"
    );
}

#[test]
fn a_narrow_table_has_short_headings_and_separate_intervals() {
    let display = TableDisplay { layout: TableLayout::Narrow, ..TableDisplay::default() };
    let request = TableRequest { rows: terms(&["protocol", "variant"]), ..displayed(display) };
    let measured: Vec<_> = [Protocol::Oracle, Protocol::Honest]
        .into_iter()
        .flat_map(|protocol| {
            grid(protocol).into_iter().map(move |mut measured| {
                measured.axes.insert(0, ("stage".into(), protocol.name().into()));
                measured
            })
        })
        .collect();
    let (table, sheet) = made(&request, &measured);
    let tex = latex::table(&table, &sheet);
    insta::assert_snapshot!("narrow.tex", tex);
    assert!(!tex.contains("resizebox"), "the text must not become smaller than 7 points");
}

#[test]
fn axes_may_be_in_the_columns_and_metrics_in_the_rows() {
    let mut measured = Vec::new();
    for (data, shift) in [("bibtex", 0.0), ("delicious", -0.1)] {
        for (variant, f1) in [("adaptive", 0.4), ("static", 0.3)] {
            let values = [(Metric::MacroF1, f1 + shift), (Metric::Bce, 0.5 - f1)];
            measured.push(record(&[("data", data), ("variant", variant)], Protocol::Honest, &values));
        }
    }
    let across = TableRequest {
        columns: terms(&["data", "macro_f1", "bce"]),
        mean_over: Vec::new(),
        digits: Some(3),
        ..request()
    };
    let (table, sheet) = made(&across, &measured);
    insta::assert_snapshot!("across.tex", latex::table(&table, &sheet));
    let turned =
        TableRequest { rows: terms(&["macro_f1", "bce"]), columns: terms(&["data", "variant"]), ..across };
    let (table, sheet) = made(&turned, &measured);
    insta::assert_snapshot!("turned.md", markdown::markdown(&sheet));
    let best =
        |row: usize, column: usize| table.cells[row][column].as_ref().unwrap().rank == Some(Rank::Best);
    assert!(best(0, 0) && best(0, 2) && best(1, 0) && best(1, 2), "each data set has its own best");
}

#[test]
fn numbers_in_headings_come_with_their_axis() {
    let of = |prior: &str, f1| {
        record(&[("prior", prior), ("variant", "a")], Protocol::Honest, &[(Metric::MacroF1, f1)])
    };
    let measured = [of("10", 0.5), of("20", 0.25)];
    let mut request = TableRequest {
        rows: terms(&["variant"]),
        columns: terms(&["prior", "macro_f1"]),
        mean_over: Vec::new(),
        ..request()
    };
    let headings = |request: &TableRequest| {
        let (_, sheet) = made(request, &measured);
        markdown::markdown(&sheet).lines().find(|line| line.starts_with("| ")).unwrap().to_owned()
    };
    assert_eq!(headings(&request), "| Variant | Prior = 10<br>Macro F1 ↑ | Prior = 20<br>Macro F1 ↑ |");
    request.names.insert("prior=10".to_owned(), "ten".to_owned());
    assert!(headings(&request).contains("| ten<br>"), "a name of the user is shown as it is");

    let display = TableDisplay { layout: TableLayout::Narrow, ..TableDisplay::default() };
    let rows = TableRequest {
        rows: terms(&["prior", "variant"]),
        columns: terms(&["macro_f1"]),
        display,
        ..request
    };
    let (table, sheet) = made(&rows, &measured);
    let tex = latex::table(&table, &sheet);
    assert!(tex.contains("\\emph{ten}") && tex.contains("\\emph{Prior = 20}"), "{tex}");
}

#[test]
fn a_record_without_the_axis_is_named_after_its_stage() {
    let mut measured = vec![record(&[("stage", "logistic")], Protocol::Honest, &[(Metric::MacroF1, 0.2)])];
    let axes = [("stage", "eval"), ("variant", "adaptive")];
    measured.push(record(&axes, Protocol::Honest, &[(Metric::MacroF1, 0.3)]));
    let request = TableRequest { columns: terms(&["macro_f1"]), mean_over: Vec::new(), ..request() };
    let (table, _) = made(&request, &measured);
    let names: Vec<&str> = table.rows.iter().map(|row| row.values[0].value.as_str()).collect();
    assert_eq!(names, ["logistic", "adaptive"]);
}

#[test]
fn errors_say_which_field_to_change() {
    let both = || grid(Protocol::Honest);
    let fail = |change: &dyn Fn(&mut TableRequest), measured: Vec<MeasuredRecord>| {
        let mut request = request();
        change(&mut request);
        build(&request, &measured).unwrap_err().to_string()
    };
    let several = fail(&|request| request.mean_over.clear(), both());
    assert!(several.contains("they differ in `seed` (0, 1)"), "{several}");
    let axis = fail(&|request| request.rows = terms(&["variants"]), both());
    assert!(axis.contains("no record has the axis `variants`; the axes are `seed`, `variant`"), "{axis}");
    let value = fail(&|request| drop(request.only.insert("seed".into(), vec!["2".into()])), both());
    assert!(value.contains("no record has `seed: 2`"), "{value}");
    let metric = fail(&|request| request.columns = terms(&["p_at_1"]), both());
    assert!(metric.contains("`p_at_1`"), "{metric}");
    let mut mixed = both();
    mixed[1] = run("adaptive", "1", Protocol::Oracle, 0.4, 0.3, 0.01);
    let mixed = build(&request(), &mixed).unwrap_err();
    assert!(matches!(mixed, TableError::Mixed { .. }), "{mixed}");
    let same_axes: Vec<MeasuredRecord> = both().into_iter().chain(both()).collect();
    assert!(matches!(build(&request(), &same_axes), Err(TableError::SameAxes(_))));
}

#[test]
fn where_selects_and_orders_values() {
    let mut request = request();
    request.only.insert("variant".into(), vec!["static".into(), "adaptive".into()]);
    request.only.insert("seed".into(), vec!["1".into()]);
    let (table, _) = made(&request, &grid(Protocol::Honest));
    let names: Vec<&str> = table.rows.iter().map(|row| row.values[0].value.as_str()).collect();
    assert_eq!(names, ["static", "adaptive"]);
    assert_eq!(table.records.len(), 2, "only the records that are shown are sources");
}

#[test]
fn where_applies_to_published_rows_too() {
    let mut request = request();
    reference(&mut request, &["paper-table-1"]);
    request.only.insert("variant".into(), vec!["adaptive".into()]);
    let (table, _) = made(&request, &grid(Protocol::Oracle));
    assert_eq!(table.others, []);
    request.only.clear();
    let (table, sheet) = made(&request, &grid(Protocol::Oracle)[..2]);
    assert_eq!(table.others.len(), 3, "published rows without a row of ours are shown");
    let last = sheet.rows.last().unwrap();
    assert_eq!(last.cells[0], [], "not under `ours`");
    assert_eq!(last.cells[1], [TextPiece::Number("0.0035".into())]);
}

#[test]
fn different_numbers_of_seeds_are_shown() {
    let mut measured = grid(Protocol::Honest);
    measured.pop();
    let (_, sheet) = made(&request(), &measured);
    let text = markdown::markdown(&sheet);
    assert!(text.contains("n in brackets") && text.contains("(n=1)") && text.contains("(n=2)"), "{text}");
}

/// Returns labels as the rows of a matrix.
fn csr(rows: &[Vec<u32>], labels: usize) -> Csr {
    Csr::from_rows(labels, rows)
}

#[test]
fn only_a_significant_difference_gets_a_star() {
    let truth: Vec<Vec<u32>> = (0..200).map(|row| vec![row % 5]).collect();
    let wrong_every = |n: usize| -> Vec<Vec<u32>> {
        let flip =
            |(at, row): (usize, &Vec<u32>)| if at % n == 0 { vec![(row[0] + 1) % 5] } else { row.clone() };
        truth.iter().enumerate().map(flip).collect()
    };
    let predicted = [wrong_every(50), wrong_every(40), wrong_every(3)];
    let outcomes: Vec<Outcomes> =
        predicted.iter().map(|p| Outcomes::new(&csr(&truth, 5), &csr(p, 5)).unwrap()).collect();
    let names = ["good", "as good", "bad"];
    let macro_f1: Vec<f64> = outcomes.iter().map(|o| o.measure(&[[1]; 200])[0][0]).collect();
    let measured: Vec<MeasuredRecord> = (0..3)
        .map(|at| {
            let values = [(Metric::MacroF1, macro_f1[at]), (Metric::Bce, 0.1 * at as f64)];
            record(&[("variant", names[at])], Protocol::Honest, &values)
        })
        .collect();
    let request = TableRequest { columns: terms(&["macro_f1", "bce"]), mean_over: Vec::new(), ..request() };
    let load = |at: usize| -> Result<_, std::convert::Infallible> {
        // The table keeps its records in the order of their axes: `as good`, `bad`, `good`.
        let predicted = &predicted[[1, 2, 0][at]];
        let outcomes = Outcomes::new(&csr(&truth, 5), &csr(predicted, 5)).unwrap();
        Ok(Marked::new(Protocol::Honest, outcomes))
    };
    let bootstrap = Bootstrap { replicates: 400, ..Bootstrap::default() };
    let tested = |baseline: Option<&str>| {
        let mut table = build(&request, &measured).unwrap();
        let baseline = baseline.map(str::to_owned);
        let settings = SignificanceSettings { baseline, bootstrap, correction: Correction::Bonferroni };
        significance::test(&mut table, &settings, load).map(|()| table)
    };
    let differs = |table: &Table| -> Vec<Option<bool>> {
        let test = |row: &Vec<Option<super::TableCell>>| {
            row[0].as_ref().unwrap().test.as_ref().map(|test| test.as_ref().reveal().1.differs)
        };
        table.cells.iter().map(test).collect()
    };
    let against_best = tested(None).unwrap();
    assert_eq!(differs(&against_best), [None, Some(false), Some(true)]);
    assert_eq!(differs(&tested(Some("bad")).unwrap()), [Some(true), Some(true), None]);
    let test = against_best.cells[2][0].as_ref().unwrap().test.clone().unwrap().reveal().1;
    assert!((test.confidence - 0.975).abs() < 1e-12, "two comparisons share the error probability");
    assert!((test.difference - (macro_f1[2] - macro_f1[0])).abs() < 1e-12);
    assert_eq!(against_best.significance.as_ref().unwrap().untested, [Metric::Bce]);
    let text = markdown::markdown(&lay_out(&against_best));
    assert!(text.contains("differs from the best (paired bootstrap"), "{text}");
    assert!(text.contains("Not tested: BCE"), "{text}");
    let error = tested(Some("ugly")).unwrap_err().to_string();
    assert!(error.contains("no row is `variant=ugly`"), "{error}");
}

#[test]
fn special_characters_are_escaped_in_every_format() {
    let long = "x".repeat(300);
    let names =
        [AWKWARD, "=cmd|' /C calc'!A0", "Zoë Łukasz", "中文 and more", "שלום עולם", &long, "a\nb\u{202e}c"];
    let measured: Vec<MeasuredRecord> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            record(&[("variant", name)], Protocol::Honest, &[(Metric::MacroF1, 0.1 * at as f64)])
        })
        .collect();
    let request = TableRequest {
        columns: terms(&["macro_f1"]),
        mean_over: Vec::new(),
        caption: Some(format!("A caption with {AWKWARD} and [brackets].")),
        ..request()
    };
    let (table, sheet) = made(&request, &measured);
    insta::assert_snapshot!("awkward.tex", latex::table(&table, &sheet));
    insta::assert_snapshot!("awkward.md", markdown::markdown(&sheet));
    insta::assert_snapshot!("awkward.csv", csv::csv(&table));
    insta::assert_snapshot!("awkward-macros.tex", macros::macros(&table));
    assert_eq!(serde_json::from_str::<Table>(&table.json()).unwrap(), table);
}

#[test]
fn names_of_macros_have_letters_only_and_are_unique() {
    let names = ["a-b", "a b", "日本", "中国", "v2", "v 2"];
    let measured: Vec<MeasuredRecord> = names
        .iter()
        .map(|name| record(&[("variant", name)], Protocol::Honest, &[(Metric::MacroF1, 0.1)]))
        .collect();
    let request = TableRequest { columns: terms(&["macro_f1"]), mean_over: Vec::new(), ..request() };
    let (table, _) = made(&request, &measured);
    let text = macros::macros(&table);
    let mut macros: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("\\newcommand{\\"))
        .filter_map(|line| line.split_once('}'))
        .map(|(name, _)| name)
        .collect();
    assert!(macros.iter().all(|name| name.bytes().all(|b| b.is_ascii_alphabetic())), "{macros:?}");
    macros.sort_unstable();
    macros.dedup();
    assert_eq!(macros.len(), names.len(), "{text}");
}

#[test]
fn the_hash_in_the_latex_is_the_digest_of_the_json() {
    let (table, sheet) = made(&request(), &grid(Protocol::Honest));
    let digest = Digest::of(table.json().as_bytes());
    let tex = latex::table(&table, &sheet);
    assert!(tex.contains(&format!("\\def\\tableOneHash{{{}}}", digest.short())), "{tex}");
    assert!(tex.contains(&digest.to_hex()));
    for record in &table.records {
        assert!(tex.contains(&record.blob.to_string()));
    }
}

/// Turns LaTeX text back into plain text. This is the inverse of `escape`, but independent of its control flow.
fn unescape(latex: &str) -> String {
    let mut inverse: Vec<(String, char)> = super::latex_char::COMMANDS
        .iter()
        .map(|&(character, command)| (command.to_owned(), character))
        .collect();
    for &(accent, _, pairs) in super::latex_char::ACCENTS {
        let pairs: Vec<char> = pairs.chars().collect();
        for pair in pairs.chunks(2) {
            inverse.push((format!("{accent}{{{}}}", pair[0]), pair[1]));
            inverse.push((format!("{accent}{{\\{}}}", pair[0]), pair[1]));
        }
    }
    inverse.sort_by_key(|(command, _)| std::cmp::Reverse(command.len()));
    let mut out = String::new();
    let mut rest = latex;
    'next: while !rest.is_empty() {
        for skipped in ["\\allowbreak{}", "{}"] {
            if let Some(after) = rest.strip_prefix(skipped) {
                rest = after;
                continue 'next;
            }
        }
        if let Some(after) = rest.strip_prefix("\\pipechar{") {
            let (code, after) = after.split_once('}').unwrap();
            out.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
            rest = after;
            continue;
        }
        for (command, character) in &inverse {
            if let Some(after) = rest.strip_prefix(command.as_str()) {
                out.push(*character);
                rest = after;
                continue 'next;
            }
        }
        let character = rest.chars().next().unwrap();
        assert!(!"\\$&#%_^~{}".contains(character), "a command is left: {rest}");
        out.push(character);
        rest = &rest[character.len_utf8()..];
    }
    out
}

/// Reads a CSV file by the rules of RFC 4180, independently of the crate that wrote it.
fn read_csv(text: &str) -> Vec<Vec<String>> {
    let (mut lines, mut fields, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (quoted, character) {
            (true, '"') if characters.peek() == Some(&'"') => field.extend(characters.next()),
            (_, '"') => quoted = !quoted,
            (false, ',') => fields.push(std::mem::take(&mut field)),
            (false, '\r') if characters.next_if_eq(&'\n').is_some() => {
                fields.push(std::mem::take(&mut field));
                lines.push(std::mem::take(&mut fields));
            }
            (_, other) => field.push(other),
        }
    }
    assert!(!quoted && field.is_empty() && fields.is_empty(), "the last line is incomplete");
    lines
}

/// Generates names, without combining accents, which LaTeX text combines with the letter before.
fn name() -> impl Strategy<Value = String> {
    let combining = |c: char| super::latex_char::combining(c).is_some();
    prop_oneof!["[ -~]{1,40}", "\\PC{1,12}", any::<String>().prop_filter("empty", |text| !text.is_empty())]
        .prop_map(move |text| text.replace(combining, "").replace(['\n', '\r', '\t'], " "))
        .prop_filter("empty", |text| !text.is_empty())
}

/// Generates variants with two seeds, a protocol each, and values from a small set, so that some are equal.
fn variants() -> impl Strategy<Value = Vec<MeasuredRecord>> {
    let value = (0u32..8).prop_map(|n| f64::from(n) / 8.0);
    let variant = (any::<bool>(), value.clone(), value);
    prop::collection::vec(variant, 1..7).prop_map(|variants| {
        let one = |(at, (oracle, f1, bce)): (usize, (bool, f64, f64))| {
            let protocol = if oracle { Protocol::Oracle } else { Protocol::Honest };
            let name = format!("v{at}");
            ["0", "1"].map(|seed| run(&name, seed, protocol, f1, bce, 0.1))
        };
        variants.into_iter().enumerate().flat_map(one).collect()
    })
}

proptest! {
    #[test]
    fn latex_text_can_be_turned_back_into_plain_text(text in name()) {
        let latex = latex_text::escape(&text);
        prop_assert!(latex.is_ascii());
        prop_assert_eq!(unescape(&latex), text);
    }

    #[test]
    fn csv_can_be_read_back(text in any::<String>().prop_filter("empty", |text| !text.is_empty())) {
        let measured = [record(&[("variant", &text)], Protocol::Honest, &[(Metric::MacroF1, 0.5)])];
        let request = TableRequest { columns: terms(&["macro_f1"]), mean_over: Vec::new(), ..request() };
        let lines = read_csv(&csv::csv(&build(&request, &measured).unwrap()));
        prop_assert_eq!(lines.len(), 2);
        prop_assert_eq!(lines[0].len(), lines[1].len());
        let field = &lines[1][0];
        prop_assert!(!field.starts_with(['=', '+', '-', '@']), "a formula: {}", field);
        prop_assert_eq!(field.strip_prefix('\'').unwrap_or(field), text);
    }

    #[test]
    fn names_do_not_change_the_number_of_cells_in_a_markdown_row(text in name()) {
        let measured = [record(&[("variant", &text)], Protocol::Honest, &[(Metric::MacroF1, 0.5)])];
        let request =
            TableRequest { columns: terms(&["macro_f1"]), mean_over: Vec::new(), caption: None, ..request() };
        let (_, sheet) = made(&request, &measured);
        let text = markdown::markdown(&sheet);
        prop_assert_eq!(text.lines().count(), 3, "{}", text);
        for line in text.lines() {
            prop_assert_eq!(line.matches('|').count(), 3, "{}", text);
        }
    }

    #[test]
    fn bold_values_are_the_best_of_their_protocol_in_the_direction_of_the_metric(measured in variants()) {
        let (table, _) = made(&request(), &measured);
        for (_, column, cell) in table.cells() {
            let rivals: Vec<f64> = table
                .cells()
                .filter(|(_, c, rival)| *c == column && rival.value.protocol() == cell.value.protocol())
                .map(|(_, _, rival)| rival.value.reveal().1.mean)
                .collect();
            let mine = cell.value.reveal().1.mean;
            let beaten = match cell.metric.direction() {
                Direction::Higher => rivals.iter().any(|rival| *rival > mine),
                Direction::Lower => rivals.iter().any(|rival| *rival < mine),
                Direction::Neither => true,
            };
            let contested = rivals.iter().any(|rival| *rival != mine);
            prop_assert_eq!(cell.rank == Some(Rank::Best), !beaten && contested);
        }
    }

    #[test]
    fn every_oracle_value_is_marked_in_every_format(measured in variants()) {
        let (table, sheet) = made(&request(), &measured);
        let marked = |text: &super::sheet::SheetText| text.contains(&TextPiece::Oracle);
        for (row, column, cell) in table.cells() {
            let shown = &sheet.rows[row];
            let is_marked = marked(&shown.heads[0]) || marked(&shown.cells[column]);
            let is_marked = is_marked || marked(&sheet.heads.last().unwrap()[column].text);
            prop_assert_eq!(is_marked, cell.value.protocol() == Protocol::Oracle);
        }
        if table.has(Protocol::Oracle) {
            let [tex, md, csv, json, macros] = all_formats(&table);
            prop_assert!(tex.contains("$^{\\dagger}$ Oracle protocol: the labels of the evaluated rows"), "no footnote");
            prop_assert!(md.contains("† Oracle protocol: the labels of the evaluated rows"));
            let oracle = table.cells().filter(|(_, _, cell)| cell.value.protocol() == Protocol::Oracle).count();
            prop_assert_eq!(csv.matches(",oracle,").count(), oracle);
            prop_assert!(json.contains("\"protocol\": \"oracle\""));
            prop_assert_eq!(macros.matches("\\newcommand{\\tableOneOracle").count(), 2 * oracle);
        }
    }

    #[test]
    fn the_order_of_the_inputs_changes_nothing_but_the_order_of_the_rows(
        measured in variants(),
        values in prop::collection::vec(0.0..1.0f64, 14),
        rotation in 0usize..14,
    ) {
        let mut request = request();
        let mut measured: Vec<MeasuredRecord> = measured
            .into_iter()
            .zip(values)
            .map(|(m, f1)| {
                let axes: Vec<(&str, &str)> = m.axes.iter().map(|(a, v)| (a.as_str(), v.as_str())).collect();
                let rest = [(Metric::MacroF1, f1), (Metric::Bce, f1), (Metric::PositiveRatio, f1)];
                record(&axes, m.record.protocol(), &rest)
            })
            .collect();
        let rotation = rotation % measured.len();
        measured.rotate_left(rotation);
        let mut order: Vec<String> = measured.iter().map(|m| m.on("variant").unwrap().to_owned()).collect();
        order.sort();
        order.dedup();
        request.only.insert("variant".into(), order);
        let shuffled = build(&request, &measured).unwrap();
        measured.sort_by(|a, b| a.axes.cmp(&b.axes));
        let sorted = build(&request, &measured).unwrap();
        prop_assert_eq!(all_formats(&shuffled), all_formats(&sorted));
    }
}

/// Whether LaTeX is installed. If not, the test prints a message; on CI it is required.
fn has_latex() -> bool {
    let found = std::process::Command::new("pdflatex").arg("--version").output().is_ok();
    assert!(found || std::env::var_os("PIPE_CI").is_none(), "pdflatex is missing; see .ci/packages");
    if !found {
        eprintln!("skipped: pdflatex is not installed");
    }
    found
}

/// Compiles a document in a directory with these files, and returns the log.
fn compile(document: &str, files: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files.iter().chain(&[("document.tex", document)]) {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let output = std::process::Command::new("pdflatex")
        .args(["-interaction=nonstopmode", "-halt-on-error", "document.tex"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && directory.path().join("document.pdf").is_file(), "{log}\n{document}");
    log
}

#[test]
fn latex_compiles_by_itself_and_with_input() {
    if !has_latex() {
        return;
    }
    let mut with_the_paper = request();
    reference(&mut with_the_paper, &["paper-table-1", "paper-prior-work"]);
    let every_character: String =
        super::latex_char::COMMANDS.iter().map(|(character, _)| *character).collect();
    let accents: String = super::latex_char::ACCENTS.iter().map(|(_, _, pairs)| *pairs).collect();
    let rare = format!("e\u{301} q\u{308} 中文 שלום \u{202e} 😀 \u{0} ą [x] {}", "long".repeat(75));
    let awkward = TableRequest {
        columns: terms(&["macro_f1"]),
        mean_over: Vec::new(),
        caption: Some(format!("{every_character} {rare}")),
        ..request()
    };
    let names = [AWKWARD, &every_character, &accents, &rare, "]", "\\input{/etc/passwd}", "-1", "[2ex]"];
    let named: Vec<MeasuredRecord> = names
        .iter()
        .map(|name| record(&[("variant", name)], Protocol::Oracle, &[(Metric::MacroF1, 0.25)]))
        .collect();
    for (request, measured) in [(with_the_paper, grid(Protocol::Oracle)), (awkward, named)] {
        let (table, sheet) = made(&request, &measured);
        let tex = latex::table(&table, &sheet);
        let log = compile(&latex::standalone(&tex), &[]);
        assert!(!log.contains("Overfull"), "{log}");
        assert!(!log.contains("mktexpk"), "a font that latex-base lacks was generated: {log}");
        let by_input = "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{booktabs,array,graphicx}\
             \\input{table1-macros}\\begin{document}\\listoftables\\input{table1}\
             Table~\\ref{tab:table1} has the hash \\tableOneHash.\\end{document}";
        compile(by_input, &[("table1.tex", &tex), ("table1-macros.tex", &macros::macros(&table))]);
        // The same table for one column.
        let narrow = TableDisplay { layout: TableLayout::Narrow, ..TableDisplay::default() };
        let (table, sheet) = made(&TableRequest { display: narrow, ..request }, &measured);
        compile(&latex::standalone(&latex::table(&table, &sheet)), &[]);
    }
}

#[test]
fn a_narrow_table_fits_into_one_column_of_a_two_column_paper() {
    if !has_latex() {
        return;
    }
    let metrics = ["macro_f1", "micro_f1", "p_at_1", "p_at_5", "label_coverage", "positive_ratio"];
    let values: Vec<(Metric, f64)> = metrics.iter().map(|name| (name.parse().unwrap(), 0.456_789)).collect();
    let run = |variant: &str, seed: &str| {
        record(&[("variant", variant), ("seed", seed)], Protocol::Honest, &values)
    };
    let measured =
        ["adaptive", "static", "knn-only"].map(|variant| [run(variant, "0"), run(variant, "1")]).concat();
    let document = |columns: usize, layout: TableLayout| {
        let display = TableDisplay { layout, ..TableDisplay::default() };
        let request = TableRequest { columns: terms(&metrics[..columns]), ..displayed(display) };
        let (table, sheet) = made(&request, &measured);
        let document = "\\documentclass[twocolumn]{article}\\usepackage{booktabs,array,graphicx}\\begin{document}\\input{t}\\end{document}";
        compile(document, &[("t.tex", &latex::table(&table, &sheet))])
    };
    for columns in [3, 5] {
        let log = document(columns, TableLayout::Narrow);
        assert!(!log.contains("Overfull") && !log.contains("is wider than the line"), "{columns}: {log}");
    }
    assert!(
        document(6, TableLayout::Narrow).contains("Table tab:table1 is wider than the line even in 7 pt")
    );
}
