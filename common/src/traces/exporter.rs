//! Brings spans to a collector, by OTLP over HTTP, some hundred at a time.

use std::env;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Event, Link, SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, SpanId as OtelSpanId, TraceId as OtelTraceId, Value};
use opentelemetry_otlp::SpanExporter as OtlpExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter, SpanLinks};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Attribute, BadTraces, Span, SpanId, TraceId, TraceParent};

/// Where spans go; those of traces alone come first.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const RATIO: &str = "PRS_TRACE_RATIO";
const USUAL_RATIO: f64 = 0.001;
/// Spans that wait, at most; more are lost.
const ROOM: usize = 8192;
/// Spans that are sent at once, at most.
const TOGETHER: usize = 512;
/// How long spans wait for others to be sent with.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the last ones are waited for.
const FAREWELL: Duration = Duration::from_secs(5);

static SENDER: OnceLock<Sender> = OnceLock::new();

struct Sender {
    spans: mpsc::Sender<Span>,
    lost: AtomicU64,
    ratio: f64,
}

/// Spans are sent until this ends.
#[derive(Debug)]
pub struct Sending {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Sending {
    /// Sends what waits, for some seconds at most.
    pub async fn end(self) {
        drop(self.stop);
        let _ = timeout(FAREWELL, self.task).await;
    }
}

/// Begins to send spans as those of `service`, where a variable says where they go. Within a runtime.
pub fn start(service: &'static str) -> Result<Option<Sending>, BadTraces> {
    let named =
        |variable| env::var(variable).ok().filter(|value| !value.is_empty()).map(|value| (variable, value));
    let Some((variable, value)) = ENDPOINTS.into_iter().find_map(named) else { return Ok(None) };
    let refused = |reason: String| BadTraces { variable, value: value.clone(), reason };
    if !value.starts_with("http://") {
        let reason = "give http://HOST:4318 of a collector near by, which may pass spans on with TLS";
        return Err(refused(reason.to_owned()));
    }
    let ratio = ratio_of(&env::var(RATIO).unwrap_or_default())?;
    let exporter = OtlpExporter::builder().with_http().build().map_err(|error| refused(error.to_string()))?;
    let (spans, waiting) = mpsc::channel(ROOM);
    let (stop, stopped) = oneshot::channel();
    let sender = Sender { spans, lost: AtomicU64::new(0), ratio };
    if SENDER.set(sender).is_err() {
        return Ok(None);
    }
    let task = tokio::spawn(
        Exporting { exporter: as_service(exporter, service), is_away: false }.run(waiting, stopped),
    );
    Ok(Some(Sending { task, stop }))
}

fn ratio_of(value: &str) -> Result<f64, BadTraces> {
    if value.is_empty() {
        return Ok(USUAL_RATIO);
    }
    let ratio = value.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    let reason = "give a share from 0 to 1, as in PRS_TRACE_RATIO=0.01";
    ratio.ok_or_else(|| BadTraces { variable: RATIO, value: value.to_owned(), reason: reason.to_owned() })
}

fn as_service(mut exporter: OtlpExporter, service: &'static str) -> OtlpExporter {
    // With what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say.
    let own = [KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
    let mut resource = Resource::builder().with_attributes(own);
    if env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(service);
    }
    exporter.set_resource(&resource.build());
    exporter
}

/// Whether spans are sent.
pub fn is_on() -> bool {
    SENDER.get().is_some()
}

/// The share of the mini-batches that went well whose spans are sent.
pub fn ratio() -> f64 {
    SENDER.get().map_or(0.0, |sender| sender.ratio)
}

/// Sends a span, which is made only where spans are sent.
pub fn send(span: impl FnOnce() -> Span) {
    if let Some(sender) = SENDER.get()
        && sender.spans.try_send(span()).is_err()
    {
        sender.lost.fetch_add(1, Ordering::Relaxed);
    }
}

struct Exporting {
    exporter: OtlpExporter,
    is_away: bool,
}

impl Exporting {
    async fn run(mut self, mut waiting: mpsc::Receiver<Span>, mut stopped: oneshot::Receiver<()>) {
        let mut came = Vec::new();
        loop {
            let is_over = tokio::select! {
                _ = &mut stopped => true,
                count = waiting.recv_many(&mut came, TOGETHER), if came.is_empty() => count == 0,
                () = tokio::time::sleep(PAUSE), if !came.is_empty() => {
                    while came.len() < TOGETHER && let Ok(span) = waiting.try_recv() {
                        came.push(span);
                    }
                    self.export(std::mem::take(&mut came)).await;
                    false
                }
            };
            if is_over {
                break;
            }
        }
        waiting.close();
        while let Some(span) = waiting.recv().await {
            came.push(span);
        }
        for spans in came.chunks(TOGETHER) {
            self.export(spans.to_vec()).await;
        }
    }

