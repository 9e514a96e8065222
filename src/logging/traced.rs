//! Lines that say of which trace they are, and the layer that makes spans.

use std::fmt::{self, Write};

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, TraceContextExt};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;
use crate::traces::{TARGET, Traces};

/// A form of lines, and behind it the ids of the trace, as W3C writes them.
pub(super) struct Traced<F> {
    pub(super) inner: F,
    pub(super) format: LogFormat,
}

/// What makes spans of ours into those of a trace. Lines do not become part of
/// them: they have what no collector of traces may see.
pub(super) fn layer<S>(traces: &Traces) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let spans = filter_fn(|of| of.is_span() && of.target() == TARGET);
    tracing_opentelemetry::layer()
        .with_tracer(traces.tracer())
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(spans)
}

impl<S, N, F> FormatEvent<S, N> for Traced<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let ids = Context::map_current(|current| current.span().span_context().clone());
        if !ids.is_valid() {
            return self.inner.format_event(context, writer, event);
        }
        let mut line = String::new();
        let whole = Writer::new(&mut line);
        self.inner.format_event(context, whole, event)?;
        write_with(&mut writer, line.trim_end(), self.format, &ids)
    }
}

fn write_with(
    writer: &mut impl Write,
    line: &str,
    format: LogFormat,
    ids: &SpanContext,
) -> fmt::Result {
    let (trace, span) = (ids.trace_id(), ids.span_id());
    match (format, line.strip_suffix('}')) {
        (LogFormat::Json, Some(open)) => {
            writeln!(
                writer,
                "{open},\"trace_id\":\"{trace}\",\"span_id\":\"{span}\"}}"
            )
        }
        (LogFormat::Json | LogFormat::Text, _) => {
            writeln!(writer, "{line} trace_id={trace} span_id={span}")
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanId, TraceFlags, TraceId, TraceState};

    use super::*;

    #[test]
    fn ids_stand_at_the_end_of_a_line_as_w3c_writes_them() {
        let (trace, span) = (TraceId::from(0xa1_u128), SpanId::from(0xb2_u64));
        let flags = TraceFlags::SAMPLED;
        let ids = SpanContext::new(trace, span, flags, false, TraceState::default());
        let written = |line: &str, format| {
            let mut text = String::new();
            write_with(&mut text, line, format, &ids).unwrap();
            text
        };
        let (trace, span) = ("000000000000000000000000000000a1", "00000000000000b2");
        assert_eq!(
            written("INFO Placed user=\"{a}\"", LogFormat::Text),
            format!("INFO Placed user=\"{{a}}\" trace_id={trace} span_id={span}\n")
        );
        let json = written("{\"message\":\"Placed\"}", LogFormat::Json);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            [&json["message"], &json["trace_id"], &json["span_id"]],
            ["Placed", trace, span]
        );
    }
}
