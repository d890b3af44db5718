use super::*;

const CSV: &str = "variant,seed,prior,macro_f1,seconds\na,0,1,0.25,10\na,1,1,0.75,12\nb,0,1,0.5,\n";

fn file<'a>(axes: &'a [String], stages: &'a [String]) -> SourceFile<'a> {
    SourceFile { path: "runs.csv", name: "runs", axes, stages }
}

fn read(text: &str, shown: &[&str]) -> Result<Vec<(RunAxes, FigureRecord)>, String> {
    read_as(&file(&[], &[]), text, shown)
}

fn read_as(file: &SourceFile, text: &str, shown: &[&str]) -> Result<Vec<(RunAxes, FigureRecord)>, String> {
    file.read(text, &shown.iter().copied().collect()).map_err(|error| error.to_string())
}

fn pairs(axes: &RunAxes) -> String {
    axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(" ")
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn columns_of_text_and_named_columns_are_axes_and_the_others_are_values() {
    let records = read(CSV, &["seed"]).unwrap();
    assert_eq!(pairs(&records[1].0), "source=runs variant=a seed=1");
    assert_eq!(records[1].1.names().collect::<Vec<_>>(), ["macro_f1", "prior", "seconds"]);
    assert_eq!(records[2].1.get("seconds"), None, "an empty field is no value");
    let axes = owned(&["prior"]);
    let records = read_as(&file(&axes, &[]), CSV, &["seed"]).unwrap();
    assert_eq!(pairs(&records[0].0), "source=runs variant=a seed=0 prior=1");
    for text in
        [CSV.replace(',', ";"), CSV.replace(',', "\t"), format!("\u{feff}{}", CSV.replace('\n', "\r\n"))]
    {
        assert_eq!(read(&text, &["seed", "prior"]).unwrap().len(), 3, "{text:?}");
    }
}

#[test]
fn the_protocol_of_a_row_is_a_column() {
    let records = read("protocol,macro_f1\noracle,0.5\nhonest,0.25\n", &[]).unwrap();
    assert_eq!(
        records.iter().map(|(_, r)| r.protocol()).collect::<Vec<_>>(),
        [Protocol::Oracle, Protocol::Honest]
    );
    assert!(read("a,macro_f1\nx,1\n", &[]).unwrap()[0].1.protocol() == Protocol::Honest);
}

#[test]
fn an_error_in_a_csv_file_names_file_line_and_column() {
    for (text, expected) in [
        ("", "`runs.csv`: the file is empty"),
        ("a,b\n", "`runs.csv`: there are no rows below"),
        ("a,,b\n1,2,3\n", "`runs.csv`, line 1, column 2: the column has no name"),
        ("a,b,a\n1,2,3\n", "`runs.csv`, line 1, column 3: two columns are called `a`"),
        ("source,b\n1,2\n", "`runs.csv`, line 1, column 1: the name `source` stands for the file"),
        ("a,b\n1,2\n1,2,3\n", "`runs.csv`, line 3: the row has 3 columns, but the first one has 2"),
        ("a,f1\nx,0.5\ny,0,5\n", "`runs.csv`, line 3: the row has 3 columns"),
        ("a,f1\nx,0.5\n\ny,n/a\n", "`runs.csv`, line 4, column 2: `n/a` is not a number"),
        ("a,f1\nx,0.5\ny,inf\n", "`runs.csv`, line 3, column 2: `inf` is not a number"),
        (
            "a,protocol\n1,test\n",
            "`runs.csv`, line 2, column 2: the protocol is `honest` or `oracle`, not `test`",
        ),
    ] {
        let error = read(text, &[]).unwrap_err();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    let axes = owned(&["variatn"]);
    let error = read_as(&file(&axes, &[]), CSV, &[]).unwrap_err();
    assert_eq!(
        error,
        "`runs.csv`: there is no column `variatn`, which `axes` names (did you mean `variant`?); \
         the columns are: variant, seed, prior, macro_f1, seconds"
    );
    let stages = owned(&["eval"]);
    let error = read_as(&file(&[], &stages), CSV, &[]).unwrap_err();
    assert!(error.contains("but this is no lock"), "{error}");
}

/// Returns a lock with these records: name, kind, and lines of metrics.
fn lock(records: &[(&str, &str, &str)]) -> String {
    let mut text = "pipe lock 2\npipeline other\n".to_owned();
    for (name, kind, metrics) in records {
        let body = format!("stage {name}\nkey 00\nin kind {kind}\n{metrics}");
        let seal = &Digest::of(body.as_bytes()).to_hex()[..16];
        text.push_str(&format!("\n{body}seal {seal}\n"));
    }
    text
}

use pipe_core::digest::Digest;

#[test]
fn evaluations_of_a_lock_have_their_axes_and_metrics() {
    let text = lock(&[
        ("data", "load", "metric labels 3.0\n"),
        ("eval[adaptive,seed=0]", "evaluate", "metric bce 0.125 honest\nmetric macro_f1 0.5 honest\n"),
        ("oracle[adaptive,seed=0]", "evaluate", "metric macro_f1 0.75 oracle\nmetric ece NaN oracle\n"),
    ]);
    let axes = owned(&["variant"]);
    let records = read_as(&file(&axes, &[]), &text, &[]).unwrap();
    assert_eq!(pairs(&records[0].0), "source=runs stage=eval variant=adaptive seed=0");
    assert_eq!(records[0].1.get("macro_f1"), Some(Marked::new(Protocol::Honest, 0.5)));
    assert_eq!(records[1].1.get("macro_f1"), Some(Marked::new(Protocol::Oracle, 0.75)));
    assert_eq!(records[1].1.get("ece"), None);
    let stages = owned(&["eval"]);
    assert_eq!(read_as(&file(&axes, &stages), &text, &[]).unwrap().len(), 1);
}

#[test]
fn an_error_in_a_lock_names_its_line() {
    let text = lock(&[("eval[a]", "evaluate", "metric macro_f1 0.5 honest\n")]);
    let axes = owned(&["variant"]);
    let error =
        |axes: &[String], stages: &[String], text: &str| read_as(&file(axes, stages), text, &[]).unwrap_err();
    assert!(
        error(&[], &[], &text).starts_with("`runs.csv`, line 4: `eval[a]` does not say on which axis `a` is")
    );
    let edited = error(&axes, &[], &text.replace("0.5", "0.9"));
    assert_eq!(
        edited,
        "`runs.csv`, line 4: the record of `eval[a]` was edited; write the lock again with `pipe lock`"
    );
    let stages = owned(&["evla"]);
    assert!(
        error(&axes, &stages, &text).contains("no stage `evla` evaluates a model (did you mean `eval`?)")
    );
    assert!(error(&axes, &[], &lock(&[("data", "load", "")])).ends_with("the lock has no evaluations"));
    assert!(error(&axes, &[], "pipe lock 9\n").contains("line 1: the lock was written by another version"));
    let cut = text.split("seal").next().unwrap();
    assert!(error(&axes, &[], cut).ends_with("the record of `eval[a]` has no end"));
}
