//! Lines of the log for programs: one JSON object each, with the fields of the event and of what it lies in beside each other.
//!
//! `ts`, `level`, `target` (the part of prs that says it) and `message` are in each; `request_id`, `job_id`, `node_id`, `trace_id` and
//! `span_id` where they are known. A field of an event that would have one of the first four names gets another.

use std::fmt;
use std::io::{self, Write};

use jiff::Timestamp;
use prs_common::log_context::{self, Present};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Names that events use, and those that programs read.
const NAMES: [(&str, &str); 5] = [
    ("job", "job_id"),
    ("node", "node_id"),
    // What is a compute target to an event.
    ("target", "compute_target"),
    ("ts", "time"),
    ("level", "amount"),
];

/// Writes the lines.
#[derive(Debug)]
pub(super) struct JsonLines;

/// Fields in the order in which they came; a name stands once.
#[derive(Debug, Default, Clone)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn set(&mut self, name: &'static str, value: Value) {
        let name = NAMES.iter().find(|(own, _)| *own == name).map_or(name, |(_, read)| read);
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The job that is served, where the event names no job, or this one.
    fn add_job(&mut self, present: Option<Present>) {
        let Some(Present { job_id, node_id }) = present else { return };
        if self.get("job_id").is_some_and(|own| own.as_str() != Some(&*job_id)) {
            return;
        }
        self.set("job_id", job_id.into());
        if let Some(node_id) = node_id.filter(|_| self.get("node_id").is_none()) {
            self.set("node_id", node_id.into());
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field.name(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), value.into());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        if let Some(scope) = context.event_scope(event) {
            for span in scope.from_root() {
                if let Some(own) = span.extensions().get::<Fields>() {
                    own.0.iter().for_each(|(name, value)| fields.set(name, value.clone()));
                }
            }
        }
        event.record(&mut fields);
        fields.add_job(log_context::present());
        let metadata = event.metadata();
        let line = line(Timestamp::now(), *metadata.level(), metadata.target(), fields);
        // A line that standard error does not take is lost: nothing can be said of it there.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

/// The line of an event, with its end.
fn line(now: Timestamp, level: Level, target: &str, mut fields: Fields) -> String {
    let said = fields.0.iter().position(|(name, _)| *name == "message");
    let message = said.map_or(Value::from(""), |at| fields.0.remove(at).1);
    let first = [
        ("ts", Value::from(format!("{now:.6}"))),
        ("level", Value::from(level.as_str())),
        ("target", Value::from(target)),
        ("message", message),
    ];
    let mut line = String::from("{");
    for (name, value) in first.into_iter().chain(fields.0) {
        if line.len() > 1 {
            line.push(',');
        }
        line.push_str(&Value::from(name).to_string());
        line.push(':');
        line.push_str(&value.to_string());
    }
    line.push_str("}\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(given: &[(&'static str, Value)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in given {
            fields.set(name, value.clone());
        }
        fields
    }

    #[test]
    fn a_line_is_one_object_whose_names_stand_once() {
        let now: Timestamp = "2026-11-25T12:08:28.000001Z".parse().unwrap();
        let table: [(&[(&str, Value)], &str); 4] = [
            (
                &[("message", "done".into()), ("took_ms", 7.into())],
                r#""target":"prs_worker","message":"done","took_ms":7}"#,
            ),
            (
                // The fields of what an event lies in come first, and its own hold.
                &[("request_id", "outer".into()), ("request_id", "a".into()), ("message", "x".into())],
                r#""target":"prs_worker","message":"x","request_id":"a"}"#,
            ),
            (
                &[("job", "j".into()), ("target", "gpu".into())],
                r#""target":"prs_worker","message":"","job_id":"j","compute_target":"gpu"}"#,
            ),
            (
                &[("message", "a \"quoted\"\nline \u{1b}[31m".into())],
                r#""target":"prs_worker","message":"a \"quoted\"\nline \u001b[31m"}"#,
            ),
        ];
        for (given, end) in table {
            let line = line(now, Level::WARN, "prs_worker", fields(given));
            let expected = format!(r#"{{"ts":"2026-11-25T12:08:28.000001Z","level":"WARN",{end}{}"#, "\n");
            assert_eq!(line, expected);
            assert!(serde_json::from_str::<Value>(&line).unwrap().is_object());
        }
    }

    #[test]
    fn a_line_has_the_job_that_is_served_unless_it_is_about_another() {
        let served = |node_id| Some(Present { job_id: "a".to_owned(), node_id });
        for (own, present, job, node) in [
            (None, None, None, None),
            (None, served(Some(2)), Some("a"), Some(2)),
            (None, served(None), Some("a"), None),
            (Some("a"), served(Some(2)), Some("a"), Some(2)),
            (Some("b"), served(Some(2)), Some("b"), None),
        ] {
            let mut all = fields(&own.map(|own| ("job", Value::from(own))).into_iter().collect::<Vec<_>>());
            all.add_job(present);
            assert_eq!(all.get("job_id").and_then(Value::as_str), job);
            assert_eq!(all.get("node_id").and_then(Value::as_u64), node);
        }
    }
}
