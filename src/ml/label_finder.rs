//! Which label is meant by a text or a number. One rule for predictions of other programs, `pipe explain` and `pipe serve`:
//!
//! 1. If a label has this name, it is meant.
//! 2. Otherwise, a whole number is the number of a label, counted from 0, but only if no label of the data set has a whole number as its
//!    name: then nothing can mean two labels.

use std::collections::HashMap;

use pipe_core::escape::terminal;
use pipe_core::suggest::closest;

/// Finds labels by their names or numbers.
pub struct LabelFinder<'a> {
    /// The number of labels.
    count: usize,
    /// `None` for a name that several labels have.
    by_name: HashMap<&'a str, Option<u32>>,
    /// Whether labels can be given by number.
    by_number: bool,
}

impl<'a> LabelFinder<'a> {
    /// Creates a finder for `count` labels, which have names or not.
    pub fn new(names: Option<&'a [String]>, count: usize) -> Self {
        let names = names.unwrap_or_default();
        let mut by_name: HashMap<&str, Option<u32>> = HashMap::with_capacity(names.len());
        for (label, name) in (0..).zip(names) {
            by_name.entry(name).and_modify(|known| *known = None).or_insert(Some(label));
        }
        let by_number = !names.iter().any(|name| is_whole_number(name));
        Self { count, by_name, by_number }
    }

    /// Returns the number of the label that a text means. The error says why it means none.
    pub fn find(&self, text: &str) -> Result<u32, String> {
        let named = self.by_name.get(text);
        let shown = terminal(text);
        if let Some(label) = named {
            return label.ok_or_else(|| format!("several labels are called `{shown}`"));
        }
        match text.parse() {
            Ok(number) if is_whole_number(text) && self.by_number => self.check(number),
            _ if is_whole_number(text) && !self.by_number => Err(format!(
                "no label is called `{shown}`, and the labels of this data set cannot be given by number, because some of \
                 their names are numbers"
            )),
            _ if self.by_name.is_empty() => {
                Err(format!("`{shown}` is not the number of a label: the data set has no label names"))
            }
            _ => {
                let hint = closest(text, self.by_name.keys().copied());
                let hint = hint.map(|name| format!(": did you mean `{}`?", terminal(name)));
                Err(format!("no label is called `{shown}`{}", hint.unwrap_or_default()))
            }
        }
    }

    /// Returns the number of the label that a whole number means.
    pub fn find_number(&self, number: u64) -> Result<u32, String> {
        if self.by_number { self.check(number) } else { self.find(&number.to_string()) }
    }

    fn check(&self, number: u64) -> Result<u32, String> {
        let is_known = |label: &u32| (*label as usize) < self.count;
        u32::try_from(number).ok().filter(is_known).ok_or_else(|| {
            format!("there is no label {number}: the data set has {} labels, numbered from 0", self.count)
        })
    }
}

/// Returns whether a name could be taken for a number.
pub(crate) fn is_whole_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_number_is_a_name_if_any_name_is_a_number() {
        let numbers = names(&["1", "2", "cat"]);
        let finder = LabelFinder::new(Some(&numbers), 3);
        assert_eq!((finder.find("2"), finder.find_number(2)), (Ok(1), Ok(1)));
        assert_eq!(finder.find("cat"), Ok(2));
        for error in [finder.find("0"), finder.find_number(0)] {
            assert!(error.unwrap_err().contains("cannot be given by number"));
        }
    }

    #[test]
    fn a_number_is_the_number_of_a_label_otherwise() {
        let words = names(&["cat", "dog"]);
        let finder = LabelFinder::new(Some(&words), 2);
        assert_eq!((finder.find("1"), finder.find_number(1), finder.find("dog")), (Ok(1), Ok(1), Ok(1)));
        assert!(finder.find_number(2).unwrap_err().contains("the data set has 2 labels, numbered from 0"));
        assert_eq!(finder.find("dgo").unwrap_err(), "no label is called `dgo`: did you mean `dog`?");
        let unnamed = LabelFinder::new(None, 2);
        assert_eq!(unnamed.find("1"), Ok(1));
        assert!(unnamed.find("cat").unwrap_err().contains("the data set has no label names"));
    }
}
