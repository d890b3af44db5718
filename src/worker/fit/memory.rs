//! The memory that a fit needs, compared with the memory of the machine before the fit starts.

use anyhow::{Result, ensure};
use pipe_ml::config::device::Device;
use pipe_ml::config::model::{ModelBody, ModelConfig};
use pipe_ml::data::describe::grouped;

use super::TrainingData;
use super::linear_ridge::RidgeForm;
use super::tiled_inverse::LARGEST_IN_F64;

/// Makes the allocator give the memory of freed tiles back to the system. glibc would keep it, and the holes between the tiles
/// that are left would more than double the memory of a fit.
pub fn return_freed_tiles() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Less than a tile of any system that is worth it.
        const LARGE: libc::c_int = 512 << 10;
        // SAFETY: it only sets a number that later allocations of this process read.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}

/// Fails if the fit needs more memory than is available.
pub fn check_memory(model: &ModelConfig, data: &TrainingData, available: u64) -> Result<()> {
    let needed = memory_needed(model, data);
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let count = |number: usize| grouped(number as u64);
    ensure!(
        needed <= available,
        "`{}` needs about {} of memory for {} rows, {} features and {} labels, and this machine has {}; use {}",
        model.name(),
        gigabytes(needed),
        count(data.features.rows()),
        count(data.features.cols),
        count(data.labels.cols),
        gigabytes(available),
        advice(model, data, available)
    );
    Ok(())
}

/// Returns what needs less memory than a model, and fits.
fn advice(model: &ModelConfig, data: &TrainingData, available: u64) -> String {
    let defaults = |kind: &str| {
        let body = serde_json::from_value::<ModelBody>(serde_json::json!({ "kind": kind })).ok()?;
        body.resolve(0, Device::Auto)
    };
    let mut advice: Vec<String> = match model {
        ModelConfig::BlockKernelRidge { .. } => vec!["a smaller `largest_block`".to_owned()],
        ModelConfig::ExtraTrees(_) => vec!["fewer `trees`".to_owned()],
        _ => Vec::new(),
    };
    let fits = |other: &ModelConfig| other.name() != model.name() && memory_needed(other, data) <= available;
    let others =
        ["block_kernel_ridge", "label_tree", "neighbours"].into_iter().filter_map(defaults).filter(fits);
    advice.extend(others.map(|other| format!("`{}`", other.name())));
    advice.join(" or ")
}

/// About 63 % of the rows are in a tree, at most each in a leaf of its own, and there are as many other nodes as leaves.
const BYTES_PER_TREE_AND_ROW: u64 = 60;

/// Returns the number of bytes of the largest matrices of a fit: a system of equations, and the coefficients of all labels.
/// 0 for models that have no such matrix. The nodes of trees count too.
fn memory_needed(model: &ModelConfig, data: &TrainingData) -> u64 {
    let (rows, features, labels) = (data.features.rows(), data.features.cols + 1, data.labels.cols);
    match model {
        ModelConfig::KernelRidge { .. } => whole_kernel(rows, labels),
        ModelConfig::Ridge { .. } => {
            let unknowns = match RidgeForm::cheaper(data) {
                RidgeForm::Primal => features,
                RidgeForm::Dual => rows,
            };
            system(unknowns) + coefficients(features, labels)
        }
        ModelConfig::BlockKernelRidge { largest_block, .. } => system(rows.min(*largest_block)),
        ModelConfig::ExtraTrees(trees) => {
            (rows as u64 * BYTES_PER_TREE_AND_ROW).saturating_mul(trees.trees as u64)
        }
        ModelConfig::Neighbours { .. }
        | ModelConfig::LabelTree(_)
        | ModelConfig::Logistic { .. }
        | ModelConfig::Mlp { .. } => 0,
    }
}

/// Returns the memory of a kernel over all rows.
pub fn whole_kernel(rows: usize, labels: usize) -> u64 {
    system(rows) + coefficients(rows, labels)
}

/// Returns the memory for a system of equations: the lower triangle of a matrix, which is factorised and inverted in place.
/// The bytes per entry of the whole matrix were measured as the growth of the peak memory of `kernel_ridge`: 5.6 from
/// 2,500 to 4,000 rows (f64), 2.6 from 6,000 to 12,000 rows (f32).
fn system(unknowns: usize) -> u64 {
    let bytes = if unknowns <= LARGEST_IN_F64 { 6 } else { 3 };
    (unknowns as u64).pow(2) * bytes
}

/// Returns the memory of a matrix of f32.
fn coefficients(rows: usize, labels: usize) -> u64 {
    4 * (rows as u64).saturating_mul(labels as u64)
}

#[cfg(test)]
mod tests {
    use super::super::tests::training_data;
    use super::*;
    use pipe_ml::config::model::KernelDistance;

    #[test]
    fn a_fit_that_does_not_fit_into_memory_fails_with_a_suggestion() {
        let data = training_data(300, 20, 5);
        let distance = KernelDistance::Auto;
        let kernel = ModelConfig::KernelRidge { gamma: 2.0, ridge: 0.5, distance, memory_gb: None };
        let error = check_memory(&kernel, &data, 500_000).unwrap_err().to_string();
        assert!(error.starts_with("`kernel_ridge` needs about 0.0 GB of memory for 300 rows"), "{error}");
        // A block may be as large as all 300 rows.
        assert!(error.ends_with("and this machine has 0.0 GB; use `label_tree` or `neighbours`"), "{error}");
        assert!(check_memory(&kernel, &data, 2_000_000).is_ok());
        let data = training_data(10_000, 20, 5);
        let error = check_memory(&kernel, &data, 100_000_000).unwrap_err().to_string();
        assert!(error.ends_with("; use `block_kernel_ridge` or `label_tree` or `neighbours`"), "{error}");
        // 21 unknowns, because the primal form is cheaper.
        assert!(check_memory(&ModelConfig::Ridge { ridge: 1.0, constant: 0.3 }, &data, 10_000).is_ok());
    }
}
