//! Draws every figure from inputs of every size, from none to more than a paper would show.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use serde_json::json;

use super::chart::format::FigureFormat;
use super::draw::Shape;
use super::kind::FigureKind;
use super::naming::RunAxes;
use super::*;
use pipe_ml::history::{Epoch, EpochMetrics, History, LabelSpread, LossValue};
use pipe_ml::metric::curves::{Curves, FrequencyBin, ReliabilityBin, ShiftedMetrics, ThresholdHistogram};
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::record::EvaluationRecord;

#[derive(Default, Clone)]
struct Inputs {
    names: BTreeMap<String, String>,
    results: FigureInputs,
}

impl Inputs {
    fn draw(&self, kind: FigureKind) -> Figure {
        let naming = self.results.naming("seed", &self.names);
        self.results.plan(kind, &naming).unwrap().draw(FigureFormat::default())
    }
}

impl From<FigureInputs> for Inputs {
    fn from(results: FigureInputs) -> Self {
        Self { names: BTreeMap::new(), results }
    }
}

fn axes(variant: &str, seed: usize) -> RunAxes {
    vec![("variant".to_owned(), variant.to_owned()), ("seed".to_owned(), seed.to_string())]
}

fn history(macro_f1: &[f64], oracle: bool) -> History {
    let epoch = |(index, &macro_f1): (usize, &f64)| {
        let t = index as f64 / 100.0;
        Epoch {
            epoch: index as u64 + 1,
            loss: LossValue::default(),
            validation: Some(EpochMetrics {
                macro_f1,
                macro_f1_present: macro_f1,
                micro_f1: macro_f1,
                positive_ratio: 0.1,
            }),
            alpha: LabelSpread { mean: 1.0 + t * macro_f1, std: 0.1 + t / 10.0 },
            beta: LabelSpread { mean: 1.0 - t * macro_f1, std: 0.2 },
            lambda: LabelSpread { mean: 0.5 + t / 10.0, std: 0.0 },
            theta: LabelSpread { mean: 0.5, std: 0.1 },
            lr: 1e-3,
        }
    };
    History { epochs: macro_f1.iter().enumerate().map(epoch).collect(), kept: 1, oracle }
}

fn record(protocol: Protocol, macro_f1: f64) -> EvaluationRecord {
    let evaluation = json!({"protocol": protocol, "rows": 10, "labels": 3, "values": {"macro_f1": macro_f1}});
    serde_json::from_value(json!({"part": "test", "evaluation": evaluation, "intervals": null})).unwrap()
}

fn curves(protocol: Protocol, level: f64) -> Curves {
    let bin = |n: u64| {
        let probability = (n as f64 + 0.5) / 15.0;
        let entries = 1000 / (n + 1);
        let positives = (entries as f64 * (probability * level * 1.5).min(1.0)) as u64;
        ReliabilityBin { mean_probability: probability, entries, positives }
    };
    let shifted = |n: i32| {
        let (shift, x) = (f64::from(n) / 10.0, f64::from(n + 5) / 10.0);
        let (micro_precision, micro_recall) = (level * (0.4 + 0.6 * x), level * (1.0 - 0.8 * x));
        let micro_f1 = 2.0 * micro_precision * micro_recall / (micro_precision + micro_recall);
        ShiftedMetrics { shift, micro_precision, micro_recall, micro_f1, macro_f1: micro_f1 / 2.0 }
    };
    let hump =
        |at: f64, scale: f64| move |n: u64| (scale * (-(n as f64 / 20.0 - at).powi(2) * 40.0).exp()) as u64;
    let frequency = |(index, &(from, to)): (usize, &(u32, Option<u32>))| FrequencyBin {
        from,
        to,
        labels: if index == 3 { 0 } else { 40 },
        macro_f1: level * (0.2 + 0.2 * index as f64),
    };
    let bins = [(1, Some(4)), (5, Some(9)), (10, Some(99)), (100, Some(999)), (1000, None)];
    Curves {
        protocol,
        reliability: (0..15).map(bin).collect(),
        tradeoff: (-5..=5).map(shifted).collect(),
        thresholds: Some(ThresholdHistogram {
            edges: (0..=20).map(|n| f64::from(n) / 20.0).collect(),
            of_true: (0..20).map(hump(level / 2.0, 1000.0)).collect(),
            of_false: (0..20).map(hump(level, 90_000.0)).collect(),
        }),
        by_frequency: bins.iter().enumerate().map(frequency).collect(),
    }
}

