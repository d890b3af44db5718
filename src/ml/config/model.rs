//! The models of the `fit` stage: [`ModelBody`], as a user writes it, and [`ModelConfig`], with every
//! parameter present.

use pipe_core::issue::Issue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::device::Device;
use super::method::{Method, MethodChanges};
use super::number_or_word::{BiasInit, Limit, PosWeight};
use super::optimiser::OptimiserKind;
use super::preset::Preset;
use super::schedule::ScheduleKind;
use super::signal::{LocalSignal, Weighting};
use super::threshold::Variant;
use crate::score::{ScoreOrigin, ScoreScale};

/// A model as a user writes it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ModelBody {
    /// The kind that suits the sizes of the data set.
    Auto {},
    /// Ridge regression on the features and a constant, with leave-one-out scores in closed form.
    Ridge {
        /// The strength of the penalty.
        #[serde(default = "one")]
        ridge: f64,
        /// The value of the constant feature.
        #[serde(default = "default_constant")]
        constant: f64,
    },
    /// Ridge regression with the kernel exp(gamma (cos - 1)), or with a Euclidean one, over all N training rows. It needs about 3 N^2 bytes of memory (6 N^2 up to 4,096 rows)
    /// and time proportional to N^3.
    KernelRidge {
        /// The sharpness of the kernel: the larger, the more only the most similar rows count.
        #[serde(default = "default_gamma")]
        gamma: f64,
        /// The strength of the penalty.
        #[serde(default = "default_kernel_ridge")]
        ridge: f64,
        #[serde(default)]
        distance: KernelDistance,
        /// The largest memory, in GB, of the kernel over all rows. If it would need more, `block_kernel_ridge` with its defaults takes its
        /// place. By default there is no limit.
        memory_gb: Option<f64>,
    },
    /// Kernel ridge regression within blocks of similar rows. A new row is scored by the block with the nearest centre.
    BlockKernelRidge {
        /// The sharpness of the kernel: the larger, the more only the most similar rows count.
        #[serde(default = "default_gamma")]
        gamma: f64,
        /// The strength of the penalty.
        #[serde(default = "default_kernel_ridge")]
        ridge: f64,
        #[serde(default)]
        distance: KernelDistance,
        /// The approximate number of rows per block.
        #[serde(default = "default_rows_per_block")]
        rows_per_block: usize,
        /// The largest allowed number of rows in a block.
        #[serde(default = "default_largest_block")]
        largest_block: usize,
        /// The number of rounds of spherical k-means that form the blocks.
        #[serde(default = "default_rounds")]
        rounds: usize,
    },
    /// One logistic regression per label, fitted by gradient descent.
    Logistic(LogisticBody),
    /// A neural network: a preset, and changes to it.
    Mlp(Box<MethodChanges>),
    /// Linear classifiers in trees of similar labels, for thousands of labels. The features should be scaled to rows of
    /// length one.
    LabelTree(LabelTreeConfig),
    /// Extremely randomised trees for all labels together. A training row is scored by the trees that did not draw it.
    ExtraTrees(ExtraTreesConfig),
    /// The labels of the nearest training rows by cosine similarity.
    Neighbours {
        /// The number of nearest rows.
        #[serde(default = "default_neighbours")]
        neighbours: usize,
        #[serde(default = "default_weighting")]
        weighting: Weighting,
        /// The number of training rows, drawn at random, that are searched; all by default. The time of a search is
        /// proportional to it.
        searched_rows: Option<usize>,
    },
}

/// How a kernel compares two rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KernelDistance {
    /// `euclidean` if the data set standardises its features, otherwise `cosine`.
    #[default]
    Auto,
    /// By their directions: exp(gamma (cos - 1)).
    Cosine,
    /// By their distance d: exp(-gamma d² / m), where m is the median of d² among training rows.
    Euclidean,
}

