//! Lays out the nodes of a graph in layers from top to bottom, with few crossings: every node is below the nodes that it
//! needs.
//!
//! This is the layered method of Sugiyama with the barycentre heuristic. It is hand-written (about 190 lines without
//! tests) because pages must have the same bytes on every machine, and because Graphviz cannot be assumed to be installed.

/// A box, or a gap in a layer that a long edge passes through.
#[derive(Debug, Clone)]
struct LayerSlot {
    node: Option<usize>,
    width: f64,
    centre: f64,
    /// Connected slots in the layer above.
    above: Vec<usize>,
    /// Connected slots in the layer below.
    below: Vec<usize>,
}

/// The positions of all nodes and edges, in the units of the boxes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DagLayout {
    pub width: f64,
    pub height: f64,
    /// The top left corner of each node.
    pub corners: Vec<(f64, f64)>,
    pub edges: Vec<DagEdge>,
}

/// An edge between two nodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DagEdge {
    pub from: usize,
    pub to: usize,
    /// The points from the bottom of a box to the top of another. In each layer that the edge passes, there are two points:
    /// at the top and at the bottom.
    pub points: Vec<(f64, f64)>,
}

/// The sizes of boxes and gaps.
#[derive(Debug, Clone, Copy)]
pub(super) struct DagSizes {
    pub box_width: f64,
    pub box_height: f64,
    pub gap: f64,
    pub layer_gap: f64,
}

/// The width of the gap for an edge that passes a layer.
const PASSING: f64 = 14.0;
/// How often the order and the positions are improved.
const SWEEPS: usize = 8;

/// Lays a graph out. `needs[n]` are the nodes that `n` needs. The graph must have no cycle.
pub(super) fn layout(needs: &[Vec<usize>], sizes: DagSizes) -> DagLayout {
    let depths = depths(needs);
    let mut graph = Layers::new(needs, &depths, sizes);
    for sweep in 0..SWEEPS {
        graph.order(sweep % 2 == 0);
    }
    for sweep in 0..SWEEPS {
        graph.place(sweep % 2 == 0, sizes.gap);
    }
    graph.finish(needs, sizes)
}

/// Returns the length of the longest path to each node from a node that needs nothing.
fn depths(needs: &[Vec<usize>]) -> Vec<usize> {
    let mut depths = vec![0; needs.len()];
    for _ in 0..needs.len() {
        let mut changed = false;
        for (node, needs) in needs.iter().enumerate() {
            let depth = needs.iter().map(|&need| depths[need] + 1).max().unwrap_or(0);
            changed |= depth != depths[node];
            depths[node] = depth;
        }
        if !changed {
            break;
        }
    }
    depths
}

struct Layers {
    slots: Vec<LayerSlot>,
    /// Slots from left to right, layer by layer.
    layers: Vec<Vec<usize>>,
    /// The slots of each edge, from the box that is needed to the one that needs it.
    chains: Vec<Vec<usize>>,
}

impl Layers {
    fn new(needs: &[Vec<usize>], depths: &[usize], sizes: DagSizes) -> Self {
        let count = depths.iter().max().map_or(0, |deepest| deepest + 1);
        let mut graph = Self { slots: Vec::new(), layers: vec![Vec::new(); count], chains: Vec::new() };
        for (node, &depth) in depths.iter().enumerate() {
            graph.add(Some(node), sizes.box_width, depth);
        }
        for (node, needs) in needs.iter().enumerate() {
            for &need in needs {
                let mut chain = vec![need];
                for layer in depths[need] + 1..depths[node] {
                    let slot = graph.add(None, PASSING, layer);
                    chain.push(slot);
                }
                chain.push(node);
                for pair in chain.windows(2) {
                    graph.slots[pair[0]].below.push(pair[1]);
                    graph.slots[pair[1]].above.push(pair[0]);
                }
                graph.chains.push(chain);
            }
        }
        graph.spread(sizes.gap);
        graph
    }

    /// Returns the layers in the order of a sweep.
    fn sweep(&self, downwards: bool) -> Vec<usize> {
        let layers = 0..self.layers.len();
        if downwards { layers.collect() } else { layers.rev().collect() }
    }

    fn add(&mut self, node: Option<usize>, width: f64, layer: usize) -> usize {
        let slot = self.slots.len();
        self.slots.push(LayerSlot { node, width, centre: 0.0, above: Vec::new(), below: Vec::new() });
        self.layers[layer].push(slot);
        slot
    }

    /// Sorts each layer by the mean position of its neighbours in the layer before, downwards or upwards.
    fn order(&mut self, downwards: bool) {
        let mut positions = vec![0.0; self.slots.len()];
        let layers = self.sweep(downwards);
        for layer in layers {
            let mut order = std::mem::take(&mut self.layers[layer]);
            let wish = |position: usize, slot: usize| {
                let slot = &self.slots[slot];
                let near = if downwards { &slot.above } else { &slot.below };
                mean(near.iter().map(|&near| positions[near])).unwrap_or(position as f64)
            };
            let mut wished: Vec<(f64, usize)> =
                order.iter().enumerate().map(|(position, &slot)| (wish(position, slot), slot)).collect();
            wished.sort_by(|a, b| a.0.total_cmp(&b.0));
            order = wished.into_iter().map(|(_, slot)| slot).collect();
            for (position, &slot) in order.iter().enumerate() {
                positions[slot] = position as f64;
            }
            self.layers[layer] = order;
        }
    }

