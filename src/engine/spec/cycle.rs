//! Circles in the graph of instances.

/// For each knot of the graph one circle, as positions in order, the first not repeated. Works
/// without recursion: a chain may be as long as the pipeline.
pub(super) fn circles(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        OnPath,
        Done,
    }
    let mut marks = vec![Mark::New; edges.len()];
    let mut circles = Vec::new();
    for start in 0..edges.len() {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::OnPath;
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(&target) = edges[*node].get(*next) else {
                marks[*node] = Mark::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match marks[target] {
                Mark::Done => {}
                Mark::New => {
                    marks[target] = Mark::OnPath;
                    path.push((target, 0));
                }
                Mark::OnPath => {
                    let from = path.iter().position(|(node, _)| *node == target).unwrap_or_default();
                    circles.push(path[from..].iter().map(|(node, _)| *node).collect());
                }
            }
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_in_order() {
        assert_eq!(circles(&[vec![1], vec![2], vec![0]]), [[0, 1, 2]]);
        assert_eq!(circles(&[vec![0]]), [[0]]);
        assert_eq!(circles(&[vec![1, 2], vec![2], vec![]]), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn a_long_chain_needs_no_deep_stack() {
        let mut edges: Vec<_> = (1..200_000).map(|next| vec![next]).collect();
        edges.push(vec![199_998]);
        assert_eq!(circles(&edges), [[199_998, 199_999]]);
    }
}
