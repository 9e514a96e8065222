//! The JSON Schema (draft 2020-12) of a configuration document.
//!
//! Made of the list of keys, for editors that complete and underline. It knows
//! types, ranges and words; what depends on two values at once, and the finer
//! rules of names and addresses, only a load finds.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::form::{Form, Key};
use super::shape::Shape;
use super::values::show_time;

/// The schema as text, with a line break at its end.
pub(super) fn print() -> String {
    format!("{:#}\n", document())
}

fn document() -> Value {
    let Value::Object(mut root) = table(Shape::Document) else {
        return Value::Null;
    };
    root.insert(
        "$schema".into(),
        "https://json-schema.org/draft/2020-12/schema".into(),
    );
    root.insert("title".into(), "sessionguard configuration".into());
    let tables = Shape::ALL
        .into_iter()
        .filter(|shape| *shape != Shape::Document);
    let tables = tables.map(|shape| (name(shape).to_owned(), table(shape)));
    root.insert("$defs".into(), Value::Object(tables.collect()));
    Value::Object(root)
}

fn name(shape: Shape) -> &'static str {
    match shape {
        Shape::Document => "document",
        Shape::Broker => "broker",
        Shape::BrokerScore => "broker_score",
        Shape::Identity => "identity",
        Shape::Guacd => "guacd",
        Shape::Listen => "listener",
        Shape::Probe => "probe",
        Shape::Store => "store",
        Shape::Api => "api",
        Shape::Health => "health",
        Shape::Limits => "limits",
        Shape::Log => "log",
        Shape::Host => "host",
        Shape::Farm => "farm",
        Shape::FarmScore => "farm_score",
        Shape::Resource => "resource",
    }
}

fn table(shape: Shape) -> Value {
    let keys = shape.keys().iter();
    let properties: Map<_, _> = keys
        .map(|key| (key.name.to_owned(), property(key)))
        .collect();
    let mut table = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    let required = shape.required();
    let named = shape.knows("id") && shape.knows("name");
    let mut more = |rule: &str, value: Value| {
        if let Some(table) = table.as_object_mut() {
            table.insert(rule.to_owned(), value);
        }
    };
    if !required.is_empty() {
        more("required", json!(required));
    }
    if named {
        more(
            "anyOf",
            json!([{ "required": ["id"] }, { "required": ["name"] }]),
        );
    }
    if shape == Shape::Resource {
        let remote_app = json!({ "properties": { "kind": { "const": "remoteapp" } } });
        let others = json!({
            "properties": {
                "remote_app": false,
                "remote_app_dir": false,
                "remote_app_args": false,
            },
        });
        more("if", remote_app);
        more("then", json!({ "required": ["remote_app"] }));
        more("else", others);
    }
    table
}

fn property(key: &Key) -> Value {
    let mut property = form(key.form);
    if let Some(rules) = property.as_object_mut() {
        rules.insert("description".into(), key.about.into());
        if let Some(default) = key.default.and_then(parsed) {
            rules.insert("default".into(), default);
        }
    }
    property
}

/// A default; what TOML and JSON both write alike.
fn parsed(default: &str) -> Option<Value> {
    serde_json::from_str(default).ok()
}

fn form(form: Form) -> Value {
    match form {
        Form::Switch => json!({ "type": "boolean" }),
        Form::Number(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Form::Seconds(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Form::Time(least, most) => time(least, most),
        Form::Word(words) => json!({ "enum": words() }),
        Form::Words(words) => {
            json!({ "type": "array", "items": { "enum": words() }, "minItems": 1, "uniqueItems": true })
        }
        Form::Id => id(),
        Form::Ids => list(&id()),
        Form::Name | Form::File => text(1024),
        Form::FreeText => json!({ "type": "string", "maxLength": 1024 }),
        Form::Place(words) => {
            json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": "/" }] })
        }
        Form::SecretFile => json!({ "type": "string", "maxLength": 1024, "pattern": SECRET_FILE }),
        Form::ConnectionId => json!({ "anyOf": [text(1024), { "type": "integer", "minimum": 0 }] }),
        Form::Alias => json!({ "type": "string", "pattern": "^(\\|\\|)?[^|\\s]" }),
        Form::Host
        | Form::HostPort
        | Form::HostPortOrOff
        | Form::Reached
        | Form::Listener
        | Form::ListenerOrOff => text(262),
        Form::Hosts => list(&text(255)),
        Form::OneOrMoreHostPorts => json!({ "anyOf": [text(262), list(&text(262))] }),
        Form::Fingerprints => list(&json!({ "type": "string", "pattern": FINGERPRINT })),
        Form::ParameterNames => list(&json!({ "type": "string", "pattern": PARAMETER })),
        Form::Parameters => json!({
            "type": "object",
            "propertyNames": { "pattern": PARAMETER },
            "additionalProperties": { "type": "string", "maxLength": 1024 },
        }),
        Form::Texts => json!({ "type": "object", "additionalProperties": text(1024) }),
        Form::Table(shape) => reference(shape),
        Form::Tables(shape) => json!({ "type": "array", "items": reference(shape) }),
    }
}

/// As [`super::tls::Fingerprint::parse`] takes them.
const FINGERPRINT: &str = "^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$";

/// As [`super::names::parameter_name`] takes them.
const PARAMETER: &str = "^[a-z0-9-]{1,64}$";

/// As [`super::names::secret_file`] takes them.
const SECRET_FILE: &str = "^\\.{0,2}/.";

fn reference(shape: Shape) -> Value {
    json!({ "$ref": format!("#/$defs/{}", name(shape)) })
}

fn id() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^;|=]*$" })
}

fn text(longest: usize) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": longest })
}

fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items, "uniqueItems": true })
}

/// The range cannot be told in a pattern; people read it beside.
fn time(least: Duration, most: Duration) -> Value {
    json!({
        "type": "string",
        "pattern": "^[0-9]+(ms|s|m|h|d)$",
        "$comment": format!("{} to {}", show_time(least), show_time(most)),
    })
}
