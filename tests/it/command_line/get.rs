//! `pipe get`.

use crate::support::PipelineTest;

const OUTPUTS: &str = "
name: outputs
vars: { word: hello }
stages:
  one:
    matrix: { n: [1, 2] }
    command: { run: \"echo ${vars.word} ${matrix.n} > one.txt\", outputs: [one.txt] }
  two: { command: { run: \"mkdir tree; echo a > tree/a; printf '\\\\0b' > raw.bin\", outputs: [tree, raw.bin] } }
";

#[test]
fn get_prints_a_file_and_copies_anything() {
    let test = PipelineTest::new(OUTPUTS);
    test.typed("get pipeline.yaml one[n=1]")
        .exits_with(1)
        .reports("`pipe run pipeline.yaml 'one[n=1]'`")
        .prints_nothing();
    test.run().ok();
    assert_eq!(test.typed("get one[n=2]").ok().reports_nothing().stdout, "hello 2\n");
    assert_eq!(test.typed("get one[n=1].one --to -").ok().stdout, "hello 1\n");
    assert_eq!(test.typed("get two.raw").ok().stdout, "\0b");
    assert_eq!(test.typed("get two.tree --to copies/").ok().stdout, "copies/tree\n");
    assert_eq!(test.read("copies/tree/a"), "a\n");
    test.typed("get two.raw --to copies").ok();
    assert_eq!(test.read("copies/raw.bin"), "\0b");
    test.typed("get one[n=1] --set vars.word=bye").exits_with(1).prints_nothing();
}

#[test]
fn get_wants_one_output_of_one_instance() {
    let test = PipelineTest::new(OUTPUTS);
    test.run().ok();
    test.typed("get one").refuses("one[n=1], one[n=2]");
    test.typed("get two").refuses("`raw`, `tree`");
    test.typed("get two.treee").refuses("did you mean `tree`?").reports("`raw`, `tree`");
    test.typed("get two.x").refuses("`raw`, `tree`");
    test.typed("get two.tree").refuses("`--to PATH`");
    test.typed("get").exits_with(2).reports("STAGE");
}

#[test]
fn get_overwrites_only_on_request() {
    let test = PipelineTest::new(OUTPUTS);
    test.run().ok();
    test.write("mine.txt", "mine\n");
    test.typed("get one[n=1] --to mine.txt").refuses("`--overwrite`");
    assert_eq!(test.read("mine.txt"), "mine\n");
    test.typed("get one[n=1] --to mine.txt --overwrite").ok();
    assert_eq!(test.read("mine.txt"), "hello 1\n");
    test.typed("get one[n=1] --to mine.txt").ok();
}
