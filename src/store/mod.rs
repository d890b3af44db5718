//! Everything under `cache/`. The only module that opens files there.

pub mod manifest;
