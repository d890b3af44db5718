//! `pipe init`.

use crate::support::PipelineTest;

#[test]
fn init_writes_a_pipeline_that_runs_and_never_overwrites() {
    let test = PipelineTest::empty();
    test.typed("init")
        .ok()
        .prints_nothing()
        .reports("pipe run pipelines/example.yaml")
        .reports("init --data FILE");
    test.typed("run").ok();
    test.typed("status").ok().prints("fresh");
    let written = test.read("pipelines/example.yaml");
    test.typed("init --command").refuses("`pipe init FILE`");
    assert_eq!(test.read("pipelines/example.yaml"), written);
    test.typed("init mine/other.yaml --command").ok();
    assert_eq!(test.read("mine/other.yaml"), written);
    test.write("file", "");
    test.typed("init file/x.yaml").refuses("file/x.yaml");
}

#[test]
fn data_that_leaves_something_unclear_is_refused_with_the_option_that_decides() {
    let test = PipelineTest::empty();
    test.write("a.csv", "title,tags,category\nsome words,a;b,x\nmore words,b,y\n");
    test.typed("init --data a.csv").refuses("`--labels COLUMN`").reports("category  2 different values");
    assert!(!test.file("pipelines").exists(), "nothing is written");
    test.typed("init --data a.csv --labels category").ok().reports("column `category`, at most one per row");
    test.typed("init --data a.csv --labels tags").refuses("pipelines/a.yaml");
    test.typed("init b.yaml --data a.csv --labels tags --separator ;").ok();
    test.typed("plan b.yaml").ok();
}

#[test]
fn data_that_cannot_be_read_is_refused() {
    let test = PipelineTest::empty();
    test.write("empty.csv", "")
        .write("ragged.csv", "text,labels\na\n")
        .write("latin.csv", b"text,labels\ncaf\xe9,a\n");
    test.write("x.svm", "0 1:1\n").write("b.csv", "text,labels\na,b\n");
    test.typed("init --data empty.csv").refuses("it is empty");
    test.typed("init --data ragged.csv").refuses("ragged.csv:2");
    test.typed("init --data latin.csv").refuses("not UTF-8");
    test.typed("init --data missing.csv").refuses("missing.csv");
    test.typed("init --data .").refuses("it is a directory");
    test.typed("init --data x.svm --labels tags").refuses("LIBSVM");
    test.typed("init --data b.csv mine.yaml").refuses("pipe init mine.yaml --data");
    test.typed("init --text a").exits_with(2).reports("--data");
    test.typed("init --data b.csv --command").exits_with(2);
    assert!(!test.file("pipelines").exists(), "nothing is written");
}

#[test]
fn data_from_which_nothing_can_be_learned_is_called_that() {
    let test = PipelineTest::empty();
    test.write("ids.csv", "text,labels\nsome words,7\nmore words,8\nother words,9\n");
    test.typed("init --data ids.csv").ok().reports("every label has one row only");
    test.write(
        "texts.jsonl",
        "{\"text\": \"a b\", \"tags\": \"x; y\"}\n{\"text\": \"b c\", \"tags\": \"y\"}\n",
    );
    let written = test.typed("init --data texts.jsonl").ok();
    written
        .reports("some labels contain `;`")
        .reports("jq -c '.[\"tags\"] |= [splits(\" *[;] *\")? | select(. != \"\")]'");
}
