//! What needs libtorch: networks, losses, optimisers, training, models. `pipe` never links this
//! package; it starts the `pipe-worker` program.

pub mod engine;
pub mod fit;
pub mod loss;
pub mod model;
pub mod net;
pub mod optim;
pub mod part;
pub mod stages;
pub mod system;
pub mod train;
