//! Takes keys out of a table, with the type each must have.
//!
//! Used by [`super::sections`] and [`super::objects`]. A wrong value is
//! reported and read as absent, so that one load reports everything; keys that
//! the table's [`Shape`] does not know are refused when it is opened.

use std::collections::{BTreeMap, BTreeSet};

use super::node::{At, Entry, Located, Node, Table, Value};
use super::problem::Problem;
use super::report::Report;
use super::shape::Shape;
use super::value_error::ValueError;
use super::values::{text, wrong_type};

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
            if !shape.keys().contains(&entry.key.value.as_str()) {
                report.fault(entry.key.at, unknown(shape, &entry.key.value));
            }
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

    /// Puts the value of a key where it belongs, if it is there and right.
    pub(super) fn set<T>(
        &mut self,
        key: &'static str,
        slot: &mut T,
        read: impl FnOnce(&Node) -> Result<T, ValueError>,
    ) {
        if let Some(found) = self.read(key, read) {
            *slot = found.value;
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
                Err(error) => {
                    let inner = format!("{key}.{}", entry.key.value);
                    let shape = self.shape;
                    let problem = Problem::Value {
                        key: inner,
                        shape,
                        error,
                    };
                    self.report.fault(entry.value.at, problem);
                }
            }
        }
        Some(Located {
            value: texts,
            at: node.at,
        })
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

    fn entry(&self, key: &'static str) -> Option<&'a Entry> {
        debug_assert!(self.shape.keys().contains(&key), "{key} is not listed");
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
