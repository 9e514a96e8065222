//! One trace a connection, sent to an OpenTelemetry collector by OTLP: the
//! connection from its first byte to its end, in it the handshake, placements
//! with their claims, attempts at a desktop, and the relay.
//!
//! The rooms where things happen open spans of the target [`TARGET`], which no
//! level of the log lets through; logging makes them into those of a trace, and
//! here they are collected and sent, by a thread of its own that no tunnel waits
//! for. A collector that does not keep up loses spans, and nobody else anything.
//!
//! In a span stand ids, names from the configuration, fixed words and numbers.
//! The user's name stands in placements where that is configured.

mod exporter;
mod post;

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use crate::config::HostPort;

use exporter::Discreet;
use post::Post;

/// What spans of a trace are marked with.
pub const TARGET: &str = "trace";

/// What we are called among traces of other programs.
const SERVICE: &str = "sessionguard";

/// Where a collector takes OTLP over HTTP.
const PATH: &str = "/v1/traces";

/// The way to a collector.
#[derive(Debug)]
pub struct Traces(SdkTracerProvider);

/// Why traces cannot be sent at all.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The system has no runtime for it.
    #[error(transparent)]
    Runtime(#[from] std::io::Error),
    /// The exporter cannot be made.
    #[error(transparent)]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

impl Traces {
    /// To this collector, as JSON over plain HTTP; with users' names, or without.
    /// Whether it is there shows later.
    ///
    /// # Errors
    /// The system refuses what it takes.
    pub fn to(collector: &HostPort, users: bool) -> Result<Self, TracesError> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Post::new()?)
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(format!("http://{collector}{PATH}"))
            .build()?;
        let resource = Resource::builder_empty()
            .with_service_name(SERVICE)
            .with_attribute(opentelemetry::KeyValue::new(
                "service.version",
                env!("CARGO_PKG_VERSION"),
            ))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Discreet::new(exporter, users))
            .with_resource(resource)
            .build();
        Ok(Self(provider))
    }

    /// What makes spans.
    pub fn tracer(&self) -> SdkTracer {
        self.0.tracer(SERVICE)
    }

    /// Sends what is still here; takes no longer than this.
    pub fn finish(&self, patience: Duration) {
        // What could not be sent by now is lost.
        let _ = self.0.shutdown_with_timeout(patience);
    }
}
