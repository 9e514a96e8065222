//! A document made of the keys there are: their names and forms are taken from
//! the schema, which values and how many from the input; some of them wrong.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::super::input::Input;
use super::case::SECRET;

static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&sessionguard::config::schema()).unwrap());

/// Texts that mean something under one key or another.
const TEXTS: &[&str] = &[
    "a",
    "b",
    "office",
    "10s",
    "250ms",
    "8h",
    "90",
    "",
    " ",
    "10.0.0.1",
    "10.0.0.2",
    "127.0.0.1:4822",
    "0.0.0.0:9822",
    "[::1]:4823",
    "::1",
    "rds-1",
    "rds-1.example.test:3389",
    "off",
    "stdout",
    "/run/x",
    "./x",
    "||Sage",
    "Sage",
    "a;b",
    "x=y",
    "https://h/",
    "Büro 1",
    "\u{202e}a",
    "a\nb",
    "\u{1b}[2J",
    "99999999999999999999",
    "sessionguard:resource=a",
    "EXAMPLE",
    "example.test",
    "a\"b'c\\",
    "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    "$HOME",
    "😀",
];

const FILES: &[&str] = &[
    "./good.key",
    "./other.key",
    "./short.key",
    "./blank.key",
    "./nowhere.key",
    "/dev/null",
    "./",
    "/",
    "good.key",
    "",
];

const PARAMETERS: &[&str] = &[
    "timezone",
    "client-name",
    "password",
    "username",
    "hostname",
    "sftp-password",
    "wol-mac-addr",
    "sessionguard-resource",
    "remote-app",
    "Timezone",
    "",
    "a b",
];

/// Deep enough for every table within a table.
const DEPTH_MAX: usize = 6;

pub(super) struct Made<'a, 'b> {
    input: &'a mut Input<'b>,
    with_secrets: bool,
    /// How many were put in.
    pub(super) secrets: usize,
}

impl<'a, 'b> Made<'a, 'b> {
    pub(super) fn new(input: &'a mut Input<'b>, with_secrets: bool) -> Self {
        Self {
            input,
            with_secrets,
            secrets: 0,
        }
    }

    /// A whole document, a list of objects, or one alone.
    pub(super) fn json(&mut self) -> String {
        let made = match self.input.byte() % 8 {
            0 => {
                let def = self.input.one_of(&["host", "farm", "resource", "broker"]);
                let one = self.value(&SCHEMA["$defs"][def], 0);
                if self.input.byte().is_multiple_of(2) {
                    json!([one])
                } else {
                    one
                }
            }
            _ => self.value(&SCHEMA, 0),
        };
        match self.input.byte() % 2 {
            0 => format!("{made:#}"),
            _ => made.to_string(),
        }
    }

    pub(super) fn toml(&mut self) -> String {
        let made = self.value(&SCHEMA, 0);
        let mut text = String::from("# made up\n");
        for (key, value) in made.as_object().into_iter().flatten() {
            let tables = match value {
                Value::Object(table) => vec![(format!("[{}]", name(key)), table)],
                Value::Array(items) if items.iter().all(Value::is_object) => {
                    let tables = items.iter().filter_map(Value::as_object);
                    tables
                        .map(|table| (format!("[[{}]]", name(key)), table))
                        .collect()
                }
                other => {
                    text.insert_str(0, &format!("{} = {}\n", name(key), inline(other)));
                    Vec::new()
                }
            };
            for (head, table) in tables {
                writeln!(text, "{head}").unwrap();
                for (key, value) in table {
                    writeln!(text, "{} = {}", name(key), inline(value)).unwrap();
                }
            }
        }
        text
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        let choice = self.input.byte();
        if choice >= 248 {
            return self.wrong();
        }
        if let Some(reference) = schema["$ref"].as_str() {
            return self.value(SCHEMA.pointer(&reference[1..]).unwrap(), depth);
        }
        if let Some(default) = schema.get("default").filter(|_| choice.is_multiple_of(3)) {
            return default.clone();
        }
        if let Some(words) = schema["enum"].as_array() {
            return words[usize::from(choice) % words.len()].clone();
        }
        if schema.get("type").is_none()
            && let Some(ways) = schema["anyOf"].as_array()
        {
            return self.value(&ways[usize::from(choice) % ways.len()], depth);
        }
        match schema["type"].as_str() {
            Some("boolean") => json!(choice.is_multiple_of(2)),
            Some("integer") => self.number(schema),
            Some("array") => {
                let items = choice % 4;
                (0..items)
                    .map(|_| self.value(&schema["items"], depth + 1))
                    .collect()
            }
            Some("object") if depth > DEPTH_MAX => json!({}),
            Some("object") if schema.get("propertyNames").is_some() => self.parameters(),
            Some("object") => self.table(schema, depth),
            _ => self.text(schema),
        }
    }

