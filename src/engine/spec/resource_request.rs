//! The `resources` of a stage.

use std::borrow::Cow;
use std::num::NonZero;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Unexpected};
use serde_untagged::UntaggedEnumVisitor;

use super::pipeline::{ClusterRequest, Resources};
use super::time_limit::TimeLimit;

/// The resources that an instance needs while it runs.
#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceRequest {
    /// The number of threads; the default is 1.
    pub cpu: Option<NonZero<usize>>,
    /// The amount of memory, such as `500MB` or `4GB`. On a cluster, `auto` asks for what the stage has used before.
    pub mem: Option<MemoryRequest>,
    /// The number of GPUs; the default is 0. On a cluster, `a100:2` asks for two GPUs of a type.
    pub gpu: Option<GpuRequest>,
    /// How long it may run on a cluster, such as `30m` or `4h`; the default is that of the cluster.
    pub time: Option<TimeLimit>,
}

impl ResourceRequest {
    /// Returns the resources, with defaults for those that are not stated.
    pub fn resources(&self) -> Resources {
        let Resources { cpu, mem, gpu } = Resources::default();
        Resources {
            cpu: self.cpu.map_or(cpu, NonZero::get),
            mem: match self.mem {
                Some(MemoryRequest::Amount(memory)) => memory.bytes,
                Some(MemoryRequest::Auto) | None => mem,
            },
            gpu: self.gpu.as_ref().map_or(gpu, |gpu| gpu.count),
        }
    }

    /// Returns what only a cluster can give.
    pub fn of_cluster(&self) -> ClusterRequest {
        ClusterRequest {
            time: self.time.map(|time| time.duration),
            auto_mem: self.mem == Some(MemoryRequest::Auto),
            gpu_type: self.gpu.as_ref().and_then(|gpu| gpu.gpu_type.clone()),
        }
    }
}

/// An amount of memory, or the wish that `pipe` chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRequest {
    Auto,
    Amount(Memory),
}

impl<'de> Deserialize<'de> for MemoryRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("an amount of memory with its unit, such as `4GB`, or `auto`")
            .string(|text| match text {
                "auto" => Ok(Self::Auto),
                _ => Memory::read(text).map(Self::Amount),
            })
            .deserialize(deserializer)
    }
}

impl JsonSchema for MemoryRequest {
    fn schema_name() -> Cow<'static, str> {
        "MemoryRequest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^auto$|^[0-9.]+ *([kKmMgGtT]i?)?[bB]$|\\$\\{" })
    }
}

/// A number of GPUs, and their type if it matters: `2`, `a100` or `a100:2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuRequest {
    pub gpu_type: Option<String>,
    pub count: usize,
}

impl GpuRequest {
    fn parse(text: &str) -> Option<Self> {
        let (gpu_type, count) = match text.split_once(':') {
            Some((gpu_type, count)) => (gpu_type, count.parse().ok()?),
            None => (text, 1),
        };
        let is_name = gpu_type.starts_with(|c: char| c.is_ascii_alphabetic())
            && gpu_type.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        (is_name && count > 0).then(|| Self { gpu_type: Some(gpu_type.to_owned()), count })
    }
}

impl<'de> Deserialize<'de> for GpuRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXPECTED: &str = "a number of GPUs, or a type and a number, such as `a100:2`";
        let of_count = |count: usize| Self { gpu_type: None, count };
        UntaggedEnumVisitor::new()
            .expecting(EXPECTED)
            .u64(move |count| {
                let count = usize::try_from(count);
                count.map(of_count).map_err(|_| Error::custom("there are not so many GPUs"))
            })
            .i64(|count| Err(Error::invalid_value(Unexpected::Signed(count), &EXPECTED)))
            .string(|text| {
                Self::parse(text).ok_or_else(|| Error::custom(format_args!("`{text}` is not {EXPECTED}")))
            })
            .deserialize(deserializer)
    }
}

impl JsonSchema for GpuRequest {
    fn schema_name() -> Cow<'static, str> {
        "GpuRequest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[a-zA-Z][a-zA-Z0-9._-]*(:[1-9][0-9]*)?$|\\$\\{" }
            ]
        })
    }
}

/// An amount of memory: a number and its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub bytes: u64,
}

impl Memory {
    fn read<E: Error>(text: &str) -> Result<Self, E> {
        Self::parse(text).ok_or_else(|| {
            E::custom(format_args!("`{text}` is not an amount of memory; write it like `500MB` or `4GB`"))
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = text.split_at(end);
        let factor: f64 = match unit.trim_start().to_ascii_lowercase().as_str() {
            "b" => 1.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "tb" => 1e12,
            "kib" => 1024.0,
            "mib" => 1024f64.powi(2),
            "gib" => 1024f64.powi(3),
            "tib" => 1024f64.powi(4),
            _ => return None,
        };
        let bytes = (number.parse::<f64>().ok()? * factor).round();
        (1.0..1e18).contains(&bytes).then_some(Self { bytes: bytes as u64 })
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("an amount of memory with its unit, such as `4GB`")
            .string(Self::read)
            .deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ResourceRequest, String> {
        serde_yaml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn gpus_are_a_number_or_a_type_with_a_number() {
        let gpu = |text: &str| {
            let request = read(&format!("gpu: {text}")).unwrap();
            (request.of_cluster().gpu_type, request.resources().gpu)
        };
        assert_eq!(gpu("2"), (None, 2));
        assert_eq!(gpu("a100"), (Some("a100".to_owned()), 1));
        assert_eq!(gpu("nvidia_h100.80gb:4"), (Some("nvidia_h100.80gb".to_owned()), 4));
        for wrong in ["a100:0", "a100:two", "':2'", "a100 2", "-1", "1.5", "'a100,b:1'"] {
            let error = read(&format!("gpu: {wrong}")).unwrap_err();
            assert!(error.contains("such as `a100:2`"), "{wrong}: {error}");
        }
    }

    #[test]
    fn memory_is_an_amount_or_chosen_by_pipe() {
        let auto = read("mem: auto").unwrap();
        assert!(auto.of_cluster().auto_mem);
        assert_eq!(auto.resources().mem, 0);
        let stated = read("mem: 2GiB").unwrap();
        assert!(!stated.of_cluster().auto_mem);
        assert_eq!(stated.resources().mem, 2 << 30);
        assert!(read("mem: automatic").unwrap_err().contains("write it like `500MB`"));
    }
    #[test]
    fn memory_has_a_unit() {
        let bytes = |text| Memory::parse(text).map(|memory| memory.bytes);
        assert_eq!(bytes("4GB"), Some(4_000_000_000));
        assert_eq!(bytes("1.5 KiB"), Some(1536));
        assert_eq!(bytes("500mb"), Some(500_000_000));
        for bad in ["", "4", "GB", "4 apples", "-4GB", "0GB", "1..5GB", "99999999TB"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }
}
