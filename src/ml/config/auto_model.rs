//! The model that `kind: auto` stands for.

use super::model::{
    KernelDistance, LabelTreeConfig, ModelConfig, default_constant, default_gamma, default_kernel_ridge,
    default_largest_block, default_rounds, default_rows_per_block, one,
};
use crate::data::describe::grouped;
use crate::score::candidates::MAX_WHOLE;

/// The sizes of the data that a model is fitted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSize {
    pub rows: usize,
    pub features: usize,
    pub labels: usize,
    /// Whether the features are dense, such as embeddings.
    pub dense: bool,
}

/// The largest number of rows for the exact kernel, whose time grows with the third power of the rows.
const EXACT_ROWS: usize = 10_000;
/// The largest number of dense features for ridge regression: its equations then have one unknown per feature and are solved
/// in f64, with any number of rows.
const RIDGE_FEATURES: usize = 4_095;

/// Chooses a model, and says why. The choice depends on the sizes alone and never on the machine, because a result must not.
/// `docs/models.md` has the same rule as a table.
pub fn choose(size: DataSize) -> (ModelConfig, String) {
    let count = |number: usize| grouped(number as u64);
    let (rows, features, labels) = (count(size.rows), count(size.features), count(size.labels));
    let exact = count(EXACT_ROWS);
    if (size.rows as u64).saturating_mul(size.labels as u64) > MAX_WHOLE {
        let model = ModelConfig::LabelTree(LabelTreeConfig::default());
        return (model, format!("{rows} rows x {labels} labels are more than {} scores", grouped(MAX_WHOLE)));
    }
    let (gamma, ridge, distance) = (default_gamma(), default_kernel_ridge(), KernelDistance::Auto);
    if size.rows <= EXACT_ROWS {
        let model = ModelConfig::KernelRidge { gamma, ridge, distance, memory_gb: None };
        return (model, format!("{rows} rows are at most {exact}"));
    }
    let reason = format!("{rows} rows are more than {exact}");
    if size.dense && size.features <= RIDGE_FEATURES {
        let model = ModelConfig::Ridge { ridge: one(), constant: default_constant() };
        return (
            model,
            format!("{reason}, and {features} dense features are at most {}", count(RIDGE_FEATURES)),
        );
    }
    let (rows_per_block, largest_block) = (default_rows_per_block(), default_largest_block());
    let rounds = default_rounds();
    let model =
        ModelConfig::BlockKernelRidge { gamma, ridge, distance, rows_per_block, largest_block, rounds };
    (model, reason)
}

#[cfg(test)]
mod tests {
    use super::super::device::Device;
    use super::super::model::ModelBody;
    use super::*;

    #[test]
    fn the_choice_follows_from_the_sizes_and_says_so() {
        let chosen = |rows, features, labels, dense| {
            let (model, reason) = choose(DataSize { rows, features, labels, dense });
            let body: ModelBody = serde_json::from_value(serde_json::json!({"kind": model.name()})).unwrap();
            assert_eq!(body.resolve(0, Device::Auto), Some(model.clone()), "the defaults of the kind");
            (model.name(), reason)
        };
        let pair = |kind, reason: &str| (kind, reason.to_owned());
        assert_eq!(chosen(4_880, 1_836, 159, false), pair("kernel_ridge", "4,880 rows are at most 10,000"));
        assert_eq!(chosen(10_000, 384, 100, true), pair("kernel_ridge", "10,000 rows are at most 10,000"));
        let many = "10,001 rows are more than 10,000";
        assert_eq!(chosen(10_001, 50_000, 100, false), pair("block_kernel_ridge", many));
        assert_eq!(chosen(10_001, 4_096, 100, true), pair("block_kernel_ridge", many));
        assert_eq!(chosen(10_001, 384, 100, false), pair("block_kernel_ridge", many));
        let dense = "10,001 rows are more than 10,000, and 384 dense features are at most 4,095";
        assert_eq!(chosen(10_001, 384, 100, true), pair("ridge", dense));
        let tree = "8,000 rows x 5,001 labels are more than 40,000,000 scores";
        assert_eq!(chosen(8_000, 384, 5_000, true).0, "kernel_ridge");
        assert_eq!(chosen(8_000, 384, 5_001, true), pair("label_tree", tree));
    }
}
