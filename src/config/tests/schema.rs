//! The schema is current, and list, readers and schema say the same of every
//! key.

use std::fs;
use std::time::Duration;

use serde_json::Value as Json;

use super::{data, project};
use crate::config::form::{Form, Key};
use crate::config::node::{Node, SourceId, Value};
use crate::config::shape::Shape;
use crate::config::values::show_time;
use crate::config::{Config, load_text, parse_json, parse_toml, schema};

#[test]
fn the_committed_schema_is_current() {
    let path = project().join("config/sessionguard.schema.json");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, schema()).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == schema(),
        "write it anew: sessionguard config schema > config/sessionguard.schema.json"
    );
}

/// What draft 2020-12 says of the keywords our schema uses; any other keyword
/// is a test that lags behind.
fn accepts(root: &Json, schema: &Json, value: &Json) -> bool {
    let rules = match schema {
        Json::Bool(accepts) => return *accepts,
        Json::Object(rules) => rules,
        other => panic!("{other} is no schema"),
    };
    let length = value.as_str().map(|text| text.chars().count() as u64);
    let object = value.as_object();
    rules.iter().all(|(rule, by)| match rule.as_str() {
        "$schema" | "$defs" | "$comment" | "title" | "description" | "default" | "then"
        | "else" => true,
        "$ref" => {
            let pointer = by.as_str().unwrap().trim_start_matches('#');
            accepts(root, root.pointer(pointer).unwrap(), value)
        }
        "type" => match by.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            other => panic!("unknown type {other}"),
        },
        "const" => value == by,
        "enum" => by.as_array().unwrap().contains(value),
        "anyOf" => by
            .as_array()
            .unwrap()
            .iter()
            .any(|s| accepts(root, s, value)),
        "if" => {
            let branch = if accepts(root, by, value) {
                "then"
            } else {
                "else"
            };
            accepts(root, &rules[branch], value)
        }
        "minimum" => value.as_i64().is_none_or(|n| n >= by.as_i64().unwrap()),
        "maximum" => value.as_i64().is_none_or(|n| n <= by.as_i64().unwrap()),
        "minLength" => length.is_none_or(|n| n >= by.as_u64().unwrap()),
        "maxLength" => length.is_none_or(|n| n <= by.as_u64().unwrap()),
        "pattern" => value
            .as_str()
            .is_none_or(|text| matches(by.as_str().unwrap(), text)),
        "properties" => object.is_none_or(|object| {
            let by = by.as_object().unwrap();
            object
                .iter()
                .all(|(key, value)| by.get(key).is_none_or(|s| accepts(root, s, value)))
        }),
        "additionalProperties" => object.is_none_or(|object| {
            let known = |key: &str| {
                rules
                    .get("properties")
                    .is_some_and(|p| p.get(key).is_some())
            };
            object
                .iter()
                .all(|(key, value)| known(key) || accepts(root, by, value))
        }),
        "propertyNames" => object.is_none_or(|object| {
            object
                .keys()
                .all(|key| accepts(root, by, &Json::String(key.clone())))
        }),
        "required" => object.is_none_or(|object| {
            by.as_array()
                .unwrap()
                .iter()
                .all(|key| object.contains_key(key.as_str().unwrap()))
        }),
        "items" => value
            .as_array()
            .is_none_or(|items| items.iter().all(|i| accepts(root, by, i))),
        "minItems" => value
            .as_array()
            .is_none_or(|items| items.len() as u64 >= by.as_u64().unwrap()),
        "uniqueItems" => value.as_array().is_none_or(|items| {
            items
                .iter()
                .enumerate()
                .all(|(nth, item)| !items[..nth].contains(item))
        }),
        other => panic!("the schema uses {other}, which this test does not know"),
    })
}

