//! The data formats and what differs between them.
//!
//! A new format is a variant of [`Format`]: the compiler then asks for its properties here, for its recogniser in
//! `detect` and for its reader in `read`; tests ask for its place in [`Format::DETECTION_ORDER`] and for a fuzz target.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The formats that `pipe` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `3,17 12:0.3 88:0.07`, one row per line.
    Libsvm,
    /// LIBSVM text with indices from 0, after a line `rows features labels`.
    Xmc,
    /// ARFF; the labels are named by a Mulan XML file or by MEKA's `-C n`.
    Arff,
    /// `mult.dat` (words per article) with `tag-item.dat` (articles per tag).
    Citeulike,
    /// A dense NumPy array, with labels in a second file.
    Npy,
    /// A dense tensor, with labels in the same file or in a second one.
    Safetensors,
    /// Raw text and labels in columns.
    Csv,
    /// One JSON object per line with a text and a list of labels.
    Jsonl,
    /// Not read from a file: `synthetic`.
    Generated,
}

/// What the rows of a format consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatContent {
    /// Features as numbers.
    Numbers,
    /// Raw text, which has to be vectorised.
    Text,
}

impl Format {
    /// Every format that is read from files, in the order in which [`super::detect::detect`] tries them.
    ///
    /// The order matters: most XMC and citeulike lines are also LIBSVM lines, and every JSON line with a comma looks
    /// like CSV.
    pub const DETECTION_ORDER: [Self; 8] = [
        Self::Npy,
        Self::Safetensors,
        Self::Arff,
        Self::Jsonl,
        Self::Citeulike,
        Self::Xmc,
        Self::Libsvm,
        Self::Csv,
    ];

    /// Returns the name of the format for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Libsvm => "LIBSVM",
            Self::Xmc => "XMC",
            Self::Arff => "ARFF",
            Self::Citeulike => "citeulike",
            Self::Npy => "NumPy",
            Self::Safetensors => "safetensors",
            Self::Csv => "CSV",
            Self::Jsonl => "JSON lines",
            Self::Generated => "generated",
        }
    }

    /// Returns whether the rows are numbers or raw text.
    pub fn content(self) -> FormatContent {
        match self {
            Self::Csv | Self::Jsonl => FormatContent::Text,
            Self::Libsvm
            | Self::Xmc
            | Self::Arff
            | Self::Citeulike
            | Self::Npy
            | Self::Safetensors
            | Self::Generated => FormatContent::Numbers,
        }
    }

    /// Returns whether files in this format may count their indices from 0 or from 1. New rows are then read with the
    /// base of the data set.
    pub fn has_index_base(self) -> bool {
        match self {
            Self::Libsvm | Self::Xmc => true,
            Self::Arff
            | Self::Citeulike
            | Self::Npy
            | Self::Safetensors
            | Self::Csv
            | Self::Jsonl
            | Self::Generated => false,
        }
    }

    /// Returns whether the files do not state how many features and labels there are, so that published counts help
    /// to read them.
    pub fn lacks_sizes(self) -> bool {
        match self {
            Self::Libsvm => true,
            Self::Xmc
            | Self::Arff
            | Self::Citeulike
            | Self::Npy
            | Self::Safetensors
            | Self::Csv
            | Self::Jsonl
            | Self::Generated => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn serialised(format: Format) -> String {
        serde_json::to_value(format).unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn every_format_but_the_generated_one_is_detected() {
        let schema = serde_json::to_value(schemars::schema_for!(Format)).unwrap();
        let variants = schema["oneOf"].as_array().unwrap().iter();
        let all: BTreeSet<String> =
            variants.map(|variant| variant["const"].as_str().unwrap().to_owned()).collect();
        let mut detected: BTreeSet<String> = Format::DETECTION_ORDER.into_iter().map(serialised).collect();
        detected.insert(serialised(Format::Generated));
        assert_eq!(detected, all);
    }

    #[test]
    fn every_format_has_a_fuzz_target() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
        for name in Format::DETECTION_ORDER.map(serialised) {
            assert!(fuzz.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name}");
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        }
    }
}
