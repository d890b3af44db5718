//! Multi-label classification with thresholds: data sets, signals, scores, threshold rules and metrics.
//!
//! The crate knows nothing of pipelines, stages or stores, and does not need libtorch. All results are
//! independent of the number of threads.
//!
//! | module | content |
//! |---|---|
//! | [`data`] | reading, splitting, filtering and storing data sets; sparse matrices ([`data::csr::Csr`]) |
//! | [`config`] | parameters of training ([`config::method::Method`]) and of models ([`config::model::ModelConfig`]) |
//! | [`signal`] | rarity of labels ([`signal::idf::Idf`]) and labels of similar rows ([`signal::neighbours::NeighbourIndex`]) |
//! | [`score`] | tables of out-of-sample scores ([`score::table::ScoreTable`]) |
//! | [`scorer`] | fitted models that score rows without libtorch ([`scorer::Scorer`]) |
//! | [`label_tree`] | linear classifiers in trees of similar labels ([`label_tree::LabelTrees`]) |
//! | [`extra_trees`] | extremely randomised trees for all labels together ([`extra_trees::ExtraTrees`]) |
//! | [`fusion`] | one score from the scores of several models ([`fusion::Fusion`]) |
//! | [`label_ridge`] | labels that correct each other ([`label_ridge::LabelRidge`]) |
//! | [`threshold`] | rules that turn scores into decisions ([`threshold::rule::Rule`], [`threshold::cuts::Cuts`]) |
//! | [`composite`] | a stored model of parts, fusion and cuts ([`composite::Composite`]) |
//! | [`system`] | models of any kind behind one trait that turns rows into decisions ([`system::System`]) |
//! | [`predictions`] | decisions and scores that any program wrote ([`predictions::ExpectedPredictions`]) |
//! | [`metric`] | metrics, confidence intervals and audits ([`metric::registry::Metric`], [`metric::evaluation::Evaluator`]) |
//! | [`explanation`] | why a model decided as it did ([`explanation::Explanation`]) |
//! | [`mod@multiversion`] | functions that are compiled for several kinds of processors |
//! | [`history`] | the record of a training ([`history::History`]) |
//!
//! # Example
//!
//! Fit one cut per label on scores of three rows for two labels, decide, and compute macro-F1:
//!
//! ```
//! use pipe_ml::data::csr::Csr;
//! use pipe_ml::metric::counts::Counts;
//! use pipe_ml::metric::label::Tally;
//! use pipe_ml::threshold::rule::{Objective, Rule};
//! use pipe_ml::threshold::scores::{DenseScores, ScoreLayout};
//!
//! let truth = Csr::from_rows(2, &[vec![0], vec![1], vec![0, 1]]);
//! let values = vec![0.5, 1.0, -0.5, 2.0, 1.5, 0.0];
//! let scores = DenseScores::new(3, 2, ScoreLayout::RowMajor, values.into()).expect("3 x 2 scores");
//!
//! let cuts = Rule::Scut {}.fit(&scores, &truth, Objective::Macro)?;
//! let predicted = cuts.predict(&scores)?;
//! assert_eq!(predicted.row(0), [0, 1]);
//! assert_eq!(predicted.row(1), [1]);
//!
//! let counts = Counts::of(&truth, &predicted)?;
//! assert_eq!(Tally::over(counts.iter()).macro_f1(), (1.0 + 0.8) / 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod artifacts;
pub mod composite;
pub mod config;
pub mod data;
pub mod explanation;
pub mod extra_trees;
pub mod fusion;
pub mod history;
pub mod label_finder;
pub mod label_ridge;
pub mod label_tree;
pub mod metric;
pub mod multiversion;
pub mod predictions;
pub mod score;
pub mod scorer;
pub mod signal;
pub mod softplus;
pub mod system;
pub mod threshold;
