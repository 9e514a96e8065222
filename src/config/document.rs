//! Says what stands in a file and hands each part to its reader.
//!
//! A TOML file is always a whole document. A JSON file may also be one lone
//! object or a list of them, as other tools export them; what a lone object is
//! follows from its keys, and where they do not tell it is refused, not guessed.

use super::draft::Gathered;
use super::files::Format;
use super::form::Form;
use super::node::{Node, Table, Value};
use super::problem::Problem;
use super::reader::Reader;
use super::report::Report;
use super::shape::Shape;
use super::{guacd, objects, sections, store};

/// The tables that stand in a file, in the order written.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) tables: Vec<(Shape, &'a Node)>,
    /// Something stands there that is no table, or no known one.
    pub(super) incomplete: bool,
}

/// Reads one parsed file.
pub(super) fn read(root: &Node, format: Format, report: &mut Report, into: &mut Gathered) {
    let parts = parts(root, format, report);
    into.incomplete |= parts.incomplete;
    for (shape, node) in parts.tables {
        table(shape, node, report, into);
    }
}

/// Takes one parsed file apart.
pub(super) fn parts<'a>(root: &'a Node, format: Format, report: &mut Report) -> Parts<'a> {
    let mut parts = Parts::default();
    match (format, &root.value) {
        (Format::Toml, _) => parts.whole(root, report),
        (Format::Json, Value::List(items)) => {
            for item in items {
                parts.lone(item, report);
            }
        }
        (Format::Json, Value::Table(table)) if is_document(table) => parts.whole(root, report),
        (Format::Json, _) => parts.lone(root, report),
    }
    parts
}

fn is_document(table: &Table) -> bool {
    Shape::Document.names().any(|key| table.has(key))
}

impl<'a> Parts<'a> {
    fn whole(&mut self, root: &'a Node, report: &mut Report) {
        let Value::Table(table) = &root.value else {
            return;
        };
        // Opened for its refusal of unknown keys alone.
        let _ = Reader::open(Shape::Document, root, report);
        for entry in &table.entries {
            let Some(key) = Shape::Document.find(&entry.key.value) else {
                continue;
            };
            match key.form {
                Form::Table(shape) => self.tables.push((shape, &entry.value)),
                Form::Tables(shape) => self.each(key.name, shape, &entry.value, report),
                _ => {}
            }
        }
    }

    fn each(&mut self, key: &'static str, shape: Shape, node: &'a Node, report: &mut Report) {
        let Value::List(items) = &node.value else {
            let got = node.value.kind();
            report.fault(node.at, Problem::NotAList { key, got });
            self.incomplete = true;
            return;
        };
        self.tables.extend(items.iter().map(|item| (shape, item)));
    }

    fn lone(&mut self, node: &'a Node, report: &mut Report) {
        let problem = match &node.value {
            Value::Table(table) => match classify(table) {
                Some(shape) => return self.tables.push((shape, node)),
                None => Problem::Unclassified,
            },
            other => Problem::NotAnObject { got: other.kind() },
        };
        report.fault(node.at, problem);
        self.incomplete = true;
    }
}

/// Hands one table to its reader.
pub(super) fn table(shape: Shape, node: &Node, report: &mut Report, into: &mut Gathered) {
    let read = match shape {
        Shape::Broker => sections::broker,
        Shape::Identity => sections::identity,
        Shape::Guacd => guacd::read,
        Shape::Listen => sections::listen,
        Shape::Probe => sections::probe,
        Shape::Store => store::read,
        Shape::Api => sections::api,
        Shape::Health => sections::health,
        Shape::Limits => sections::limits,
        Shape::Log => sections::log,
        Shape::Host => objects::host,
        Shape::Farm => objects::farm,
        Shape::Resource => objects::resource,
        Shape::Document | Shape::BrokerScore | Shape::FarmScore => return,
    };
    read(node, report, into);
}

/// What a lone object is.
fn classify(table: &Table) -> Option<Shape> {
    let only = |known: &dyn Fn(&str) -> bool| {
        let mut entries = table.entries.iter();
        !table.entries.is_empty() && entries.all(|e| known(&e.key.value))
    };
    if table.has("kind") || table.has("farm_id") {
        Some(Shape::Resource)
    } else if table.has("address") {
        Some(Shape::Host)
    } else if only(&|key| Shape::Broker.knows(key)) {
        Some(Shape::Broker)
    } else if table.has("agent_ids")
        || table.has("required_tags")
        || only(&|key| ["id", "name", "enabled"].contains(&key))
    {
        Some(Shape::Farm)
    } else {
        None
    }
}