/// The patterns of the schema, each by hand.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^[0-9]+(ms|s|m|h|d)$" => {
            let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
            unit.len() < text.len() && ["ms", "s", "m", "h", "d"].contains(&unit)
        }
        "^[a-z0-9-]{1,64}$" => {
            let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            (1..=64).contains(&text.len()) && text.chars().all(known)
        }
        "^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$" => {
            let digits = text.replace(':', "");
            digits.len() == 64 && digits.chars().all(|c| c.is_ascii_hexdigit())
        }
        "^\\.{0,2}/." => ["/", "./", "../"].iter().any(|start| {
            text.strip_prefix(start)
                .is_some_and(|rest| !rest.is_empty())
        }),
        "/" => text.contains('/'),
        "^[^;|=]*$" => !text.contains([';', '|', '=']),
        "^(\\|\\|)?[^|\\s]" => {
            let first = text.strip_prefix("||").unwrap_or(text).chars().next();
            first.is_some_and(|c| c != '|' && !c.is_whitespace())
        }
        other => panic!("the schema has the pattern {other}, which this test does not know"),
    }
}

fn as_json(node: &Node) -> Json {
    match &node.value {
        Value::Text(text) => Json::String(text.clone()),
        Value::Integer(number) => (*number).into(),
        Value::Bool(truth) => (*truth).into(),
        Value::List(items) => items.iter().map(as_json).collect(),
        Value::Table(table) => {
            let entries = table.entries.iter();
            let entries = entries.map(|e| (e.key.value.clone(), as_json(&e.value)));
            Json::Object(entries.collect())
        }
        _ => Json::Null,
    }
}

fn allowed(text: &str) -> bool {
    let root = parse_toml::parse(text, SourceId(0)).unwrap_or_else(|_| panic!("{text}"));
    let schema: Json = serde_json::from_str(&schema()).unwrap();
    accepts(&schema, &schema, &as_json(&root))
}

#[test]
fn files_that_load_are_valid() {
    let mut texts = vec![super::samples::sample_in_full()];
    let valid = super::cases(&data("valid"))
        .into_iter()
        .map(|(_, path)| path);
    let own = ["config/minimal.toml", "config/sessionguard.toml"].map(|name| project().join(name));
    let toml = valid
        .chain(own)
        .filter(|path| path.extension().is_some_and(|end| end == "toml"));
    texts.extend(toml.map(|path| fs::read_to_string(path).unwrap()));
    assert!(texts.len() > 6);
    for text in texts {
        assert!(allowed(&text), "{text}");
    }
    let schema: Json = serde_json::from_str(&schema()).unwrap();
    let whole = fs::read_to_string(data("valid").join("whole.json")).unwrap();
    let root = parse_json::parse(&whole, SourceId(0)).unwrap();
    assert!(accepts(&schema, &schema, &as_json(&root)));
}

#[test]
fn what_depends_on_the_kind_is_in_the_schema() {
    for (text, valid) in [
        ("id = \"r\"\nkind = \"desktop\"", true),
        ("kind = \"desktop\"", false),
        ("id = \"r\"", false),
        ("id = \"r\"\nkind = \"remoteapp\"", false),
        (
            "id = \"r\"\nkind = \"remoteapp\"\nremote_app = \"Sage\"",
            true,
        ),
        (
            "id = \"r\"\nkind = \"as-connected\"\nremote_app = \"Sage\"",
            false,
        ),
        ("id = \"r\"\nkind = \"desktop\"\ncolour = \"red\"", false),
    ] {
        let text = format!("[[resources]]\n{text}\n");
        assert_eq!(allowed(&text), valid, "{text}");
        assert_eq!(load_text("a.toml", &text).is_ok(), valid, "{text}");
    }
}

