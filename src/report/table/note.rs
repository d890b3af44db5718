//! The explanations that a reader needs: the legend in the caption, and the notes below the table.

use super::display::{ShowN, TableInterval};
use super::sheet::{RunCounts, SheetText, TextPiece};
use super::title;
use super::{Rank, Table};
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::registry::Metric;

fn sentence(text: impl Into<String>) -> SheetText {
    vec![TextPiece::Text(text.into())]
}

/// Returns the sentences for the caption, and the position of the one about bold and underlined values.
pub(super) fn legend(table: &Table) -> (Vec<SheetText>, Option<usize>) {
    let mut legend: Vec<SheetText> =
        unit(table).into_iter().chain(spread(table)).chain(bootstrap(table)).collect();
    let ranks = ranks(table);
    let rank_sentence = ranks.is_some().then_some(legend.len());
    legend.extend(ranks);
    legend.extend(tests(table));
    (legend, rank_sentence)
}

fn spread(table: &Table) -> Option<SheetText> {
    let counts = RunCounts::of(table);
    if counts.most < 2 {
        return None;
    }
    let over = table.mean_over.join(" and ");
    let n = match table.display.show_n {
        _ if counts.least == counts.most => format!("n = {}", counts.most),
        ShowN::All => "n in brackets".to_owned(),
        ShowN::Differing => format!("n = {} unless stated", counts.usual),
    };
    let words = match table.display.interval {
        TableInterval::Deviation => {
            let words = TextPiece::Text(format!("standard deviation over {over} ({n})."));
            return Some(vec![TextPiece::Text("Mean".to_owned()), TextPiece::PlusMinus, words]);
        }
        TableInterval::Confidence => "Mean, in brackets its 95 % confidence interval,",
        TableInterval::Range => "Mean, in brackets the smallest and the largest value,",
        TableInterval::Bootstrap | TableInterval::None => "Mean",
    };
    Some(sentence(format!("{words} over {over} ({n}).")))
}

/// Explains the intervals of the evaluations, if they are printed.
fn bootstrap(table: &Table) -> Option<SheetText> {
    let bootstrap = table.bootstrap?;
    Some(sentence(format!(
        "In brackets: {} % confidence interval (bootstrap over the evaluated rows, {} replicates).",
        percent(bootstrap.confidence),
        bootstrap.replicates
    )))
}

/// Returns whether all values of a table are printed in percent, so that the caption says so instead of the headings.
pub(super) fn is_all_percent(table: &Table) -> bool {
    table.cells().all(|(_, _, cell)| table.display.scale.is_percent(cell.metric))
}

fn unit(table: &Table) -> Option<SheetText> {
    is_all_percent(table).then(|| sentence("All values in percent."))
}

/// Returns a share as a number of percent: `95`, `99.5`.
fn percent(share: f64) -> String {
    let percent = format!("{:.1}", share * 100.0);
    percent.strip_suffix(".0").unwrap_or(&percent).to_owned()
}

fn ranks(table: &Table) -> Option<SheetText> {
    let has = |rank| table.cells().any(|(_, _, cell)| cell.rank == Some(rank));
    if !has(Rank::Best) {
        return None;
    }
    let mut text = "Best in bold".to_owned();
    if has(Rank::Second) {
        text.push_str(", second best underlined");
    }
    if table.has(Protocol::Oracle) && table.has(Protocol::Honest) {
        text.push_str(", each protocol by itself");
    }
    text.push('.');
    Some(sentence(text))
}

fn tests(table: &Table) -> Option<SheetText> {
    let tested = table.significance.as_ref()?;
    let against = match &tested.baseline {
        Some(baseline) => baseline.clone(),
        None => "the best".to_owned(),
    };
    let percent = percent(tested.confidence);
    let mut text = vec![TextPiece::Differs];
    let mut words = format!(
        " differs from {against} (paired bootstrap over the evaluated rows, {} replicates, {percent} % confidence{}).",
        tested.replicates,
        if tested.corrected { ", Bonferroni-corrected" } else { ", not corrected for several comparisons" }
    );
    if !tested.untested.is_empty() {
        let names: Vec<String> = tested.untested.iter().map(|metric| title_of(table, *metric)).collect();
        words.push_str(&format!(" Not tested: {}.", names.join(", ")));
    }
    text.push(TextPiece::Text(words));
    Some(text)
}