impl KernelDistance {
    // The signature is that of `skip_serializing_if`.
    #[expect(clippy::trivially_copy_pass_by_ref)]
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// The parameters of `logistic`, which is fitted by plain gradient descent. `docs/honest.md` compares it with AdamW.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogisticBody {
    /// How often all training rows are passed over.
    pub epochs: u64,
    /// The number of rows per step.
    pub batch: usize,
    /// The learning rate. The default suits rows of length one.
    pub lr: f64,
    /// The strength of the weight decay.
    pub weight_decay: f64,
}

impl Default for LogisticBody {
    fn default() -> Self {
        Self { epochs: 20, batch: 8, lr: 4.0, weight_decay: 0.0 }
    }
}

/// The parameters of `label_tree`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LabelTreeConfig {
    /// The number of trees, whose probabilities are averaged.
    pub trees: usize,
    /// The largest number of groups that a node is divided into.
    pub branches: usize,
    /// The largest number of labels in a leaf.
    pub largest_leaf: usize,
    /// The weight of the loss of a row, compared with the squared length of the weights, in a classifier with one positive
    /// row.
    pub cost: f64,
    /// With n positive rows, the weight is `cost` / n^`cost_decay`.
    pub cost_decay: f64,
    /// Weights with a smaller absolute value are dropped.
    pub smallest_weight: f64,
    /// The number of nodes per level that a prediction follows in each tree.
    pub beam: usize,
}

impl Default for LabelTreeConfig {
    fn default() -> Self {
        Self {
            trees: 3,
            branches: 256,
            largest_leaf: 100,
            cost: 2.0,
            cost_decay: 0.3,
            smallest_weight: 0.1,
            beam: 20,
        }
    }
}

/// The parameters of `extra_trees`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExtraTreesConfig {
    /// The number of trees, whose scores are averaged.
    pub trees: usize,
    /// The number of features, drawn at random, that a node tries. By default the square root of their number.
    pub features_per_node: Option<usize>,
    /// The smallest allowed number of different training rows in a leaf.
    pub smallest_leaf: usize,
}

impl Default for ExtraTreesConfig {
    fn default() -> Self {
        Self { trees: 150, features_per_node: None, smallest_leaf: 1 }
    }
}

pub(super) fn one() -> f64 {
    1.0
}

pub(super) fn default_constant() -> f64 {
    0.3
}

pub(super) fn default_gamma() -> f64 {
    2.0
}

pub(super) fn default_kernel_ridge() -> f64 {
    0.5
}

pub(super) fn default_rows_per_block() -> usize {
    2000
}

pub(super) fn default_largest_block() -> usize {
    4000
}

pub(super) fn default_rounds() -> usize {
    8
}

fn default_neighbours() -> usize {
    50
}

fn default_weighting() -> Weighting {
    Weighting::CosineSquared
}

/// A model with every parameter present, as keys and stored models contain it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ModelConfig {
    Ridge {
        ridge: f64,
        constant: f64,
    },
    KernelRidge {
        gamma: f64,
        ridge: f64,
        /// Not part of the key unless it is given.
        #[serde(default, skip_serializing_if = "KernelDistance::is_auto")]
        distance: KernelDistance,
        /// Not part of the key unless it is given. A fitted model does not have it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_gb: Option<f64>,
    },
    BlockKernelRidge {
        gamma: f64,
        ridge: f64,
        #[serde(default, skip_serializing_if = "KernelDistance::is_auto")]
        distance: KernelDistance,
        rows_per_block: usize,
        largest_block: usize,
        rounds: usize,
    },
    Logistic {
        method: Box<Method>,
    },
    Mlp {
        method: Box<Method>,
    },
    Neighbours {
        neighbours: usize,
        weighting: Weighting,
        /// Not part of the key unless it is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        searched_rows: Option<usize>,
    },
    LabelTree(LabelTreeConfig),
    ExtraTrees(ExtraTreesConfig),
}

