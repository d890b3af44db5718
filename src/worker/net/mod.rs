//! The network on the CPU: a sparse input layer, dense layers, and a hand-written backward pass that runs
//! the fused loss between them.
//!
//! It is written by hand, and does not use libtorch's autograd, for two reasons. Together with
//! [`crate::loss::fused`] and [`crate::optim`] it takes a training step several times faster than PyTorch, compiled or
//! not (docs/speed.md). And it gives the same bits for any number of threads.
//!
//! Activations are unit-major, like the logits: the values of one unit for all rows of the batch are adjacent. Work
//! is divided into blocks that depend on the widths of the layers alone, each block is computed by one thread, and sums
//! over blocks are added in order. Therefore the bits do not depend on the number of threads.

pub mod activation;
pub mod buffer;
pub mod dense;
pub mod features;
pub mod gemm;
pub mod input;
pub mod network;
pub mod prototypes;
pub mod weights;