/// Values of a form that must be taken, and some that must not.
fn probes(form: Form) -> (Vec<String>, Vec<String>) {
    let quoted = |text: &str| format!("\"{text}\"");
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let range = |least: i64, most: i64| {
        let numbers = |of: [i64; 2]| of.map(|n| n.to_string());
        let mut bad: Vec<String> = numbers([least - 1, most + 1]).into();
        bad.extend(["1.5", "\"5\"", "true", "99999999999999999999"].map(str::to_owned));
        (numbers([least, most]).into(), bad)
    };
    let (good, mut bad) = match form {
        Form::Switch => (texts(&["true", "false"]), texts(&["1", "\"true\""])),
        Form::Number(least, most) => range(least, most),
        Form::Seconds(least, most) => {
            range(i64::try_from(least).unwrap(), i64::try_from(most).unwrap())
        }
        Form::Time(least, most) => (
            [least, most].map(|time| quoted(&show_time(time))).into(),
            texts(&["5", "\"5\"", "\"1h30m\"", "\"-1s\""]),
        ),
        Form::Word(words) => (
            words().into_iter().map(quoted).collect(),
            texts(&["\"zzz\"", "\"\""]),
        ),
        Form::Words(words) => (
            words()
                .into_iter()
                .map(|word| format!("[\"{word}\"]"))
                .collect(),
            texts(&["[]", "[\"zzz\"]", "\"name\""]),
        ),
        Form::Id => (
            texts(&["\"a\"", "\"b ü\""]),
            texts(&["\"\"", "\"a;b\"", "\"a|b\"", "5"]),
        ),
        Form::Ids => (
            texts(&["[]", "[\"a\", \"b\"]"]),
            texts(&["[\"a\", \"a\"]", "\"a\"", "[\"a=b\"]"]),
        ),
        Form::Name | Form::File => (texts(&["\"a b\""]), texts(&["\"\"", "5"])),
        Form::FreeText => (texts(&["\"\"", "\" a \""]), texts(&["5"])),
        Form::Place(words) => (
            words
                .iter()
                .map(|word| quoted(word))
                .chain([quoted("/a/b")])
                .collect(),
            texts(&["\"zzz\"", "\"\"", "5"]),
        ),
        Form::SecretFile => (
            texts(&["\"/a\"", "\"./a\"", "\"../a b\""]),
            texts(&["\"a/b\"", "\"/\"", "\"\"", "5"]),
        ),
        Form::ConnectionId => (texts(&["7", "\"x\""]), texts(&["-1", "\"\"", "true"])),
        Form::Alias => (
            texts(&["\"Sage\"", "\"||Sage\"", "\"||a|b\""]),
            texts(&[
                "\"|||Sage\"",
                "\"|Sage\"",
                "\"\"",
                "\"||\"",
                "\"|| a\"",
                "5",
            ]),
        ),
        Form::Host => (texts(&["\"h\"", "\"::1\""]), texts(&["\"\"", "5"])),
        Form::Hosts => (texts(&["[\"h\"]"]), texts(&["\"h\"", "[\"\"]"])),
        Form::HostPort => (texts(&["\"h:1\"", "\"[::1]:1\""]), texts(&["\"\"", "4822"])),
        // What else may stand there depends on how this was built.
        Form::HostPortOrOff => (texts(&["\"off\""]), texts(&["\"\"", "4822"])),
        Form::OneOrMoreHostPorts => (
            texts(&["\"h:1\"", "[\"h:1\", \"[::1]:1\"]"]),
            texts(&["\"\"", "4822", "[4822]", "[\"\"]"]),
        ),
        Form::Reached => (
            texts(&["\"h\"", "\"h:1\"", "\"::1\""]),
            texts(&["\"\"", "4822"]),
        ),
        Form::Listener => (texts(&["\"127.0.0.1:0\""]), texts(&["\"\"", "4822"])),
        Form::Fingerprints => (
            [format!("[\"{}\"]", "a1".repeat(32)), "[]".to_owned()].into(),
            texts(&["[\"a1\"]", "\"a1\"", "[5]"]),
        ),
        Form::ListenerOrOff => (
            texts(&["\"127.0.0.1:0\"", "\"off\""]),
            texts(&["\"\"", "4822"]),
        ),
        Form::ParameterNames => (
            texts(&["[\"console\"]"]),
            texts(&["[\"Console\"]", "\"console\"", "[\"\"]"]),
        ),
        Form::Parameters => (
            texts(&["{}", "{ color-depth = \"24\", x = \"\" }"]),
            texts(&["{ X = \"a\" }", "{ x = 5 }", "[]", "\"a\""]),
        ),
        Form::Texts => (
            texts(&["{ a = \"b\" }"]),
            texts(&["{ a = 5 }", "{ a = \"\" }", "\"a\""]),
        ),
        Form::Table(_) | Form::Tables(_) => (Vec::new(), Vec::new()),
    };
    if !matches!(form, Form::Table(_) | Form::Tables(_)) {
        bad.extend(texts(&["[[1]]", "1979-05-27"]));
    }
    (good, bad)
}

