//! The dependency graph of stage instances, and the plan: a pipeline whose graph was proven to have no cycle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

use petgraph::Direction::{Incoming, Outgoing};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::spec::expect::Expect;
use crate::spec::pipeline::{Input, InputSource, Instance, InstanceIndex, Pipeline};

/// An acyclic graph of instances with its topological order. An edge goes from a producer to a consumer.
#[derive(Debug, Clone)]
pub(crate) struct DependencyGraph {
    graph: DiGraph<(), (), u32>,
    order: Vec<InstanceIndex>,
}

/// Instances that depend on each other in a circle: each one needs the next, and the last one needs the first. Starts
/// with the smallest index.
pub(crate) type DependencyCycle = Vec<usize>;

impl DependencyGraph {
    /// Builds the graph from the indices that each instance depends on. Fails with one cycle per strongly connected
    /// component.
    pub(crate) fn new(dependencies: &[Vec<usize>]) -> Result<Self, Vec<DependencyCycle>> {
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for (consumer, producers) in dependencies.iter().enumerate() {
            edges.extend(producers.iter().map(|&producer| (producer as u32, consumer as u32)));
        }
        edges.sort_unstable();
        edges.dedup();
        let mut graph = DiGraph::with_capacity(dependencies.len(), edges.len());
        for _ in dependencies {
            graph.add_node(());
        }
        graph.extend_with_edges(edges);
        let order = topological_order(&graph);
        if order.len() == dependencies.len() { Ok(Self { graph, order }) } else { Err(cycles(&graph)) }
    }

    fn neighbors(
        &self,
        of: InstanceIndex,
        direction: petgraph::Direction,
    ) -> impl Iterator<Item = InstanceIndex> {
        let neighbors = self.graph.neighbors_directed(NodeIndex::new(of.0), direction);
        neighbors.map(|node| InstanceIndex(node.index()))
    }
}

/// Returns the indices of the instances that inputs read from.
pub(crate) fn producers<F>(inputs: &[Input<F>]) -> impl Iterator<Item = usize> {
    inputs.iter().flat_map(|input| &input.sources).filter_map(|source| match source {
        InputSource::Output { producer, .. } => Some(producer.0),
        InputSource::File(_) => None,
    })
}

/// A pipeline that is known to be acyclic, with its order.
///
/// Only [`spec::load`](crate::spec::load) creates plans. `F` is how the files that stages read are known; see
/// [`Pipeline`].
#[derive(Debug, Clone)]
pub struct Plan<F = PathBuf> {
    pipeline: Pipeline<F>,
    dependencies: DependencyGraph,
}

impl<F> Plan<F> {
    /// Creates a plan from a pipeline and the graph of its instances.
    pub(crate) fn new(pipeline: Pipeline<F>, dependencies: DependencyGraph) -> Self {
        Self { pipeline, dependencies }
    }

    /// Returns the pipeline of the plan.
    pub fn pipeline(&self) -> &Pipeline<F> {
        &self.pipeline
    }

    /// Replaces every file that a stage reads by its path. The function also gets the instance that reads it.
    ///
    /// Files are not edges of the graph, so the order stays valid.
    pub fn locate_files<E>(
        self,
        mut locate: impl FnMut(InstanceIndex, F) -> Result<PathBuf, E>,
    ) -> Result<Plan, E> {
        let Pipeline { name, file, files, instances, placements, user_files, published, unused_variables } =
            self.pipeline;
        let mut located = Vec::with_capacity(instances.len());
        for (index, instance) in instances.into_iter().enumerate() {
            located.push(instance.map_files(&mut |file| locate(InstanceIndex(index), file))?);
        }
        let pipeline = Pipeline {
            name,
            file,
            files,
            instances: located,
            placements,
            user_files,
            published,
            unused_variables,
        };
        Ok(Plan { pipeline, dependencies: self.dependencies })
    }

    /// Returns the plan for computing results again: nothing is placed outside the cache, and no bounds are checked.
    pub fn for_comparison(self) -> Self {
        let mut plan = self.without_placements();
        for instance in &mut plan.pipeline.instances {
            instance.expect = Expect::default();
        }
        plan
    }

    /// Returns the plan without the files that it places outside the cache.
    pub fn without_placements(mut self) -> Self {
        self.pipeline.placements.clear();
        self
    }

    /// Returns one instance.
    pub fn instance(&self, index: InstanceIndex) -> &Instance<F> {
        &self.pipeline.instances[index.0]
    }

    /// Returns the number of instances.
    pub fn len(&self) -> usize {
        self.pipeline.instances.len()
    }

    /// Returns true if there are no instances.
    pub fn is_empty(&self) -> bool {
        self.pipeline.instances.is_empty()
    }

    /// Returns every instance after all its dependencies, and otherwise in the order of the file.
    pub fn topological(&self) -> &[InstanceIndex] {
        &self.dependencies.order
    }

    /// Returns the instances that an instance reads from directly, each once.
    pub fn dependencies(&self, of: InstanceIndex) -> impl Iterator<Item = InstanceIndex> {
        self.dependencies.neighbors(of, Incoming)
    }

    /// Returns the instances that read from an instance directly, each once.
    pub fn dependents(&self, of: InstanceIndex) -> impl Iterator<Item = InstanceIndex> {
        self.dependencies.neighbors(of, Outgoing)
    }

