//! From a file of data to results, without writing a pipeline: `pipe init --data`, `run`, `labels`, `predict`.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{PipelineTest, Ran, worker_program};

/// The labels of a row. Labels repeat, and one of them is rare.
fn labels(row: usize) -> Vec<&'static str> {
    let mut labels = vec![["animal", "plant", "stone"][row % 3]];
    if row.is_multiple_of(2) {
        labels.push("large");
    }
    if row == 7 {
        labels.push("rare");
    }
    labels
}

fn text(row: usize) -> String {
    let words = ["cat dog horse", "tree rose oak", "granite slate basalt"][row % 3];
    let size = if row.is_multiple_of(2) { "huge big" } else { "tiny" };
    format!("{words} {size} number{}", row % 20)
}

const ROWS: usize = 90;

pub(crate) fn csv() -> String {
    let rows = (0..ROWS).map(|row| format!("id{row},{},\"{}\"\n", text(row), labels(row).join(", ")));
    format!("key,description,tags\n{}", rows.collect::<String>())
}

/// Returns LIBSVM text, with the features of a row given by a function.
fn svm(feature: impl Fn(usize) -> String) -> String {
    (0..ROWS).map(|row| format!("{},{} {}\n", row % 3, 3 + row % 2, feature(row))).collect()
}

/// Returns a two-dimensional NumPy array of 32-bit floats.
fn npy(columns: usize, value: impl Fn(usize, usize) -> f32) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({ROWS}, {columns}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    for row in 0..ROWS {
        bytes.extend((0..columns).flat_map(|column| value(row, column).to_le_bytes()));
    }
    bytes
}

/// Runs the pipeline that `pipe init` wrote, and checks what it placed.
#[track_caller]
fn runs(test: &PipelineTest, name: &str) {
    test.typed(&format!("run pipelines/{name}.yaml")).ok();
    let found = test.files_below(&format!("results/{name}"));
    let has = |file: &str| found.contains_key(std::path::Path::new(file));
    assert!((has("table.md") || has("table1.md")) && has("report.html"), "{:?}", found.keys());
}