impl ModelBody {
    /// Fills in all parameters. A network without seed or device gets those of the stage. Returns `None` for
    /// `auto`, which is resolved by [`super::auto_model::choose`] when the data is known.
    pub fn resolve(self, seed: u64, device: Device) -> Option<ModelConfig> {
        Some(match self {
            Self::Auto {} => return None,
            Self::Ridge { ridge, constant } => ModelConfig::Ridge { ridge, constant },
            Self::KernelRidge { gamma, ridge, distance, memory_gb } => {
                ModelConfig::KernelRidge { gamma, ridge, distance, memory_gb }
            }
            Self::BlockKernelRidge { gamma, ridge, distance, rows_per_block, largest_block, rounds } => {
                ModelConfig::BlockKernelRidge {
                    gamma,
                    ridge,
                    distance,
                    rows_per_block,
                    largest_block,
                    rounds,
                }
            }
            Self::Logistic(body) => ModelConfig::Logistic { method: Box::new(logistic(&body, seed, device)) },
            Self::Mlp(mut changes) => {
                changes.seed = changes.seed.or(Some(seed));
                changes.device = changes.device.or(Some(device));
                changes.variant = changes.variant.or(Some(Variant::Static));
                ModelConfig::Mlp { method: Box::new(changes.resolve()) }
            }
            Self::Neighbours { neighbours, weighting, searched_rows } => {
                ModelConfig::Neighbours { neighbours, weighting, searched_rows }
            }
            Self::LabelTree(config) => ModelConfig::LabelTree(config),
            Self::ExtraTrees(config) => ModelConfig::ExtraTrees(config),
        })
    }
}

/// Returns the training parameters of a logistic regression: a network without hidden layers, trained on cross-entropy.
fn logistic(body: &LogisticBody, seed: u64, device: Device) -> Method {
    let mut method = Preset::Honest.method();
    method.variant = Variant::Static;
    method.seed = seed;
    method.device = device;
    method.epochs = body.epochs;
    method.batch = body.batch;
    method.net.hidden = Vec::new();
    method.net.dropout = 0.0;
    // Close to the final bias of most labels, so that training starts near the solution.
    method.net.output_bias = BiasInit::Constant(-4.0);
    method.loss.margin_weight = 0.0;
    method.loss.pos_weight = PosWeight::None;
    method.optimiser.kind = OptimiserKind::Sgd;
    method.optimiser.lr = body.lr;
    method.optimiser.weight_decay = body.weight_decay;
    method.schedule.kind = ScheduleKind::Cosine;
    method.stopping.patience = Limit::None;
    method
}

