//! `pipe init`.

use crate::support::PipelineTest;

#[test]
fn init_writes_a_pipeline_that_runs_and_never_overwrites() {
    let test = PipelineTest::empty();
    test.typed("init").ok().prints_nothing().reports("pipe run pipelines/example.yaml");
    test.typed("run").ok();
    test.typed("status").ok().prints("fresh");
    let written = test.read("pipelines/example.yaml");
    test.typed("init").refuses("`pipe init FILE`");
    assert_eq!(test.read("pipelines/example.yaml"), written);
    test.typed("init mine/other.yaml").ok();
    test.typed("plan mine/other.yaml").ok();
    test.write("file", "");
    test.typed("init file/x.yaml").refuses("file/x.yaml");
}
