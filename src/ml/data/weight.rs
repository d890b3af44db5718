//! Feature weights. What is fitted (inverse document frequencies, means and deviations) comes from the training rows only.

use std::borrow::Cow;

use pipe_core::issue::Issue;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::auto_weight;
use super::csr::Features;
use super::transform::{Standardisation, Transform};

/// How features are weighted. The steps are applied in the order of the fields, `l2` after features were filtered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Weight {
    /// Replace a value x by ln(1 + |x|), with the sign of x.
    #[serde(skip_serializing_if = "is_false")]
    pub log: bool,
    /// Multiply values by the inverse document frequency.
    pub tf_idf: bool,
    /// Subtract the mean of each feature, and divide by its standard deviation. Rows are dense afterwards.
    #[serde(skip_serializing_if = "is_false")]
    pub standardise: bool,
    /// Replace values above this number by it, and values below its negative by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f32>,
    /// Scale every row to length one.
    pub l2: bool,
}

// The signature is that of `skip_serializing_if`.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !value
}

/// How features are weighted, as a user writes it: `auto`, or the steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WeightChoice {
    /// By what the training rows contain.
    Auto,
    Given(Weight),
}

impl Default for WeightChoice {
    fn default() -> Self {
        Self::Given(Weight::default())
    }
}

impl WeightChoice {
    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let Self::Given(weight) = self else { return Vec::new() };
        let mut issues = Vec::new();
        if weight.clip.is_some_and(|bound| !(bound > 0.0 && bound.is_finite())) {
            issues.push(Issue::new("clip", "must be above 0"));
        }
        if weight.tf_idf && weight.standardise {
            let message = "dividing by the deviation undoes `tf_idf`: use one of them";
            issues.push(Issue::new("standardise", message));
        }
        issues
    }

    /// Returns the steps, and why they were chosen if the user did not. Only training rows are looked at.
    pub fn resolve(self, features: &Features, train: &[u32]) -> (Weight, Option<String>) {
        match self {
            Self::Auto => {
                let (weight, reason) = auto_weight::choose(features, train);
                (weight, Some(reason))
            }
            Self::Given(weight) => (weight, None),
        }
    }
}

impl Serialize for WeightChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Given(weight) => weight.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for WeightChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WeightChoiceVisitor)
    }
}

struct WeightChoiceVisitor;

impl<'de> Visitor<'de> for WeightChoiceVisitor {
    type Value = WeightChoice;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("`auto`, or a map such as `{ tf_idf: true, l2: true }`")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<WeightChoice, E> {
        match word {
            "auto" => Ok(WeightChoice::Auto),
            other => Err(E::custom(format!("`{other}` has no meaning here; write `auto` or a map"))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WeightChoice, A::Error> {
        Weight::deserialize(MapAccessDeserializer::new(map)).map(WeightChoice::Given)
    }
}

impl JsonSchema for WeightChoice {
    fn schema_name() -> Cow<'static, str> {
        "WeightChoice".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "enum": ["auto"] }, generator.subschema_for::<Weight>()] })
    }
}

impl Weight {
    /// Fits the steps on training rows. All features are kept.
    pub(super) fn fit(self, features: &Features, train: &[u32]) -> Transform {
        let mut transform = Transform { log: self.log, ..Transform::default() };
        if self.tf_idf {
            let counts = features.column_counts(train);
            transform.idf = Some(idf(&counts, train.len() as u64));
        }
        if self.standardise {
            transform.standardise = Some(Standardisation::fit(&transform, features, train));
        }
        Transform { clip: self.clip, l2: self.l2, ..transform }
    }

    /// Returns the steps in words.
    pub fn describe(self) -> String {
        let mut steps = Vec::new();
        steps.extend(self.log.then(|| "log".to_owned()));
        steps.extend(self.tf_idf.then(|| "tf_idf".to_owned()));
        steps.extend(self.standardise.then(|| "standardise".to_owned()));
        steps.extend(self.clip.map(|bound| format!("clip {bound}")));
        steps.extend(self.l2.then(|| "l2".to_owned()));
        if steps.is_empty() { "unchanged".to_owned() } else { steps.join(", ") }
    }
}

/// Returns ln((1 + rows) / (1 + df)) + 1 for each feature.
pub fn idf(document_frequencies: &[u64], rows: u64) -> Vec<f32> {
    document_frequencies.iter().map(|&df| (((1 + rows) as f64 / (1 + df) as f64).ln() + 1.0) as f32).collect()
}

