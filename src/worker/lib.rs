//! The part of `pipe` that needs libtorch: networks, losses, optimisers, training, and fitted models.
//!
//! `pipe` never links this crate. It starts the program `pipe-worker`, one process per stage, so that a crash in C++
//! fails one stage and not the run.
//!
//! # From a job to a stage
//!
//! `pipe-worker JOB` reads the job file ([`pipe_core::job::Job`]) and passes it to `pipe_core::harness::main`,
//! which finds the runner of the job's stage kind: first among the light stages of `pipe_stages`, which need no
//! libtorch, then among [`stages`]. The runner reads its inputs, computes, writes its outputs, and sends events to
//! `pipe` on standard output. `docs/worker.md` describes the job, the events and the exit codes.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`stages`] | the stages that need libtorch: `train`, `fit`, and those that judge a model with a network |
//! | [`train`] | the training loop, early stopping, and checkpoints |
//! | [`engine`] | training steps and scores, on the CPU or on CUDA |
//! | [`net`], [`loss`], [`optim`] | the CPU engine: network, loss (eqs. 1-3 and 7 of the paper) and optimisers |
//! | [`fit`] | the fits of the other models: ridge regression, kernel ridge regression, neighbours, logistic regression |
//! | [`model`] | trained networks on disk, and scoring with them |
//! | [`system`] | opens models of every kind, for the stages that evaluate, audit, predict and explain |
//!
//! # Which engine runs where
//!
//! [`engine::device::engine`] chooses. On the CPU, [`engine::cpu::CpuEngine`] runs. It is written by hand because it
//! takes a training step several times faster than PyTorch (docs/speed.md), and because it gives the same bits for any number of threads. On CUDA,
//! [`engine::torch::TorchEngine`] runs: libtorch expressions, differentiated by autograd. It works on the CPU as
//! well, where tests compare both engines.
//!
//! # Example
//!
//! The fused loss and its gradients for one row with two labels, of which it has the first:
//!
//! ```
//! use pipe_ml::config::preset::Preset;
//! use pipe_ml::signal::{batch::BatchSignals, sparse_rows::SparseRows};
//! use pipe_worker::loss::fused::{LossPass, ThresholdGradients, stride};
//! use pipe_worker::loss::terms::{LossTerms, ThresholdParameters, ThresholdTerms};
//!
//! let method = Preset::Paper.method();
//! let loss = LossTerms::<f64>::new(&method.loss, &[1.0, 1.0]);
//! let thresholds = ThresholdTerms::new(method.variant, &method.threshold, &[0.0, 0.0]);
//! let zeros = [0.0; 2];
//! let parameters = ThresholdParameters { alpha: &zeros, beta: &zeros, bias: &zeros, lambda: &[0.5] };
//! let labels = SparseRows::ones([&[0][..]].into_iter());
//! let signals = BatchSignals::new(2, &labels, &SparseRows::empty(1), 1e-8);
//!
//! // Logits are label-major; here all are zero and so equal to their thresholds.
//! let logits = vec![0.0; 2 * stride(1)];
//! let (mut gradient, mut label_sums) = (logits.clone(), [0.0; 2]);
//! let pass = LossPass::new(&loss, &thresholds, parameters, &signals, 1);
//! let value = pass.run(&logits, &mut gradient, &mut ThresholdGradients::new(2), &mut label_sums);
//!
//! assert!((value.bce - 2.0 * 2f64.ln()).abs() < 1e-12); // eq. 3
//! assert!((value.margin - 2.0 * 0.1).abs() < 1e-12); // eq. 7
//! assert!(label_sums[0] < 0.0 && label_sums[1] > 0.0);
//! ```

pub mod engine;
pub mod fit;
pub mod loss;
pub mod model;
pub mod net;
pub mod optim;
pub mod stages;
pub mod system;
pub mod train;
