//! The network on the CPU: a sparse input layer, dense layers by libtorch's matrix products, and
//! a backward pass by hand that runs the fused loss between them.
//!
//! Activations lie unit-major, like the logits: all rows of the batch for one unit together.
//! Work is cut into blocks by the widths of the layers alone, each block is computed by one thread and
//! sums over blocks run in order: the same bits for any number of threads.

pub mod activation;
pub mod buffer;
pub mod dense;
pub mod features;
pub mod gemm;
pub mod input;
pub mod network;
pub mod weights;