/// Returns results of these variants, seeds and epochs. Some runs stop early, and every third variant has oracle results.
fn grid(variants: &[&str], seeds: usize, epochs: usize) -> Inputs {
    let label_counts = (1..=5000u64).map(|rank| 20_000 / rank.pow(2)).collect();
    let mut inputs = FigureInputs { label_counts, ..FigureInputs::default() };
    for (v, variant) in variants.iter().enumerate() {
        for seed in 0..seeds {
            let level = 0.3 + 0.5 / (v as f64 + 1.5) + 0.02 * ((seed * 7 + v) % 5) as f64;
            let stop = if v == 0 { epochs } else { (epochs * (20 - v - 2 * seed) / 20).max(1) };
            let macro_f1 = |epoch: usize| {
                let t = (epoch + 1) as f64 / epochs.max(10) as f64;
                level * (1.0 - (-4.0 * t).exp()) + 0.004 * ((epoch * 31 + seed * 17) % 7) as f64
            };
            let scores: Vec<f64> = (0..stop).map(macro_f1).collect();
            let axes = axes(variant, seed);
            inputs.histories.push((axes.clone(), history(&scores, v % 3 == 2)));
            inputs.records.push((axes.clone(), record(Protocol::Honest, level)));
            inputs.curves.push((axes.clone(), curves(Protocol::Honest, level)));
            if v % 3 == 0 {
                inputs.records.push((axes.clone(), record(Protocol::Oracle, (level * 1.3).min(1.0))));
                inputs.curves.push((axes, curves(Protocol::Oracle, (level * 1.1).min(1.0))));
            }
        }
    }
    inputs.into()
}

const PAPER: [&str; 4] = ["adaptive", "knn-only", "idf-only", "static"];
const TWELVE: [&str; 12] = ["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12"];
const AWKWARD: [&str; 5] =
    ["A&B_%$#~^\\", "<script>alert(1)</script>", "阈值 適応 日本語", "שיטה סטטית", "Ünïcödé Ελλάδα Ж 🙂"];

fn sizes() -> Vec<(&'static str, Inputs)> {
    let long: String = "a long name that goes on and on, ".repeat(10) + "to its end";
    let named = |inputs: Inputs, from: &str, to: &str| Inputs {
        names: BTreeMap::from([(from.to_owned(), to.to_owned())]),
        ..inputs
    };
    let equal = FigureInputs {
        histories: vec![(axes("a", 0), history(&[0.5; 20], false))],
        records: vec![(axes("a", 0), record(Protocol::Honest, 0.0))],
        label_counts: vec![7; 30],
        ..FigureInputs::default()
    };
    let absent = FigureInputs {
        histories: vec![
            (axes("a", 0), history(&[f64::NAN, 0.2, f64::NAN, 0.3], false)),
            (axes("b", 0), history(&[], true)),
        ],
        records: vec![(axes("a", 0), record(Protocol::Oracle, 1.0))],
        curves: vec![(
            axes("a", 0),
            Curves {
                protocol: Protocol::Oracle,
                reliability: vec![],
                tradeoff: vec![],
                thresholds: None,
                by_frequency: vec![],
            },
        )],
        ..FigureInputs::default()
    };
    vec![
        ("none", Inputs::default()),
        ("one", grid(&["only"], 1, 1)),
        ("paper", grid(&PAPER, 5, 150)),
        ("one-seed", grid(&PAPER, 1, 30)),
        ("twelve", grid(&TWELVE, 5, 300)),
        ("long", named(grid(&PAPER, 3, 40), "adaptive", &long)),
        ("awkward", grid(&AWKWARD, 2, 20)),
        ("equal", equal.into()),
        ("absent", absent.into()),
    ]
}

/// Checks that no shape and no text leaves the page.
pub(super) fn assert_on_page(drawing: &Drawing, what: &str) {
    let Drawing { width, height, shapes, .. } = drawing;
    assert!(*height > 50.0 && *height < 700.0, "{what}: {height}");
    for shape in shapes {
        let inside = |&(x, y): &(f64, f64)| (0.0..=*width).contains(&x) && (0.0..=*height).contains(&y);
        match shape {
            Shape::Line { points, .. } | Shape::Area { points, .. } => {
                assert!(points.iter().all(inside), "{what}: {shape:?}");
            }
            Shape::Text(text) => {
                let length = draw::font::width(&text.content, text.size);
                let (before, after) = match text.anchor {
                    draw::Anchor::Start => (0.0, length),
                    draw::Anchor::Middle => (length / 2.0, length / 2.0),
                    draw::Anchor::End => (length, 0.0),
                };
                let (x, y) = text.at;
                let ends = if text.upwards {
                    [(x, y + before), (x, y - after)]
                } else {
                    [(x - before, y), (x + after, y)]
                };
                assert!(ends.iter().all(inside), "{what}: {text:?}");
            }
        }
    }
}

#[test]
fn shapes_stay_on_the_page_and_the_bytes_are_reproducible() {
    for (size, inputs) in sizes() {
        for kind in FigureKind::ALL {
            let figure = inputs.draw(kind);
            assert_on_page(&figure.drawing, &format!("{size} {kind:?}"));
            assert_eq!(figure.pdf(), inputs.draw(kind).pdf());
            assert_eq!(figure.svg(), inputs.draw(kind).svg());
        }
    }
}

