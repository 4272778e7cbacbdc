//! Columns whose types in pandas their data decides: whole numbers and truth values, of which some may be missing, also within
//! lists, and categories, which have all values of the file.
//!
//! A process has those of a local file at hand. Of an object it has the row groups of a slice, and these columns beside them,
//! where the footer does not say how many values are missing (`azureml_user.parallel_run.parquet_types`).

/// The types of the whole numbers, by the number of their converted type from the first on.
const INTEGERS: [&str; 8] = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"];

/// An element of a schema: a column or a group of columns, by the numbers of the format.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) physical: Option<i64>,
    pub(super) repetition: i64,
    pub(super) converted: Option<i64>,
    /// The variant of its logical type.
    pub(super) logical: Option<i64>,
}

impl Element {
    const BOOLEAN: i64 = 0;
    const INT32: i64 = 1;
    const INT64: i64 = 2;
    const INT96: i64 = 3;
    const FLOAT: i64 = 4;
    const DOUBLE: i64 = 5;
    const REQUIRED: i64 = 0;
    const REPEATED: i64 = 2;
    /// `UINT_8` to `INT_64`.
    const CONVERTED_INTEGERS: std::ops::RangeInclusive<i64> = 11..=18;
    const CONVERTED_TEXT: i64 = 0;
    const CONVERTED_LIST: i64 = 3;
    const CONVERTED_MILLISECONDS: i64 = 9;
    const CONVERTED_MICROSECONDS: i64 = 10;
    const LOGICAL_STRING: i64 = 1;
    const LOGICAL_LIST: i64 = 3;
    const LOGICAL_TIMESTAMP: i64 = 8;
    const LOGICAL_INTEGER: i64 = 10;

    /// Whether pandas holds whole numbers or truth values in it as numpy does, as long as none is missing.
    fn is_plain(&self) -> bool {
        let is_integer = match (self.logical, self.converted) {
            (Some(logical), _) => logical == Self::LOGICAL_INTEGER,
            (None, Some(converted)) => Self::CONVERTED_INTEGERS.contains(&converted),
            (None, None) => true,
        };
        match self.physical {
            Some(Self::BOOLEAN) => true,
            Some(Self::INT32 | Self::INT64) => is_integer,
            _ => false,
        }
    }

    /// The type in pandas, where no value is missing.
    pub(super) fn type_name(&self) -> &'static str {
        match (self.physical, self.logical, self.converted) {
            _ if self.repetition == Self::REPEATED => "object",
            (Some(Self::BOOLEAN), ..) => "bool",
            (Some(Self::INT32 | Self::INT64), _, Some(converted)) if self.is_plain() => {
                let at = usize::try_from(converted - Self::CONVERTED_INTEGERS.start()).ok();
                at.and_then(|at| INTEGERS.get(at)).copied().unwrap_or("int64")
            }
            (Some(Self::INT32), ..) if self.is_plain() => "int32",
            (Some(Self::INT64), ..) if self.is_plain() => "int64",
            (Some(Self::FLOAT), ..) => "float32",
            (Some(Self::DOUBLE), ..) => "float64",
            (Some(Self::INT96), ..)
            | (_, Some(Self::LOGICAL_TIMESTAMP), _)
            | (_, None, Some(Self::CONVERTED_MILLISECONDS | Self::CONVERTED_MICROSECONDS)) => "datetime64",
            (_, Some(Self::LOGICAL_STRING), _) | (_, None, Some(Self::CONVERTED_TEXT)) => "str",
            _ => "object",
        }
    }

    fn is_list(&self) -> bool {
        self.logical == Some(Self::LOGICAL_LIST)
            || self.converted == Some(Self::CONVERTED_LIST)
            || self.repetition == Self::REPEATED
    }
}

/// The part of a file that decides on the type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecidedBy {
    /// The schema.
    Schema,
    /// Whether a value is missing.
    Missing,
    /// Whether one is missing within a list; of those that are counted some may be lists.
    MissingWithin,
    /// All values.
    Values,
}

impl DecidedBy {
    /// Tells it of the column `leaf`, which is in these groups, from the outermost.
    pub(super) fn of<'a>(
        above: impl Iterator<Item = &'a Element> + Clone,
        leaf: &'a Element,
        is_dictionary: impl FnOnce() -> bool,
    ) -> Self {
        let is_required = |element: &Element| element.repetition == Element::REQUIRED;
        if above.clone().next().is_none() && leaf.repetition != Element::REPEATED {
            if is_dictionary() {
                return Self::Values;
            }
            return if leaf.is_plain() && !is_required(leaf) { Self::Missing } else { Self::Schema };
        }
        if leaf.is_plain() && above.clone().all(Element::is_list) && !above.chain([leaf]).all(is_required) {
            Self::MissingWithin
        } else {
            Self::Schema
        }
    }

    /// The type in pandas of a column of type `plain`, with missing values or without.
    pub(super) fn type_name(self, plain: &'static str, has_missing: bool) -> &'static str {
        match self {
            Self::Values => "category",
            Self::Missing if has_missing && plain == "bool" => "object",
            Self::Missing if has_missing => "float64",
            _ => plain,
        }
    }

    /// Whether the data decides, of a row group in which so many values are missing.
    pub(super) fn is_in_doubt(self, nulls: Option<i64>) -> bool {
        match self {
            Self::Schema => false,
            Self::Missing => nulls.is_none(),
            Self::MissingWithin => nulls != Some(0),
            Self::Values => true,
        }
    }
}
