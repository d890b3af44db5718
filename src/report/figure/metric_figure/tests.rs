use std::collections::BTreeMap;

use serde_json::json;

use super::super::Figure;
use super::super::chart::format::LegendPosition;
use super::super::tests::assert_on_page;
use super::*;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::record::EvaluationRecord;

type Records = Vec<(RunAxes, FigureRecord)>;

fn result(axes: &[(&str, &str)], protocol: Protocol, macro_f1: f64) -> (RunAxes, FigureRecord) {
    let values = json!({"macro_f1": macro_f1, "micro_f1": macro_f1 + 0.2, "bce": 12.5});
    let evaluation = json!({"protocol": protocol, "rows": 10, "labels": 3, "values": values});
    let record = json!({"part": "test", "evaluation": evaluation, "intervals": null});
    let axes = axes.iter().map(|(axis, value)| (axis.to_string(), value.to_string())).collect();
    let record: EvaluationRecord = serde_json::from_value(record).unwrap();
    (axes, FigureRecord::from(&record))
}

/// Returns results of two variants, the given values of `prior`, and two seeds.
fn sweep(priors: &[&str], protocols: &[Protocol]) -> Records {
    let mut records = Vec::new();
    for (v, variant) in ["adaptive", "static"].into_iter().enumerate() {
        for (p, prior) in priors.iter().enumerate() {
            for (s, seed) in ["0", "1"].into_iter().enumerate() {
                for protocol in protocols {
                    let value = 0.25 + 0.125 * v as f64 + 0.0625 * p as f64 + 0.25 * s as f64;
                    let axes = [("variant", variant), ("prior", prior), ("seed", seed)];
                    records.push(result(&axes, *protocol, value));
                }
            }
        }
    }
    records
}

fn figure(chart: ChartKind) -> MetricFigure {
    MetricFigure {
        chart,
        x: FigureX::Axis("prior".to_owned()),
        y: vec!["macro_f1".to_owned()],
        group: None,
        panels: None,
        x_axis: AxisOptions::default(),
        y_axis: AxisOptions::default(),
        interval: IntervalKind::Deviation,
    }
}

fn draw_as(
    figure: &MetricFigure,
    records: &Records,
    format: FigureFormat,
) -> Result<Figure, MetricFigureError> {
    let names =
        BTreeMap::from([("static".to_owned(), "Fixed".to_owned()), ("prior".to_owned(), "Prior".to_owned())]);
    let context = MetricFigureContext { mean_over: "seed", names: &names, format };
    figure.plan(context, records).map(|planned| planned.draw(format))
}

fn draw(figure: &MetricFigure, records: &Records) -> Result<Figure, MetricFigureError> {
    draw_as(figure, records, FigureFormat::default())
}

const ALL: [ChartKind; 4] = [ChartKind::Line, ChartKind::Bar, ChartKind::Scatter, ChartKind::Heat];

