//! The long tail: the number of training rows of each label, from the most frequent label to the rarest.

use super::PlannedFigure;
use super::chart::curves::{Chart, Curve, CurveLine, Panel, values};
use super::chart::scale::AxisScale;
use super::chart::style::SeriesStyle;
use super::data_table::{DataCell, DataTable};
use pipe_ml::metric::marked::{Marked, Protocol};

/// Draws the number of training rows of each label.
pub fn label_frequency(counts: &[u64]) -> PlannedFigure {
    let mut counts = counts.to_vec();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let present = counts.partition_point(|&count| count > 0);
    // Labels of equal frequency form one step: count, first and last rank.
    let mut steps: Vec<(u64, u64, u64)> = Vec::new();
    for (index, &count) in counts[..present].iter().enumerate() {
        let rank = index as u64 + 1;
        match steps.last_mut() {
            Some((same, _, last)) if *same == count => *last = rank,
            _ => steps.push((count, rank, rank)),
        }
    }
    let ends =
        |&(count, first, last): &(u64, u64, u64)| [first, last].map(|rank| (rank as f64, count as f64));
    let line = CurveLine { points: steps.iter().flat_map(ends).collect(), thin: false };
    // Counts of training rows do not depend on predictions, so there is nothing to mark.
    let curve =
        Marked::new(Protocol::Honest, Curve { lines: vec![line], ..Curve::new("", SeriesStyle::nth(0)) });
    let curves = vec![curve];
    let absent = counts.len() - present;
    let mut note = format!("{} labels", counts.len());
    if absent > 0 {
        note += &format!("; not shown: {absent} without training rows");
    }
    let x = AxisScale::logarithmic(values(&curves, |(x, _)| x));
    let y = AxisScale::logarithmic(values(&curves, |(_, y)| y));
    let chart = Chart {
        title: "Training rows per label".to_owned(),
        x_label: "label, in order of falling frequency".to_owned(),
        y_label: "training rows".to_owned(),
        panels: vec![Some(Panel::new(x, y, curves))],
        height: 110.0,
        notes: vec![note + "."],
        ..Chart::default()
    };
    let zero = (absent > 0).then_some((0, present as u64 + 1, counts.len() as u64));
    let row = |(count, first, last)| vec![DataCell::from(count), DataCell::from(first), DataCell::from(last)];
    let rows = steps.into_iter().chain(zero).map(row);
    PlannedFigure::new(chart, DataTable::of_facts(&["training_rows", "first_rank", "last_rank"], rows))
}
