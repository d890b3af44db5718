//! [`Rest`]: what a label has in every row of which it is no candidate.

/// The score and the probability that each label has in every row of which it is no candidate. They do not depend on the row.
#[derive(Debug, PartialEq)]
pub struct Rest {
    pub scores: Vec<f32>,
    /// Empty if the model gives no probabilities.
    pub probabilities: Vec<f32>,
    /// All labels, those with the highest scores first; of equal ones the lower label.
    ranked: Vec<u32>,
    /// The cross-entropy of each label if it is false; empty without probabilities.
    pub false_terms: Vec<f64>,
}

impl Rest {
    /// Ranks the labels by their scores.
    pub fn new(scores: Vec<f32>, probabilities: Vec<f32>) -> Self {
        let mut ranked: Vec<u32> = (0..scores.len() as u32).collect();
        let score = |label: u32| scores[label as usize];
        ranked.sort_unstable_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
        let false_terms = probabilities.iter().map(|&p| false_term(p)).collect();
        Self { scores, probabilities, ranked, false_terms }
    }

    /// Returns the labels that are not among some ascending ones, with their scores, best first.
    pub fn best_without<'a>(&'a self, candidates: &'a [u32]) -> impl Iterator<Item = (u32, f32)> + 'a {
        let others = self.ranked.iter().filter(|label| candidates.binary_search(label).is_err());
        others.map(|&label| (label, self.scores[label as usize]))
    }
}

/// Returns the cross-entropy of an entry with this probability if it is false.
pub fn false_term(probability: f32) -> f64 {
    -(-bounded(probability)).ln_1p()
}

/// Returns a probability that is one f32 step away from 0 and 1, the values that it may have been rounded to.
pub fn bounded(probability: f32) -> f64 {
    f64::from(probability.clamp(f32::EPSILON, 1.0 - f32::EPSILON))
}
