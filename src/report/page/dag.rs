//! Draws the graph of a pipeline. If there are many instances, those of a stage share a box.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::dag_layout::{DagEdge, DagSizes, layout};
use super::html::{Html, HtmlElement, el};
use super::status::Status;

/// One instance of a stage.
#[derive(Debug, Clone)]
pub struct DagNode {
    pub name: String,
    pub stage: String,
    pub kind: String,
    pub status: Status,
    /// How long it took, as text.
    pub took: Option<String>,
    /// The positions of the nodes that it needs.
    pub needs: Vec<usize>,
}

/// With more instances than this, each stage is one box.
const BOXES: usize = 14;
/// The largest number of dots in a box, one per instance. Further instances are only counted.
const DOTS: usize = 36;
const DOTS_PER_LINE: usize = 18;

const SIZES: DagSizes = DagSizes { box_width: 196.0, box_height: 62.0, gap: 22.0, layer_gap: 44.0 };
const MARGIN: f64 = 8.0;
/// The number of characters of a name that fit into a box.
const NAME: usize = 24;

/// A box of the drawing.
struct DagBox<'a> {
    name: &'a str,
    kind: &'a str,
    members: Vec<&'a DagNode>,
    needs: BTreeSet<usize>,
}

/// Returns the graph as an SVG element.
pub fn draw(nodes: &[DagNode]) -> Html {
    let boxes = boxes(nodes);
    let needs: Vec<Vec<usize>> = boxes.iter().map(|drawn| drawn.needs.iter().copied().collect()).collect();
    let layout = layout(&needs, SIZES);
    let (width, height) = (layout.width + 2.0 * MARGIN, layout.height + 2.0 * MARGIN);
    let title = format!("The pipeline: {} stages, {} instances", stages(nodes), nodes.len());
    let view = format!("{} {} {} {}", -MARGIN, -MARGIN, round(width), round(height));
    let svg = el("svg")
        .class("dag")
        .attr("viewBox", view)
        .attr("width", round(width))
        .attr("height", round(height))
        .attr("role", "img")
        .attr("aria-label", &title)
        .children(layout.edges.iter().map(edge))
        .children(boxes.iter().zip(&layout.corners).map(|(drawn, &corner)| node(drawn, corner)));
    el("div")
        .class("scroll drawing")
        .attr("tabindex", 0)
        .attr("role", "group")
        .attr("aria-label", title)
        .child(svg)
        .into()
}

fn stages(nodes: &[DagNode]) -> usize {
    nodes.iter().map(|node| &node.stage).collect::<BTreeSet<_>>().len()
}

fn boxes(nodes: &[DagNode]) -> Vec<DagBox<'_>> {
    let together = nodes.len() > BOXES;
    let mut boxes: Vec<DagBox> = Vec::new();
    let mut box_of = Vec::with_capacity(nodes.len());
    for node in nodes {
        let name = if together { &node.stage } else { &node.name };
        let index = boxes.iter().position(|drawn| drawn.name == name).unwrap_or_else(|| {
            boxes.push(DagBox { name, kind: &node.kind, members: Vec::new(), needs: BTreeSet::new() });
            boxes.len() - 1
        });
        boxes[index].members.push(node);
        box_of.push(index);
    }
    for (index, node) in nodes.iter().enumerate() {
        let needs = node.needs.iter().map(|&need| box_of[need]).filter(|&need| need != box_of[index]);
        boxes[box_of[index]].needs.extend(needs);
    }
    boxes
}

/// Draws a box.
fn node(drawn: &DagBox, (x, y): (f64, f64)) -> HtmlElement {
    let worst = drawn.members.iter().map(|node| node.status).min().unwrap_or(Status::Waiting);
    let many = drawn.members.len();
    let name = match many {
        1 => shortened(drawn.name, NAME),
        many => format!("{} ×{many}", shortened(drawn.name, NAME - 5)),
    };
    let at =
        |element: HtmlElement, dx: f64, dy: f64| element.attr("x", round(x + dx)).attr("y", round(y + dy));
    let body = at(el("rect"), 0.0, 0.0)
        .class("box")
        .attr("width", SIZES.box_width)
        .attr("height", SIZES.box_height)
        .attr("rx", 7);
    let edge =
        at(el("rect"), 0.0, 10.0).class("edge").attr("width", 4).attr("height", SIZES.box_height - 20.0);
    let took = match drawn.members.as_slice() {
        [one] => one.took.clone().map(|took| format!(" · {took}")).unwrap_or_default(),
        _ => String::new(),
    };
    el("g")
        .class("node")
        .attr("data-status", worst.word())
        .attr("data-total", many)
        .child(el("title").text(&format!("{} ({}): {}", drawn.name, drawn.kind, counted(&drawn.members))))
        .child(body)
        .child(edge)
        .child(at(el("text"), 14.0, 21.0).class("name").text(&name))
        .child(at(el("text"), 14.0, 37.0).class("kind").text(&format!("{}{took}", drawn.kind)))
        .children(
            drawn.members.iter().take(DOTS).enumerate().map(|(index, member)| dot(member, index, many, x, y)),
        )
}

