//! Draws the long tail of a data set: the number of rows of each label by rank, with two logarithmic axes.

use std::fmt::Write;

use super::html::{Html, HtmlElement, el};
use super::number::grouped;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 34.0;
/// The largest number of points of the curve.
const POINTS: usize = 160;

/// Draws the curve; `None` if all counts are zero. `counts` are in descending order; zeros are left out.
pub fn draw(caption: &str, counts: &[u64]) -> Option<Html> {
    let counts: Vec<u64> = counts.iter().copied().filter(|&count| count > 0).collect();
    let (&most, ranks) = (counts.first()?, counts.len());
    let along = |value: f64, top: f64, length: f64| {
        if top > 1.0 { value.ln() / top.ln() * length } else { 0.0 }
    };
    let x = |rank: usize| LEFT + along(rank as f64, ranks as f64, WIDTH - LEFT - 10.0);
    let y = |count: u64| HEIGHT - BOTTOM - along(count as f64, most as f64, HEIGHT - BOTTOM - 10.0);
    let mut path = String::new();
    let mut last = 0;
    for step in 0..POINTS {
        let rank = (ranks as f64).powf(step as f64 / (POINTS - 1) as f64).round() as usize;
        if rank != last {
            let command = if last == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", x(rank), y(counts[rank - 1]));
            last = rank;
        }
    }
    let label = |x: f64, y: f64, anchor: &'static str, words: &str| -> HtmlElement {
        el("text").attr("x", x).attr("y", y).attr("text-anchor", anchor).text(words)
    };
    let (base, right) = (HEIGHT - BOTTOM, WIDTH - 10.0);
    let frame = format!("M{LEFT} 10V{base}H{right}");
    let svg = el("svg")
        .class("tail")
        .attr("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .attr("role", "img")
        .attr("aria-label", caption)
        .child(el("path").class("axis").attr("d", frame))
        .child(el("path").class("line").attr("d", path))
        .child(label(LEFT - 6.0, 16.0, "end", &grouped(most)))
        .child(label(LEFT - 6.0, base, "end", "1"))
        .child(label(LEFT, base + 15.0, "middle", "1"))
        .child(label(right, base + 15.0, "end", &grouped(ranks as u64)))
        .child(label(
            (LEFT + right) / 2.0,
            base + 28.0,
            "middle",
            "labels by rank; rows per label upwards; logarithmic",
        ));
    Some(el("figure").class("drawn").child(svg).child(el("figcaption").text(caption)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_falls_from_the_most_frequent_to_the_rarest() {
        let html = draw("tail", &[1000, 10, 1, 0]).unwrap().into_string();
        assert!(html.contains("M52.0 10.0L") && html.contains("L410.0 136.0\""), "{html}");
        assert_eq!(draw("tail", &[0, 0]), None);
        assert!(draw("tail", &[1]).unwrap().into_string().contains("M52.0 136.0"));
    }
}