/// Returns the title that the table uses for a metric.
fn title_of(table: &Table, metric: Metric) -> String {
    let values = table.rows.iter().chain(&table.columns).flat_map(|line| &line.values);
    let mut named = values.filter(|value| value.value == metric.name());
    named.next().map_or_else(|| title::metric(metric), |value| value.title.clone())
}

/// Returns the notes below the table.
pub(super) fn notes(table: &Table) -> Vec<SheetText> {
    let mut notes = Vec::new();
    notes.extend(oracle(table));
    notes.extend(external(table));
    notes.extend(parts(table));
    notes.extend(table.different_rows.as_ref().map(|(first, second)| {
        let words =
            "were not evaluated on the same rows, so their values cannot be compared and are not ranked";
        sentence(format!("{first} and {second} {words}."))
    }));
    for (at, reference) in table.references.iter().enumerate() {
        let beside = |set: usize| {
            table.cells().any(|(_, _, cell)| cell.comparisons.get(set).is_some_and(Option::is_some))
        };
        let others = || table.others.iter().filter(move |other| other.reference == at);
        if !beside(at) && others().next().is_none() {
            continue;
        }
        let data =
            reference.data.as_ref().map(|data| format!(" Its values are for {data}.")).unwrap_or_default();
        let mut text = format!("{}: {}.{data}", reference.heading, reference.citation);
        for other in others() {
            if let Some(citation) = &other.citation {
                text.push_str(&format!(" {}: {citation}.", other.name));
            }
        }
        notes.push(sentence(text));
    }
    let mut comparisons = table.cells().flat_map(|(_, _, cell)| cell.comparisons.iter().flatten()).peekable();
    if comparisons.peek().is_some() {
        let protocols_differ = comparisons.any(|comparison| comparison.difference.is_none());
        let words = if protocols_differ {
            ": ours minus theirs; not given between values of different protocols."
        } else {
            ": ours minus theirs."
        };
        notes.push(vec![TextPiece::Difference, TextPiece::Text(words.to_owned())]);
    }
    notes
}

fn oracle(table: &Table) -> Option<SheetText> {
    let cells = || table.cells();
    let published = cells().flat_map(|(_, _, cell)| cell.comparisons.iter().flatten());
    let published = published.map(|comparison| comparison.published.protocol());
    let others = table.others.iter().flat_map(|other| &other.values).flatten().map(Marked::protocol);
    let ours = cells().map(|(_, _, cell)| cell.value.protocol());
    let any = ours.chain(published).chain(others).any(|protocol| protocol == Protocol::Oracle);
    any.then(|| {
        vec![
            TextPiece::Oracle,
            TextPiece::Text(
                " Oracle protocol: the labels of the evaluated rows were used to decide on them. \
                 Such values say nothing about rows whose labels are unknown."
                    .to_owned(),
            ),
        ]
    })
}

fn external(table: &Table) -> Option<SheetText> {
    let words = " External: reported by a program, not computed from decisions; neither ranked nor tested.";
    let any = table.cells().any(|(_, _, cell)| cell.is_external());
    any.then(|| vec![TextPiece::External, TextPiece::Text(words.to_owned())])
}

fn parts(table: &Table) -> Option<SheetText> {
    let measured = table.cells().filter(|(_, _, cell)| !cell.is_external());
    let mut parts: Vec<&str> = measured.map(|(_, _, cell)| cell.part.as_str()).collect();
    parts.sort_unstable();
    parts.dedup();
    match parts.as_slice() {
        ["test"] | [] => None,
        [part] => Some(sentence(format!("Measured on the {part} rows."))),
        parts => Some(sentence(format!("Measured on different rows: {}.", parts.join(", ")))),
    }
}
