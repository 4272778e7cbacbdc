//! What the values of keys are: how each type is read, described, and written again.
//!
//! Reading gives the value as `job.json` has it, so that a field of [`JobSpec`](super::JobSpec) of the same name takes it
//! without code of its own. Numbers and booleans may be written as text, as azureml and `--set` do.

use std::fmt;
use std::ops::RangeInclusive;

use serde_json::Value as Json;

use super::yaml::{Node, ScalarKind, Value};

/// The largest count and the longest time, 68 years: azureml's `int.max`.
pub(super) const INT_MAX: i64 = i32::MAX as i64;
/// A number of things, at least one.
pub(super) const COUNT: Takes = Takes::Whole(1..=INT_MAX, "");
/// A time, at least one second.
pub(super) const SECONDS: Takes = Takes::Whole(1..=INT_MAX, " seconds");
/// A number of failures beyond which a job is aborted.
pub(super) const THRESHOLD: Takes = Takes::Whole(-1..=i64::MAX, ", where -1 ignores all failures");
/// Units of times, and their seconds.
const UNITS: [(&str, u64); 2] = [("h", 3_600), ("d", 86_400)];

/// Type and range of a key.
#[derive(Debug, Clone)]
pub enum Takes {
    /// Any text.
    Text,
    /// Text that passes a check, and what it is in words.
    Named(&'static str, fn(&str) -> Result<(), String>),
    /// A whole number, and what a reader should know of it.
    Whole(RangeInclusive<i64>, &'static str),
    /// A number.
    Number(RangeInclusive<f64>),
    /// One of these words, whatever their case.
    Words(&'static [&'static str]),
    /// True or false.
    Boolean,
    /// A time with its unit; seconds in `job.json`.
    Time,
    /// Bytes, with or without a unit; bytes in `job.json`.
    Size,
    /// What code of its own reads, in words.
    Own(&'static str),
    /// Nothing yet, and what to do instead.
    NotYet(&'static str),
}

impl fmt::Display for Takes {
    /// What to give, as it follows "give".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Named(what, _) | Self::Own(what) => f.write_str(what),
            Self::Whole(range, meaning) if *range.end() == i64::MAX => {
                write!(f, "a whole number of at least {}{meaning}", range.start())
            }
            Self::Whole(range, meaning) => {
                write!(f, "a whole number from {} to {}{meaning}", range.start(), range.end())
            }
            Self::Number(range) => write!(f, "a number from {} to {}", range.start(), range.end()),
            Self::Words(words) => write!(f, "one of {}", words.join(", ")),
            Self::Boolean => f.write_str("one of true, false"),
            Self::Time => f.write_str("a whole number of hours or days, at least 1h, such as 12h or 30d"),
            Self::Size => f.write_str(
                "bytes, at least 1, as a whole number with KB, MB, GB or nothing after it, such as 4GB",
            ),
            Self::NotYet(_) => f.write_str("nothing: it is not supported yet"),
        }
    }
}

impl Takes {
    /// The value as `job.json` has it, null for what is not read here; or what is wrong with it, with the remedy.
    pub(super) fn read(&self, node: &Node) -> Result<Json, String> {
        let given = node.describe();
        let text = node.as_text().ok_or_else(|| format!("{given} where text is expected"));
        let trimmed = node.as_text().unwrap_or_default().trim();
        let out_of_range = || format!("{given} is out of range: give {self}");
        match self {
            Self::Text => text.map(Json::from),
            Self::Named(_, check) => text.and_then(|text| check(text).map(|()| text.into())),
            Self::Whole(..) if !is_whole(trimmed) => {
                Err(format!("{given} is not a whole number: give {self}"))
            }
            Self::Whole(range, _) => {
                let number = trimmed.parse().ok().filter(|number| range.contains(number));
                number.map(Json::from).ok_or_else(out_of_range)
            }
            Self::Number(range) => match trimmed.parse::<f64>() {
                Ok(number) if range.contains(&number) => Ok(number.into()),
                Ok(number) if !number.is_nan() => Err(out_of_range()),
                _ => Err(format!("{given} is not a number: give {self}")),
            },
            Self::Words(words) => {
                let known = words.iter().find(|word| word.eq_ignore_ascii_case(trimmed));
                known.map(|word| Json::from(*word)).ok_or_else(|| format!("{given} is not {self}"))
            }
            Self::Boolean => match trimmed.to_ascii_lowercase().as_str() {
                "true" => Ok(true.into()),
                "false" => Ok(false.into()),
                _ => Err(format!("{given} is not {self}")),
            },
            Self::Time => {
                seconds(trimmed).map(Json::from).ok_or_else(|| format!("{given} is not a time: give {self}"))
            }
            Self::Size => match size(trimmed) {
                Ok(bytes) => Ok(bytes.into()),
                Err(NoSize::OutOfRange) => Err(out_of_range()),
                Err(NoSize::Other) => Err(format!("{given} is not a size: give {self}")),
            },
            Self::NotYet(remedy) if asks_for_something(node) => Err(format!("not supported yet: {remedy}")),
            Self::Own(_) | Self::NotYet(_) => Ok(Json::Null),
        }
    }

    /// A value of `job.json` as a job file has it; nothing where it is left out there.
    pub fn written(&self, stored: &Json) -> Option<Json> {
        match (self, stored) {
            (_, Json::Null) => None,
            (_, Json::Array(items)) if items.is_empty() => None,
            (_, Json::Object(entries)) if entries.is_empty() => None,
            (Self::Time, seconds) => Some(format!("{}h", seconds.as_u64()? / 3_600).into()),
            (Self::Size, bytes) => Some(size_text(bytes.as_u64()?).into()),
            (_, value) => Some(value.clone()),
        }
    }
}

/// Units of sizes, the largest first.
const SIZES: [(&str, u64); 3] = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];

/// Why a text is no size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoSize {
    /// Nobody can have so many bytes, or they are none.
    OutOfRange,
    /// It is something else.
    Other,
}

/// The bytes of a size, a whole number with a unit of 1024 or none.
pub(super) fn size(text: &str) -> Result<u64, NoSize> {
    let split = text.len().checked_sub(2).and_then(|at| text.split_at_checked(at));
    let with_unit = split.and_then(|(digits, unit)| {
        let (_, bytes) = SIZES.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?;
        Some((digits, *bytes))
    });
    let (digits, unit) = with_unit.unwrap_or((text, 1));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NoSize::Other);
    }
    // JSON numbers and file offsets are signed.
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|&bytes| bytes >= 1 && i64::try_from(bytes).is_ok()).ok_or(NoSize::OutOfRange)
}

/// A size as a job file has it, in the largest unit that it is whole in.
fn size_text(bytes: u64) -> String {
    let unit = SIZES.iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

fn seconds(text: &str) -> Option<u64> {
    let of_unit = |(unit, seconds): &(&str, u64)| {
        let number = text.strip_suffix(unit)?;
        let number = Some(number).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))?;
        number.parse::<u64>().ok()?.checked_mul(*seconds)
    };
    let longest = INT_MAX.unsigned_abs();
    UNITS.iter().find_map(of_unit).filter(|seconds| (1..=longest).contains(seconds))
}

fn asks_for_something(node: &Node) -> bool {
    match &node.value {
        Value::Null => false,
        Value::Sequence(items) => !items.is_empty(),
        Value::Mapping(entries) => !entries.is_empty(),
        Value::Scalar { text, kind } => *kind != ScalarKind::Boolean || !text.eq_ignore_ascii_case("false"),
    }
}

/// Whether `text` is a whole number of any size.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