/// Draws the dot of an instance. If it is the only one in its box, its status is written beside it.
fn dot(member: &DagNode, index: usize, many: usize, x: f64, y: f64) -> HtmlElement {
    let (line, column) = (index / DOTS_PER_LINE, index % DOTS_PER_LINE);
    let lift = if many > DOTS_PER_LINE { 3.0 } else { 0.0 };
    let (cx, cy) = (x + 17.5 + 9.5 * column as f64, y + 50.0 - lift + 8.0 * line as f64);
    let circle = el("circle")
        .attr("cx", round(cx))
        .attr("cy", round(cy))
        .attr("r", 3.2)
        .attr("data-status", member.status.word())
        .attr("data-instance", &member.name)
        .child(el("title").text(&format!("{}: {}", member.name, member.status.word())));
    match many {
        1 => {
            let word = el("text").class("word").attr("x", round(cx + 8.0)).attr("y", round(cy + 3.8));
            el("g").child(circle).child(word.text(member.status.word()))
        }
        _ => circle,
    }
}

/// Returns how many instances have each status: `3 fresh, 1 stale`.
fn counted(members: &[&DagNode]) -> String {
    let count = |status: Status| members.iter().filter(|node| node.status == status).count();
    let words: Vec<String> = Status::ALL
        .into_iter()
        .filter(|&status| count(status) > 0)
        .map(|status| format!("{} {}", count(status), status.word()))
        .collect();
    words.join(", ")
}

/// Draws an edge with its arrow head.
fn edge(edge: &DagEdge) -> HtmlElement {
    let mut path = String::new();
    for (index, pair) in edge.points.chunks(2).enumerate() {
        let [(x0, y0), (x1, y1)] = pair else { continue };
        let command = if index == 0 { 'M' } else { 'L' };
        let middle = round((y0 + y1) / 2.0);
        let (x0, x1) = (round(*x0), round(*x1));
        let _ = write!(path, "{command}{x0} {}C{x0} {middle} {x1} {middle} {x1} {}", round(*y0), round(*y1));
    }
    if let Some(&(x, y)) = edge.points.last() {
        let _ = write!(
            path,
            "M{} {}L{} {}L{} {}",
            round(x - 3.5),
            round(y - 6.0),
            round(x),
            round(y),
            round(x + 3.5),
            round(y - 6.0)
        );
    }
    el("path").class("need").attr("d", path)
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// Rounds to a tenth, so that the drawing is short and the same on every machine.
fn round(value: f64) -> f64 {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded == 0.0 { 0.0 } else { rounded }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::html::tests::hostile;
    use super::*;

    fn pipeline(instances: usize) -> Vec<DagNode> {
        let node = |name: String, stage: &str, needs| DagNode {
            name,
            stage: stage.into(),
            kind: "command".into(),
            status: Status::Fresh,
            took: None,
            needs,
        };
        let mut nodes = vec![node("data".into(), "data", vec![])];
        nodes.extend((0..instances).map(|n| node(format!("train[seed={n}]"), "train", vec![0])));
        nodes.push(node("table".into(), "table", (0..=instances).collect()));
        nodes
    }

    #[test]
    fn many_instances_share_a_box_with_a_dot_for_each() {
        let few = draw(&pipeline(3)).into_string();
        assert_eq!((few.matches("<g class=\"node\"").count(), few.matches("class=\"need\"").count()), (5, 7));
        let many = draw(&pipeline(30)).into_string();
        assert_eq!(
            (many.matches("<g class=\"node\"").count(), many.matches("class=\"need\"").count()),
            (3, 3)
        );
        assert!(many.contains(">train ×30</text>"), "{many}");
        assert_eq!(many.matches("<circle").count(), 32);
    }

    #[test]
    fn a_box_shows_the_worst_status_of_its_instances() {
        let mut nodes = pipeline(30);
        nodes[5].status = Status::Failed;
        let html = draw(&nodes).into_string();
        assert!(html.contains("data-status=\"failed\" data-total=\"30\""), "{html}");
        assert!(html.contains("train (command): 1 failed, 29 fresh"));
    }

    proptest! {
        #[test]
        fn names_cannot_break_out_of_the_drawing(text in hostile()) {
            let mut nodes = pipeline(2);
            nodes[1].name = text.clone();
            nodes[1].kind = text.clone();
            nodes[1].took = Some(text);
            let html = draw(&nodes).into_string();
            prop_assert!(!html.contains("<script") && !html.contains("<!--"));
            prop_assert_eq!(html.matches("<svg").count(), 1);
            prop_assert_eq!(html.matches("<g class=\"node\"").count(), 4);
        }
    }
}
