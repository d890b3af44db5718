//! F1 by label frequency: groups of labels with many or few training positives.
//!
//! Head, torso and tail are relative. Sort the labels by falling frequency and number all training positives
//! in that order: a label whose first positive is in the first half is head, one whose first positive is in
//! the next 40 % is torso, the others are tail. Labels of equal frequency are in the group of the first of
//! them. The bins "under 5, 10, 100" are absolute. A label without training positives is in no group, because
//! it cannot be learnt.

use super::curves::FrequencyBin;
use super::label::{LabelCount, Tally};
use super::registry::Metric;

/// A relative group of labels by frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Band {
    Head,
    Torso,
    Tail,
}

/// The smallest number of training positives of each bin of [`LabelFrequencies::bins`].
pub const BINS: [u32; 5] = [1, 5, 10, 100, 1000];

const HEAD_ENDS: f64 = 0.5;
const TORSO_ENDS: f64 = 0.9;

/// The number of training positives of each label, and the groups that follow from it.
#[derive(Debug, Clone)]
pub struct LabelFrequencies {
    positives: Vec<u32>,
    /// Labels with at least this many positives are head.
    head: u32,
    /// Other labels with at least this many positives are torso.
    torso: u32,
}

impl LabelFrequencies {
    /// Groups labels by their number of training positives.
    pub fn new(positives: Vec<u32>) -> Self {
        let mut sorted = positives.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let all: u64 = sorted.iter().map(|&count| u64::from(count)).sum();
        let (mut head, mut torso) = (u32::MAX, u32::MAX);
        let mut before = 0u64;
        for &count in sorted.iter().take_while(|&&count| count > 0) {
            let share = before as f64 / all as f64;
            if share < HEAD_ENDS {
                head = count;
            }
            if share < TORSO_ENDS {
                torso = count;
            }
            before += u64::from(count);
        }
        Self { positives, head, torso }
    }

    /// Returns the number of training positives of each label.
    pub fn positives(&self) -> &[u32] {
        &self.positives
    }

    /// Returns the group of a label; `None` without training positives.
    pub fn band(&self, label: usize) -> Option<Band> {
        match self.positives[label] {
            0 => None,
            count if count >= self.head => Some(Band::Head),
            count if count >= self.torso => Some(Band::Torso),
            _ => Some(Band::Tail),
        }
    }

    /// Returns mean F1 by [`BINS`]. A bin without a label that is true in an evaluated row is kept, with 0 labels.
    pub fn bins(&self, counts: impl Iterator<Item = LabelCount> + Clone) -> Vec<FrequencyBin> {
        let bin = |(at, &from): (usize, &u32)| {
            let to = BINS.get(at + 1).map(|next| next - 1);
            let inside = |label: usize| {
                let positives = self.positives[label];
                positives >= from && to.is_none_or(|to| positives <= to)
            };
            let chosen = counts.clone().enumerate().filter(|&(l, count)| inside(l) && count.actual > 0);
            let labels = chosen.clone().count() as u64;
            let macro_f1 = Tally::over(chosen.map(|(_, count)| count)).macro_f1();
            FrequencyBin { from, to, labels, macro_f1 }
        };
        BINS.iter().enumerate().map(bin).collect()
    }

    /// Returns the metrics by frequency: mean F1 over the labels of each group that are true in at least one
    /// evaluated row. A group without such labels is left out.
    pub fn macro_f1(&self, counts: impl Iterator<Item = LabelCount> + Clone) -> Vec<(Metric, f64)> {
        let bin = |metric, holds: &dyn Fn(usize) -> bool| {
            let tally = Tally::over(counts.clone().enumerate().filter(|&(l, _)| holds(l)).map(|(_, c)| c));
            (!tally.nothing_present()).then(|| (metric, tally.macro_f1_present()))
        };
        let band = |metric, band| bin(metric, &|label| self.band(label) == Some(band));
        let under = |metric, limit| bin(metric, &|label| (1..limit).contains(&self.positives[label]));
        [
            band(Metric::MacroF1Head, Band::Head),
            band(Metric::MacroF1Torso, Band::Torso),
            band(Metric::MacroF1Tail, Band::Tail),
            under(Metric::MacroF1Under5, 5),
            under(Metric::MacroF1Under10, 10),
            under(Metric::MacroF1Under100, 100),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_holds_half_of_the_positives_and_tail_the_last_tenth() {
        use Band::{Head, Tail, Torso};
        let frequencies = LabelFrequencies::new(vec![1, 50, 30, 10, 9, 0]);
        let bands: Vec<_> = (0..6).map(|label| frequencies.band(label)).collect();
        assert_eq!(bands, [Some(Tail), Some(Head), Some(Torso), Some(Torso), Some(Tail), None]);
    }

    #[test]
    fn labels_of_equal_frequency_are_in_the_same_group() {
        let frequencies = LabelFrequencies::new(vec![7; 4]);
        assert!((0..4).all(|label| frequencies.band(label) == Some(Band::Head)));
        assert_eq!(LabelFrequencies::new(vec![0, 0]).band(1), None);
    }

    #[test]
    fn absent_labels_do_not_count_and_empty_groups_are_left_out() {
        let frequencies = LabelFrequencies::new(vec![200, 4, 3, 0]);
        let counts = [(2, 4, 4), (1, 1, 1), (0, 3, 0), (0, 0, 5)].map(|(tp, predicted, actual)| LabelCount {
            tp,
            predicted,
            actual,
        });
        assert_eq!(
            frequencies.macro_f1(counts.into_iter()),
            [
                (Metric::MacroF1Head, 0.5),
                (Metric::MacroF1Tail, 1.0),
                (Metric::MacroF1Under5, 1.0),
                (Metric::MacroF1Under10, 1.0),
                (Metric::MacroF1Under100, 1.0),
            ]
        );
    }
}
