//! What a span reports when it is over.

use super::{SpanId, TraceId, TraceParent};

/// A span that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its trace.
    pub trace: TraceId,
    /// Itself.
    pub id: SpanId,
    /// The span that it is part of; nothing for the root of a trace.
    pub parent: Option<SpanId>,
    /// Its name.
    pub name: String,
    /// Whether it answered a request of another program.
    pub is_of_server: bool,
    /// Start and end, microseconds since the Unix epoch.
    pub time_us: (u64, u64),
    /// What it says beside.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// What it belongs to in another trace.
    pub link: Option<TraceParent>,
    /// What went wrong; nothing where nothing did.
    pub failure: Option<Failure>,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Class of the exception; empty where there was none.
    pub class: String,
    /// In words.
    pub message: String,
}

impl Span {
    /// A span of this name in `trace`, from and to these microseconds since the Unix epoch; without a parent.
    pub fn new(trace: TraceId, name: &str, time_us: (u64, u64)) -> Self {
        Self {
            trace,
            id: SpanId::named(trace, name),
            parent: None,
            name: name.to_owned(),
            is_of_server: false,
            time_us: (time_us.0, time_us.1.max(time_us.0)),
            attributes: Vec::new(),
            link: None,
            failure: None,
        }
    }

    /// With another attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Attribute>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// As a part of this span.
    #[must_use]
    pub fn within(mut self, parent: SpanId) -> Self {
        self.parent = Some(parent);
        self
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Attribute {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}
