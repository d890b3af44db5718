//! ARFF with labels by `-C n` or, after a NUL byte, by a Mulan XML file.

#![no_main]

#[path = "../read.rs"]
mod read;

use pipe_ml::data::format::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| read::read_as(Format::Arff, bytes));
