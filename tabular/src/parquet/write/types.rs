//! Which type holds the values of two, and which types a file has.
//!
//! Files have the types that `pandas.read_parquet` gives back: those that `pandas.to_parquet` writes.

use std::cmp::max;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

/// Key in the metadata of a field: the categories in their order, where that means something.
pub(super) const ORDER: &str = "prs:order";
/// Key in the metadata of a field: no row of the frame has a value there, so any type holds them.
pub(super) const MISSING: &str = "prs:missing";

/// Whether the frame of this field has nothing but missing values there.
pub(super) fn is_missing(field: &Field) -> bool {
    field.data_type().is_null() || field.metadata().contains_key(MISSING)
}

/// What other readers than this module may know of a field.
pub(super) fn own_metadata(field: &Field) -> HashMap<String, String> {
    let own = field.metadata().iter().filter(|(key, _)| ![ORDER, MISSING].contains(&key.as_str()));
    own.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The field of a file for `field`, a column of a frame: of a type that Parquet has, and null where a value is missing.
pub(super) fn normal(field: &Field) -> Field {
    if let DataType::Dictionary(_, values) = field.data_type()
        && is_text(values)
    {
        let is_ordered = field.dict_is_ordered().unwrap_or_default();
        return field
            .clone()
            .with_data_type(DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()))
            .with_dict_is_ordered(is_ordered)
            .with_nullable(true);
    }
    let mut plain = Field::new(field.name(), normal_type(field.data_type()), true);
    let metadata = field.metadata().iter().filter(|(key, _)| *key != ORDER);
    plain.set_metadata(metadata.map(|(key, value)| (key.clone(), value.clone())).collect::<HashMap<_, _>>());
    plain
}

fn normal_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => normal_type(values),
        DataType::Date64 => DataType::Date32,
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Utf8View => DataType::LargeUtf8,
        DataType::BinaryView => DataType::LargeBinary,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::List(item) => DataType::List(normal_plain(item)),
        DataType::LargeList(item) => DataType::LargeList(normal_plain(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(normal_plain(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(normal_plain).collect()),
        DataType::Map(entries, is_sorted) => match entry(entries) {
            Some((key, value)) => map(entries, &normal_plain(key), normal_plain(value), *is_sorted),
            None => data_type.clone(),
        },
        other => other.clone(),
    }
}

/// A field within another one: categories are kept in columns alone.
fn normal_plain(field: &FieldRef) -> FieldRef {
    let field = field.as_ref().clone();
    let plain = normal_type(field.data_type());
    field.with_data_type(plain).with_nullable(true).into()
}

/// The field that holds the values of both, which have the name of the first; nothing where none does.
pub(super) fn merged(one: &Field, other: &Field) -> Option<Field> {
    let (kind, other_kind) = (one.data_type(), other.data_type());
    if kind.is_null() || (is_missing(one) && !is_missing(other)) {
        return Some(other.clone().with_name(one.name()));
    }
    if is_missing(other) {
        return Some(one.clone());
    }
    let categories = |kind: &DataType| matches!(kind, DataType::Dictionary(..));
    if categories(kind) != categories(other_kind) {
        let values = |kind: &DataType| match kind {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            plain => plain.clone(),
        };
        let data_type = merged_types(&values(kind), &values(other_kind))?;
        return Some(Field::new(one.name(), data_type, true));
    }
    // Of a type that has more to it than its storage: a period, an interval, the order of categories.
    if one.metadata() != other.metadata() || one.dict_is_ordered() != other.dict_is_ordered() {
        return None;
    }
    let is_ordered = one.dict_is_ordered();
    let field = one.clone().with_data_type(merged_types(kind, other_kind)?);
    Some(field.with_dict_is_ordered(is_ordered.unwrap_or_default()))
}

fn merged_types(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, Duration, FixedSizeBinary, LargeBinary, LargeUtf8, Time32, Time64, Timestamp, Utf8,
    };
    if one == other {
        return Some(one.clone());
    }
    if let (Some(one), Some(other)) = (Number::of(one), Number::of(other)) {
        return one.and(other)?.data_type();
    }
    if let (Some(one), Some(other)) = (decimal(one), decimal(other)) {
        return merged_decimals(one, other);
    }
    if let (Some((item, length)), Some((other_item, other_length))) = (list(one), list(other)) {
        let item = Arc::new(merged(item, other_item)?);
        return Some(match length {
            Some(length) if Some(length) == other_length => DataType::FixedSizeList(item, length),
            _ if is_large(one) || is_large(other) => DataType::LargeList(item),
            _ => DataType::List(item),
        });
    }
    Some(match (one, other) {
        (Utf8 | LargeUtf8, Utf8 | LargeUtf8) => LargeUtf8,
        (Binary | LargeBinary | FixedSizeBinary(_), Binary | LargeBinary | FixedSizeBinary(_)) => LargeBinary,
        (Timestamp(unit, zone), Timestamp(other_unit, other_zone)) if zone == other_zone => {
            Timestamp(finer(*unit, *other_unit), zone.clone())
        }
        (Duration(unit), Duration(other_unit)) => Duration(finer(*unit, *other_unit)),
        (Time32(unit) | Time64(unit), Time32(other_unit) | Time64(other_unit)) => {
            Time64(finer(finer(*unit, *other_unit), TimeUnit::Microsecond))
        }
        (DataType::Struct(fields), DataType::Struct(others)) => {
            DataType::Struct(merged_fields(fields, others)?)
        }
        (DataType::Map(entries, is_sorted), DataType::Map(others, also_sorted)) => {
            let ((key, value), (other_key, other_value)) = (entry(entries)?, entry(others)?);
            let (key, value) = (merged(key, other_key)?, merged(value, other_value)?);
            map(entries, &key, value.into(), *is_sorted && *also_sorted)
        }
        _ => return None,
    })
}

