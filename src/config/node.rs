//! One small tree for both file formats: values that know where they stand.
//!
//! TOML and JSON are parsed into it by [`super::parse_toml`] and
//! [`super::parse_json`]; everything after that is the same for both. It holds
//! no rule about what a value means.

/// Which file of this load, in the order read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourceId(pub(super) usize);

/// A stretch of bytes in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) source: SourceId,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Something and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) at: At,
}

impl<T> Located<T> {
    /// For a slot that may stay empty.
    pub(super) fn some(self) -> Located<Option<T>> {
        Located {
            value: Some(self.value),
            at: self.at,
        }
    }
}

/// A value in a file.
pub(super) type Node = Located<Value>;

/// What a value is. Of those no key accepts, only the kind is kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Bool(bool),
    List(Vec<Node>),
    Table(Table),
    /// A number with a fraction or an exponent.
    Fraction,
    /// A whole number outside the 64-bit range.
    HugeInteger,
    /// A TOML date or time.
    Date,
    /// JSON's null.
    Null,
}

impl Value {
    /// What a fault says was found.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a whole number",
            Self::Bool(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Fraction => "a number with a fraction",
            Self::HugeInteger => "a number out of range",
            Self::Date => "a date",
            Self::Null => "null",
        }
    }
}

/// Keys and values in the order written.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Table {
    // INVARIANT: no two entries have one key; the parsers refuse that.
    pub(super) entries: Vec<Entry>,
}

/// One key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: Located<String>,
    pub(super) value: Node,
}

impl Table {
    pub(super) fn find(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key.value == key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }
}
