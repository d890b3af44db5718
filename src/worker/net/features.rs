//! The map from the features of a data set to the inputs of a network: all features, the most frequent ones, a
//! signed hash, or none.

use serde::{Deserialize, Serialize};

use pipe_ml::config::net::{Features, NetConfig};
use pipe_ml::data::csr::Csr;

/// Maps each feature to an input and a sign. Saved in `model.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeatureMap {
    /// Every feature is an input.
    All { features: usize },
    /// Only the kept features, ascending; the input of a feature is its position in the list.
    Cut { features: usize, kept: Vec<u32> },
    /// Features share inputs by a hash.
    Hash { features: usize, inputs: usize },
    /// No feature is used; the network has one input that is always zero.
    None { features: usize },
}

impl FeatureMap {
    /// Chooses the map of a configuration. `cut` keeps the features that occur in most training rows, and of equally
    /// frequent ones the lower number.
    pub fn new(config: &NetConfig, features: &Csr, rows: &[u32]) -> Self {
        let (columns, inputs) = (features.cols, config.inputs(features.cols));
        match config.features {
            Features::None => Self::None { features: columns },
            _ if inputs == columns => Self::All { features: columns },
            Features::All => Self::All { features: columns },
            Features::Hash => Self::Hash { features: columns, inputs },
            Features::Cut => {
                let mut counts = vec![0u64; columns];
                for &row in rows {
                    for &feature in features.row(row as usize) {
                        counts[feature as usize] += 1;
                    }
                }
                let mut kept: Vec<u32> = (0..columns as u32).collect();
                kept.sort_by_key(|&feature| (std::cmp::Reverse(counts[feature as usize]), feature));
                kept.truncate(inputs);
                kept.sort_unstable();
                Self::Cut { features: columns, kept }
            }
        }
    }

    /// Returns the number of features of the data set.
    pub fn features(&self) -> usize {
        match self {
            Self::All { features }
            | Self::Cut { features, .. }
            | Self::Hash { features, .. }
            | Self::None { features } => *features,
        }
    }

    /// Returns the number of inputs of the network.
    pub fn inputs(&self) -> usize {
        match self {
            Self::All { features } => *features,
            Self::Cut { kept, .. } => kept.len(),
            Self::Hash { inputs, .. } => *inputs,
            Self::None { .. } => 1,
        }
    }

    /// Returns the input of a feature and the sign of its value, or `None` if the feature is not used.
    pub fn input(&self, feature: u32) -> Option<(u32, f32)> {
        match self {
            Self::All { .. } => Some((feature, 1.0)),
            Self::None { .. } => None,
            Self::Cut { kept, .. } => {
                kept.binary_search(&feature).ok().map(|position| (position as u32, 1.0))
            }
            Self::Hash { inputs, .. } => {
                let mixed = mix(feature);
                let sign = if mixed >> 63 == 0 { 1.0 } else { -1.0 };
                Some(((((mixed & 0xffff_ffff) * *inputs as u64) >> 32) as u32, sign))
            }
        }
    }
}

/// Mixes the bits of a feature number with the finaliser of SplitMix64. Saved models depend on it: never change it.
fn mix(feature: u32) -> u64 {
    let mut bits = u64::from(feature).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::config::preset::Preset;

    fn net(features: Features, feature_count: usize) -> NetConfig {
        NetConfig { features, feature_count, ..Preset::Paper.method().net }
    }

    fn data() -> Csr {
        Csr {
            cols: 5,
            indptr: vec![0, 3, 5, 6].into(),
            indices: vec![0, 2, 4, 2, 4, 1].into(),
            values: vec![].into(),
        }
    }

    #[test]
    fn a_cut_keeps_the_features_that_occur_in_most_training_rows() {
        let map = FeatureMap::new(&net(Features::Cut, 2), &data(), &[0, 1, 2]);
        assert_eq!(map.inputs(), 2);
        assert_eq!(map.input(2), Some((0, 1.0)));
        assert_eq!(map.input(4), Some((1, 1.0)));
        assert_eq!(map.input(0), None);
        let only_the_last = FeatureMap::new(&net(Features::Cut, 1), &data(), &[2]);
        assert_eq!(only_the_last.input(1), Some((0, 1.0)));
    }

    #[test]
    fn the_map_none_uses_no_feature() {
        let map = FeatureMap::new(&net(Features::None, 3), &data(), &[0, 1, 2]);
        assert_eq!(map.features(), 5);
        assert!((0..5).all(|feature| map.input(feature).is_none()));
    }

    #[test]
    fn hashing_spreads_features_and_signs_evenly() {
        let map = FeatureMap::Hash { features: 100_000, inputs: 64 };
        let (mut counts, mut positive) = ([0u32; 64], 0u32);
        for (input, sign) in (0..100_000).filter_map(|feature| map.input(feature)) {
            counts[input as usize] += 1;
            positive += u32::from(sign > 0.0);
        }
        assert!(counts.iter().all(|count| (1300..1850).contains(count)), "{counts:?}");
        assert!((49_000..51_000).contains(&positive));
    }

    #[test]
    fn a_data_set_with_few_features_keeps_them_all() {
        for features in [Features::Cut, Features::Hash] {
            assert_eq!(FeatureMap::new(&net(features, 5), &data(), &[0]), FeatureMap::All { features: 5 });
        }
    }
}