    fn table(&mut self, schema: &Value, depth: usize) -> Value {
        let mut made = Map::new();
        let Some(keys) = schema["properties"].as_object() else {
            for _ in 0..self.input.byte() % 3 {
                let key = self.some_text();
                made.insert(key, self.value(&schema["additionalProperties"], depth + 1));
            }
            return made.into();
        };
        let is_named = keys.contains_key("id") && keys.contains_key("name");
        let required = schema["required"].as_array().into_iter().flatten();
        let mut wanted: Vec<&str> = required.filter_map(Value::as_str).collect();
        if is_named {
            wanted.push(self.input.one_of(&["id", "name"]));
        }
        for _ in 0..self.input.byte() % 6 {
            let nth = usize::from(self.input.byte()) % keys.len();
            wanted.extend(keys.keys().nth(nth).map(String::as_str));
        }
        for key in wanted {
            let value = self.value(&keys[key], depth + 1);
            made.insert(key.to_owned(), value);
        }
        if self.input.byte() >= 250 {
            let key = self.some_text();
            let value = self.wrong();
            made.insert(key, value);
        }
        made.into()
    }

    fn parameters(&mut self) -> Value {
        let mut made = Map::new();
        for _ in 0..self.input.byte() % 3 {
            let key = self.input.one_of(PARAMETERS);
            let value = match self.input.byte() % 8 {
                0 => self.some_text(),
                _ if self.with_secrets => SECRET.to_owned(),
                _ => "x".to_owned(),
            };
            made.insert(key.to_owned(), value.into());
        }
        // One key twice is one secret.
        self.secrets += made.values().filter(|value| **value == *SECRET).count();
        made.into()
    }

    fn number(&mut self, schema: &Value) -> Value {
        let bound = |name: &str| schema[name].as_i64();
        let least = bound("minimum").unwrap_or(0);
        let most = bound("maximum").unwrap_or(i64::MAX);
        let small = i64::from(self.input.byte());
        match self.input.byte() % 8 {
            0 => least.wrapping_sub(1).into(),
            1 => most.wrapping_add(1).into(),
            2 => most.into(),
            _ => least.saturating_add(small).min(most).into(),
        }
    }

    fn text(&mut self, schema: &Value) -> Value {
        let pattern = schema["pattern"].as_str().unwrap_or_default();
        if pattern.contains("{0,2}/") {
            return match self.input.byte() % 8 {
                0 if self.with_secrets => {
                    self.secrets += 1;
                    SECRET.into()
                }
                _ => self.input.one_of(FILES).into(),
            };
        }
        if pattern.ends_with("(ms|s|m|h|d)$") {
            let unit = self.input.one_of(&["ms", "s", "m", "h", "d"]);
            return format!("{}{unit}", self.input.byte()).into();
        }
        self.some_text().into()
    }

    fn some_text(&mut self) -> String {
        match self.input.byte() {
            choice @ 0..=239 => TEXTS[usize::from(choice) % TEXTS.len()].to_owned(),
            240..=247 => self.input.text().repeat(20),
            _ => self.input.text(),
        }
    }

    /// A value that hardly any key takes.
    fn wrong(&mut self) -> Value {
        match self.input.byte() % 8 {
            0 => Value::Null,
            1 => json!(-1),
            2 => json!(1.5e300),
            3 => json!(u64::MAX),
            4 => json!([[], {}]),
            5 => json!({ "": { "a.b": [1, "x"] } }),
            6 => json!(["a", "a", 1]),
            _ => self.some_text().into(),
        }
    }
}

fn name(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !key.is_empty() && key.chars().all(is_bare) {
        true => key.to_owned(),
        false => Value::from(key).to_string(),
    }
}

/// As TOML writes it within a line; its texts may be written as JSON's.
fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(table) => {
            let entries = table
                .iter()
                .map(|(key, value)| format!("{} = {}", name(key), inline(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
