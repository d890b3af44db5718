//! `fit`: fits a model on the training rows, and scores each of those rows without using its own labels. These are its
//! parameters; `pipe-worker` runs it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::StageKind;
use pipe_ml::composite::Composite;
use pipe_ml::config::device::Device;
use pipe_ml::config::model::{ModelBody, ModelConfig};
use pipe_ml::data::split_data::SplitData;
use pipe_ml::score::table::ScoreTable;

/// The resolved parameters of `fit`, which are part of the key. Users write a [`FitBody`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "FitBody")]
pub struct Fit {
    pub data: StageRef,
    pub model: ModelConfig,
    /// The number of folds; `None` leaves out one row at a time.
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
    /// The number of folds for the scores of the training rows. By default, models with a closed form leave out one row
    /// at a time, `label_tree` uses 3 folds, and the others use 5.
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

impl From<FitBody> for Fit {
    fn from(body: FitBody) -> Self {
        let model = body.model.resolve(body.seed, body.device);
        let folds = body.folds.or(model.default_folds());
        Self { data: body.data, model, folds, seed: body.seed, keep: body.keep, device: body.device }
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
        let model = self.model.issues().into_iter();
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
    }

    #[test]
    fn values_that_cannot_be_used_are_issues() {
        let yaml = "{ data: a, folds: 1, keep: 0, model: { kind: kernel_ridge, gamma: 0 } }";
        let fields: Vec<_> = checked(yaml).issues.into_iter().map(|issue| issue.field).collect();
        assert_eq!(fields, ["model.gamma", "folds", "keep"]);
    }
}