/// The fields of both, in the order of their first appearance.
fn merged_fields(fields: &Fields, others: &Fields) -> Option<Fields> {
    let mut all: Vec<Field> = fields.iter().map(|field| field.as_ref().clone()).collect();
    for other in others {
        match all.iter_mut().find(|field| field.name() == other.name()) {
            Some(field) => *field = merged(field, other)?,
            None => all.push(other.as_ref().clone()),
        }
    }
    Some(all.into())
}

/// Key and value of a map.
fn entry(entries: &FieldRef) -> Option<(&FieldRef, &FieldRef)> {
    match entries.data_type() {
        DataType::Struct(fields) if fields.len() == 2 => Some((&fields[0], &fields[1])),
        _ => None,
    }
}

fn map(entries: &FieldRef, key: &Field, value: FieldRef, is_sorted: bool) -> DataType {
    let fields: Fields = vec![Arc::new(key.clone().with_nullable(false)), value].into();
    DataType::Map(Arc::new(Field::new(entries.name(), DataType::Struct(fields), false)), is_sorted)
}

/// The items of a list, and how many it has where all have as many.
fn list(data_type: &DataType) -> Option<(&FieldRef, Option<i32>)> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => Some((item, None)),
        DataType::FixedSizeList(item, length) => Some((item, Some(*length))),
        _ => None,
    }
}

fn is_large(data_type: &DataType) -> bool {
    matches!(data_type, DataType::LargeList(_))
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn finer(one: TimeUnit, other: TimeUnit) -> TimeUnit {
    max(one, other)
}

fn decimal(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            Some((*precision, *scale))
        }
        _ => None,
    }
}

fn merged_decimals((precision, scale): (u8, i8), (other, other_scale): (u8, i8)) -> Option<DataType> {
    let digits = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
    let widest = max(scale, other_scale);
    let wanted = max(digits(precision, scale), digits(other, other_scale)) + i16::from(widest);
    match u8::try_from(wanted).ok()? {
        precision @ ..=38 => Some(DataType::Decimal128(precision, widest)),
        precision @ 39..=76 => Some(DataType::Decimal256(precision, widest)),
        _ => None,
    }
}

/// A type of numbers, with its width in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Signed(u32),
    Unsigned(u32),
    Float(u32),
}