#[test]
fn a_line_shows_means_over_seeds_in_the_order_of_the_numbers() {
    let records = sweep(&["10", "1", "200"], &[Protocol::Honest]);
    let drawn = draw(&figure(ChartKind::Line), &records).unwrap();
    insta::assert_snapshot!(drawn.csv(), @r"
    protocol,metric,panel,name,x,mean,standard_deviation,low,high,runs
    honest,macro_f1,,adaptive,1,0.4375,0.1767766952966369,0.26072330470336313,0.6142766952966369,2
    honest,macro_f1,,adaptive,10,0.375,0.1767766952966369,0.1982233047033631,0.5517766952966369,2
    honest,macro_f1,,adaptive,200,0.5,0.1767766952966369,0.32322330470336313,0.6767766952966369,2
    honest,macro_f1,,Fixed,1,0.5625,0.1767766952966369,0.38572330470336313,0.7392766952966369,2
    honest,macro_f1,,Fixed,10,0.5,0.1767766952966369,0.32322330470336313,0.6767766952966369,2
    honest,macro_f1,,Fixed,200,0.625,0.1767766952966369,0.44822330470336313,0.8017766952966369,2
    ");
    let svg = drawn.svg();
    for text in [
        ">1<",
        ">10<",
        ">200<",
        ">Prior<",
        ">Macro F1<",
        ">adaptive<",
        ">Fixed<",
        "Mean of 2 runs (over seed)",
    ] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn every_kind_marks_oracle_results_and_stays_on_the_page_in_every_format() {
    let records = sweep(&["1", "10", "100"], &[Protocol::Honest, Protocol::Oracle]);
    let (honest, oracle): (Records, Records) =
        records.iter().cloned().partition(|(_, record)| record.protocol() == Protocol::Honest);
    for chart in ALL {
        for legend in
            [LegendPosition::Top, LegendPosition::Right, LegendPosition::Bottom, LegendPosition::None]
        {
            for (width, font_size) in [(3.3, 8.0), (6.75, 9.0), (2.2, 6.0), (3.3, 12.0)] {
                let format = FigureFormat { width, font_size, legend };
                let figure =
                    MetricFigure { y: vec!["macro_f1".to_owned(), "bce".to_owned()], ..figure(chart) };
                let what = format!("{chart:?} {format:?}");
                let daggers = |records: &Records| {
                    let drawn = draw_as(&figure, records, format).unwrap();
                    assert_on_page(&drawn.drawing, &what);
                    assert!((drawn.drawing.width - width * 72.0).abs() < 1e-9, "{what}");
                    drawn.svg().matches('†').count()
                };
                assert_eq!(daggers(&honest), 0, "{what}");
                // Without a legend, the shapes and the note remain.
                let least = if legend == LegendPosition::None { 1 } else { 2 };
                assert!(daggers(&records) >= least && daggers(&oracle) >= least, "{what}");
            }
        }
    }
}

#[test]
fn groups_and_panels_follow_the_numbers_of_their_axis_and_otherwise_the_pipeline() {
    let records = sweep(&["10", "1", "200"], &[Protocol::Honest]);
    let column = |figure: MetricFigure, column: usize| -> Vec<String> {
        let csv = draw(&figure, &records).unwrap().csv();
        let mut values: Vec<String> =
            csv.lines().skip(1).map(|line| line.split(',').nth(column).unwrap().to_owned()).collect();
        values.dedup();
        values
    };
    let by_variant = || MetricFigure { x: FigureX::Axis("variant".to_owned()), ..figure(ChartKind::Heat) };
    assert_eq!(column(by_variant(), 3), ["prior=1", "prior=10", "prior=200"]);
    let panels = MetricFigure { panels: Some("prior".to_owned()), ..by_variant() };
    assert_eq!(column(panels, 2), ["1", "10", "200"]);
    assert_eq!(column(figure(ChartKind::Heat), 3), ["adaptive", "Fixed"], "not in alphabetical order");
    let rows = MetricFigure { group: Some(vec!["prior".to_owned()]), ..by_variant() };
    let svg = draw(&rows, &records).unwrap().svg();
    assert!(svg.contains(">Prior<") && svg.contains(">200<") && !svg.contains("prior=200"), "{svg}");
}

#[test]
fn results_that_would_be_one_point_by_accident_are_an_error_that_names_the_axis() {
    let records = sweep(&["1", "10"], &[Protocol::Honest]);
    let grouped = MetricFigure { group: Some(Vec::new()), ..figure(ChartKind::Line) };
    let error = draw(&grouped, &records).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("differ only in `variant`"), "{error}");
    let mut seeds_apart = sweep(&["1"], &[Protocol::Honest]);
    let has = |axes: &RunAxes, axis: &str, value: &str| axes.contains(&(axis.to_owned(), value.to_owned()));
    seeds_apart.retain(|(axes, _)| has(axes, "seed", "0") == has(axes, "variant", "static"));
    assert_eq!(seeds_apart.len(), 2);
    assert!(draw(&grouped, &seeds_apart).is_err(), "other seeds do not make two variants one");
    let mut unplaced = records.clone();
    unplaced.push(result(&[("variant", "recipe"), ("seed", "0")], Protocol::Honest, 0.5));
    let error = draw(&figure(ChartKind::Line), &unplaced).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("some results have no axis `prior`"), "{error}");
    let twice: Records = records.iter().chain(&records).cloned().collect();
    assert_eq!(draw(&figure(ChartKind::Bar), &twice).map(|_| ()), Err(MetricFigureError::SameAxes));
}

