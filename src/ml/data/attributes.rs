//! The attributes that a model knows by name. New rows in ARFF, and rows that are sent to a served model, are matched with them.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::artifact::layout::NOMINAL_VALUES;
use super::error::DataError;
use super::split_data::SplitData;
use crate::label_finder::is_whole_number;

/// The nominal values of attributes in the order of the training file, by the names of the attributes. Attributes whose values are
/// the numbers that they spell are left out.
pub type NominalValues = BTreeMap<String, Vec<String>>;

/// How many values a message lists.
const LISTED_VALUES: usize = 5;

/// Reads the nominal values of a data set. A data set without them has none.
pub(crate) fn read_nominal_values(directory: &Path) -> Result<NominalValues, DataError> {
    let path = directory.join(NOMINAL_VALUES);
    match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(NominalValues::new()),
        Err(error) => Err(DataError::io("read", &path)(error)),
        Ok(text) => {
            serde_json::from_slice(&text).map_err(|error| DataError::artifact(&path, error.to_string()))
        }
    }
}

/// The attributes that a model knows.
pub struct KnownAttributes {
    /// The numbers that the kept features have in the source, by their names. The feature of one nominal value is named
    /// `attribute=value`.
    features: BTreeMap<String, u32>,
    values: NominalValues,
    /// Whether a whole number is the name of a feature, and therefore never its number.
    pub(super) numbers_are_names: bool,
}

/// What a nominal value becomes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ValueMeaning {
    /// A feature and its value.
    Entry(u32, f32),
    /// Nothing: the data set keeps no feature for it.
    LeftOut,
    /// The training file does not declare it.
    Unknown,
}

impl KnownAttributes {
    /// Reads the names in a data set; `None` if its features have no names. `kept` are the numbers of the kept features in the source, if
    /// some are left out.
    pub(super) fn open(
        directory: &Path,
        data: &SplitData,
        kept: Option<&[u32]>,
    ) -> Result<Option<Self>, DataError> {
        let Some(names) = data.feature_names()? else { return Ok(None) };
        let numbers_are_names = names.iter().any(|name| is_whole_number(name));
        let numbered = names.into_iter().zip(0u32..);
        let features = numbered.map(|(name, at)| (name, kept.map_or(at, |kept| kept[at as usize]))).collect();
        Ok(Some(Self { features, values: read_nominal_values(directory)?, numbers_are_names }))
    }

    /// Returns the number of the feature that has a name.
    pub(crate) fn feature(&self, name: &str) -> Option<u32> {
        self.features.get(name).copied()
    }

    /// Returns the names of the kept features.
    pub fn feature_names(&self) -> impl Iterator<Item = &str> {
        self.features.keys().map(String::as_str)
    }

    /// Returns the names by which values can be given, with the values that a nominal attribute can have.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, Option<&[String]>)> {
        let is_of_value = |name: &str| {
            let mut prefixes = name.match_indices('=').map(|(at, _)| &name[..at]);
            prefixes.any(|attribute| self.values.contains_key(attribute))
        };
        let numbers =
            self.feature_names().filter(move |name| !self.values.contains_key(*name) && !is_of_value(name));
        let nominal = self.values.iter().map(|(name, values)| (name.as_str(), Some(values.as_slice())));
        numbers.map(|name| (name, None)).chain(nominal)
    }

    /// Returns whether the nominal values of an attribute are known, or a feature stands for one of them.
    pub(crate) fn is_nominal(&self, attribute: &str) -> bool {
        self.values.contains_key(attribute) || self.has_feature_for_a_value(attribute)
    }

    /// Returns whether a feature stands for a nominal value of the attribute.
    pub(crate) fn has_feature_for_a_value(&self, attribute: &str) -> bool {
        let prefix = format!("{attribute}=");
        self.features.range(prefix.clone()..).next().is_some_and(|(name, _)| name.starts_with(&prefix))
    }

    /// Returns what a value of a nominal attribute becomes.
    pub(crate) fn nominal(&self, attribute: &str, value: &str) -> ValueMeaning {
        let values = self.values.get(attribute);
        let position = values.and_then(|values| values.iter().position(|known| known == value));
        if let Some(feature) = self.feature(attribute) {
            // The positions themselves are accepted, too.
            let count = values.map_or(0, Vec::len);
            let position = position.or_else(|| value.parse().ok().filter(|&position| position < count));
            return position
                .map_or(ValueMeaning::Unknown, |position| ValueMeaning::Entry(feature, position as f32));
        }
        match (self.feature(&format!("{attribute}={value}")), position) {
            (Some(feature), _) => ValueMeaning::Entry(feature, 1.0),
            (None, Some(_)) => ValueMeaning::LeftOut,
            (None, None) => ValueMeaning::Unknown,
        }
    }

    /// Returns the first attribute that the model needs and that a file with the attributes `found` does not have.
    pub(crate) fn missing<'a>(&'a self, found: &HashSet<&str>) -> Option<&'a str> {
        let is_found = |name: &&str| {
            let mut attributes = name.match_indices('=').map(|(at, _)| &name[..at]);
            found.contains(name) || attributes.any(|attribute| found.contains(attribute))
        };
        let missing = self.feature_names().find(|name| !is_found(name))?;
        let is_prefix = |attribute: &&String| {
            missing.strip_prefix(attribute.as_str()).is_some_and(|rest| rest.starts_with('='))
        };
        let nominal = self.values.keys().find(is_prefix).map(String::as_str);
        // Older data sets do not say which attributes are nominal.
        let presumed = || missing.split_once('=').filter(|_| self.values.is_empty()).map(|(name, _)| name);
        Some(nominal.or_else(presumed).unwrap_or(missing))
    }
}