fn predict(test: &PipelineTest, args: &[&str], input: &str) -> Ran {
    let mut command = test.command(&[&["predict", "recipe[macro]"], args].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Compares the labels that `predict.py` of an exported model finds with those of `pipe predict`.
#[track_caller]
pub(crate) fn the_python_reader_decides_like(expected: &str, model: &str, rows: &str) {
    let python = |args: &[&str]| Command::new("python3").args(args).output().unwrap();
    if !python(&["-c", "import numpy, scipy"]).status.success() {
        println!("skipped: python3 has no numpy and scipy");
        return;
    }
    let labels = |lines: &str| -> Vec<Vec<serde_json::Value>> {
        let row = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["labels"].clone();
        let names =
            |row: serde_json::Value| row.as_array().unwrap().iter().map(|l| l["label"].clone()).collect();
        lines.lines().map(row).map(names).collect()
    };
    let output = python(&[&format!("{model}/predict.py"), rows]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(labels(&String::from_utf8_lossy(&output.stdout)), labels(expected));
}

#[test]
fn a_csv_file_becomes_results_and_predictions_without_writing_yaml() {
    worker_program();
    let test = PipelineTest::empty();
    test.write("things.csv", csv());
    let written = test.typed("init --data things.csv").ok().prints_nothing();
    written
        .reports("CSV, 90 rows")
        .reports("column `description`")
        .reports("column `tags`, separated by `,`: 5 labels, 1.5 per row")
        .reports("1 of 5 labels have fewer than 3")
        .reports("next: pipe run pipelines/things.yaml");
    let yaml = test.read("pipelines/things.yaml");
    assert!(yaml.contains("- builtin/recipe-final") && yaml.contains("min_label_count: 3"), "{yaml}");
    runs(&test, "things");

    let report = test.typed("labels eval[macro]").ok().reports_nothing();
    let report = report.prints("animal").prints("micro average").prints("training rows");
    assert!(!report.stdout.contains("rare"), "a label that was left out is not in the report");
    let lines = test.typed("labels eval[macro] --json --top 2").ok().json();
    assert_eq!(lines.as_array().unwrap().len(), 2);
    assert!(lines[0]["f1"]["interval"].is_array() && lines[0]["name"].is_string(), "{lines}");
    test.typed("labels eval").refuses("eval[macro], eval[micro]");
    test.typed("labels fused").refuses("`fused` is not an `evaluate` stage");

    // The column of the training texts is remembered, and the ids are those of the file.
    let new = "description,key\ncat dog tiny,k0\n,k1\n\"granite, slate huge\",\"k,2\"\n";
    let rows = predict(&test, &["-", "--id-column", "key", "--format", "labels"], new).ok().stdout;
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert_eq!((rows[0], rows[1]), ("id,labels", "k0,animal"));
    assert!(
        rows[2].starts_with("k1,") && rows[3].starts_with("\"k,2\",") && rows[3].contains("stone"),
        "{rows:?}"
    );
    let plain = predict(&test, &["-", "-o", "-"], new).ok().stdout;
    let json = predict(&test, &["-", "--id-column", "key"], new).ok().stdout;
    assert_eq!(json.replacen("\"id\":\"k0\",", "", 1).lines().next(), plain.lines().next());
    predict(&test, &["-", "--format", "csv", "--id-column", "key", "--top", "1"], new).ok().prints("k0,0,");

    // An exported model needs neither the project nor the data set, and remembers the column as well.
    test.typed("model export recipe[macro] model").ok();
    test.typed("model export recipe[macro] model").refuses("model exists");
    let card = test.read("model/README.md");
    for expected in [
        "# Model card: `recipe[macro]`",
        "## Evaluation `eval[macro]`",
        "| Macro F1 |",
        "never predicted",
        "soft cuts",
        "- Fitted on: the training rows",
        "| 10 to 99 | ",
        "| mean probability | decisions | share that is true |",
    ] {
        assert!(card.contains(expected), "{expected}: {card}");
    }
    test.write("new.csv", new);
    let elsewhere = PipelineTest::empty();
    let model = test.path().join("model").display().to_string();
    let rows = test.path().join("new.csv").display().to_string();
    assert_eq!(elsewhere.pipe(&["predict", &model, &rows]).ok().reports_nothing().stdout, plain);
    let explained = elsewhere.pipe(&["explain", &model, "--row", "0", "--input", &rows]).ok();
    explained.prints("animal").prints(": predicted");
    elsewhere.pipe(&["explain", &model, "--row", "0"]).exits_with(2).says("`--input FILE`");
    the_python_reader_decides_like(&plain, &model, &rows);
    // Symbols and marks, some of which are letters; Windows line ends, semicolons, and a byte-order mark.
    let odd = "\u{feff}key;description\r\n1;\"cat™ dog\nhorse\"\r\n2;Ⓐoak ROSE हिन्दी tre\u{301}e\r\n\r\n3;granite ΣΊΣΥΦΟΣ 中文 x²\r\n";
    test.write("odd.csv", odd);
    let odd = test.path().join("odd.csv").display().to_string();
    let predicted = elsewhere.pipe(&["predict", &model, &odd]).ok().stdout;
    assert_eq!(predicted.lines().count(), 3);
    the_python_reader_decides_like(&predicted, &model, &odd);
    // A pipe can be read only once, which is enough.
    Command::new("mkfifo").arg(test.file("fifo")).status().unwrap();
    let (fifo, content) = (test.file("fifo"), test.read("new.csv"));
    let writer = std::thread::spawn(move || std::fs::write(fifo, content).unwrap());
    assert_eq!(test.typed("predict model fifo").ok().stdout, plain);
    writer.join().unwrap();
    test.typed("init pipelines/fifo.yaml --data fifo").refuses("can be read only once");
    let names = test.read("model/data/label_names.jsonl");
    test.write("model/data/label_names.jsonl", names.replace("stone", "stein"));
    elsewhere.pipe(&["predict", &model, &rows]).exits_with(2).says("label_names.jsonl");

    // The final model is fitted on all rows, and explains its decisions with the texts of all of them.
    test.typed("model export final[macro] final --training-texts").ok();
    let card = test.read("final/README.md");
    assert!(
        card.contains("- Fitted on: all rows") && card.contains("values are those of `recipe[macro]`"),
        "{card}"
    );
    let explained =
        elsewhere.pipe(&["explain", &model.replace("model", "final"), "--row", "0", "--input", &rows]).ok();
    let explained = explained.prints("training row 8").prints("`cat dog horse");
    assert!(!explained.stdout.contains("texts"), "no note about missing texts: {}", explained.stdout);

    predict(&test, &["-"], "text\ncat dog tiny\n").ok().prints("animal");
    predict(&test, &["-", "--id-column", "kye"], new).refuses("did you mean `key`?");
    predict(&test, &["-"], "other\ncat\n").refuses("standard input");
    predict(&test, &["-"], "cat dog tiny\noak\n")
        .refuses("the columns are: cat dog tiny (the first row names them)");
    let twice = "description,key,key\ncat,a,b\n";
    predict(&test, &["-", "--id-column", "key"], twice).refuses("more than one column is named `key`");
    let twice = "description,key,description\ncat,a,b\n";
    predict(&test, &["-"], twice).refuses("standard input:1:1: more than one column is named `description`");
}

#[test]
fn a_final_model_of_many_rows_is_a_comment_that_can_be_uncommented() {
    worker_program();
    let test = PipelineTest::empty();
    for (rows, part, models) in [(10_001, "recipe", "final-kernel"), (20_001, "long-tail", "final-tree")] {
        let lines = (0..rows).map(|row| format!("{} x{row},{}\n", text(row), labels(row).join(";")));
        test.write("many.csv", "text,labels\n".to_owned() + &lines.collect::<String>());
        test.pipe(&["init", &format!("{part}.yaml"), "--data", "many.csv"]).ok();
        assert!(!test.pipe(&["plan", &format!("{part}.yaml")]).ok().stdout.contains("final"));
        let final_part = format!("- builtin/{part}-final");
        test.edit(&format!("{part}.yaml"), &format!("# {final_part}"), &final_part);
        test.pipe(&["plan", &format!("{part}.yaml")]).ok().prints(models).prints("final[macro]");
    }
    // With fewer rows, so that it takes less time.
    test.write("many.csv", csv());
    test.edit(
        "long-tail.yaml",
        "files:",
        "read: { input_column: description, label_column: tags, label_separator: \",\" }\n      files:",
    );
    test.typed("run long-tail.yaml").ok();
    test.typed("model export final[micro] model").ok();
    assert!(test.read("model/README.md").contains("values are those of `recipe[micro]`"));
}

#[test]
fn the_written_pipeline_runs_for_every_format() {
    worker_program();
    let test = PipelineTest::empty();
    let jsonl: String = (0..ROWS)
        .map(|row| format!("{}\n", serde_json::json!({ "text": text(row), "labels": labels(row) })))
        .collect();
    test.write("lines.jsonl", jsonl);
    let counts = |row: usize| format!("{}:1 {}:2 {}:1", row % 3, 3 + row % 2, 5 + row % 20);
    test.write("counts.svm", svm(counts));
    test.write(
        "weights.txt",
        format!("{ROWS} 30 5\n{}", svm(|row| format!("{}:0.5 {}:0.25", row % 3, 3 + row % 2))),
    );
    test.write("nominal.arff", arff());
    test.write(
        "X.npy",
        npy(4, |row, column| ((row % 3 == column) as u8 as f32) + 0.1 * (row % 2) as f32 + 0.01),
    );
    test.write("y.npy", npy(3, |row, column| (row % 3 == column) as u8 as f32));
    // New rows may be in another format.
    test.write("same.txt", format!("{ROWS} 30 5\n{}", svm(counts)));
    for (data, name, kind) in [
        ("lines.jsonl", "lines", "vectorise"),
        ("counts.svm", "counts", "weight: auto"),
        ("weights.txt", "weights", "weight: auto"),
        ("nominal.arff", "nominal", "nominal: one-hot"),
        ("X.npy y.npy", "X", "labels: y.npy"),
    ] {
        test.typed(&format!("init --data {data}")).ok();
        let yaml = test.read(&format!("pipelines/{name}.yaml"));
        assert!(yaml.contains(kind), "{yaml}");
        runs(&test, name);
        // The model predicts its own training file, and so does its program in Python.
        test.pipe(&["model", "export", "recipe[macro]", name]).ok();
        let file = data.split(' ').next().unwrap();
        let path = |name: &str| test.file(name).display().to_string();
        let predicted = test.pipe(&["predict", name, file]).ok().reports_nothing().stdout;
        assert_eq!(predicted.lines().count(), ROWS);
        the_python_reader_decides_like(&predicted, &path(name), &path(file));
        if name == "counts" {
            assert_eq!(test.pipe(&["predict", name, "same.txt"]).ok().stdout, predicted);
            the_python_reader_decides_like(&predicted, &path(name), &path("same.txt"));
        }
        if name == "nominal" {
            let other =
                arff().replace("{red,green,blue}", "{pink,blue,green,red}").replace("{no,yes}", "{yes,no}");
            test.write("other.arff", other.replacen(",red,", ",pink,", 2));
            let other = test.pipe(&["predict", name, "other.arff"]).ok();
            let other = other.reports("2 rows have values of the attribute `c` that the model does not know");
            let unchanged = other.stdout.lines().zip(predicted.lines()).skip(4).all(|(new, old)| new == old);
            assert!(unchanged, "another order of the values changes nothing");
            the_python_reader_decides_like(&other.stdout, &path(name), &path("other.arff"));
        }
    }
}

/// Returns ARFF with attributes of three and of two nominal values.
pub(crate) fn arff() -> String {
    let row = |row: usize| {
        let (colour, size) = (["red", "green", "blue"][row % 3], ["no", "yes"][row / 3 % 2]);
        let label = |is_set: bool| u8::from(is_set);
        let (a, b) = (label(row.is_multiple_of(3)), label((row / 3).is_multiple_of(2)));
        format!("{a},{b},{colour},{},{size}\n", row % 7)
    };
    let header = "@relation 'x: -C 2'\n@attribute a {0,1}\n@attribute b {0,1}\n@attribute c {red,green,blue}\n\
                  @attribute d numeric\n@attribute 'large one' {no,yes}\n@data\n";
    format!("{header}{}", (0..ROWS).map(row).collect::<String>())
}

#[test]
fn texts_and_labels_in_two_files_are_joined_also_for_predictions() {
    worker_program();
    let test = PipelineTest::empty();
    let (mut notes, mut codes) = ("stay,kind,note\n".to_owned(), "stay,code\n".to_owned());
    for row in 0..ROWS {
        let (first, second) = (text(row), text(row + 3));
        notes.push_str(&format!(
            "s{row},summary,{first}\ns{row},plan,granite oak cat\ns{row},summary,{second}\n"
        ));
        codes.extend(labels(row).iter().map(|label| format!("s{row},{label}\n")));
    }
    test.write("notes.csv", &notes).write("codes.csv", codes);
    test.typed("init --data notes.csv --labels codes.csv").refuses("`--data rows=TEXTS labels=codes.csv`");
    test.typed("init --data rows=notes.csv labels=codes.csv")
        .ok()
        .reports("column `code` of another file, joined by `stay`");
    test.edit("pipelines/notes.yaml", "join_column: stay }", "join_column: stay, only: { kind: summary } }");
    runs(&test, "notes");
    let predicted = test.typed("predict recipe[macro] notes.csv").ok().reports_nothing().stdout;
    assert_eq!(predicted.lines().count(), ROWS);
    assert!(predicted.starts_with("{\"id\":\"s0\",\"row\":0,"), "{predicted}");
    test.typed("model export recipe[macro] model").ok();
    assert_eq!(test.typed("predict model notes.csv").ok().stdout, predicted);
    let path = |name: &str| test.file(name).display().to_string();
    the_python_reader_decides_like(&predicted, &path("model"), &path("notes.csv"));
    test.typed("explain model --row 1 --input notes.csv").ok().prints("plant");
    test.write("other.csv", notes.replace("stay,", "visit,"));
    test.typed("predict model other.csv").refuses("there is no column `stay`");
    test.write("kindless.csv", "stay,note\ns0,cat dog\n");
    test.typed("predict model kindless.csv --format labels")
        .ok()
        .prints("s0,")
        .reports("there is no column `kind`");
}

#[test]
fn test_rows_in_a_file_of_their_own_are_used_as_given() {
    worker_program();
    let test = PipelineTest::empty();
    test.write("data/my train.csv", csv()).write("data/my test.csv", csv());
    let args = ["init", "--data", "data/my test.csv", "data/my train.csv"];
    test.pipe(&args).ok().reports("180 rows: 90 train, 90 test");
    let yaml = test.read("pipelines/my.yaml");
    assert!(yaml.contains("test: \"data/my test.csv\"") && !yaml.contains("split:"), "{yaml}");
    test.typed("run pipelines/my.yaml").ok().says("test rows have the features of a training row");
}

#[test]
fn the_papers_grid_runs_on_own_data() {
    worker_program();
    let test = PipelineTest::empty();
    test.write("things.csv", csv());
    test.typed("init --paper --data things.csv").ok();
    let run = "run pipelines/things.yaml --set vars.epochs=2 --set vars.seeds=[0]";
    test.typed(run).ok();
    assert!(test.file("results/things/table1.md").is_file());
}

#[test]
fn the_papers_grid_runs_on_a_public_data_set() {
    let Some(data) = crate::support::data_directory("medical") else { return };
    worker_program();
    let test = PipelineTest::empty();
    test.typed("init --paper").ok().reports("pipelines/paper.yaml");
    let mut command =
        test.command(&["run", "pipelines/paper.yaml", "--set", "vars.epochs=1", "--set", "vars.seeds=[0]"]);
    command.env("PIPE_DATA_DIR", data);
    Ran::finish(command).ok();
    assert!(test.file("results/paper/table1.md").is_file());
}