/// A document with this one value, and whatever else its table needs.
fn document(shape: Shape, key: &Key, value: &str) -> String {
    let line = format!("{} = {value}\n", key.name);
    let beside = |keys: &[(&str, &str)]| -> String {
        let others = keys.iter().filter(|(name, _)| *name != key.name);
        others
            .map(|(name, value)| format!("{name} = {value}\n"))
            .collect()
    };
    match shape {
        Shape::Document => line,
        Shape::Listen => {
            let address = beside(&[("address", "\"127.0.0.1:1\"")]);
            format!("[[listen]]\n{address}{line}")
        }
        Shape::Host => format!(
            "[[hosts]]\n{}{line}",
            beside(&[("id", "\"h\""), ("address", "\"h\"")])
        ),
        Shape::Farm => format!("[[farms]]\n{}{line}", beside(&[("id", "\"f\"")])),
        Shape::FarmScore => format!("[[farms]]\nid = \"f\"\n[farms.score]\n{line}"),
        Shape::Resource => {
            let app = key.name.starts_with("remote_app") || value == "\"remoteapp\"";
            let kind = if app { "\"remoteapp\"" } else { "\"desktop\"" };
            let mut keys = vec![("id", "\"r\""), ("kind", kind)];
            keys.extend(app.then_some(("remote_app", "\"a\"")));
            format!("[[resources]]\n{}{line}", beside(&keys))
        }
        single => format!("[{}]\n{line}", single.section().unwrap()),
    }
}

#[test]
fn readers_and_schema_take_what_the_list_says() {
    let mut count = 0;
    for shape in Shape::ALL {
        for key in shape.keys() {
            let (good, bad) = probes(key.form);
            let cases = good
                .iter()
                .map(|v| (v, true))
                .chain(bad.iter().map(|v| (v, false)));
            for (value, taken) in cases {
                let text = document(shape, key, value);
                let prefix = [
                    format!("`{}` in {shape}: ", key.name),
                    format!("`{}.", key.name),
                ];
                let refused = load_text("a.toml", &text).is_err_and(|faults| {
                    let mut messages = faults.findings().iter().map(|f| f.message());
                    messages.any(|m| prefix.iter().any(|p| m.starts_with(p)))
                });
                assert_eq!(!refused, taken, "the reader of {shape} and {text}");
                if value.contains("1979") {
                    continue;
                }
                assert_eq!(allowed(&text), taken, "the schema and {text}");
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn times_keep_to_the_range_of_the_list() {
    for shape in Shape::ALL {
        for key in shape.keys() {
            let Form::Time(least, most) = key.form else {
                continue;
            };
            let step = Duration::from_millis(1);
            for time in [least.checked_sub(step), Some(most + step)]
                .into_iter()
                .flatten()
            {
                let text = document(shape, key, &format!("\"{}\"", show_time(time)));
                assert!(load_text("a.toml", &text).is_err(), "{text}");
            }
        }
    }
}

/// Every default of the list written out is what there is without any.
#[test]
fn the_defaults_of_the_list_are_the_defaults() {
    let lines = |shape: Shape| -> String {
        let keys = shape
            .keys()
            .iter()
            .filter_map(|key| Some((key.name, key.default?)));
        keys.map(|(name, default)| format!("{name} = {default}\n"))
            .collect()
    };
    let singles = Shape::ALL
        .into_iter()
        .filter_map(|shape| Some((shape.section()?, shape)));
    let mut text: String = singles
        .map(|(name, shape)| format!("[{name}]\n{}", lines(shape)))
        .collect();
    text += &format!("[[listen]]\n{}", lines(Shape::Listen));
    assert_eq!(
        load_text("a.toml", &text).unwrap().config,
        Config::default()
    );

    let objects = |defaults: [String; 3]| {
        let [host, farm, resource] = defaults;
        let text = format!(
            "[[hosts]]\nid = \"h\"\naddress = \"h\"\n{host}[[farms]]\nid = \"f\"\n{farm}\
             [[resources]]\nid = \"r\"\nkind = \"desktop\"\n{resource}"
        );
        load_text("a.toml", &text).unwrap().config
    };
    let with = objects([Shape::Host, Shape::Farm, Shape::Resource].map(lines));
    assert_eq!(with, objects(Default::default()));
}
