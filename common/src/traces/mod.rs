//! Spans for OpenTelemetry: what took how long, of requests, jobs and mini-batches.
//!
//! A job outlives any exporter, and a trace of a million spans helps nobody. So spans are told when they are over, of what is known then
//! anyway, and their ids follow from the job: a worker that takes the job over writes the same ones. Without the feature `otel` no span is
//! told; with it, none is unless `OTEL_EXPORTER_OTLP_ENDPOINT` says where spans go. What trace a caller's request is of goes on with a job all
//! the same: who looks for it finds it in the record, and scripts have it.
//!
//! It deliberately does not: keep spans for a collector that is away, or make anything wait for one. What finds no room is lost, and said.

pub mod ids;
mod span;

#[cfg_attr(not(feature = "otel"), path = "off.rs")]
mod exporter;
mod here;

pub use ids::{SpanId, TraceId, TraceParent};
pub use span::{Attribute, Failure, Span};

pub use exporter::{Sending, is_on, ratio, send, start};
pub use here::{current, random_span, request, step, within};

/// Where spans go cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("{variable}={value} cannot be understood: {reason}")]
pub struct BadTraces {
    /// The variable.
    pub variable: &'static str,
    /// What it says.
    pub value: String,
    /// Why, and what to give.
    pub reason: String,
}