    /// Returns one flag per instance: true for the targets and everything that they depend on.
    pub fn with_dependencies(&self, targets: &[InstanceIndex]) -> Vec<bool> {
        let mut wanted = vec![false; self.len()];
        for target in targets {
            wanted[target.0] = true;
        }
        for &index in self.topological().iter().rev() {
            if wanted[index.0] {
                for needed in self.dependencies(index) {
                    wanted[needed.0] = true;
                }
            }
        }
        wanted
    }

    /// Returns one flag per instance: false for everything that depends on one of these, directly or not.
    pub fn excluding_dependents(&self, last: &[InstanceIndex]) -> Vec<bool> {
        let mut is_after = vec![false; self.len()];
        let mut is_last = vec![false; self.len()];
        for index in last {
            is_last[index.0] = true;
        }
        for &index in self.topological() {
            is_after[index.0] =
                self.dependencies(index).any(|needed| is_after[needed.0] || is_last[needed.0]);
        }
        is_after.into_iter().map(|after| !after).collect()
    }
}

/// Returns the order by Kahn's algorithm, smallest index first; incomplete if there is a cycle. `petgraph::toposort`
/// does not keep the order of the file among independent instances.
fn topological_order(graph: &DiGraph<(), (), u32>) -> Vec<InstanceIndex> {
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

/// Returns one cycle per strongly connected component, ordered by their first members. Uses Kosaraju's algorithm
/// because petgraph's Tarjan is recursive, and a chain may be as long as the pipeline.
fn cycles(graph: &DiGraph<(), (), u32>) -> Vec<DependencyCycle> {
    let mut component_of = vec![usize::MAX; graph.node_count()];
    let components = kosaraju_scc(graph);
    for (number, component) in components.iter().enumerate() {
        for node in component {
            component_of[node.index()] = number;
        }
    }
    let mut cycles = Vec::new();
    for component in components {
        let Some(&first) = component.iter().min() else { continue };
        if component.len() == 1 && !graph.contains_edge(first, first) {
            continue;
        }
        // Every member needs another member, so a walk along dependencies must meet itself.
        let mut visited = std::collections::HashMap::new();
        let mut walk = Vec::new();
        let mut at = first;
        while !visited.contains_key(&at) {
            visited.insert(at, walk.len());
            walk.push(at.index());
            let same_component = |node: &NodeIndex| component_of[node.index()] == component_of[first.index()];
            at = graph.neighbors_directed(at, Incoming).filter(same_component).min().unwrap_or(first);
        }
        let mut cycle = walk.split_off(visited[&at]);
        let smallest = cycle.iter().enumerate().min_by_key(|(_, index)| **index).map_or(0, |(at, _)| at);
        cycle.rotate_left(smallest);
        cycles.push(cycle);
    }
    cycles.sort();
    cycles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample::{pipeline, plan, stage};

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
        plan(pipeline(stages))
    }

    #[test]
    fn the_order_puts_dependencies_first_and_otherwise_follows_the_file() {
        let plan = plan(pipeline(vec![
            stage("table", &[1, 2]),
            stage("b", &[3]),
            stage("a", &[3]),
            stage("data", &[]),
        ]));
        let order: Vec<usize> = plan.topological().iter().map(|i| i.0).collect();
        assert_eq!(order, [3, 1, 2, 0]);
    }

    #[test]
    fn targets_select_their_dependencies_and_nothing_else() {
        let plan = diamond();
        assert_eq!(indices(&plan.with_dependencies(&[InstanceIndex(3)])), [0, 1, 3]);
        assert_eq!(indices(&plan.with_dependencies(&[InstanceIndex(2), InstanceIndex(1)])), [0, 1, 2]);
    }

    #[test]
    fn until_excludes_only_dependents() {
        let plan = diamond();
        assert_eq!(indices(&plan.excluding_dependents(&[InstanceIndex(1)])), [0, 1, 2]);
        assert_eq!(indices(&plan.excluding_dependents(&[InstanceIndex(3)])), [0, 1, 2, 3]);
        assert_eq!(indices(&plan.excluding_dependents(&[])), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn neighbours_are_direct_and_listed_once() {
        let plan = diamond();
        let mut dependents: Vec<usize> = plan.dependents(InstanceIndex(0)).map(|i| i.0).collect();
        dependents.sort_unstable();
        assert_eq!(dependents, [1, 2, 3, 4]);
        assert_eq!(plan.dependencies(InstanceIndex(4)).count(), 2);
    }

    #[test]
    fn one_cycle_is_reported_per_component_in_the_direction_of_the_dependencies() {
        let cycles = |dependencies: &[Vec<usize>]| DependencyGraph::new(dependencies).unwrap_err();
        assert_eq!(cycles(&[vec![1], vec![2], vec![0]]), [[0, 1, 2]]);
        assert_eq!(cycles(&[vec![0]]), [[0]]);
        assert_eq!(cycles(&[vec![], vec![0, 3], vec![1], vec![2], vec![3]]), [[1, 3, 2]]);
        assert_eq!(cycles(&[vec![1], vec![0], vec![3], vec![2, 0]]), [[0, 1], [2, 3]]);
        assert!(DependencyGraph::new(&[vec![1, 2], vec![2], vec![]]).is_ok());
    }

    #[test]
    fn a_long_chain_does_not_overflow_the_stack() {
        let mut dependencies: Vec<_> = (1..200_000).map(|next| vec![next]).collect();
        dependencies.push(vec![199_998]);
        assert_eq!(DependencyGraph::new(&dependencies).unwrap_err(), [[199_998, 199_999]]);
    }
}
