//! The web page of a run, as it is before the first event.

use pipe_engine::plan::Plan;
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_report::page::dag::{self, Node};
use pipe_report::page::grid::{Cell, Column, Grid, Row};
use pipe_report::page::html::{Html, el};
use pipe_report::page::status::Status;
use pipe_report::page::{Live, Page, Section};

/// Returns the page of a run of the selected instances.
pub(crate) fn page(plan: &Plan, selected: &[bool]) -> Page {
    let pipeline = plan.pipeline();
    let selected_indices: Vec<usize> = (0..plan.len()).filter(|&index| selected[index]).collect();
    let position = |index: usize| selected_indices.iter().position(|&other| other == index);
    let to_node = |&index: &usize| {
        let instance = &pipeline.instances[index];
        Node {
            name: instance.id.to_string(),
            stage: instance.id.stage.clone(),
            kind: instance.kind.to_owned(),
            status: Status::Waiting,
            took: None,
            needs: plan.dependencies(InstanceIndex(index)).filter_map(|need| position(need.0)).collect(),
        }
    };
    let nodes: Vec<Node> = selected_indices.iter().map(to_node).collect();
    let mut graph = Section::new("pipeline", "Pipeline");
    graph.add(dag::draw(&nodes));
    let to_row = |node: &Node| {
        let waiting = Cell::status(node.status.word(), node.status.word());
        let cells = vec![Cell::text(&node.name), Cell::text(&node.kind), waiting, Cell::text("")];
        Row::plain(cells).about(&node.name)
    };
    let columns = ["stage", "kind", "state", "progress"].map(Column::text).to_vec();
    let grid = Grid { caption: "Stages".into(), columns, rows: nodes.iter().map(to_row).collect() };
    graph.add(grid.html());
    let mut curves = Section::new("curves", "Learning curves");
    curves.add(el("div").class("curves").attr("id", "curves-drawn"));
    let lead = Html::from(
        el("p")
            .attr("id", "said")
            .attr("role", "status")
            .text("This page needs JavaScript to follow the run."),
    );
    Page { title: pipeline.name.clone(), lead, sections: vec![graph, curves], live: Live::Yes }
}