#[test]
fn a_scatter_plot_shows_each_combination_of_axes_against_a_metric() {
    let records = sweep(&["1", "10", "100"], &[Protocol::Honest]);
    let scatter = MetricFigure {
        x: FigureX::Value("micro_f1".to_owned()),
        group: Some(vec!["variant".to_owned()]),
        ..figure(ChartKind::Scatter)
    };
    let drawn = draw(&scatter, &records).unwrap();
    assert_eq!(drawn.csv().lines().count(), 1 + 2 * 3);
    assert!(drawn.svg().contains(">Micro F1<"));
}

#[test]
fn a_panel_for_each_data_set_has_its_name_as_heading() {
    let axes = |data: &'static str, prior: &'static str| [("data", data), ("prior", prior)];
    let records: Records = [("bibtex", "1"), ("bibtex", "10"), ("medical", "1"), ("medical", "10")]
        .map(|(data, prior)| result(&axes(data, prior), Protocol::Honest, 0.5))
        .into();
    for chart in ALL {
        let figure = MetricFigure { panels: Some("data".to_owned()), ..figure(chart) };
        let svg = draw(&figure, &records).unwrap().svg();
        assert!(svg.contains("bibtex<") && svg.contains("medical<"), "{chart:?}");
    }
}

#[test]
fn a_logarithmic_axis_rejects_values_that_have_no_logarithm() {
    let log = AxisOptions { range: None, log: true };
    let figure = MetricFigure { x_axis: log, ..figure(ChartKind::Line) };
    let error = |priors: &[&str]| {
        let records = sweep(priors, &[Protocol::Honest]);
        draw(&figure, &records).map(|_| ()).unwrap_err().to_string()
    };
    assert!(error(&["0", "1"]).starts_with("`prior` has the value 0, which has no logarithm"));
    assert!(
        error(&["off", "1"]).starts_with("`log` and `range` need numbers, but `prior` has the value `off`")
    );
    assert!(draw(&figure, &sweep(&["1", "10"], &[Protocol::Honest])).is_ok());
}

#[test]
fn a_confidence_interval_uses_students_t_distribution() {
    let spread = SeedSpread::over(&[1.0, 2.0, 3.0]).unwrap();
    let (low, high) = IntervalKind::Confidence.of(&spread).unwrap();
    assert!((low - (2.0 - 2.4841)).abs() < 1e-3 && (high - 4.4841).abs() < 1e-3, "{low} {high}");
    assert_eq!(IntervalKind::Range.of(&spread), Some((1.0, 3.0)));
    assert_eq!(IntervalKind::Confidence.of(&SeedSpread::over(&[1.0]).unwrap()), None);
}

#[test]
fn fields_that_cannot_be_used_are_issues() {
    let issues = |figure: MetricFigure| -> Vec<String> {
        figure.issues("seed").into_iter().map(|issue| format!("{}: {}", issue.field, issue.message)).collect()
    };
    let axis = |name: &str| FigureX::Axis(name.to_owned());
    let line = || figure(ChartKind::Line);
    assert_eq!(issues(line()), Vec::<String>::new());
    let range = |low, high, log| AxisOptions { range: Some([low, high]), log };
    for (figure, expected) in [
        (MetricFigure { y: Vec::new(), ..line() }, "y: name at least one metric"),
        (
            MetricFigure { y: vec!["bce".to_owned(), "bce".to_owned()], ..line() },
            "y[1]: `bce` is given twice",
        ),
        (MetricFigure { x: FigureX::Value("bce".to_owned()), ..line() }, "x: `bce` is a metric"),
        (MetricFigure { x: axis("seed"), ..line() }, "x: `seed` is averaged over"),
        (MetricFigure { group: Some(vec!["prior".to_owned()]), ..line() }, "group: `prior` is given twice"),
        (MetricFigure { panels: Some("prior".to_owned()), ..line() }, "panels: `prior` is given twice"),
        (MetricFigure { y_axis: range(1.0, 1.0, false), ..line() }, "y_axis.range: the first number"),
        (MetricFigure { x_axis: range(0.0, 1.0, true), ..line() }, "x_axis.range: a logarithmic axis"),
        (MetricFigure { x_axis: range(0.0, 1.0, false), ..figure(ChartKind::Heat) }, "kind: a heat map"),
    ] {
        let found = issues(figure);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
    }
}
