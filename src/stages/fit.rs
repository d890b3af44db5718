//! `fit`: fits a model on the training rows, and scores each of those rows without using its own labels. These are its
//! parameters; `pipe-worker` runs it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::StageKind;
use pipe_ml::composite::Composite;
use pipe_ml::config::device::Device;
use pipe_ml::config::model::{ModelBody, ModelConfig};
use pipe_ml::data::dataset_part::FittedRows;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::score::table::ScoreTable;

/// The resolved parameters of `fit`, which are part of the key. Users write a [`FitBody`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "FitBody")]
pub struct Fit {
    pub data: StageRef,
    /// `None` for `kind: auto`.
    #[serde(serialize_with = "model_or_auto")]
    pub model: Option<ModelConfig>,
    /// The rows that the model is fitted on.
    #[serde(skip_serializing_if = "FittedRows::is_train")]
    pub part: FittedRows,
    /// The number of folds; `None` for the default of the model, which is to leave out one row at a time if there is a
    /// closed form.
    pub folds: Option<usize>,
    pub seed: u64,
    /// The number of labels per training row whose scores are kept; `None` for the default.
    pub keep: Option<usize>,
    pub device: Device,
}

/// The parameters of `fit` as a user writes them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FitBody {
    /// The data set.
    data: StageRef,
    /// The model.
    model: ModelBody,
    /// The rows to fit the model on. `all` is for the final model, after its quality was estimated; it cannot be evaluated,
    /// and the data set needs no test part. `fuse` and `threshold` use the rows that their models were fitted on.
    #[serde(default)]
    part: FittedRows,
    /// The number of folds for the scores of the training rows. By default, models with a closed form leave out one row
    /// at a time, `extra_trees` uses the trees that did not draw the row, `label_tree` uses 3 folds, and the others use 5.
    folds: Option<usize>,
    /// The seed of the folds and of the model.
    #[serde(default)]
    seed: u64,
    /// The number of labels per training row whose scores are kept. By default all if the table has at most 40 million
    /// entries, else 200.
    keep: Option<usize>,
    /// The device on which the model is fitted.
    #[serde(default)]
    device: Device,
}

fn model_or_auto<S: Serializer>(model: &Option<ModelConfig>, serializer: S) -> Result<S::Ok, S::Error> {
    match model {
        Some(model) => model.serialize(serializer),
        None => json!({ "kind": "auto" }).serialize(serializer),
    }
}

impl From<FitBody> for Fit {
    fn from(body: FitBody) -> Self {
        let model = body.model.resolve(body.seed, body.device);
        let folds = body.folds.or(model.as_ref().and_then(ModelConfig::default_folds));
        let FitBody { data, part, seed, keep, device, .. } = body;
        Self { data, model, part, folds, seed, keep, device }
    }
}

impl JsonSchema for Fit {
    fn schema_name() -> Cow<'static, str> {
        "Fit".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        FitBody::json_schema(generator)
    }
}

impl Fit {
    /// The data set with the training rows.
    pub const DATA: Slot<SplitData> = Slot::new("data");
    /// The model.
    pub const MODEL: Out<Composite> = Out::new("model", "model");
    /// The scores of the training rows.
    pub const SCORES: Out<ScoreTable> = Out::new("scores", "scores");
}

impl StageKind for Fit {
    const NAME: &'static str = "fit";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Fits a model, and scores each training row without its own label";
    const PROGRAM: Program = Program::Worker;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![Self::DATA.one(&self.data)]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::MODEL.decl(), Self::SCORES.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let model = self.model.iter().flat_map(ModelConfig::issues);
        let mut issues: Vec<_> = model.map(|issue| issue.within("model")).collect();
        if self.folds.is_some_and(|folds| folds < 2) {
            issues.push(Issue::new("folds", "at least 2 folds are needed"));
        }
        if self.keep == Some(0) {
            issues.push(Issue::new("keep", "at least 1 label per row is needed"));
        }
        issues
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::kind::Kind;
    use pipe_core::stage::KindOf;

    fn checked(yaml: &str) -> pipe_core::kind::CheckedBody {
        KindOf::<Fit>::new().check(&serde_yaml::from_str(yaml).unwrap()).unwrap()
    }

    #[test]
    fn the_key_holds_resolved_parameters() {
        let short = checked("{ data: a, model: { kind: ridge } }").params;
        assert_eq!(short, checked("{ data: b, seed: 0, model: { kind: ridge, ridge: 1e0 } }").params);
        assert_eq!(short["folds"], serde_json::Value::Null);
        assert_eq!(checked("{ data: a, model: { kind: logistic } }").params["folds"], 5);
        assert_eq!(checked("{ data: a, model: { kind: label_tree } }").params["folds"], 3);
        let auto = checked("{ data: a, model: { kind: auto }, part: all }").params;
        assert_eq!((&auto["model"], &auto["part"]), (&json!({"kind": "auto"}), &json!("all")));
        assert_eq!(short.get("part"), None, "keys of earlier versions have no part");
    }

    #[test]
    fn values_that_cannot_be_used_are_issues() {
        let yaml = "{ data: a, folds: 1, keep: 0, model: { kind: kernel_ridge, gamma: 0 } }";
        let fields: Vec<_> = checked(yaml).issues.into_iter().map(|issue| issue.field).collect();
        assert_eq!(fields, ["model.gamma", "folds", "keep"]);
    }
}
