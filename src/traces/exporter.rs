//! What is left out of spans, and what is said of a collector that is away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tracing::{info, warn};

/// The attribute that a user's name stands in.
const USER: &str = "user";

/// An exporter before which users' names are taken out, unless they may be told.
#[derive(Debug)]
pub(super) struct Discreet<E> {
    inner: E,
    users: bool,
    is_away: AtomicBool,
}

impl<E> Discreet<E> {
    pub(super) fn new(inner: E, users: bool) -> Self {
        Self {
            inner,
            users,
            is_away: AtomicBool::new(false),
        }
    }
}

impl<E: SpanExporter> SpanExporter for Discreet<E> {
    async fn export(&self, mut spans: Vec<SpanData>) -> OTelSdkResult {
        if !self.users {
            for span in &mut spans {
                span.attributes.retain(|it| it.key.as_str() != USER);
            }
        }
        let lost = spans.len();
        let sent = self.inner.export(spans).await;
        match (&sent, self.is_away.swap(sent.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => {
                warn!(%error, lost, "Traces are lost: the collector does not take them");
            }
            (Ok(()), true) => info!("The collector takes traces again"),
            _ => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, patience: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(patience)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