#[test]
fn oracle_values_are_marked_in_every_figure() {
    let all = grid(&["a"], 2, 5);
    let FigureInputs { records, curves, .. } = &all.results;
    let oracle = Inputs::from(FigureInputs {
        histories: vec![(axes("a", 0), history(&[0.1, 0.2], true))],
        records: records.iter().filter(|(_, r)| r.protocol() == Protocol::Oracle).cloned().collect(),
        curves: curves.iter().filter(|(_, c)| c.protocol == Protocol::Oracle).cloned().collect(),
        ..FigureInputs::default()
    });
    for kind in FigureKind::ALL {
        let of_predictions = !matches!(kind, FigureKind::LabelFrequency | FigureKind::ThresholdWeights);
        // Without an honest result there is nothing to compare.
        let compares = kind == FigureKind::OracleVersusHonest;
        let figure = if compares { all.draw(kind) } else { oracle.draw(kind) };
        let daggers = figure.svg().matches('†').count();
        assert_eq!(daggers >= 2, of_predictions, "{kind:?}: a name or a value, and the note");
        assert_eq!(figure.csv().contains("\noracle,"), of_predictions, "{kind:?}");
    }
}

#[test]
fn a_run_that_stops_early_ends_in_a_cross() {
    let histories = vec![
        (axes("a", 0), history(&[0.1, 0.2, 0.3, 0.4], false)),
        (axes("a", 1), history(&[0.2, 0.3], false)),
    ];
    let inputs = Inputs::from(FigureInputs { histories, ..FigureInputs::default() });
    let figure = inputs.draw(FigureKind::F1OverEpochs);
    assert!(figure.svg().contains("× a run that stopped early"));
    insta::assert_snapshot!(figure.csv(), @r"
    protocol,name,epoch,macro_f1,standard_deviation,runs,ended_early
    honest,a,1,0.15000000000000002,0.07071067811865477,2,
    honest,a,2,0.25,0.07071067811865474,2,0.3
    honest,a,3,0.3,,1,
    honest,a,4,0.4,,1,
    ");
}

#[test]
fn small_figures_match_their_snapshots() {
    let inputs = grid(&["adaptive", "A&B"], 2, 4);
    insta::assert_snapshot!("f1-over-epochs.svg", inputs.draw(FigureKind::F1OverEpochs).svg());
    insta::assert_snapshot!("oracle-versus-honest.svg", inputs.draw(FigureKind::OracleVersusHonest).svg());
    insta::assert_snapshot!("final-f1.csv", inputs.draw(FigureKind::FinalF1).csv());
    insta::assert_snapshot!("f1-by-frequency.csv", inputs.draw(FigureKind::F1ByFrequency).csv());
    let label_counts = vec![3, 0, 9, 1, 1, 0];
    let counts = Inputs::from(FigureInputs { label_counts, ..FigureInputs::default() });
    insta::assert_snapshot!("label-frequency.csv", counts.draw(FigureKind::LabelFrequency).csv());
}

#[test]
fn weights_that_are_only_scaled_by_weight_decay_are_left_out() {
    let scaled = |mut history: History| {
        for (n, epoch) in history.epochs.iter_mut().enumerate() {
            let decay = 0.99_f64.powi(n as i32);
            epoch.alpha = LabelSpread { mean: 0.1 * decay, std: decay };
            epoch.lambda = LabelSpread { mean: 0.5, std: 0.0 };
        }
        history
    };
    let histories = vec![
        (axes("learned", 0), history(&[0.1, 0.2, 0.3], false)),
        (axes("decayed", 0), scaled(history(&[0.1, 0.2, 0.3], false))),
    ];
    let figure = Inputs::from(FigureInputs { histories, ..FigureInputs::default() });
    let csv = figure.draw(FigureKind::ThresholdWeights).csv();
    let has = |row: &str| csv.contains(row);
    assert!(has("alpha,learned,") && has("lambda,learned,") && has("beta,decayed,"), "{csv}");
    assert!(!has("alpha,decayed,") && !has("lambda,decayed,"), "{csv}");
}

#[test]
fn frequencies_without_labels_are_left_out_and_the_others_say_how_many_they_have() {
    let figure = grid(&["a"], 2, 2).draw(FigureKind::F1ByFrequency);
    let svg = figure.svg();
    assert!(svg.contains(">10–99<") && svg.contains(">40 labels<"), "{svg}");
    assert!(!svg.contains("100–999") && !figure.csv().contains(",100,999,"));
}

#[test]
fn results_of_both_protocols_are_in_panels_of_their_own() {
    let both = grid(&["a"], 1, 2);
    for kind in [FigureKind::PrecisionRecall, FigureKind::Reliability, FigureKind::F1ByFrequency] {
        let svg = both.draw(kind).svg();
        assert!(svg.contains(">honest<") && svg.contains(">oracle†<"), "{kind:?}");
        assert_eq!(svg.matches(">a<").count(), 1, "{kind:?}: the legend names a variant once");
    }
}

#[test]
fn all_thresholds_of_a_protocol_have_the_same_bins() {
    let shifted = |by: f64, edges: usize| {
        let mut curves = curves(Protocol::Honest, 0.5);
        let mut histogram = curves.thresholds.take().unwrap();
        let bins = edges - 1;
        histogram.edges = (0..edges).map(|n| by + n as f64 / bins as f64).collect();
        histogram.of_true.resize(bins, 3);
        histogram.of_false.resize(bins, 5);
        curves.thresholds = Some(histogram);
        curves
    };
    let runs = vec![
        (axes("a", 0), shifted(0.0, 21)),
        (axes("b", 0), shifted(0.5, 41)),
        (axes("static", 0), shifted(0.0, 2)),
    ];
    let figure = Inputs::from(FigureInputs { curves: runs, ..FigureInputs::default() });
    let csv = figure.draw(FigureKind::Thresholds).csv();
    let bins = |name: &str| -> Vec<String> {
        let rows = csv.lines().filter(|row| row.starts_with(&format!("honest,{name},true,")));
        rows.map(|row| row.split(',').skip(3).take(2).collect::<Vec<_>>().join(",")).collect()
    };
    assert_eq!(bins("a").len(), 42);
    assert!(bins("a") == bins("b") && bins("b") == bins("static"));
    let full = csv.lines().filter(|row| row.starts_with("honest,static,true,") && row.ends_with(",1"));
    assert_eq!(full.count(), 1, "equal thresholds are in one bin: {csv}");
}

proptest! {
    #[test]
    fn the_order_of_the_seeds_changes_no_byte(order in Just((0..10).collect::<Vec<usize>>()).prop_shuffle()) {
        let inputs = grid(&["a", "b"], 5, 12);
        // Groups keep the order of the pipeline, so the first run of each stays first.
        let shuffled = |of: usize| {
            let rest = order.iter().copied().filter(move |n| *n != 0 && *n != 5);
            [0, 5].into_iter().chain(rest).filter(move |n| *n < of).collect::<Vec<_>>()
        };
        let mut moved = inputs.clone();
        moved.results.histories =
            shuffled(10).into_iter().map(|n| inputs.results.histories[n].clone()).collect();
        for kind in [FigureKind::F1OverEpochs, FigureKind::ThresholdWeights] {
            prop_assert_eq!(inputs.draw(kind).svg(), moved.draw(kind).svg());
            prop_assert_eq!(inputs.draw(kind).csv(), moved.draw(kind).csv());
        }
    }
}

/// Returns the output of a program for a file; `None`, with a message, if the program is not installed.
fn output_of(program: &str, arguments: &[&str], file: &Path) -> Option<String> {
    match Command::new(program).args(arguments).arg(file).arg("-").output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && errors.is_empty(), "{program}: {errors}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(_) if std::env::var_os("PIPE_CI").is_none() => {
            println!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

#[test]
fn a_pdf_is_valid_and_its_text_can_be_extracted() {
    let directory = tempfile::tempdir().unwrap();
    for (size, inputs) in sizes() {
        for kind in FigureKind::ALL {
            let path = directory.path().join(format!("{size}-{}.pdf", kind.name()));
            std::fs::write(&path, inputs.draw(kind).pdf()).unwrap();
            let Some(text) = output_of("pdftotext", &["-q"], &path) else { return };
            if size == "awkward" && kind == FigureKind::FinalF1 {
                for name in ["A&B_%$#~^\\", "<script>", "日本語", "Ünïcödé", "macro-F1"] {
                    assert!(text.contains(name), "{name} in {text}");
                }
            }
            if size == "paper" && kind == FigureKind::ThresholdWeights {
                assert!(text.contains("α, weight of the global signal"), "{text}");
            }
        }
    }
}

#[test]
#[ignore = "writes every figure of every size to $PIPE_GALLERY, for a look at them"]
fn gallery() {
    let directory = std::path::PathBuf::from(std::env::var_os("PIPE_GALLERY").unwrap());
    for (size, inputs) in sizes() {
        for kind in FigureKind::ALL {
            let (figure, stem) = (inputs.draw(kind), format!("{size}-{}", kind.name()));
            std::fs::write(directory.join(format!("{stem}.svg")), figure.svg()).unwrap();
            std::fs::write(directory.join(format!("{stem}.pdf")), figure.pdf()).unwrap();
            std::fs::write(directory.join(format!("{stem}.csv")), figure.csv()).unwrap();
        }
    }
}
