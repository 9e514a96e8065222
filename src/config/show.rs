//! Writes down what is in force as one TOML document.
//!
//! Walks the list of keys over the parsed files and variables, so that a value
//! stands as it was written and says where. Called by the room itself for
//! `config show`. Connection parameters are named, their values never shown.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::placement::{derive_id, fold};

use super::form::{Form, Key};
use super::node::{Located, Node, Table, Value};
use super::report::Report;
use super::secrets::Secrets;
use super::shape::Shape;
use super::source::harmless;
use super::{Read, document};

const MASK: &str = "\"***\"";

/// Every setting made, the later ones over the earlier, and every object.
#[derive(Debug, Default)]
pub(super) struct Settings {
    tables: BTreeMap<Shape, Made>,
    objects: BTreeMap<Shape, Vec<Made>>,
}

/// The keys that were set in one table.
type Made = BTreeMap<&'static str, Node>;

impl Settings {
    pub(super) fn of(read: &Read) -> Self {
        let mut settings = Self::default();
        // Whatever is wrong with the files was reported when they were read.
        let mut unheard = Report::default();
        for (format, root) in &read.files {
            for (shape, node) in document::parts(root, *format, &mut unheard).tables {
                settings.take(shape, node);
            }
        }
        for (shape, node) in &read.variables {
            match (shape, settings.objects.get_mut(&Shape::Listen)) {
                (Shape::Listen, Some(listeners)) => {
                    for listener in listeners {
                        merge(listener, Shape::Listen, node);
                    }
                }
                _ => settings.take(*shape, node),
            }
        }
        settings
    }

    fn take(&mut self, shape: Shape, node: &Node) {
        if shape.section().is_some() {
            merge(self.tables.entry(shape).or_default(), shape, node);
        } else {
            let mut made = Made::new();
            merge(&mut made, shape, node);
            self.objects.entry(shape).or_default().push(made);
        }
    }

    /// The document; with origins it says where each value came from, and then
    /// also where secrets come from that no setting names.
    pub(super) fn print(&self, report: &Report, origins: bool, secrets: &Secrets) -> String {
        let mut page = Page {
            text: String::new(),
            origins: origins.then_some(report),
            report,
        };
        let nothing = Made::new();
        for key in Shape::Document.keys() {
            match key.form {
                Form::Table(shape) => {
                    let made = self.tables.get(&shape).unwrap_or(&nothing);
                    page.table(shape, made);
                    page.secrets(shape, secrets);
                }
                Form::Tables(shape) => {
                    let objects = self.objects.get(&shape).map(Vec::as_slice);
                    // Without one written there is a listener all the same.
                    let fallback: &[Made] = match shape {
                        Shape::Listen => std::slice::from_ref(&nothing),
                        _ => &[],
                    };
                    for made in objects.unwrap_or(fallback) {
                        page.object(key.name, shape, made);
                    }
                }
                _ => {}
            }
        }
        page.text
    }
}

/// Puts what a table sets over what was set before. Tables within it are
/// merged as the readers do.
fn merge(made: &mut Made, shape: Shape, node: &Node) {
    let Value::Table(table) = &node.value else {
        return;
    };
    for entry in &table.entries {
        let Some(key) = shape.find(&entry.key.value) else {
            continue;
        };
        let merged = match (made.remove(key.name), &entry.value.value) {
            (Some(earlier), Value::Table(later)) => over(earlier, later, entry.value.at),
            _ => entry.value.clone(),
        };
        made.insert(key.name, merged);
    }
}

fn over(earlier: Node, later: &Table, at: super::node::At) -> Node {
    let Value::Table(mut table) = earlier.value else {
        return Located {
            value: Value::Table(later.clone()),
            at,
        };
    };
    for entry in &later.entries {
        let name = fold(&entry.key.value);
        table.entries.retain(|old| fold(&old.key.value) != name);
        table.entries.push(entry.clone());
    }
    Located {
        value: Value::Table(table),
        at,
    }
}

