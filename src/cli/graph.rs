//! `pipe graph`: the pipeline as a tree for the terminal, as Mermaid or as DOT.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::args::{GraphArgs, GraphFormat};
use super::exit::Outcome;
use super::pipeline_selection::PipelineSelection;
use super::print_text;
use super::project::Project;
use super::table::{shown_width, terminal_width, wrap};
use pipe_engine::spec::pipeline::{InputSource, Pipeline};

/// Prints the graph in the requested format.
pub(super) fn graph(project: &Project, args: &GraphArgs) -> Outcome {
    let selection = PipelineSelection::file(&args.pipeline, args.file.as_ref())?;
    let opened = project.open(&selection, &args.pipeline.set)?;
    let pipeline = opened.plan.pipeline();
    let drawing = GraphDrawing::of(pipeline, args.instances);
    print_text(&match args.format {
        GraphFormat::Tree => drawing.tree(terminal_width().unwrap_or(usize::MAX)),
        GraphFormat::Mermaid => drawing.mermaid(),
        GraphFormat::Dot => drawing.dot(&pipeline.name),
    })
}

/// The graph as it is drawn: one node per stage, or one per instance.
struct GraphDrawing {
    nodes: Vec<DrawnNode>,
}

struct DrawnNode {
    name: String,
    kind: &'static str,
    instances: usize,
    /// Positions of the nodes that it reads from.
    needs: BTreeSet<usize>,
}

impl GraphDrawing {
    fn of<F>(pipeline: &Pipeline<F>, per_instance: bool) -> Self {
        let mut nodes: Vec<DrawnNode> = Vec::new();
        let mut node_of = Vec::with_capacity(pipeline.instances.len());
        for instance in &pipeline.instances {
            let same_stage = !per_instance && nodes.last().is_some_and(|node| node.name == instance.id.stage);
            if same_stage && let Some(node) = nodes.last_mut() {
                node.instances += 1;
            } else {
                let name = if per_instance { instance.id.to_string() } else { instance.id.stage.clone() };
                nodes.push(DrawnNode { name, kind: instance.kind, instances: 1, needs: BTreeSet::new() });
            }
            node_of.push(nodes.len() - 1);
        }
        for (index, instance) in pipeline.instances.iter().enumerate() {
            for source in instance.inputs.iter().flat_map(|input| &input.sources) {
                if let InputSource::Output { producer, .. } = source {
                    nodes[node_of[index]].needs.insert(node_of[producer.0]);
                }
            }
        }
        Self { nodes }
    }

    /// Draws a tree with each node under its deepest dependency; the other dependencies are listed next to it, or below it
    /// if the line would have more than `width` columns.
    fn tree(&self, width: usize) -> String {
        let depths = self.depths();
        let parents: Vec<Option<usize>> = self
            .nodes
            .iter()
            .map(|node| node.needs.iter().copied().max_by_key(|&need| (depths[need], need)))
            .collect();
        let mut out = String::new();
        for root in (0..self.nodes.len()).filter(|&node| parents[node].is_none()) {
            self.branch(root, &parents, width, ["", ""], &mut out);
        }
        out
    }

    fn branch(
        &self,
        node: usize,
        parents: &[Option<usize>],
        width: usize,
        [lead, below]: [&str; 2],
        out: &mut String,
    ) {
        let children: Vec<usize> =
            (0..self.nodes.len()).filter(|&child| parents[child] == Some(node)).collect();
        let caption = self.caption(node);
        let others = self.other_needs(node, parents[node]);
        if others.is_empty() || shown_width(lead) + shown_width(&caption) + 2 + shown_width(&others) <= width
        {
            let _ = writeln!(out, "{lead}{}", format!("{caption}  {others}").trim_end());
        } else {
            let _ = writeln!(out, "{lead}{caption}");
            let rail = if children.is_empty() { "     " } else { "│    " };
            for line in wrap(&others, width.saturating_sub(shown_width(below) + 5)).lines() {
                let _ = writeln!(out, "{below}{rail}{line}");
            }
        }
        for (position, &child) in children.iter().enumerate() {
            let (elbow, rail) =
                if position + 1 == children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let leads = [format!("{below}{elbow}"), format!("{below}{rail}")];
            self.branch(child, parents, width, [&leads[0], &leads[1]], out);
        }
    }