impl ModelConfig {
    /// Returns the kind, as a pipeline names it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ridge { .. } => "ridge",
            Self::KernelRidge { .. } => "kernel_ridge",
            Self::BlockKernelRidge { .. } => "block_kernel_ridge",
            Self::Logistic { .. } => "logistic",
            Self::Mlp { .. } => "mlp",
            Self::Neighbours { .. } => "neighbours",
            Self::LabelTree(_) => "label_tree",
            Self::ExtraTrees(_) => "extra_trees",
        }
    }

    /// Chooses the distance of a kernel for features that are standardised or not. Returns whether it chose the Euclidean one.
    pub fn choose_distance(&mut self, standardised: bool) -> bool {
        match self {
            Self::KernelRidge { distance, .. } | Self::BlockKernelRidge { distance, .. }
                if standardised && distance.is_auto() =>
            {
                *distance = KernelDistance::Euclidean;
                true
            }
            _ => false,
        }
    }

    /// Replaces a kernel over all rows, which would need so many bytes, by kernels in blocks if it may not take as many. Returns the reason if
    /// it does.
    pub fn choose_blocks(&mut self, needed: u64) -> Option<String> {
        let Self::KernelRidge { gamma, ridge, distance, memory_gb } = self else { return None };
        let (gamma, ridge, distance) = (*gamma, *ridge, *distance);
        let (limit, needed) = (memory_gb.take()?, needed as f64 / 1e9);
        if needed <= limit {
            return None;
        }
        let (rows_per_block, largest_block) = (default_rows_per_block(), default_largest_block());
        let rounds = default_rounds();
        *self = Self::BlockKernelRidge { gamma, ridge, distance, rows_per_block, largest_block, rounds };
        Some(format!("a kernel over all rows would need {needed:.1} GB, more than `memory_gb: {limit}`"))
    }

    /// Returns what the scores of the model mean.
    pub fn scale(&self) -> ScoreScale {
        match self {
            Self::Ridge { .. } | Self::KernelRidge { .. } | Self::BlockKernelRidge { .. } => {
                ScoreScale::Response
            }
            Self::Logistic { .. } | Self::Mlp { .. } => ScoreScale::LogOdds,
            Self::Neighbours { .. } | Self::ExtraTrees(_) => ScoreScale::Share,
            Self::LabelTree(_) => ScoreScale::Probability,
        }
    }

    /// Returns the default number of folds; `None` if the fitted model itself can score training rows without their labels.
    pub fn default_folds(&self) -> Option<usize> {
        match self {
            Self::Logistic { .. } | Self::Mlp { .. } => Some(5),
            Self::LabelTree(_) => Some(3),
            _ => None,
        }
    }

    /// Returns how a model scores its training rows if there are no folds.
    pub fn left_out(&self) -> ScoreOrigin {
        match self {
            Self::ExtraTrees(_) => ScoreOrigin::OutOfBag {},
            _ => ScoreOrigin::LeaveOneOut {},
        }
    }

    /// Returns the training parameters of a network.
    pub fn method(&self) -> Option<&Method> {
        match self {
            Self::Logistic { method } | Self::Mlp { method } => Some(method),
            _ => None,
        }
    }

    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let mut require = |holds: bool, field: &str, message: &str| {
            if !holds {
                issues.push(Issue::new(field, message));
            }
        };
        let positive = |value: f64| value > 0.0 && value.is_finite();
        match self {
            Self::Ridge { ridge, constant } => {
                require(positive(*ridge), "ridge", "must be above 0");
                require(constant.is_finite(), "constant", "must be a finite number");
            }
            Self::KernelRidge { gamma, ridge, memory_gb, .. } => {
                require(positive(*gamma), "gamma", "must be above 0");
                require(positive(*ridge), "ridge", "must be above 0");
                require(memory_gb.is_none_or(positive), "memory_gb", "must be above 0");
            }
            Self::BlockKernelRidge { gamma, ridge, rows_per_block, largest_block, rounds, .. } => {
                require(positive(*gamma), "gamma", "must be above 0");
                require(positive(*ridge), "ridge", "must be above 0");
                require(*rows_per_block > 0, "rows_per_block", "must be at least 1");
                let fits = largest_block >= rows_per_block;
                require(fits, "largest_block", "must be at least as large as `rows_per_block`");
                require(*rounds > 0, "rounds", "must be at least 1");
            }
            Self::Logistic { method } | Self::Mlp { method } => {
                let local = [method.local_in_training(), method.local_in_prediction()];
                require(
                    !local.contains(&LocalSignal::BatchLabels),
                    "signal",
                    "thresholds that look at the labels of the rows themselves give no honest scores: use \
                     `train-neighbours` for `train` and `predict`, as the preset `honest` does, or `variant: static`",
                );
                issues.extend(method.issues());
            }
            Self::Neighbours { neighbours, searched_rows, .. } => {
                require(*neighbours > 0, "neighbours", "must be at least 1");
                require(*searched_rows != Some(0), "searched_rows", "must be at least 1");
            }
            Self::LabelTree(tree) => {
                require(tree.trees > 0, "trees", "must be at least 1");
                require(tree.branches > 1, "branches", "must be at least 2");
                require(tree.largest_leaf > 0, "largest_leaf", "must be at least 1");
                require(positive(tree.cost), "cost", "must be above 0");
                let decay = tree.cost_decay;
                require(decay >= 0.0 && decay.is_finite(), "cost_decay", "must be at least 0");
                let weight = tree.smallest_weight;
                require(weight >= 0.0 && weight.is_finite(), "smallest_weight", "must be at least 0");
                require(tree.beam > 0, "beam", "must be at least 1");
            }
            Self::ExtraTrees(trees) => {
                require(trees.trees > 0, "trees", "must be at least 1");
                require(trees.features_per_node != Some(0), "features_per_node", "must be at least 1");
                require(trees.smallest_leaf > 0, "smallest_leaf", "must be at least 1");
            }
        }
        issues
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(yaml: &str) -> ModelConfig {
        serde_yaml::from_str::<ModelBody>(yaml).unwrap().resolve(3, Device::Cpu).unwrap()
    }

    #[test]
    fn the_defaults_of_every_kind_are_valid_and_survive_json() {
        let linear = ["ridge", "kernel_ridge", "block_kernel_ridge", "logistic"];
        for kind in linear.into_iter().chain(["mlp", "neighbours", "label_tree", "extra_trees"]) {
            let model = resolved(&format!("kind: {kind}"));
            assert_eq!((model.name(), model.issues()), (kind, vec![]));
            let back: ModelConfig = serde_json::from_str(&serde_json::to_string(&model).unwrap()).unwrap();
            assert_eq!(back.name(), kind);
        }
    }

    #[test]
    fn a_kernel_that_would_need_too_much_memory_is_divided_into_blocks() {
        let limited = || resolved("{ kind: kernel_ridge, gamma: 4, memory_gb: 2 }");
        let (mut small, mut large) = (limited(), limited());
        assert_eq!(small.choose_blocks(2_000_000_000), None);
        assert_eq!(small, resolved("{ kind: kernel_ridge, gamma: 4 }"));
        let reason = large.choose_blocks(2_400_000_000).unwrap();
        assert_eq!(reason, "a kernel over all rows would need 2.4 GB, more than `memory_gb: 2`");
        assert_eq!(large, resolved("{ kind: block_kernel_ridge, gamma: 4 }"));
        let mut unlimited = resolved("kind: kernel_ridge");
        assert_eq!(unlimited.choose_blocks(u64::MAX), None);
        assert_eq!(resolved("{ kind: kernel_ridge, memory_gb: 0 }").issues()[0].field, "memory_gb");
    }

    #[test]
    fn a_network_uses_the_seed_of_the_stage_unless_it_has_its_own() {
        let seed = |yaml| resolved(yaml).method().unwrap().seed;
        assert_eq!((seed("kind: mlp"), seed("{ kind: mlp, seed: 8 }"), seed("kind: logistic")), (3, 8, 3));
    }

    #[test]
    fn thresholds_that_depend_on_the_labels_of_their_own_rows_are_refused() {
        let fields = |yaml: &str| -> Vec<String> {
            resolved(yaml).issues().into_iter().map(|issue| issue.field).collect()
        };
        for variant in ["adaptive", "knn-only", "idf-only", "static"] {
            assert_eq!(fields(&format!("{{ kind: mlp, variant: {variant} }}")), [""; 0], "{variant}");
        }
        assert_eq!(fields("{ kind: mlp, preset: paper, variant: adaptive }"), ["signal"]);
        let in_training = "{ kind: mlp, variant: knn-only, signal: { train: batch-labels } }";
        assert_eq!(fields(in_training), ["signal"]);
        assert_eq!(fields("{ kind: mlp, preset: paper }"), [""; 0], "the variant is static by default");
    }

    #[test]
    fn a_misspelt_parameter_is_refused() {
        for yaml in [
            "{ kind: ridge, lambda: 1 }",
            "{ kind: mlp, hidden: [3] }",
            "{ kind: logistic, c: 1 }",
            "{ kind: label_tree, leaf: 9 }",
        ] {
            assert!(serde_yaml::from_str::<ModelBody>(yaml).is_err(), "{yaml}");
        }
    }
}
