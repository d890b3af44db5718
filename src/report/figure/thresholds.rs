//! The distribution of thresholds: for entries whose label is true, and for entries whose label is false.

use std::collections::BTreeMap;

use super::PlannedFigure;
use super::chart::curves::{Chart, Curve, CurveLine, Panel, values};
use super::chart::scale::{AxisScale, Bounds};
use super::chart::style::SeriesStyle;
use super::data_table::{DataCell, DataTable};
use super::naming::{Naming, RunAxes, RunGroup, SameAxesError};
use pipe_ml::metric::curves::{Curves, ThresholdHistogram};
use pipe_ml::metric::marked::{Marked, Protocol};

/// The number of bins of the figure.
const BINS: usize = 40;
/// The share of the entries of each curve that the axis leaves out at both ends.
const OUTER: f64 = 0.025;

/// Draws the histograms of the thresholds. All panels of a protocol have the same bins; the panels of the two protocols
/// are in two columns, because oracle thresholds may be far from the honest ones.
pub fn thresholds(naming: &Naming, curves: &[(RunAxes, Curves)]) -> Result<PlannedFigure, SameAxesError> {
    let run = |curves: &'_ Curves| Some(Marked::new(curves.protocol, curves.thresholds.clone()?));
    let runs = curves.iter().filter_map(|(axes, curves)| Some((axes, run(curves)?)));
    let groups = naming.groups(runs.collect())?;
    let mut rows = Vec::new();
    let mut outside = 0.0_f64;
    let mut columns: Vec<BTreeMap<usize, Panel>> = Vec::new();
    for protocol in [Protocol::Honest, Protocol::Oracle] {
        let groups: Vec<_> = groups.iter().filter(|group| group.runs.protocol() == protocol).collect();
        if groups.is_empty() {
            continue;
        }
        let x = common_scale(&groups);
        let mut panels = BTreeMap::new();
        for group in groups {
            let curves = Side::ALL.map(|side| {
                let shown = Bins::new(&x, &pieces(group, side));
                rows.extend(shown.rows(&group.name, side).map(|cells| Marked::new(protocol, cells)));
                outside = outside.max(shown.outside());
                Marked::new(protocol, shown.curve(side))
            });
            let y = AxisScale::linear(values(&curves, |(_, y)| y), Bounds::SHARE_FROM_ZERO, 2);
            let heading = Some(group.name.clone());
            panels.insert(group.index, Panel { heading, ..Panel::new(x.clone(), y, curves.into()) });
        }
        columns.push(panels);
    }
    let mut variants: Vec<usize> = groups.iter().map(|group| group.index).collect();
    variants.sort_unstable();
    variants.dedup();
    let mut panels = Vec::new();
    for variant in &variants {
        panels.extend(columns.iter_mut().map(|column| column.remove(variant)));
    }
    if panels.is_empty() {
        let scale = || AxisScale::linear([], Bounds::SHARE, 3);
        panels.push(Some(Panel::new(scale(), scale(), Vec::new())));
    }
    let mut notes = vec![naming.mean_note(&groups, "their entries are pooled.")];
    if outside >= 0.0005 {
        notes.push(format!("Not shown: at most {:.1} % of a curve, beyond its axis.", outside * 100.0));
    }
    let chart = Chart {
        title: "Thresholds of true and of false labels".to_owned(),
        x_label: "threshold θ".to_owned(),
        y_label: "share of entries".to_owned(),
        panels,
        columns: columns.len(),
        share_x: true,
        height: if variants.len() > 6 { 30.0 } else { 40.0 },
        notes,
        ..Chart::default()
    };
    let columns = ["name", "label", "from", "to", "entries", "share"];
    Ok(PlannedFigure::new(chart, DataTable::of_results(&columns, rows)))
}

/// Whether the label of an entry is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    True,
    False,
}

impl Side {
    const ALL: [Self; 2] = [Self::True, Self::False];

    fn name(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
        }
    }

    fn counts(self, histogram: &ThresholdHistogram) -> &[u64] {
        match self {
            Self::True => &histogram.of_true,
            Self::False => &histogram.of_false,
        }
    }
}

/// Entries that are spread evenly between two thresholds, which may be equal.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    from: f64,
    to: f64,
    entries: f64,
}