    fn caption(&self, node: usize) -> String {
        let DrawnNode { name, kind, instances, .. } = &self.nodes[node];
        let mut caption = name.clone();
        if *instances > 1 {
            let _ = write!(caption, " ×{instances}");
        }
        let _ = write!(caption, "  ({kind})");
        caption
    }

    /// Returns what a node needs besides its parent, in words.
    fn other_needs(&self, node: usize, parent: Option<usize>) -> String {
        let others = self.nodes[node].needs.iter().filter(|&&need| Some(need) != parent);
        let others: Vec<&str> = others.map(|&need| self.nodes[need].name.as_str()).collect();
        if others.is_empty() { String::new() } else { format!("also needs {}", others.join(", ")) }
    }

    /// Returns the longest distance of each node from a root. Repeats until nothing changes, because the nodes of stages
    /// are not in topological order.
    fn depths(&self) -> Vec<usize> {
        let mut depths = vec![0; self.nodes.len()];
        loop {
            let mut changed = false;
            for (position, node) in self.nodes.iter().enumerate() {
                let depth = node.needs.iter().map(|&need| depths[need] + 1).max().unwrap_or(0);
                changed |= depth != depths[position];
                depths[position] = depth;
            }
            if !changed {
                return depths;
            }
        }
    }

    fn mermaid(&self) -> String {
        let mut out = String::from("flowchart TD\n");
        for (position, node) in self.nodes.iter().enumerate() {
            let many = if node.instances > 1 { format!(" ×{}", node.instances) } else { String::new() };
            let name = node.name.replace('"', "#quot;");
            let _ = writeln!(out, "    n{position}[\"{name}{many}<br/><small>{}</small>\"]", node.kind);
        }
        for (position, need) in self.edges() {
            let _ = writeln!(out, "    n{need} --> n{position}");
        }
        out
    }

    fn dot(&self, title: &str) -> String {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut out = format!("digraph \"{}\" {{\n    node [shape=box];\n", quoted(title));
        for (position, node) in self.nodes.iter().enumerate() {
            let many = if node.instances > 1 { format!(" ×{}", node.instances) } else { String::new() };
            let _ =
                writeln!(out, "    n{position} [label=\"{}{many}\\n{}\"];", quoted(&node.name), node.kind);
        }
        for (position, need) in self.edges() {
            let _ = writeln!(out, "    n{need} -> n{position};");
        }
        out.push_str("}\n");
        out
    }

    fn edges(&self) -> impl Iterator<Item = (usize, usize)> {
        let edges = self.nodes.iter().enumerate();
        edges.flat_map(|(position, node)| node.needs.iter().map(move |&need| (position, need)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diamond() -> GraphDrawing {
        let node = |name: &str, instances, needs: &[usize]| DrawnNode {
            name: name.to_owned(),
            kind: "command",
            instances,
            needs: needs.iter().copied().collect(),
        };
        GraphDrawing {
            nodes: vec![
                node("data", 1, &[]),
                node("idf", 1, &[0]),
                node("train", 4, &[0, 1]),
                node("table", 1, &[2]),
            ],
        }
    }

    #[test]
    fn a_node_is_drawn_under_its_deepest_dependency() {
        let expected = "data  (command)\n└─ idf  (command)\n   └─ train ×4  (command)  also needs data\n      \
                        └─ table  (command)\n";
        assert_eq!(diamond().tree(usize::MAX), expected);
        let narrow = "data  (command)\n└─ idf  (command)\n   └─ train ×4  (command)\n      │    also needs\n      │    data\n      \
                      └─ table  (command)\n";
        assert_eq!(diamond().tree(22), narrow);
    }

    #[test]
    fn quotes_in_names_are_escaped() {
        let mut drawing = diamond();
        drawing.nodes[0].name = "a\"b\\".to_owned();
        assert!(drawing.dot("t").contains(r#"label="a\"b\\\ncommand""#), "{}", drawing.dot("t"));
        assert!(drawing.mermaid().contains("a#quot;b"));
    }
}
