//! Turns new rows into the features that a model was trained on, one row at a time.

use std::path::Path;

use super::attributes::{KnownAttributes, ValueMeaning};
use super::csr::Csr;
use super::error::DataError;
use super::split_data::SplitData;
use super::transform::{Transform, VOCABULARY};
use super::vectorise::Vectoriser;
use crate::label_finder::is_whole_number;
use pipe_core::suggest::closest;

/// The features of a row and their values, with the features in ascending order.
pub type EncodedRow = (Vec<u32>, Vec<f32>);

/// The kind of rows that a model was trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowContent {
    Texts,
    /// Numbers of features with their values.
    Sparse,
    /// A value for every feature.
    Dense,
}

/// A row that is not encoded yet.
#[derive(Debug, Clone, PartialEq)]
pub enum NewRow {
    Text(String),
    /// Features, numbered as in the source, and their values, in any order.
    Sparse(Vec<(u32, f32)>),
    /// Attributes or features, by their names, and their values, in any order.
    Named(Vec<(String, NamedValue)>),
    Dense(Vec<f32>),
}

/// The value of an attribute or a feature that is given by its name.
#[derive(Debug, Clone, PartialEq)]
pub enum NamedValue {
    Number(f32),
    /// A nominal value.
    Nominal(String),
}

/// Turns new rows into the features of a data set.
pub struct RowEncoder {
    transform: Transform,
    vectoriser: Option<Vectoriser>,
    dense: bool,
    /// The number of features of the source.
    source_features: usize,
    features: usize,
    /// The number of the first feature of the source, if the source numbers its features.
    first_feature: Option<u32>,
    /// The names of the features, if they have names.
    attributes: Option<KnownAttributes>,
}

impl RowEncoder {
    /// Opens the transformation in the directory of a data set.
    pub fn open(dataset: &Path, data: &SplitData) -> Result<Self, DataError> {
        let meta = data.meta();
        let transform = Transform::open(dataset, meta)?;
        let vocabulary = dataset.join(VOCABULARY);
        let vectoriser = vocabulary.is_file().then(|| Vectoriser::load(&vocabulary)).transpose()?;
        if vectoriser.as_ref().is_some_and(|fitted| fitted.words().len() as u64 != meta.features_before) {
            return Err(DataError::artifact(&vocabulary, "it has not one word for each feature"));
        }
        let numbered = meta.report.format.has_index_base();
        let attributes = match vectoriser {
            None => KnownAttributes::open(dataset, data, transform.kept.as_deref())?,
            Some(_) => None,
        };
        Ok(Self {
            transform,
            vectoriser,
            dense: meta.dense,
            source_features: meta.features_before as usize,
            features: meta.features as usize,
            first_feature: numbered.then_some(meta.report.feature_base.first),
            attributes,
        })
    }

    /// Returns the kind of rows that can be encoded.
    pub fn content(&self) -> RowContent {
        match (&self.vectoriser, self.dense) {
            (Some(_), _) => RowContent::Texts,
            (None, true) => RowContent::Dense,
            (None, false) => RowContent::Sparse,
        }
    }

    /// Returns the number of features of a row before it is encoded.
    pub fn source_features(&self) -> usize {
        self.source_features
    }

    /// Returns the number of the first feature of the source, if the source numbers its features.
    pub fn first_feature(&self) -> Option<u32> {
        self.first_feature
    }

    /// Returns the attributes that are known by name; `None` if features have numbers only, or are words.
    pub fn attributes(&self) -> Option<&KnownAttributes> {
        self.attributes.as_ref()
    }