impl Piece {
    /// Returns the number of entries between two thresholds; the lower one is included.
    fn entries_between(&self, low: f64, high: f64) -> f64 {
        if self.from == self.to {
            return if (low..high).contains(&self.from) { self.entries } else { 0.0 };
        }
        let common = self.to.min(high) - self.from.max(low);
        self.entries * (common / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// Returns the entries of all runs of a group, from low to high thresholds.
fn pieces(group: &RunGroup<ThresholdHistogram>, side: Side) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for run in group.runs.as_ref().reveal().1 {
        for (edges, &count) in run.edges.windows(2).zip(side.counts(run)) {
            // A histogram of equal thresholds has one bin, whose width means nothing.
            let middle = f64::midpoint(edges[0], edges[1]);
            let (from, to) = if run.edges.len() == 2 { (middle, middle) } else { (edges[0], edges[1]) };
            if count > 0 && from.is_finite() && to.is_finite() {
                pieces.push(Piece { from, to, entries: count as f64 });
            }
        }
    }
    pieces.sort_by(|a, b| a.from.total_cmp(&b.from).then(a.to.total_cmp(&b.to)));
    pieces
}

/// Returns the threshold below which a share of the entries lies.
fn quantile(pieces: &[Piece], share: f64) -> Option<f64> {
    let total: f64 = pieces.iter().map(|piece| piece.entries).sum();
    let mut edges: Vec<f64> = pieces.iter().flat_map(|piece| [piece.from, piece.to]).collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    let below = |edge: f64| pieces.iter().map(|p| p.entries_between(f64::NEG_INFINITY, edge)).sum::<f64>();
    let at = edges.partition_point(|&edge| below(edge) < share * total);
    let upper = *edges.get(at).or(edges.last())?;
    let Some(&lower) = at.checked_sub(1).and_then(|at| edges.get(at)) else { return Some(upper) };
    let (low, high) = (below(lower), below(upper));
    let way = if high > low { (share * total - low) / (high - low) } else { 1.0 };
    Some(lower + (upper - lower) * way.clamp(0.0, 1.0))
}

/// Returns an axis for all groups, without the outermost thresholds.
fn common_scale(groups: &[&RunGroup<ThresholdHistogram>]) -> AxisScale {
    let sides = groups.iter().flat_map(|group| Side::ALL.map(|side| pieces(group, side)));
    let ends: Vec<f64> =
        sides.flat_map(|side| [OUTER, 1.0 - OUTER].map(|share| quantile(&side, share))).flatten().collect();
    AxisScale::linear(ends, Bounds::NONE, 3)
}

/// The entries of a curve in the bins of the figure.
struct Bins {
    edges: Vec<f64>,
    /// The entries below the first edge, in each bin, and from the last edge on.
    entries: Vec<f64>,
    total: f64,
}

impl Bins {
    fn new(x: &AxisScale, pieces: &[Piece]) -> Self {
        let (low, high) = x.ends();
        let edges: Vec<f64> = (0..=BINS).map(|n| low + (high - low) * n as f64 / BINS as f64).collect();
        let open = [f64::NEG_INFINITY].into_iter().chain(edges.iter().copied()).chain([f64::INFINITY]);
        let open: Vec<f64> = open.collect();
        let entries = open
            .windows(2)
            .map(|bin| pieces.iter().map(|piece| piece.entries_between(bin[0], bin[1])).sum())
            .collect();
        Self { edges, entries, total: pieces.iter().map(|piece| piece.entries).sum() }
    }

    fn share(&self, entries: f64) -> f64 {
        entries / self.total.max(1.0)
    }

    /// Returns the share of the entries below the first and above the last bin.
    fn outside(&self) -> f64 {
        self.share(self.entries[0] + self.entries[BINS + 1])
    }

    /// Returns the rows of the CSV. The first and the last have an open end.
    fn rows(&self, name: &str, side: Side) -> impl Iterator<Item = Vec<DataCell>> {
        let from = [None].into_iter().chain(self.edges.iter().copied().map(Some));
        let to = self.edges.iter().copied().map(Some).chain([None]);
        from.zip(to).zip(&self.entries).map(move |((from, to), &entries)| {
            let mut cells = vec![DataCell::from(name), DataCell::from(side.name())];
            cells.extend([from, to, Some(entries), Some(self.share(entries))].map(DataCell::from));
            cells
        })
    }

    fn curve(&self, side: Side) -> Curve {
        let style = SeriesStyle::nth(if side == Side::True { 0 } else { 1 });
        let mut curve = Curve::new(&format!("entries whose label is {}", side.name()), style);
        if self.total > 0.0 {
            let inner = self.edges.windows(2).zip(&self.entries[1..]);
            let steps = inner
                .flat_map(|(bin, &entries)| bin.iter().map(move |&edge| (edge, entries)).collect::<Vec<_>>());
            let ends = [(self.edges[0], 0.0), (self.edges[BINS], 0.0)];
            let all = [ends[0]].into_iter().chain(steps).chain([ends[1]]);
            let points: Vec<(f64, f64)> = all.map(|(edge, entries)| (edge, self.share(entries))).collect();
            if side == Side::True {
                curve.band = points.iter().map(|&(edge, share)| (edge, 0.0, share)).collect();
            }
            curve.lines.push(CurveLine { points, thin: false });
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated_and_equal_thresholds_are_a_single_value() {
        let piece = |from, to, entries| Piece { from, to, entries };
        let even = [piece(0.0, 1.0, 50.0), piece(1.0, 2.0, 50.0)];
        assert!((quantile(&even, 0.25).unwrap() - 0.5).abs() < 1e-12);
        assert!((quantile(&even, 1.0).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(quantile(&[piece(0.5, 0.5, 9.0)], 0.025), Some(0.5));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn the_shares_of_all_bins_and_both_open_ends_add_up_to_one() {
        let x = AxisScale::between(0.0, 1.0, false, 2);
        let pieces = [(-3.0, 0.5, 7.0), (0.25, 0.25, 5.0), (0.9, 4.0, 8.0)]
            .map(|(from, to, entries)| Piece { from, to, entries });
        let bins = Bins::new(&x, &pieces);
        let sum: f64 = bins.entries.iter().map(|&entries| bins.share(entries)).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        assert!((bins.entries[1 + 10] - 5.0 - 7.0 * 0.025 / 3.5).abs() < 1e-9, "{:?}", bins.entries);
    }
}
