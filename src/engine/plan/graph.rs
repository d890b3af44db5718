//! The graph of stage instances, sealed: whoever holds a [`Plan`] holds a DAG with an order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::path::PathBuf;

use petgraph::Direction::{Incoming, Outgoing};
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::spec::pipeline::{Instance, InstanceIndex, Pipeline, Source};

/// A pipeline whose references form a DAG. An edge goes from what is made to what needs it.
#[derive(Debug)]
pub struct Plan {
    pipeline: Pipeline,
    graph: DiGraph<(), (), u32>,
    order: Vec<InstanceIndex>,
}

/// Stages that need one another, each named once, in an order in which the next needs the one
/// before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    pub members: Vec<String>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "these stages need one another, so none can run first: ")?;
        for member in &self.members {
            write!(f, "`{member}` -> ")?;
        }
        write!(f, "`{}`", self.members[0])
    }
}

impl std::error::Error for Cycle {}

impl Plan {
    pub fn new(pipeline: Pipeline) -> Result<Self, Cycle> {
        let edges: Vec<(u32, u32)> = edges(&pipeline);
        let mut graph = DiGraph::with_capacity(pipeline.instances.len(), edges.len());
        for _ in &pipeline.instances {
            graph.add_node(());
        }
        graph.extend_with_edges(edges);
        let order = topological(&graph);
        if order.len() < pipeline.instances.len() {
            return Err(find_cycle(&pipeline, &graph));
        }
        Ok(Self { pipeline, graph, order })
    }

    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Puts paths in the place of registered data sets' files, for the instances that take part. Neither makes an
    /// edge, so the graph stays as it was sealed.
    pub fn locate_data<E>(
        &mut self,
        selected: &[bool],
        mut locate: impl FnMut(&str, &str) -> Result<PathBuf, E>,
    ) -> Result<(), E> {
        let instances = self.pipeline.instances.iter_mut().zip(selected).filter(|(_, selected)| **selected);
        let inputs = instances.flat_map(|(instance, _)| &mut instance.inputs);
        for source in inputs.flat_map(|input| &mut input.sources) {
            if let Source::DataFile { dataset, file } = source {
                *source = Source::Path(locate(dataset, file)?);
            }
        }
        Ok(())
    }