    /// Encodes a row whose features are counted from `first`. The error says what is wrong with the row.
    pub fn encode(&self, row: &NewRow, first: u32) -> Result<EncodedRow, String> {
        match (row, self.content()) {
            (NewRow::Text(text), RowContent::Texts) => Ok(self.text(text)),
            (NewRow::Sparse(entries), RowContent::Sparse) if self.numbers_are_names() => {
                let named = |&(number, value): &(u32, f32)| (number.to_string(), NamedValue::Number(value));
                self.named_entries(&entries.iter().map(named).collect::<Vec<_>>(), first)
            }
            (NewRow::Sparse(entries), RowContent::Sparse) => self.sparse_entries(entries, first),
            (NewRow::Named(entries), RowContent::Sparse) => self.named_entries(entries, first),
            (NewRow::Dense(values), RowContent::Dense) => {
                if values.len() != self.source_features {
                    return Err(format!(
                        "it has {} numbers instead of {}",
                        values.len(),
                        self.source_features
                    ));
                }
                if values.iter().any(|value| !value.is_finite()) {
                    return Err("a number is beyond the range of 32-bit floats".to_owned());
                }
                Ok(self.dense(values))
            }
            (_, RowContent::Texts) => Err("the model needs a text".to_owned()),
            (_, RowContent::Sparse) => {
                let what = if self.attributes.is_some() { "names" } else { "numbers" };
                Err(format!("the model needs {what} of features with their values"))
            }
            (_, RowContent::Dense) => {
                Err(format!("the model needs a list of {} numbers", self.source_features))
            }
        }
    }

