//! Draws the words of rows: some depend on the labels and the topic of the row, the others are common words.

use super::super::random::{Random, Streams};
use super::super::weight::normalise;
use super::alias::AliasTable;

/// The number of words that each label and each topic has of its own.
const OWN_WORDS: usize = 64;
/// The share of the words that come from a label, among those that are not common words. The others come from the topic.
const LABEL_SHARE: f64 = 0.75;
/// The number of attempts per word before a row takes any word.
const MAX_ATTEMPTS: usize = 16;

/// Draws the words of rows.
pub(super) struct WordModel {
    features: usize,
    mean_per_row: f64,
    /// The share of common words.
    difficulty: f64,
    topics: usize,
    labels: usize,
    /// The ranks of common words: rank r is drawn with a probability proportional to 1 / (r + 3).
    common: AliasTable,
    common_words: Vec<u32>,
    own_rank: AliasTable,
    owners: Streams,
    key: u64,
    idf: Vec<f32>,
}

/// The buffers of a thread that generates rows.
pub(super) struct RowBuffer {
    times: Vec<u16>,
    words: Vec<u32>,
    values: Vec<f32>,
}

impl WordModel {
    /// Creates the tables. `counts` are the numbers of training rows of each label.
    pub(super) fn new(
        features: usize,
        mean_per_row: f64,
        difficulty: f64,
        counts: &[u64],
        rows: usize,
        seed: u64,
    ) -> Self {
        let common_weights: Vec<f64> = (0..features).map(|rank| 1.0 / (rank as f64 + 3.0)).collect();
        let own_weights: Vec<f64> = (0..OWN_WORDS).map(|rank| 1.0 / (rank as f64 + 2.0)).collect();
        let mut words = Self {
            features,
            mean_per_row,
            difficulty,
            topics: counts.len().isqrt().max(1),
            labels: counts.len(),
            common: AliasTable::new(&common_weights),
            common_words: Random::new("common words", seed).permutation(features),
            own_rank: AliasTable::new(&own_weights),
            owners: Streams::new("rows", seed),
            key: Random::new("own words", seed).bits(),
            idf: Vec::new(),
        };
        words.idf = words.expected_idf(&common_weights, &own_weights, counts, rows);
        words
    }

    pub(super) fn buffer(&self) -> RowBuffer {
        RowBuffer { times: vec![0; self.features], words: Vec::new(), values: Vec::new() }
    }

    /// Generates the features of a row, in ascending order, and their TF-IDF values, scaled to length one. They depend only
    /// on the seed and on the number, the labels and the topic of the row.
    pub(super) fn row<'d>(
        &self,
        number: u64,
        labels: &[u32],
        topic: f32,
        buffer: &'d mut RowBuffer,
    ) -> (&'d [u32], &'d [f32]) {
        let mut random = self.owners.get(number);
        let wanted = self.length(&mut random);
        let topic = (topic * self.topics as f32) as usize;
        buffer.words.clear();
        for attempt in 0.. {
            if buffer.words.len() == wanted {
                break;
            }
            let word = if attempt < MAX_ATTEMPTS * wanted {
                self.draw(labels, topic, &mut random)
            } else {
                random.below(self.features) as u32
            };
            let times = &mut buffer.times[word as usize];
            if *times == 0 {
                buffer.words.push(word);
            }
            *times = times.saturating_add(1);
        }
        buffer.words.sort_unstable();
        let value = |&word: &u32| {
            f32::from(std::mem::take(&mut buffer.times[word as usize])) * self.idf[word as usize]
        };
        buffer.values.clear();
        buffer.values.extend(buffer.words.iter().map(value));
        normalise(&mut buffer.values);
        (&buffer.words, &buffer.values)
    }

    /// Draws a number of words from a skewed distribution with the requested mean; at most half of all words.
    fn length(&self, random: &mut Random) -> usize {
        let skewed = 0.25 + 0.75 * 4.0 * random.unit() * random.unit();
        ((self.mean_per_row * skewed).round() as usize).clamp(1, (self.features / 2).max(1))
    }

    fn draw(&self, labels: &[u32], topic: usize, random: &mut Random) -> u32 {
        if random.unit() < self.difficulty {
            return self.common_words[self.common.draw(random)];
        }
        let owner = if !labels.is_empty() && random.unit() < LABEL_SHARE {
            labels[random.below(labels.len())] as usize
        } else {
            self.labels + topic
        };
        self.own_word(owner, self.own_rank.draw(random))
    }

    /// Returns a word of an owner. Labels and topics are numbered together as owners; two owners may share a word.
    fn own_word(&self, owner: usize, rank: usize) -> u32 {
        let mixed = mix(self.key ^ (owner * OWN_WORDS + rank) as u64);
        ((u128::from(mixed) * self.features as u128) >> 64) as u32
    }

    /// Returns ln((1 + rows) / (1 + rows with the word)) + 1 for each word. The number of rows with the word is its expected
    /// value, because counting would need every row to be generated twice.
    fn expected_idf(&self, common: &[f64], own: &[f64], counts: &[u64], rows: usize) -> Vec<f32> {
        let mut rate = vec![0.0; self.features];
        let common_sum: f64 = common.iter().sum();
        for (&word, weight) in self.common_words.iter().zip(common) {
            rate[word as usize] += self.difficulty * weight / common_sum;
        }
        let positives = counts.iter().sum::<u64>() as f64;
        let own_sum: f64 = own.iter().sum();
        let labels = counts.iter().map(|&count| LABEL_SHARE * count as f64 / positives);
        let topics = (0..self.topics).map(|_| (1.0 - LABEL_SHARE) / self.topics as f64);
        for (owner, share) in labels.chain(topics).enumerate() {
            for (rank, weight) in own.iter().enumerate() {
                rate[self.own_word(owner, rank) as usize] +=
                    (1.0 - self.difficulty) * share * weight / own_sum;
            }
        }
        let rows = rows as f64;
        let idf = |rate: &f64| {
            let with_word = rows * (1.0 - (-rate * self.mean_per_row).exp());
            (((1.0 + rows) / (1.0 + with_word)).ln() + 1.0) as f32
        };
        rate.iter().map(idf).collect()
    }
}

/// Returns the finaliser of SplitMix64: every input bit changes about half of the output bits.
fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
