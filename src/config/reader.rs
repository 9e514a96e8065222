//! Takes keys out of a table, with the type each must have.
//!
//! Used by [`super::sections`] and [`super::objects`]. A wrong value is
//! reported and read as absent, so that one load reports everything; keys that
//! the table's [`Shape`] does not know are refused when it is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::placement::ParameterValues;

use super::form::Form;
use super::names::{domain, free_text, parameter_name};
use super::node::{At, Entry, Located, Node, Table, Value};
use super::problem::Problem;
use super::report::Report;
use super::shape::Shape;
use super::value_error::ValueError;
use super::values::{number, seconds, switch, text, time, wrong_type};

/// Puts a value where it belongs, if it was there and right.
pub(super) fn put<T>(slot: &mut T, found: Option<Located<T>>) {
    if let Some(found) = found {
        *slot = found.value;
    }
}

pub(super) struct Reader<'a> {
    shape: Shape,
    table: &'a Table,
    at: At,
    report: &'a mut Report,
}

impl<'a> Reader<'a> {
    /// Opens a table; none where it is something else, which is reported.
    pub(super) fn open(shape: Shape, node: &'a Node, report: &'a mut Report) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            let got = node.value.kind();
            report.fault(node.at, Problem::NotATable { shape, got });
            return None;
        };
        for entry in &table.entries {
            let key = entry.key.value.as_str();
            if shape.knows(key) {
                continue;
            }
            let problem = unknown(shape, key);
            // What is near to nothing known may be a secret's name, in whatever words.
            let is_strange = matches!(problem, Problem::UnknownKey { .. });
            if is_strange && shape.home(key).is_none() && shape.near(key).is_none() {
                report.conceal(entry.value.at);
            }
            report.fault(entry.key.at, problem);
        }
        Some(Self {
            shape,
            table,
            at: node.at,
            report,
        })
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// The path of a file that is named in the configuration.
    pub(super) fn beside_main_file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.report.beside_main_file(path)
    }

    /// The path of a file; a relative one starts where the main file is,
    /// whichever file or variable names it.
    pub(super) fn file(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Node) -> Result<PathBuf, ValueError>,
    ) -> Option<Located<PathBuf>> {
        let found = self.read(key, read)?;
        Some(Located {
            value: self.beside_main_file(&found.value),
            at: found.at,
        })
    }

    /// Whether a list stands there, of a key that takes one value or several.
    pub(super) fn is_list(&self, key: &str) -> bool {
        let entry = self.table.find(key);
        entry.is_some_and(|entry| matches!(entry.value.value, Value::List(_)))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.has(key)
    }

    /// The value of a key; none where it is absent or wrong.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Node) -> Result<T, ValueError>,
    ) -> Option<Located<T>> {
        let entry = self.entry(key)?;
        let at = entry.value.at;
        match read(&entry.value) {
            Ok(value) => {
                self.note_origin(key, at);
                Some(Located { value, at })
            }
            Err(error) => {
                self.refuse(key, at, error);
                None
            }
        }
    }

    /// The switch of a key.
    pub(super) fn switch(&mut self, key: &'static str) -> Option<Located<bool>> {
        self.read(key, switch)
    }

    /// The number of a key, within its range.
    pub(super) fn number<T: TryFrom<i64>>(&mut self, key: &'static str) -> Option<Located<T>> {
        match self.form(key)? {
            Form::Number(least, most) => self.read(key, number((least, most))),
            _ => None,
        }
    }

    /// The time of a key, in the form and range its list has for it.
    pub(super) fn time(&mut self, key: &'static str) -> Option<Located<Duration>> {
        match self.form(key)? {
            Form::Seconds(least, most) => self.read(key, seconds((least, most))),
            Form::Time(least, most) => self.read(key, time((least, most))),
            _ => None,
        }
    }

    /// The value of a key the table cannot do without.
    pub(super) fn require<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Node) -> Result<T, ValueError>,
    ) -> Option<Located<T>> {
        if !self.has(key) {
            let shape = self.shape;
            self.report
                .fault(self.at, Problem::MissingKey { shape, key });
        }
        self.read(key, read)
    }

    /// A list of texts that are all different; each wrong item is reported and
    /// left out.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&Node) -> Result<T, ValueError>,
    ) -> Option<Located<Vec<Located<T>>>> {
        let Entry { value: node, .. } = self.entry(key)?;
        let Value::List(items) = &node.value else {
            self.refuse(key, node.at, wrong_type(node, "a list of texts"));
            return None;
        };
        let mut seen = BTreeSet::new();
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let unique = text(item).and_then(|text| {
                let again = || ValueError::ListedTwice {
                    item: text.to_owned(),
                };
                seen.insert(text).then_some(()).ok_or_else(again)
            });
            match unique.and_then(|()| read(item)) {
                Ok(value) => list.push(Located { value, at: item.at }),
                Err(error) => self.refuse(key, item.at, error),
            }
        }
        self.note_origin(key, node.at);
        Some(Located {
            value: list,
            at: node.at,
        })
    }

    /// A table of texts, such as tags; each wrong value is reported.
    pub(super) fn texts(
        &mut self,
        key: &'static str,
        check: impl Fn(&Node) -> Result<String, ValueError>,
    ) -> Option<Located<BTreeMap<String, String>>> {
        let Entry { value: node, .. } = self.entry(key)?;
        let Value::Table(table) = &node.value else {
            self.refuse(key, node.at, wrong_type(node, "a table of texts"));
            return None;
        };
        let mut texts = BTreeMap::new();
        for entry in &table.entries {
            match text(&entry.value).and_then(|_| check(&entry.value)) {
                Ok(value) => {
                    texts.insert(entry.key.value.clone(), value);
                }
                Err(error) => self.refuse_inner(key, entry, entry.value.at, error),
            }
        }
        Some(Located {
            value: texts,
            at: node.at,
        })
    }

    /// A table of domains, both sides folded; each wrong one is reported.
    pub(super) fn domains(&mut self, key: &'static str) -> BTreeMap<String, String> {
        let mut read: BTreeMap<String, (String, &str)> = BTreeMap::new();
        for entry in self.entries(key, "a table of texts") {
            let from = match domain(&entry.key.value) {
                Ok(from) => from,
                Err(error) => {
                    self.refuse_inner(key, entry, entry.key.at, error);
                    continue;
                }
            };
            let to = match text(&entry.value).and_then(domain) {
                Ok(to) => to,
                Err(error) => {
                    self.refuse_inner(key, entry, entry.value.at, error);
                    continue;
                }
            };
            match read.get(&from) {
                Some((other, earlier)) if *other != to => {
                    let earlier = (*earlier).to_owned();
                    let error = ValueError::TwoDomains { earlier };
                    self.refuse_inner(key, entry, entry.key.at, error);
                }
                Some(_) => {}
                None => {
                    read.insert(from, (to, &entry.key.value));
                }
            }
        }
        read.into_iter().map(|(from, (to, _))| (from, to)).collect()
    }

    /// A table of connection parameters; each wrong one is reported, and no
    /// value is ever shown.
    pub(super) fn parameters(
        &mut self,
        key: &'static str,
        refused: impl Fn(&str) -> Option<ValueError>,
    ) -> ParameterValues {
        let mut read = BTreeMap::new();
        for entry in self.entries(key, "a table of texts") {
            self.report.conceal(entry.value.at);
            let name = parameter_name(&entry.key.value).and_then(|name| match refused(&name) {
                Some(error) => Err(error),
                None => Ok(name),
            });
            match (name, free_text(&entry.value)) {
                (Ok(name), Ok(value)) => {
                    read.insert(name, value);
                }
                (name, value) => {
                    if let Err(error) = name {
                        self.refuse_inner(key, entry, entry.key.at, error);
                    }
                    if let Err(error) = value {
                        self.refuse_inner(key, entry, entry.value.at, error);
                    }
                }
            }
        }
        ParameterValues(read)
    }

    /// The entries of a table within this one.
    fn entries(&mut self, key: &'static str, expected: &'static str) -> &'a [Entry] {
        let Some(Entry { value: node, .. }) = self.entry(key) else {
            return &[];
        };
        match &node.value {
            Value::Table(table) => &table.entries,
            _ => {
                self.refuse(key, node.at, wrong_type(node, expected));
                &[]
            }
        }
    }

    fn refuse_inner(&mut self, key: &str, entry: &Entry, at: At, error: ValueError) {
        let problem = Problem::Value {
            key: format!("{key}.{}", entry.key.value),
            shape: self.shape,
            error,
        };
        self.report.fault(at, problem);
    }

    /// A table within this one.
    pub(super) fn inner(&mut self, key: &'static str, shape: Shape) -> Option<Reader<'_>> {
        let node = &self.table.find(key)?.value;
        Reader::open(shape, node, self.report)
    }

    /// Reports a key that is known but does not belong here.
    pub(super) fn forbid(&mut self, key: &'static str, problem: Problem) {
        if let Some(entry) = self.table.find(key) {
            self.report.fault(entry.key.at, problem);
        }
    }

    /// Reports something about the table as a whole.
    pub(super) fn fault_here(&mut self, problem: Problem) {
        self.report.fault(self.at, problem);
    }

    pub(super) fn fault(&mut self, at: At, problem: Problem) {
        self.report.fault(at, problem);
    }

    pub(super) fn warning(&mut self, at: At, problem: Problem) {
        self.report.warning(at, problem);
    }

    pub(super) fn refuse(&mut self, key: &'static str, at: At, error: ValueError) {
        let problem = Problem::Value {
            key: key.to_owned(),
            shape: self.shape,
            error,
        };
        self.report.fault(at, problem);
    }

    fn note_origin(&mut self, key: &'static str, at: At) {
        if let Some(section) = self.shape.section() {
            self.report.origin(format!("{section}.{key}"), at);
        }
    }

    fn form(&self, key: &str) -> Option<Form> {
        self.shape.find(key).map(|key| key.form)
    }

    fn entry(&self, key: &'static str) -> Option<&'a Entry> {
        debug_assert!(self.shape.knows(key), "{key} is not listed");
        self.table.find(key)
    }
}

fn unknown(shape: Shape, key: &str) -> Problem {
    if shape == Shape::Farm
        && let Some(key) = Shape::GLOBAL_ONLY.into_iter().find(|global| *global == key)
    {
        return Problem::GlobalOnly { key };
    }
    Problem::UnknownKey {
        key: key.to_owned(),
        shape,
    }
}
