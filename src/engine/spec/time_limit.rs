//! A time with its unit, such as `90s`, `30m`, `4h` or `2d`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};
use serde_untagged::UntaggedEnumVisitor;

/// How long something may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimit {
    pub duration: Duration,
}

impl TimeLimit {
    /// Reads a whole number and a unit.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let unit = text.chars().last()?;
        let factor = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        let seconds = number.checked_mul(factor).filter(|&seconds| seconds > 0)?;
        Some(Self { duration: Duration::from_secs(seconds) })
    }
}

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("a time with its unit, such as `30m` or `4h`")
            .string(|text| {
                Self::parse(text).ok_or_else(|| {
                    Error::custom(format_args!(
                        "`{text}` is not a time; write a whole number and a unit, such as `90s`, `30m`, `4h` or `2d`"
                    ))
                })
            })
            .deserialize(deserializer)
    }
}

impl JsonSchema for TimeLimit {
    fn schema_name() -> Cow<'static, str> {
        "TimeLimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+ *[smhd]$|\\$\\{" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_numbers_with_a_unit() {
        let seconds = |text| TimeLimit::parse(text).map(|limit| limit.duration.as_secs());
        assert_eq!(seconds("4h"), Some(4 * 3600));
        assert_eq!(seconds("90 s"), Some(90));
        assert_eq!(seconds("2d"), Some(172_800));
        for wrong in ["", "4", "0m", "h", "-1h", "1.5h", "4w", "4é"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
