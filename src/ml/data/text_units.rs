//! The pieces of a text that become features: words, n-grams of words, or n-grams of characters within words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::vectorise::VectoriseOptions;

/// The longest n-gram.
const LONGEST: u8 = 10;

/// What n-grams are made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TextUnit {
    #[default]
    Words,
    /// Characters of one word, with a blank before and after it.
    Characters,
}

/// What words of digits alone become.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Numbers {
    #[default]
    Keep,
    /// They are left out.
    Drop,
    /// All of them become the same word, `0`.
    Merge,
}

/// The shortest and the longest n-gram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct NgramRange(pub [u8; 2]);

impl Default for NgramRange {
    fn default() -> Self {
        Self([1, 1])
    }
}

impl NgramRange {
    /// Returns what is wrong with the range.
    pub(super) fn issue(self) -> Option<String> {
        let Self([least, most]) = self;
        let is_right = (1..=most).contains(&least) && most <= LONGEST;
        (!is_right).then(|| {
            format!("must be two numbers from 1 to {LONGEST} in ascending order, for example `[1, 2]`")
        })
    }

    fn sizes(self) -> impl Iterator<Item = usize> {
        let Self([least, most]) = self;
        (least..=most).map(usize::from)
    }
}

/// Returns whether a character can be part of a word.
fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the characters that can be part of a word, as ranges from the first to the last, for programs in other languages, whose lists
/// of letters differ.
pub fn word_characters() -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for code in ('\0'..=char::MAX).filter(|&character| is_of_word(character)).map(u32::from) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == code => *last = code,
            _ => ranges.push((code, code)),
        }
    }
    ranges
}

/// The words of a text that are kept, separated by single blanks. Every word has a blank before and after it.
pub(super) struct TextUnits {
    text: String,
    /// The start and the end of each word.
    words: Vec<(usize, usize)>,
}

impl TextUnits {
    /// Finds the words of a text. A word is a run of at least two letters, digits and underscores.
    pub(super) fn of(text: &str, options: &VectoriseOptions) -> Self {
        let mut units = Self { text: String::with_capacity(text.len() + 2), words: Vec::new() };
        units.text.push(' ');
        for word in text.split(|c: char| !is_of_word(c)) {
            if word.chars().nth(1).is_some() {
                units.push(word, options);
            }
        }
        units
    }

    fn push(&mut self, word: &str, options: &VectoriseOptions) {
        let is_number = options.numbers != Numbers::Keep && word.chars().all(char::is_numeric);
        if is_number && options.numbers == Numbers::Drop {
            return;
        }
        let start = self.text.len();
        if is_number {
            self.text.push('0');
        } else if !options.lowercase {
            self.text.push_str(word);
        } else if word.is_ascii() {
            self.text.extend(word.chars().map(|c| c.to_ascii_lowercase()));
        } else {
            self.text.push_str(&word.to_lowercase());
        }
        if options.stop_words.contains(&self.text[start..]) {
            self.text.truncate(start);
            return;
        }
        self.words.push((start, self.text.len()));
        self.text.push(' ');
    }

    /// Calls `visit` with every n-gram.
    pub(super) fn visit(&self, options: &VectoriseOptions, mut visit: impl FnMut(&str)) {
        match options.unit {
            TextUnit::Words => {
                for size in options.ngrams.sizes() {
                    for words in self.words.windows(size) {
                        visit(&self.text[words[0].0..words[size - 1].1]);
                    }
                }
            }
            TextUnit::Characters => {
                for &(start, end) in &self.words {
                    visit_characters(&self.text[start - 1..end + 1], options.ngrams, &mut visit);
                }
            }
        }
    }
}

/// Calls `visit` with every n-gram of the characters of a word.
fn visit_characters(word: &str, ngrams: NgramRange, visit: &mut impl FnMut(&str)) {
    let starts: Vec<usize> = word.char_indices().map(|(start, _)| start).chain([word.len()]).collect();
    for size in ngrams.sizes() {
        for ngram in starts.windows(size + 1) {
            visit(&word[ngram[0]..ngram[size]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str, options: &str) -> Vec<String> {
        let options: VectoriseOptions = serde_yaml::from_str(options).unwrap();
        let mut found = Vec::new();
        TextUnits::of(text, &options).visit(&options, |unit| found.push(unit.to_owned()));
        found
    }

    #[test]
    fn words_have_two_characters_and_no_case() {
        assert_eq!(units("A Cat, x_y: ÄRGER 42!", "{}"), ["cat", "x_y", "ärger", "42"]);
        assert_eq!(units("A Cat ÄRGER", "{ lowercase: false }"), ["Cat", "ÄRGER"]);
        assert_eq!(units("", "{ ngrams: [1, 3] }"), [""; 0]);
    }

    #[test]
    fn the_ranges_of_word_characters_are_those_of_words() {
        let ranges = word_characters();
        assert_eq!(ranges[..4], [(48, 57), (65, 90), (95, 95), (97, 122)]);
        let is_listed = |c: char| ranges.iter().any(|&(first, last)| (first..=last).contains(&u32::from(c)));
        for (c, expected) in
            [('ß', true), ('™', false), ('\u{24b6}', true), ('\u{93f}', true), ('\u{301}', false)]
        {
            assert_eq!(is_listed(c), expected, "{c:?}");
            assert_eq!(units(&format!("a{c}"), "{}").len(), usize::from(expected), "{c:?}");
        }
    }

    #[test]
    fn n_grams_of_words_are_formed_without_stop_words() {
        let options = "{ ngrams: [1, 2], stop_words: [of, the] }";
        assert_eq!(
            units("The end of the road", options),
            ["end", "road", "end road"],
            "a stop word has no case either"
        );
        assert_eq!(units("one two", "{ ngrams: [3, 3] }"), [""; 0]);
    }

    #[test]
    fn n_grams_of_characters_stay_within_a_word() {
        let options = "{ unit: characters, ngrams: [3, 4] }";
        assert_eq!(units("née ox", options), [" né", "née", "ée ", " née", "née ", " ox", "ox ", " ox "]);
    }

    #[test]
    fn numbers_are_kept_dropped_or_merged() {
        assert_eq!(units("in 1984 or 2001 a4", "{}"), ["in", "1984", "or", "2001", "a4"]);
        assert_eq!(units("in 1984 or 2001 a4", "{ numbers: drop }"), ["in", "or", "a4"]);
        assert_eq!(units("in 1984 or 2001 a4", "{ numbers: merge }"), ["in", "0", "or", "0", "a4"]);
    }
}
