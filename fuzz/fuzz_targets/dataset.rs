//! Any bytes in the place of one file of a data set directory. The first byte chooses the file.

#![no_main]

#[path = "../directory.rs"]
mod directory;

use std::fs;
use std::path::Path;

use pipe_ml::data::describe::{dataset_stats, statistics};
use pipe_ml::data::error::DataError;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::synthetic::{Synthetic, generate};
use pipe_ml::data::transform::{NewRows, read_new_rows};

const FILES: [&str; 8] = [
    "meta.json",
    "transform.json",
    "train/features.csr",
    "train/labels.csr",
    "test/features.csr",
    "test/labels.csr",
    "label_names.jsonl",
    "vocabulary.json",
];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, content)) = bytes.split_first() else { return };
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dataset = temp.path().join("dataset");
    write_dataset(&dataset);
    directory::replace(&dataset.join(FILES[choice as usize % FILES.len()]), content);
    let _ = describe(&dataset);
    let rows = temp.path().join("rows");
    let (scratch, options) =
        (temp.path().join("scratch"), NewRows { feature_base: Some(0), ..NewRows::default() });
    fs::create_dir(&scratch).expect("a temporary directory");
    for text in ["0:1 3:0.5 19:1\n\n", "text\nsome words\n"] {
        fs::write(&rows, text).expect("a temporary file");
        let _ = read_new_rows(&rows, &dataset, &options, &scratch, 1);
    }
});

fn write_dataset(directory: &Path) {
    let sizes = (Some(12), Some(4), Some(20), Some(5));
    let (rows, test_rows, features, labels) = sizes;
    let made = Synthetic { rows, test_rows, features, labels, features_per_row: 5.0, ..Synthetic::default() };
    generate(&made, &made.curve(), directory, |_, _| {}).expect("a generated data set");
}

fn describe(directory: &Path) -> Result<String, DataError> {
    let data = SplitData::open_unverified(directory)?;
    data.label_names()?;
    data.feature_names()?;
    Ok(statistics(&dataset_stats(&data)?))
}