    async fn export(&mut self, spans: Vec<Span>) {
        let sent = self.exporter.export(spans.into_iter().map(data).collect()).await;
        let lost = SENDER.get().map_or(0, |sender| sender.lost.swap(0, Ordering::Relaxed));
        if lost > 0 {
            tracing::warn!(lost, "more spans came than could be sent");
        }
        match sent {
            Ok(()) => self.is_away = false,
            // Said once, until the collector answers again.
            Err(error) if !self.is_away => {
                tracing::warn!(%error, "spans cannot be sent, and are lost; nothing else is");
                self.is_away = true;
            }
            Err(_) => {}
        }
    }
}

fn context(TraceParent { trace, span, is_sampled }: TraceParent, is_remote: bool) -> SpanContext {
    let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    SpanContext::new(trace_id(trace), span_id(span), flags, is_remote, TraceState::default())
}

fn trace_id(TraceId(bytes): TraceId) -> OtelTraceId {
    OtelTraceId::from_bytes(bytes)
}

fn span_id(SpanId(bytes): SpanId) -> OtelSpanId {
    OtelSpanId::from_bytes(bytes)
}

fn at(us: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(us)
}

/// A span as the exporter takes it.
fn data(span: Span) -> SpanData {
    let mut events = SpanEvents::default();
    let mut links = SpanLinks::default();
    links.links.extend(span.link.map(|link| Link::with_context(context(link, true))));
    let mut status = Status::Unset;
    if let Some(failure) = span.failure {
        if !failure.class.is_empty() {
            let attributes = vec![
                KeyValue::new("exception.type", failure.class),
                KeyValue::new("exception.message", failure.message.clone()),
            ];
            events.events.push(Event::new("exception", at(span.time_us.1), attributes, 0));
        }
        status = Status::error(failure.message);
    }
    let value = |value| match value {
        Attribute::Text(text) => Value::from(text),
        Attribute::Number(number) => Value::from(number),
    };
    SpanData {
        span_context: context(TraceParent { trace: span.trace, span: span.id, is_sampled: true }, false),
        parent_span_id: span.parent.map_or(OtelSpanId::INVALID, span_id),
        parent_span_is_remote: false,
        span_kind: if span.is_of_server { SpanKind::Server } else { SpanKind::Internal },
        name: span.name.into(),
        start_time: at(span.time_us.0),
        end_time: at(span.time_us.1),
        attributes: span.attributes.into_iter().map(|(name, of)| KeyValue::new(name, value(of))).collect(),
        dropped_attributes_count: 0,
        events,
        links,
        status,
        instrumentation_scope: InstrumentationScope::builder("prs").build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_from_0_to_1() {
        for (value, expected) in [("", USUAL_RATIO), ("0", 0.0), ("1", 1.0), ("0.25", 0.25)] {
            assert!((ratio_of(value).unwrap() - expected).abs() < 1e-12, "{value}");
        }
        for value in ["2", "-0.1", "much", "NaN", "10%"] {
            let error = ratio_of(value).unwrap_err().to_string();
            assert!(error.starts_with(&format!("PRS_TRACE_RATIO={value} cannot")), "{error}");
        }
    }
}
