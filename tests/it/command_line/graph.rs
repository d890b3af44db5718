//! `pipe graph` and `pipe report`.

use super::{FITS, fits};
use crate::support::PipelineTest;

#[test]
fn a_graph_has_stages_or_instances() {
    let test = PipelineTest::new(FITS);
    test.typed("graph pipeline.yaml").ok().prints("fit ×2").prints("└─ table").reports_nothing();
    test.typed("graph pipeline.yaml --instances").ok().prints("fit[adaptive]");
    test.typed("graph pipeline.yaml --format mermaid").ok().prints("flowchart");
    test.typed("graph pipeline.yaml --format dot").ok().prints("digraph");
    assert!(!test.file("cache").exists());
}

#[test]
fn a_report_is_written_to_a_file_whose_path_is_the_result() {
    let test = fits();
    assert_eq!(test.typed("report").ok().stdout, "results/fits.html\n");
    assert!(test.read("results/fits.html").starts_with("<!DOCTYPE html>"));
    assert_eq!(test.typed("report -o pages/mine.html").ok().stdout, "pages/mine.html\n");
    test.typed("report --output -").ok().prints("<!DOCTYPE html>").reports_nothing();
    test.write("file", "");
    test.typed("report -o file/page.html").refuses("file/page.html");
}