/// Scales a row to length one. A row of zeros is not changed.
pub(crate) fn normalise(values: &mut [f32]) {
    let square: f64 = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
    if square > 0.0 {
        let scale = 1.0 / square.sqrt();
        for value in values {
            *value = (f64::from(*value) * scale) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::csr::DenseMatrix;
    use super::super::test_matrix::ones;
    use super::*;

    #[test]
    fn weights_follow_the_formula_with_document_frequencies_of_the_training_rows() {
        let features = Features::Sparse(ones(3, &[vec![0, 1], vec![0], vec![1, 2]]));
        let transform = Weight { tf_idf: true, ..Weight::default() }.fit(&features, &[0, 1]);
        let (mut columns, mut values) = (vec![0, 1, 2], vec![2.0, 2.0, 2.0]);
        transform.apply(&mut columns, &mut values);
        let expected = [2.0 * (1.0f64.ln() + 1.0), 2.0 * (1.5f64.ln() + 1.0), 2.0 * (3.0f64.ln() + 1.0)];
        assert_eq!(values, expected.map(|value| value as f32));
    }

    #[test]
    fn rows_are_scaled_to_length_one_and_zeros_are_not_changed() {
        let mut values = [3.0, 4.0];
        normalise(&mut values);
        assert_eq!(values, [0.6, 0.8]);
        let mut zeros = [0.0, 0.0];
        normalise(&mut zeros);
        assert_eq!(zeros, [0.0, 0.0]);
    }

    #[test]
    fn standardised_features_have_mean_zero_and_deviation_one_in_the_training_rows() {
        let values = vec![1.0, 5.0, 0.0, 3.0, 5.0, 0.0, 8.0, 5.0, -2.0, 100.0, 7.0, 9.0];
        let dense = Features::Dense(DenseMatrix { rows: 4, cols: 3, values: values.into() });
        let weight = Weight { standardise: true, ..Weight::default() };
        let transform = weight.fit(&dense, &[0, 1, 2]);
        let mut rows = [[1.0, 5.0, 0.0], [3.0, 5.0, 0.0], [8.0, 5.0, -2.0], [100.0, 7.0, 9.0]];
        for row in &mut rows {
            transform.apply_dense(row);
        }
        for column in [0, 2] {
            let mean: f32 = rows[..3].iter().map(|row| row[column]).sum::<f32>() / 3.0;
            let square: f32 = rows[..3].iter().map(|row| row[column] * row[column]).sum::<f32>() / 3.0;
            assert!(mean.abs() < 1e-6 && (square - 1.0).abs() < 1e-6, "{rows:?}");
        }
        assert_eq!(rows.map(|row| row[1]), [0.0; 4], "a feature that is constant says nothing");
        assert!(rows[3][0] > 10.0);
        let clipped = Weight { clip: Some(3.0), ..weight }.fit(&dense, &[0, 1, 2]);
        let mut row = [100.0, 5.0, -100.0];
        clipped.apply_dense(&mut row);
        assert_eq!(row, [3.0, 0.0, -3.0]);
    }

    #[test]
    fn a_sparse_row_is_standardised_like_the_same_dense_row() {
        let rows = [vec![1.0, 0.0, 2.5], vec![0.0, 0.0, -1.0], vec![4.0, 3.0, 0.0]];
        let dense = Features::Dense(DenseMatrix { rows: 3, cols: 3, values: rows.concat().into() });
        let sparse = Features::Sparse(crate::data::dataset_part::sparse(dense.clone()));
        for weight in [
            Weight { standardise: true, ..Weight::default() },
            Weight { log: true, standardise: true, clip: Some(1.0), l2: true, ..Weight::default() },
            Weight { log: true, tf_idf: true, l2: true, ..Weight::default() },
        ] {
            let (one, other) = (weight.fit(&dense, &[0, 1, 2]), weight.fit(&sparse, &[0, 1, 2]));
            assert_eq!(one, other, "{weight:?}");
            for row in &rows {
                let mut values = row.clone();
                one.apply_dense(&mut values);
                let entries = row.iter().copied().zip(0u32..).filter(|(value, _)| *value != 0.0);
                let (mut entries, mut columns): (Vec<f32>, Vec<u32>) = entries.unzip();
                other.apply(&mut columns, &mut entries);
                let mut back = vec![0.0; 3];
                for (&column, &value) in columns.iter().zip(&entries) {
                    back[column as usize] = value;
                }
                assert_eq!(values, back, "{weight:?}");
            }
        }
    }

    #[test]
    fn steps_that_are_not_set_are_not_stored() {
        let text = serde_json::to_string(&WeightChoice::Given(Weight {
            tf_idf: true,
            l2: true,
            ..Weight::default()
        }));
        assert_eq!(text.unwrap(), r#"{"tf_idf":true,"l2":true}"#);
        let read = |text: &str| serde_yaml::from_str::<WeightChoice>(text).map_err(|error| error.to_string());
        assert_eq!(read("auto"), Ok(WeightChoice::Auto));
        assert_eq!(
            read("{ clip: 3 }"),
            Ok(WeightChoice::Given(Weight { clip: Some(3.0), ..Weight::default() }))
        );
        assert!(read("automatic").unwrap_err().contains("write `auto` or a map"));
        assert!(read("{ tfidf: true }").unwrap_err().contains("unknown field `tfidf`"));
    }
}
