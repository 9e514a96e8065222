//! Says what stands in a file and hands each part to its reader.
//!
//! A TOML file is always a whole document. A JSON file may also be one lone
//! object or a list of them, as other tools export them; what a lone object is
//! follows from its keys, and where they do not tell it is refused, not guessed.

use super::draft::Gathered;
use super::files::Format;
use super::node::{Node, Table, Value};
use super::problem::Problem;
use super::reader::Reader;
use super::report::Report;
use super::shape::Shape;
use super::{objects, sections};

/// Reads one parsed file.
pub(super) fn read(root: &Node, format: Format, report: &mut Report, into: &mut Gathered) {
    match (format, &root.value) {
        (Format::Toml, _) => whole(root, report, into),
        (Format::Json, Value::List(items)) => {
            for item in items {
                lone(item, report, into);
            }
        }
        (Format::Json, Value::Table(table)) if is_document(table) => whole(root, report, into),
        (Format::Json, _) => lone(root, report, into),
    }
}

fn is_document(table: &Table) -> bool {
    Shape::Document.keys().iter().any(|key| table.has(key))
}

fn whole(root: &Node, report: &mut Report, into: &mut Gathered) {
    let Value::Table(table) = &root.value else {
        return;
    };
    // Opened for its refusal of unknown keys alone.
    let _ = Reader::open(Shape::Document, root, report);
    for entry in &table.entries {
        let node = &entry.value;
        match entry.key.value.as_str() {
            "broker" => sections::broker(node, report, into),
            "identity" => sections::identity(node, report, into),
            "guacd" => sections::guacd(node, report, into),
            "probe" => sections::probe(node, report, into),
            "store" => sections::store(node, report, into),
            "log" => sections::log(node, report, into),
            "listen" => each("listen", Shape::Listen, node, report, into),
            "hosts" => each("hosts", Shape::Host, node, report, into),
            "farms" => each("farms", Shape::Farm, node, report, into),
            "resources" => each("resources", Shape::Resource, node, report, into),
            _ => {}
        }
    }
}

fn each(key: &'static str, shape: Shape, node: &Node, report: &mut Report, into: &mut Gathered) {
    let Value::List(items) = &node.value else {
        let got = node.value.kind();
        report.fault(node.at, Problem::NotAList { key, got });
        into.incomplete = true;
        return;
    };
    for item in items {
        object(shape, item, report, into);
    }
}

fn lone(node: &Node, report: &mut Report, into: &mut Gathered) {
    let problem = match &node.value {
        Value::Table(table) => match classify(table) {
            Some(shape) => return object(shape, node, report, into),
            None => Problem::Unclassified,
        },
        other => Problem::NotAnObject { got: other.kind() },
    };
    report.fault(node.at, problem);
    into.incomplete = true;
}

fn object(shape: Shape, node: &Node, report: &mut Report, into: &mut Gathered) {
    match shape {
        Shape::Broker => sections::broker(node, report, into),
        Shape::Listen => sections::listen(node, report, into),
        Shape::Host => objects::host(node, report, into),
        Shape::Farm => objects::farm(node, report, into),
        Shape::Resource => objects::resource(node, report, into),
        _ => {}
    }
}

/// What a lone object is.
fn classify(table: &Table) -> Option<Shape> {
    let only = |keys: &[&str]| {
        let mut entries = table.entries.iter();
        !table.entries.is_empty() && entries.all(|e| keys.contains(&e.key.value.as_str()))
    };
    if table.has("kind") || table.has("farm_id") {
        Some(Shape::Resource)
    } else if table.has("address") {
        Some(Shape::Host)
    } else if only(Shape::Broker.keys()) {
        Some(Shape::Broker)
    } else if table.has("agent_ids")
        || table.has("required_tags")
        || only(&["id", "name", "enabled"])
    {
        Some(Shape::Farm)
    } else {
        None
    }
}