/// The document in the making.
struct Page<'a> {
    text: String,
    report: &'a Report,
    origins: Option<&'a Report>,
}

impl Page<'_> {
    fn table(&mut self, shape: Shape, made: &Made) {
        self.head(&format!("[{}]", shape.section().unwrap_or_default()));
        let mut inner = Vec::new();
        for key in shape.keys() {
            match key.form {
                Form::Table(within) => inner.push((key, within)),
                _ => self.key(key, made.get(key.name)),
            }
        }
        for (key, within) in inner {
            let mut inner_made = Made::new();
            if let Some(node) = made.get(key.name) {
                merge(&mut inner_made, within, node);
            }
            self.table(within, &inner_made);
        }
    }

    fn object(&mut self, name: &str, shape: Shape, made: &Made) {
        self.head(&format!("[[{name}]]"));
        if let (None, Some(name)) = (made.get("id"), made.get("name"))
            && let Value::Text(text) = &name.value
        {
            self.line("id", &quoted(&derive_id(text)), "derived from the name");
        }
        for key in shape.keys() {
            self.key(key, made.get(key.name));
        }
    }

    /// Where each secret of a table was found, as a comment: the value is
    /// nobody's.
    fn secrets(&mut self, shape: Shape, secrets: &Secrets) {
        if self.origins.is_none() {
            return;
        }
        for secret in secrets.iter().filter(|it| it.purpose.table() == shape) {
            let place: String = secret.place.to_string().chars().map(harmless).collect();
            self.write(format_args!("# {} # {place}\n", secret.purpose));
        }
    }

    fn head(&mut self, head: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        self.write(format_args!("{gap}{head}\n"));
    }

    fn key(&mut self, key: &Key, made: Option<&Node>) {
        match (made, key.default) {
            (Some(node), _) => {
                let place = self.origins.map(|report| report.place(node.at, false));
                let place = place.map(|place| place.to_string()).unwrap_or_default();
                let value = match (key.form, &node.value) {
                    // Whole: the document may come to lie elsewhere.
                    (Form::File | Form::SecretFile, Value::Text(path)) => self.whole(path),
                    (Form::Place(words), Value::Text(path)) if !words.contains(&path.as_str()) => {
                        self.whole(path)
                    }
                    _ => written(key.form, node),
                };
                self.line(key.name, &value, &place);
            }
            (None, Some(default)) => self.line(key.name, default, "default"),
            (None, None) => {}
        }
    }

    fn whole(&self, path: &str) -> String {
        let path = self.report.beside_main_file(path);
        quoted(&path.display().to_string())
    }

    fn line(&mut self, key: &str, value: &str, origin: &str) {
        if self.origins.is_some() {
            // The name of a file may hold anything, even the end of the line.
            let origin: String = origin.chars().map(harmless).collect();
            self.write(format_args!("{key} = {value} # {origin}\n"));
        } else {
            self.write(format_args!("{key} = {value}\n"));
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // A text takes in whatever there is memory for.
        let _ = self.text.write_fmt(text);
    }
}

/// A value as TOML writes it. All of those that no key accepts were refused.
fn written(form: Form, node: &Node) -> String {
    let secret = matches!(form, Form::Parameters);
    match &node.value {
        Value::Text(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| written(form, item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(table) if table.entries.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let entries = table.entries.iter().map(|entry| {
                let value = if secret {
                    MASK.to_owned()
                } else {
                    written(form, &entry.value)
                };
                format!("{} = {value}", name(&entry.key.value))
            });
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Fraction | Value::HugeInteger | Value::Date | Value::Null => MASK.to_owned(),
    }
}

/// A key, in quotes where it needs them.
fn name(key: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !key.is_empty() && key.bytes().all(bare) {
        key.to_owned()
    } else {
        quoted(key)
    }
}

/// A basic string, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if harmless(c) != c || c.is_control() => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