    /// Puts the slots of each layer side by side, as a start.
    fn spread(&mut self, gap: f64) {
        for layer in &self.layers {
            let mut left = 0.0;
            for &slot in layer {
                let slot = &mut self.slots[slot];
                slot.centre = left + slot.width / 2.0;
                left += slot.width + gap;
            }
        }
    }

    /// Moves each slot towards its neighbours as far as the slots beside it allow.
    fn place(&mut self, downwards: bool, gap: f64) {
        let layers = self.sweep(downwards);
        for layer in layers {
            let wishes: Vec<f64> = self.layers[layer]
                .iter()
                .map(|&slot| {
                    let slot = &self.slots[slot];
                    let near = if downwards { &slot.above } else { &slot.below };
                    mean(near.iter().map(|&near| self.slots[near].centre)).unwrap_or(slot.centre)
                })
                .collect();
            let mut right = f64::NEG_INFINITY;
            let mut pushed = 0.0;
            let mut centres = Vec::with_capacity(wishes.len());
            for (&slot, &wish) in self.layers[layer].iter().zip(&wishes) {
                let half = self.slots[slot].width / 2.0;
                let centre = wish.max(right + gap + half);
                pushed += centre - wish;
                right = centre + half;
                centres.push(centre);
            }
            // Slots are only pushed to the right, so the mean push is taken back.
            let back = pushed / wishes.len().max(1) as f64;
            for (&slot, centre) in self.layers[layer].iter().zip(centres) {
                self.slots[slot].centre = centre - back;
            }
        }
    }

    fn finish(&self, needs: &[Vec<usize>], sizes: DagSizes) -> DagLayout {
        let left = self.slots.iter().map(|slot| slot.centre - slot.width / 2.0).fold(f64::INFINITY, f64::min);
        let right =
            self.slots.iter().map(|slot| slot.centre + slot.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
        let step = sizes.box_height + sizes.layer_gap;
        let mut tops = vec![0.0; self.slots.len()];
        for (layer, slots) in self.layers.iter().enumerate() {
            for &slot in slots {
                tops[slot] = layer as f64 * step;
            }
        }
        let centre = |slot: usize| self.slots[slot].centre - left;
        let boxes = self.slots.iter().enumerate().filter(|(_, slot)| slot.node.is_some());
        let corners = boxes.map(|(slot, _)| (centre(slot) - sizes.box_width / 2.0, tops[slot])).collect();
        let edges = self.chains.iter().map(|chain| {
            let mut points = Vec::with_capacity(2 * chain.len());
            for (index, &slot) in chain.iter().enumerate() {
                if index > 0 {
                    points.push((centre(slot), tops[slot]));
                }
                if index + 1 < chain.len() {
                    points.push((centre(slot), tops[slot] + sizes.box_height));
                }
            }
            DagEdge { from: chain[0], to: chain[chain.len() - 1], points }
        });
        let layers = self.layers.len() as f64;
        DagLayout {
            width: if needs.is_empty() { 0.0 } else { right - left },
            height: (layers * step - sizes.layer_gap).max(0.0),
            corners,
            edges: edges.collect(),
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZES: DagSizes = DagSizes { box_width: 100.0, box_height: 50.0, gap: 10.0, layer_gap: 40.0 };

    fn dag() -> impl Strategy<Value = Vec<Vec<usize>>> {
        (1usize..14).prop_flat_map(|nodes| {
            let needs = (0..nodes)
                .map(|node| proptest::sample::subsequence((0..node).collect::<Vec<_>>(), 0..=node.min(3)));
            needs.collect::<Vec<_>>()
        })
    }

    proptest! {
        #[test]
        fn boxes_do_not_overlap_and_are_below_what_they_need(needs in dag()) {
            let drawn = layout(&needs, SIZES);
            prop_assert_eq!(drawn.corners.len(), needs.len());
            for (a, &(ax, ay)) in drawn.corners.iter().enumerate() {
                prop_assert!(ax >= -1e-6 && ax + 100.0 <= drawn.width + 1e-6 && ay + 50.0 <= drawn.height + 1e-6);
                for &(bx, by) in &drawn.corners[..a] {
                    prop_assert!(ay != by || (ax - bx).abs() >= 110.0 - 1e-6);
                }
                for &need in &needs[a] {
                    prop_assert!(drawn.corners[need].1 < ay);
                }
            }
            prop_assert_eq!(drawn.edges.len(), needs.iter().map(Vec::len).sum::<usize>());
        }
    }

    #[test]
    fn a_chain_is_a_straight_line() {
        let drawn = layout(&[vec![], vec![0], vec![1]], SIZES);
        assert_eq!(drawn.corners, [(0.0, 0.0), (0.0, 90.0), (0.0, 180.0)]);
        assert_eq!(drawn.edges[0].points, [(50.0, 50.0), (50.0, 90.0)]);
        assert_eq!((drawn.width, drawn.height), (100.0, 230.0));
    }

    #[test]
    fn an_empty_graph_has_no_size() {
        let drawn = layout(&[], SIZES);
        assert_eq!((drawn.width, drawn.height, drawn.corners.len()), (0.0, 0.0, 0));
    }
}
