//! Figures read off at one moment, on the way to a scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Figures by name; each name once.
#[derive(Debug, Default)]
pub struct Page {
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    name: &'static str,
    about: &'static str,
    figures: Figures,
}

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
enum Figures {
    Gauges(Vec<(Labels, f64)>),
    Counters(Vec<(Labels, u64)>),
}

/// The figures of one name.
#[derive(Debug)]
pub struct Samples<'a>(&'a mut Figures);

impl Page {
    /// Figures that go up and down. `name` is without the prefix, `about` one
    /// sentence.
    pub fn gauge(&mut self, name: &'static str, about: &'static str) -> Samples<'_> {
        self.group(name, about, Figures::Gauges(Vec::new()))
    }

    /// Figures that only grow. `name` is without the prefix and without
    /// `_total`, `about` one sentence.
    pub fn counter(&mut self, name: &'static str, about: &'static str) -> Samples<'_> {
        self.group(name, about, Figures::Counters(Vec::new()))
    }

    fn group(&mut self, name: &'static str, about: &'static str, figures: Figures) -> Samples<'_> {
        let group = Group {
            name,
            about,
            figures,
        };
        Samples(&mut self.groups.push_mut(group).figures)
    }
}

impl Samples<'_> {
    /// One of them, of a gauge.
    pub fn put(&mut self, labels: &[(&'static str, &str)], value: f64) {
        if let Figures::Gauges(samples) = self.0 {
            samples.push((owned(labels), value));
        }
    }

    /// One of them, of a counter.
    pub fn count(&mut self, labels: &[(&'static str, &str)], value: u64) {
        if let Figures::Counters(samples) = self.0 {
            samples.push((owned(labels), value));
        }
    }
}

fn owned(labels: &[(&'static str, &str)]) -> Labels {
    let labels = labels.iter();
    labels
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for group in &self.groups {
            let kind = match group.figures {
                Figures::Gauges(_) => MetricType::Gauge,
                Figures::Counters(_) => MetricType::Counter,
            };
            // A name is told even where nothing has it now.
            let mut metric = encoder.encode_descriptor(group.name, group.about, None, kind)?;
            match &group.figures {
                Figures::Gauges(samples) => {
                    for (labels, value) in samples {
                        metric.encode_family(labels)?.encode_gauge(value)?;
                    }
                }
                Figures::Counters(samples) => {
                    for (labels, value) in samples {
                        let mut sample = metric.encode_family(labels)?;
                        sample.encode_counter::<NoLabelSet, _, u64>(value, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}