    /// Puts encoded rows into a matrix.
    pub fn matrix<'a>(&self, rows: impl Iterator<Item = &'a EncodedRow>) -> Csr {
        let (mut indptr, mut indices, mut values) = (vec![0u64], Vec::new(), Vec::new());
        for (columns, entries) in rows {
            indices.extend_from_slice(columns);
            values.extend_from_slice(entries);
            indptr.push(indices.len() as u64);
        }
        Csr { cols: self.features, indptr: indptr.into(), indices: indices.into(), values: values.into() }
    }

    /// Encodes a text. Without a vocabulary, it has no features.
    pub(super) fn text(&self, text: &str) -> EncodedRow {
        let (columns, values) =
            self.vectoriser.as_ref().map(|fitted| fitted.transform(text)).unwrap_or_default();
        self.sparse(columns, values)
    }

    /// Encodes a sparse row, whose features are numbered from 0 in the order of the source.
    pub(super) fn sparse(&self, mut columns: Vec<u32>, mut values: Vec<f32>) -> EncodedRow {
        self.transform.apply(&mut columns, &mut values);
        (columns, values)
    }

    /// Encodes a dense row, with a value for every feature of the source.
    pub(super) fn dense(&self, values: &[f32]) -> EncodedRow {
        let (columns, values) = (0..).zip(values.iter().copied()).filter(|(_, value)| *value != 0.0).unzip();
        self.sparse(columns, values)
    }

    /// Encodes features that are given by name or by number. The rule is that of [`crate::label_finder`].
    fn named_entries(&self, entries: &[(String, NamedValue)], first: u32) -> Result<EncodedRow, String> {
        let mut numbered = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            numbered.extend(self.named_entry(name, value, first)?);
        }
        self.sparse_entries(&numbered, first)
    }

    /// Returns the number and the value of the feature that an entry is about; `None` if the data set keeps no feature for it.
    fn named_entry(&self, name: &str, value: &NamedValue, first: u32) -> Result<Option<(u32, f32)>, String> {
        let known = self.attributes.as_ref();
        let number = name.parse().ok().filter(|_| is_whole_number(name) && !self.numbers_are_names());
        match (value, known.and_then(|known| known.feature(name)), known) {
            (NamedValue::Number(value), Some(feature), _) => Ok(Some((feature + first, *value))),
            (NamedValue::Nominal(value), _, Some(known)) if known.is_nominal(name) => {
                match known.nominal(name, value) {
                    ValueMeaning::Entry(feature, value) => Ok(Some((feature + first, value))),
                    ValueMeaning::LeftOut => Ok(None),
                    ValueMeaning::Unknown => Err(format!("the attribute `{name}` has no value `{value}`")),
                }
            }
            (NamedValue::Number(_), None, Some(known)) if known.is_nominal(name) => {
                Err(format!("the attribute `{name}` needs one of its nominal values, as a text"))
            }
            (NamedValue::Number(value), None, _) if number.is_some() => {
                Ok(number.map(|number| (number, *value)))
            }
            (NamedValue::Nominal(_), Some(_), _) => Err(format!("the value of `{name}` is not a number")),
            (NamedValue::Nominal(_), None, _) if number.is_some() => {
                Err(format!("the value of feature {name} is not a number"))
            }
            (_, None, None) => {
                Err(format!("there is no feature `{name}`: the features of the model have numbers, no names"))
            }
            (_, None, Some(known)) => {
                let hint = closest(name, known.attributes().map(|(name, _)| name))
                    .map(|name| format!(": did you mean `{name}`?"));
                Err(format!("there is no feature `{name}`{}", hint.unwrap_or_default()))
            }
        }
    }

    /// Returns whether a whole number is the name of a feature, and never its number.
    fn numbers_are_names(&self) -> bool {
        self.attributes.as_ref().is_some_and(|known| known.numbers_are_names)
    }

    /// Encodes numbered features in any order, with the rules of LIBSVM text: zeros are left out.
    fn sparse_entries(&self, entries: &[(u32, f32)], first: u32) -> Result<EncodedRow, String> {
        let last = self.source_features as u64 + u64::from(first);
        let mut row: Vec<(u32, f32)> = Vec::with_capacity(entries.len());
        for &(feature, value) in entries {
            if feature < first || u64::from(feature) >= last {
                let last = last.saturating_sub(1);
                return Err(format!("there is no feature {feature}: the features are {first} to {last}"));
            }
            if !value.is_finite() {
                return Err(format!("the value of feature {feature} is beyond the range of 32-bit floats"));
            }
            row.push((feature - first, value));
        }
        row.sort_unstable_by_key(|&(column, _)| column);
        if let Some(twice) = row.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("the feature {} occurs twice", twice[0].0 + first));
        }
        let (columns, values) = row.into_iter().filter(|&(_, value)| value != 0.0).unzip();
        Ok(self.sparse(columns, values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::prepare::{Preparation, prepare};
    use crate::data::read::read;
    use crate::data::source::{DataSource, NominalEncoding, RawData, ReadOptions};
    use crate::data::vectorise::VectoriseOptions;

    fn encoder(vectoriser: Option<Vectoriser>, dense: bool) -> RowEncoder {
        let transform = Transform { kept: (!dense).then(|| vec![0, 2]), l2: true, ..Transform::default() };
        let (source_features, features) = if dense { (3, 3) } else { (3, 2) };
        let first_feature = Some(1);
        RowEncoder {
            transform,
            vectoriser,
            dense,
            source_features,
            features,
            first_feature,
            attributes: None,
        }
    }

    fn message(encoder: &RowEncoder, row: NewRow) -> String {
        encoder.encode(&row, 1).unwrap_err()
    }

    #[test]
    fn a_sparse_row_may_have_any_order_but_no_unknown_and_no_repeated_feature() {
        let encoder = encoder(None, false);
        let row = NewRow::Sparse(vec![(3, 4.0), (2, 1.0), (1, 3.0)]);
        assert_eq!(encoder.encode(&row, 1), Ok((vec![0, 1], vec![0.6, 0.8])));
        assert_eq!(encoder.encode(&NewRow::Sparse(vec![]), 1), Ok((vec![], vec![])));
        let zero = NewRow::Sparse(vec![(1, 0.0), (3, 2.0)]);
        assert_eq!(encoder.encode(&zero, 1), Ok((vec![1], vec![1.0])), "zeros are left out");
        let refused = |entries: &[(u32, f32)]| message(&encoder, NewRow::Sparse(entries.to_vec()));
        assert_eq!(refused(&[(0, 1.0)]), "there is no feature 0: the features are 1 to 3");
        assert_eq!(refused(&[(4, 1.0)]), "there is no feature 4: the features are 1 to 3");
        assert_eq!(refused(&[(2, 1.0), (1, 1.0), (2, 2.0)]), "the feature 2 occurs twice");
        assert!(refused(&[(1, f32::INFINITY)]).contains("beyond the range"));
    }

    #[test]
    fn features_with_names_are_given_by_name() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("x.arff");
        let text = "@relation 'x: -C 1'\n@attribute l {0,1}\n@attribute size numeric\n@attribute sex {f,m}\n@attribute colour \
                    {red,green,blue}\n@data\n1,2,m,red\n0,1,f,green\n";
        std::fs::write(&file, text).unwrap();
        let options = ReadOptions { nominal: Some(NominalEncoding::OneHot), ..ReadOptions::default() };
        let raw = read(&DataSource::file(&file), &options, &temp.path().join("raw"), 1).unwrap();
        let RawData::Set(raw) = raw else { panic!("not numbers") };
        let dataset = temp.path().join("dataset");
        let data = prepare(&raw, &Preparation::default(), &dataset).unwrap();
        let encoder = RowEncoder::open(&dataset, &data).unwrap();
        let number = |name: &str, value| (name.to_owned(), NamedValue::Number(value));
        let nominal = |name: &str, value: &str| (name.to_owned(), NamedValue::Nominal(value.to_owned()));
        let encode = |row: Vec<(String, NamedValue)>| encoder.encode(&NewRow::Named(row), 0);
        let row = vec![nominal("colour", "blue"), number("size", 3.0), nominal("sex", "m")];
        assert_eq!(encode(row), Ok((vec![0, 1, 4], vec![3.0, 1.0, 1.0])));
        assert_eq!(
            encode(vec![number("colour=red", 1.0), number("0", 2.0)]),
            Ok((vec![0, 2], vec![2.0, 1.0]))
        );
        for (wrong, expected) in [
            (nominal("sex", "x"), "the attribute `sex` has no value `x`"),
            (number("colour", 1.0), "the attribute `colour` needs one of its nominal values"),
            (number("sze", 1.0), "there is no feature `sze`: did you mean `size`?"),
            (nominal("size", "m"), "the value of `size` is not a number"),
            (number("9", 1.0), "there is no feature 9: the features are 0 to 4"),
        ] {
            let error = encode(vec![wrong]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let known: Vec<_> = encoder
            .attributes()
            .unwrap()
            .attributes()
            .map(|(name, values)| (name, values.map(<[_]>::len)))
            .collect();
        assert_eq!(known, [("size", None), ("colour", Some(3)), ("sex", Some(2))]);
    }

    #[test]
    fn a_row_of_another_kind_is_refused() {
        let (sparse, dense) = (encoder(None, false), encoder(None, true));
        let words = Vectoriser::fit(&["a cat or dog".to_owned()], &[0], &VectoriseOptions::default());
        let texts = encoder(Some(words), false);
        assert!(message(&sparse, NewRow::Text("x".into())).contains("numbers of features"));
        assert!(message(&dense, NewRow::Sparse(vec![])).contains("a list of 3 numbers"));
        assert!(message(&texts, NewRow::Dense(vec![1.0])).contains("needs a text"));
        assert!(message(&dense, NewRow::Dense(vec![1.0])).contains("1 numbers instead of 3"));
        assert_eq!(texts.encode(&NewRow::Text("the cat".into()), 0), Ok((vec![0], vec![1.0])));
        let row = NewRow::Dense(vec![0.0, 3.0, 4.0]);
        assert_eq!(dense.encode(&row, 0), Ok((vec![1, 2], vec![0.6, 0.8])));
    }
}
