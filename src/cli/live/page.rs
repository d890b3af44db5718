//! The web page of a run, as it is before the first event.

use pipe_engine::plan::Plan;
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_report::page::dag::{self, DagNode};
use pipe_report::page::grid::{GridCell, GridColumn, GridRow, PageGrid};
use pipe_report::page::html::{Html, el};
use pipe_report::page::status::Status;
use pipe_report::page::{Page, PageScript, Section};

/// Returns the page of a run of the selected instances.
pub(crate) fn page(plan: &Plan, selected: &[bool]) -> Page {
    let pipeline = plan.pipeline();
    let selected_indices: Vec<usize> = (0..plan.len()).filter(|&index| selected[index]).collect();
    let position = |index: usize| selected_indices.iter().position(|&other| other == index);
    let to_node = |&index: &usize| {
        let instance = &pipeline.instances[index];
        DagNode {
            name: instance.id.to_string(),
            stage: instance.id.stage.clone(),
            kind: instance.kind.to_owned(),
            status: Status::Waiting,
            took: None,
            needs: plan.dependencies(InstanceIndex(index)).filter_map(|need| position(need.0)).collect(),
        }
    };
    let nodes: Vec<DagNode> = selected_indices.iter().map(to_node).collect();
    let mut graph = Section::new("pipeline", "Pipeline");
    graph.add(dag::draw(&nodes));
    let to_row = |node: &DagNode| {
        let waiting = GridCell::status(node.status.word(), node.status.word());
        let cells = vec![GridCell::text(&node.name), GridCell::text(&node.kind), waiting, GridCell::text("")];
        GridRow::plain(cells).about(&node.name)
    };
    let columns = ["stage", "kind", "state", "progress"].map(GridColumn::text).to_vec();
    let grid = PageGrid { caption: "Stages".into(), columns, rows: nodes.iter().map(to_row).collect() };
    graph.add(grid.html());
    let mut curves = Section::new("curves", "Learning curves");
    curves.add(el("div").class("curves").attr("id", "curves-drawn"));
    let lead = Html::from(
        el("p")
            .attr("id", "said")
            .attr("role", "status")
            .text("This page needs JavaScript to follow the run."),
    );
    Page { title: pipeline.name.clone(), lead, sections: vec![curves, graph], script: PageScript::FollowRun }
}