/// How many rows have each value that a model does not know, by attribute and value.
pub(crate) type UnknownValues = BTreeMap<(String, String), u64>;

/// Returns one sentence for each attribute with unknown values.
pub(crate) fn unknown_value_warnings(unknown: &UnknownValues) -> Vec<String> {
    let mut by_attribute: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    for ((attribute, value), &rows) in unknown {
        by_attribute.entry(attribute).or_default().push((value, rows));
    }
    let mut sentences = Vec::new();
    for (attribute, mut values) in by_attribute {
        values.sort_by_key(|&(_, rows)| std::cmp::Reverse(rows));
        let rows: u64 = values.iter().map(|(_, rows)| rows).sum();
        let listed: Vec<String> =
            values.iter().take(LISTED_VALUES).map(|(value, rows)| format!("`{value}` ({rows})")).collect();
        let more = values.len().saturating_sub(LISTED_VALUES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let rows =
            if rows == 1 { "1 row has a value".to_owned() } else { format!("{rows} rows have values") };
        sentences.push(format!(
            "{rows} of the attribute `{attribute}` that the model does not know: {}{more}; such a value counts as missing",
            listed.join(", ")
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(features: &[(&str, u32)], values: &[(&str, &[&str])]) -> KnownAttributes {
        let owned = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
        KnownAttributes {
            features: features.iter().map(|&(name, number)| (name.to_owned(), number)).collect(),
            values: values.iter().map(|&(name, values)| (name.to_owned(), owned(values))).collect(),
            numbers_are_names: false,
        }
    }

    #[test]
    fn a_nominal_value_is_a_position_or_a_feature() {
        let known = known(
            &[("sex", 0), ("colour=red", 1), ("colour=blue", 3), ("a=b", 4)],
            &[("sex", &["f", "m"]), ("colour", &["red", "green", "blue"]), ("size", &["s", "l"])],
        );
        assert_eq!(known.nominal("sex", "m"), ValueMeaning::Entry(0, 1.0));
        assert_eq!(known.nominal("sex", "0"), ValueMeaning::Entry(0, 0.0), "the position");
        assert_eq!(known.nominal("sex", "2"), ValueMeaning::Unknown);
        assert_eq!(known.nominal("colour", "blue"), ValueMeaning::Entry(3, 1.0));
        assert_eq!(known.nominal("colour", "green"), ValueMeaning::LeftOut, "by a filter");
        assert_eq!(known.nominal("colour", "pink"), ValueMeaning::Unknown);
        assert_eq!(known.nominal("size", "l"), ValueMeaning::LeftOut);
        assert!(known.is_nominal("colour") && known.is_nominal("size") && !known.is_nominal("a=b"));
        let missing = |found: &[&str]| known.missing(&found.iter().copied().collect()).map(str::to_owned);
        assert_eq!(missing(&["sex", "colour", "a=b"]), None);
        assert_eq!(missing(&["sex", "a=b"]).unwrap(), "colour");
        assert_eq!(missing(&["sex", "colour"]).unwrap(), "a=b");
    }

    #[test]
    fn unknown_values_are_one_sentence_for_each_attribute() {
        let mut unknown = UnknownValues::new();
        unknown.insert(("colour".into(), "pink".into()), 1);
        assert_eq!(
            unknown_value_warnings(&unknown),
            [
                "1 row has a value of the attribute `colour` that the model does not know: `pink` (1); such a value counts as missing"
            ]
        );
        for value in 0..6 {
            unknown.insert(("size".into(), format!("v{value}")), 10 + value);
        }
        let sentences = unknown_value_warnings(&unknown);
        assert_eq!(sentences.len(), 2);
        assert!(sentences[1].starts_with("75 rows have values of the attribute `size`"), "{sentences:?}");
        assert!(
            sentences[1].contains("`v5` (15), `v4` (14)")
                && sentences[1].contains(" and 1 more; such a value counts")
        );
    }
}
