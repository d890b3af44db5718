//! Pipelines that load, and what becomes of them.

use std::path::Path;

use serde_json::json;

use super::ABLATION;
use crate::spec::pipeline::{InstanceIndex, Pipeline, Resources, Source};
use crate::spec::select;
use crate::spec::test_kinds::{Project, loaded, names};

#[test]
fn an_ablation_expands_in_file_and_matrix_order() {
    let pipeline = loaded(ABLATION);
    assert_eq!(
        names(&pipeline),
        [
            "data",
            "idf",
            "train[adaptive,seed=0]",
            "train[adaptive,seed=1]",
            "train[static,seed=0]",
            "train[static,seed=1]",
            "eval[adaptive,seed=0]",
            "eval[adaptive,seed=1]",
            "eval[static,seed=0]",
            "eval[static,seed=1]",
            "table1",
        ]
    );
}
