//! The class of environments in which a stage is expected to give the same bytes. Another libtorch, another type of
//! device, other vector units or another number of threads may sum in another order, and therefore round differently.

use std::collections::BTreeMap;
use std::fmt;

use pipe_core::work::MATRIX_PRODUCT;

/// A class as one line of words: `x86_64 threads=2 libtorch=2.13.0 device=cpu kernels=avx2 vendor=AuthenticAMD`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct EnvironmentClass(String);

impl EnvironmentClass {
    /// Returns the class of the environment that a manifest records. Unless matrices were multiplied, only the architecture
    /// and the threads count, because it is not known what else a program of the user depends on.
    pub fn of(environment: &BTreeMap<String, String>) -> Self {
        let multiplies = ["libtorch", MATRIX_PRODUCT].iter().any(|fact| environment.contains_key(*fact));
        Self::from_facts(environment, multiplies)
    }

    /// Returns the class of the machine that a manifest describes, whatever the stage depends on.
    pub fn of_machine(environment: &BTreeMap<String, String>) -> Self {
        Self::from_facts(environment, true)
    }

    fn from_facts(environment: &BTreeMap<String, String>, with_kernels: bool) -> Self {
        let fact = |name: &str| environment.get(name).map(String::as_str);
        let architecture = fact("os").and_then(|os| os.split_whitespace().last()).unwrap_or("unknown");
        let mut words = vec![architecture.to_owned()];
        let mut word = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                words.push(format!("{name}={}", value.replace(char::is_whitespace, "-")));
            }
        };
        word("threads", fact("threads"));
        if with_kernels {
            word("libtorch", fact("libtorch"));
            word("device", fact("device").map(|device| device.split(':').next().unwrap_or(device)));
            word("kernels", fact("cpu features").map(kernels));
            word("vendor", fact("cpu vendor"));
        }
        Self(words.join(" "))
    }

    /// Reads a class from a lock.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the value of one word, such as `libtorch`.
    pub fn word(&self, name: &str) -> Option<&str> {
        let mut words = self.0.split(' ').filter_map(|word| word.split_once('='));
        words.find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl fmt::Display for EnvironmentClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns which of its kernels libtorch chooses, by the rule of `at::native::get_cpu_capability`.
fn kernels(features: &str) -> &'static str {
    let has =
        |names: &[&str]| names.iter().all(|name| features.split_whitespace().any(|found| found == *name));
    if has(&["avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"]) {
        "avx512"
    } else if has(&["avx2", "fma"]) {
        "avx2"
    } else {
        "default"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(facts: &[(&str, &str)]) -> EnvironmentClass {
        let facts = facts.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        EnvironmentClass::of(&facts)
    }

    #[test]
    fn a_class_contains_only_what_changes_rounding() {
        let torch = [
            ("os", "linux x86_64"),
            ("kernel", "6.1"),
            ("threads", "2"),
            ("libtorch", "2.13.0"),
            ("device", "cuda:1"),
            ("cpu", "Fast One"),
            ("cpu vendor", "GenuineIntel"),
            ("cpu features", "sse4_2 avx avx2 fma"),
        ];
        let expected = "x86_64 threads=2 libtorch=2.13.0 device=cuda kernels=avx2 vendor=GenuineIntel";
        assert_eq!(class(&torch).to_string(), expected);
        assert_eq!(class(&torch[..3]).to_string(), "x86_64 threads=2");
        let machine = torch.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let machine: BTreeMap<String, String> =
            machine.into_iter().filter(|(name, _)| name != "libtorch").collect();
        assert_eq!(EnvironmentClass::of(&machine).to_string(), "x86_64 threads=2");
        let mut multiplied = machine.clone();
        multiplied.insert(MATRIX_PRODUCT.to_owned(), "matrixmultiply".to_owned());
        assert_eq!(EnvironmentClass::of(&multiplied), EnvironmentClass::of_machine(&machine));
        let expected = "x86_64 threads=2 device=cuda kernels=avx2 vendor=GenuineIntel";
        assert_eq!(EnvironmentClass::of_machine(&machine).to_string(), expected);
        assert_eq!(class(&torch).word("libtorch"), Some("2.13.0"));
        assert_eq!(class(&torch).word("lib"), None);
    }

    #[test]
    fn kernels_are_chosen_as_libtorch_chooses_them() {
        assert_eq!(kernels("avx2 fma avx512f avx512bw avx512dq avx512vl"), "avx512");
        assert_eq!(kernels("avx2 fma avx512f"), "avx2");
        assert_eq!(kernels("avx2"), "default");
    }
}