    pub fn instance(&self, index: InstanceIndex) -> &Instance {
        &self.pipeline.instances[index.0]
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Every instance after all that it needs; among equals, in the order of the file.
    pub fn topological(&self) -> &[InstanceIndex] {
        &self.order
    }

    /// What the instance needs directly, each once.
    pub fn dependencies(&self, of: InstanceIndex) -> impl Iterator<Item = InstanceIndex> {
        self.graph.neighbors_directed(NodeIndex::new(of.0), Incoming).map(|node| InstanceIndex(node.index()))
    }

    /// What needs the instance directly, each once.
    pub fn dependents(&self, of: InstanceIndex) -> impl Iterator<Item = InstanceIndex> {
        self.graph.neighbors_directed(NodeIndex::new(of.0), Outgoing).map(|node| InstanceIndex(node.index()))
    }

    /// The targets and all that they need, as one flag per instance.
    pub fn only(&self, targets: &[InstanceIndex]) -> Vec<bool> {
        let mut wanted = vec![false; self.len()];
        for target in targets {
            wanted[target.0] = true;
        }
        for &index in self.order.iter().rev() {
            if wanted[index.0] {
                for needed in self.dependencies(index) {
                    wanted[needed.0] = true;
                }
            }
        }
        wanted
    }

    /// Everything but what comes after one of these: they are the last to run on their branches.
    pub fn until(&self, last: &[InstanceIndex]) -> Vec<bool> {
        let mut after = vec![false; self.len()];
        let mut is_last = vec![false; self.len()];
        for index in last {
            is_last[index.0] = true;
        }
        for &index in &self.order {
            after[index.0] = self.dependencies(index).any(|needed| after[needed.0] || is_last[needed.0]);
        }
        after.into_iter().map(|after| !after).collect()
    }
}

fn edges(pipeline: &Pipeline) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for (consumer, instance) in pipeline.instances.iter().enumerate() {
        for source in instance.inputs.iter().flat_map(|input| &input.sources) {
            if let Source::Output { producer, .. } = source {
                edges.push((producer.0 as u32, consumer as u32));
            }
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Kahn's algorithm with the smallest index first. Short of members when there is a cycle.
fn topological(graph: &DiGraph<(), (), u32>) -> Vec<InstanceIndex> {
    let mut missing: Vec<usize> =
        graph.node_indices().map(|node| graph.neighbors_directed(node, Incoming).count()).collect();
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..missing.len()).filter(|&index| missing[index] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(missing.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(InstanceIndex(index));
        for dependent in graph.neighbors_directed(NodeIndex::new(index), Outgoing) {
            missing[dependent.index()] -= 1;
            if missing[dependent.index()] == 0 {
                ready.push(Reverse(dependent.index()));
            }
        }
    }
    order
}

/// One cycle of a graph that has at least one: a walk inside a strongly connected component,
/// cut where it first meets itself.
fn find_cycle(pipeline: &Pipeline, graph: &DiGraph<(), (), u32>) -> Cycle {
    let looped = |nodes: &Vec<NodeIndex>| nodes.len() > 1 || graph.contains_edge(nodes[0], nodes[0]);
    let mut component = tarjan_scc(graph).into_iter().find(looped).unwrap_or_default();
    component.sort_unstable();
    let mut walk: Vec<NodeIndex> = component.first().copied().into_iter().collect();
    while let Some(next) = walk
        .last()
        .and_then(|&at| graph.neighbors_directed(at, Outgoing).filter(|node| component.contains(node)).min())
    {
        if let Some(start) = walk.iter().position(|&node| node == next) {
            walk.drain(..start);
            break;
        }
        walk.push(next);
    }
    Cycle { members: walk.iter().map(|node| pipeline.instances[node.index()].id.to_string()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample::{pipeline, stage};

    fn indices(flags: &[bool]) -> Vec<usize> {
        (0..flags.len()).filter(|&i| flags[i]).collect()
    }

    /// data(0) -> idf(1) -> train(3) -> eval(4); data -> train; stats(2) needs data only.
    fn diamond() -> Plan {
        let stages = vec![
            stage("data", &[]),
            stage("idf", &[0]),
            stage("stats", &[0]),
            stage("train", &[0, 1]),
            stage("eval", &[3, 0]),
        ];
        Plan::new(pipeline(stages)).unwrap()
    }

    #[test]
    fn the_order_puts_every_stage_after_what_it_needs_and_is_otherwise_the_files() {
        let plan = Plan::new(pipeline(vec![
            stage("table", &[1, 2]),
            stage("b", &[3]),
            stage("a", &[3]),
            stage("data", &[]),
        ]))
        .unwrap();
        let order: Vec<usize> = plan.topological().iter().map(|i| i.0).collect();
        assert_eq!(order, [3, 1, 2, 0]);
    }

    #[test]
    fn targets_bring_what_they_need_and_nothing_else() {
        let plan = diamond();
        assert_eq!(indices(&plan.only(&[InstanceIndex(3)])), [0, 1, 3]);
        assert_eq!(indices(&plan.only(&[InstanceIndex(2), InstanceIndex(1)])), [0, 1, 2]);
    }

    #[test]
    fn until_leaves_out_only_what_comes_after() {
        let plan = diamond();
        assert_eq!(indices(&plan.until(&[InstanceIndex(1)])), [0, 1, 2]);
        assert_eq!(indices(&plan.until(&[InstanceIndex(3)])), [0, 1, 2, 3]);
        assert_eq!(indices(&plan.until(&[])), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn neighbours_are_direct_and_named_once() {
        let plan = diamond();
        let mut dependents: Vec<usize> = plan.dependents(InstanceIndex(0)).map(|i| i.0).collect();
        dependents.sort_unstable();
        assert_eq!(dependents, [1, 2, 3, 4]);
        assert_eq!(plan.dependencies(InstanceIndex(4)).count(), 2);
    }

    #[test]
    fn a_cycle_is_named_member_by_member() {
        let error = Plan::new(pipeline(vec![
            stage("data", &[]),
            stage("a", &[0, 3]),
            stage("b", &[1]),
            stage("c", &[2]),
            stage("after", &[3]),
        ]))
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "these stages need one another, so none can run first: `a` -> `b` -> `c` -> `a`"
        );
        let alone = Plan::new(pipeline(vec![stage("self", &[0])])).unwrap_err();
        assert_eq!(alone.members, ["self"]);
    }
}
