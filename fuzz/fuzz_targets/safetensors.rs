//! safetensors with features and labels.

#![no_main]

#[path = "../read.rs"]
mod read;

use pipe_ml::data::format::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| read::read_as(Format::Safetensors, bytes));