impl Number {
    fn of(data_type: &DataType) -> Option<Self> {
        let bits = data_type.primitive_width()? as u32 * 8;
        match data_type {
            kind if kind.is_signed_integer() => Some(Self::Signed(bits)),
            kind if kind.is_unsigned_integer() => Some(Self::Unsigned(bits)),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Some(Self::Float(bits)),
            _ => None,
        }
    }

    /// The narrowest type that holds the values of both; as in pandas, wide integers beside floats are `float64`.
    fn and(self, other: Self) -> Option<Self> {
        Some(match (self, other) {
            (Self::Signed(one), Self::Signed(other)) => Self::Signed(max(one, other)),
            (Self::Unsigned(one), Self::Unsigned(other)) => Self::Unsigned(max(one, other)),
            (Self::Signed(signed), Self::Unsigned(unsigned))
            | (Self::Unsigned(unsigned), Self::Signed(signed)) => {
                Self::Signed(Some(max(signed, unsigned * 2)).filter(|bits| *bits <= 64)?)
            }
            (Self::Float(one), Self::Float(other)) => Self::Float(max(one, other)),
            (Self::Float(float), Self::Signed(bits) | Self::Unsigned(bits))
            | (Self::Signed(bits) | Self::Unsigned(bits), Self::Float(float)) => Self::Float(match bits {
                ..=8 => float,
                9..=16 => max(float, 32),
                17.. => 64,
            }),
        })
    }

    fn data_type(self) -> Option<DataType> {
        Some(match self {
            Self::Signed(8) => DataType::Int8,
            Self::Signed(16) => DataType::Int16,
            Self::Signed(32) => DataType::Int32,
            Self::Signed(64) => DataType::Int64,
            Self::Unsigned(8) => DataType::UInt8,
            Self::Unsigned(16) => DataType::UInt16,
            Self::Unsigned(32) => DataType::UInt32,
            Self::Unsigned(64) => DataType::UInt64,
            Self::Float(16) => DataType::Float16,
            Self::Float(32) => DataType::Float32,
            Self::Float(64) => DataType::Float64,
            _ => return None,
        })
    }
}

/// Characters of the details of a type that a message shows.
const SHOWN: usize = 80;

/// The type of a field, as a person who uses pandas calls it.
pub(super) fn described(field: &Field) -> String {
    if let Some(name) = field.metadata().get("ARROW:extension:name") {
        return extension(name, field.metadata().get("ARROW:extension:metadata").map_or("", String::as_str));
    }
    match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => "string".to_owned(),
        DataType::Binary | DataType::LargeBinary => "bytes".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(unit, None) => format!("datetime64[{}]", short(*unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("datetime64[{}, {zone}]", short(*unit)),
        DataType::Duration(unit) => format!("timedelta64[{}]", short(*unit)),
        DataType::Dictionary(..) => match field.metadata().get(ORDER) {
            Some(order) => format!("category ({order})"),
            None => "category".to_owned(),
        },
        numeric if Number::of(numeric).is_some() => numeric.to_string().to_lowercase(),
        other => other.to_string().replace('µ', "u"),
    }
}

/// A type that has more to it than its storage: a period, an interval.
fn extension(name: &str, details: &str) -> String {
    let told: serde_json::Value = serde_json::from_str(details).unwrap_or_default();
    match (name, &told["freq"], &told["subtype"], &told["closed"]) {
        ("pandas.period", serde_json::Value::String(freq), ..) => format!("period[{freq}]"),
        ("pandas.interval", _, serde_json::Value::String(subtype), serde_json::Value::String(closed)) => {
            format!("interval[{subtype}, {closed}]")
        }
        _ if details.is_empty() || details == "{}" => name.to_owned(),
        _ => format!("{name} {}", details.chars().take(SHOWN).collect::<String>()),
    }
}

fn short(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// Whether there is a structure without fields in it, which no Parquet file can have.
pub(super) fn has_empty_structure(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => {
            fields.is_empty() || fields.iter().any(|field| has_empty_structure(field.data_type()))
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_empty_structure(item.data_type()),
        _ => false,
    }
}
