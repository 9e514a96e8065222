//! Settings from the environment: `SESSIONGUARD_BROKER__LEASE_SECONDS=900`.
//!
//! The table, two underscores, the key; a table within a table has two more.
//! Names without a double underscore belong to others: Kubernetes sets
//! `SESSIONGUARD_PORT` and its like in every pod beside a service of our name.
//! Lists and tables of one's own words stay in files; of `[[listen]]` the only
//! one can be set. The variables are handed in, so that a test brings its own.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::form::{Form, Key};
use super::node::{At, Entry, Located, Node, Table, Value};
use super::problem::Problem;
use super::report::Report;
use super::shape::Shape;
use super::value_error::ValueError;

const PREFIX: &str = "SESSIONGUARD_";
const BETWEEN: &str = "__";

/// The settings that variables make, as tables to be read after the files.
pub(super) fn read(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    report: &mut Report,
) -> Vec<(Shape, Node)> {
    // In name order, so that the same environment gives the same findings.
    let variables: BTreeMap<String, OsString> = environment
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| is_ours(name))
        .collect();
    let mut tables: BTreeMap<Shape, Vec<Entry>> = BTreeMap::new();
    for (name, value) in variables {
        let value = value.into_string();
        let text = value.as_deref().unwrap_or_default().to_owned();
        let at = report.add_variable(name.clone(), text);
        let Some((shape, key)) = known().find(|(shape, key)| self::name(*shape, key) == name)
        else {
            report.fault(at, Problem::UnknownVariable { name });
            continue;
        };
        if !key.form.is_single() {
            let key = key.name;
            report.fault(at, Problem::NotByVariable { key, shape });
            continue;
        }
        let read = value
            .map_err(|_| ValueError::NotUtf8)
            .and_then(|text| value_of(key.form, text));
        match read {
            Ok(value) => {
                let entries = tables.entry(shape).or_default();
                entries.push(entry(key.name, value, at));
            }
            Err(error) => {
                let key = key.name.to_owned();
                report.fault(at, Problem::Value { key, shape, error });
            }
        }
    }
    // The score is a table within its table.
    if let Some(score) = tables.remove(&Shape::BrokerScore)
        && let Some(at) = score.first().map(|entry| entry.key.at)
    {
        let broker = tables.entry(Shape::Broker).or_default();
        broker.push(entry("score", Value::Table(Table { entries: score }), at));
    }
    tables.into_iter().filter_map(table).collect()
}

fn is_ours(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.contains(BETWEEN))
}

fn table((shape, entries): (Shape, Vec<Entry>)) -> Option<(Shape, Node)> {
    let at = entries.first()?.key.at;
    let value = Value::Table(Table { entries });
    Some((shape, Located { value, at }))
}

fn entry(key: &str, value: Value, at: At) -> Entry {
    let key = Located {
        value: key.to_owned(),
        at,
    };
    let value = Located { value, at };
    Entry { key, value }
}

/// Everything a variable could mean.
pub(super) fn known() -> impl Iterator<Item = (Shape, &'static Key)> {
    let tables = Shape::ALL
        .into_iter()
        .filter(|shape| section(*shape).is_some());
    tables.flat_map(|shape| shape.keys().iter().map(move |key| (shape, key)))
}

fn section(shape: Shape) -> Option<&'static str> {
    match shape {
        Shape::Listen => Some("listen"),
        other => other.section(),
    }
}

pub(super) fn name(shape: Shape, key: &Key) -> String {
    let section = section(shape).unwrap_or_default().replace('.', BETWEEN);
    format!("{PREFIX}{section}{BETWEEN}{}", key.name).to_uppercase()
}

/// The variable that was most likely meant by one that means nothing.
pub(super) fn near(unknown: &str) -> Option<String> {
    const LONGEST: usize = 80;
    const SLIPS: usize = 3;
    if unknown.len() > LONGEST {
        return None;
    }
    let unknown = unknown.to_uppercase();
    // What means an object means no setting, however near one is.
    let objects = ["HOSTS", "FARMS", "RESOURCES"];
    let table = unknown.strip_prefix(PREFIX)?.split(BETWEEN).next()?;
    if objects.contains(&table) {
        return None;
    }
    let single = known().filter(|(_, key)| key.form.is_single());
    single
        .map(|(shape, key)| name(shape, key))
        .map(|name| (strsim::osa_distance(&unknown, &name), name))
        .filter(|(distance, _)| *distance <= SLIPS)
        .min()
        .map(|(_, name)| name)
}

/// The text of a variable as the value a file would hold.
fn value_of(form: Form, text: String) -> Result<Value, ValueError> {
    match form {
        Form::Switch => match text.as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(ValueError::NotASwitch { text }),
        },
        Form::Number(..) | Form::Seconds(..) => {
            let digits = text.strip_prefix('-').unwrap_or(&text);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(ValueError::NotANumber { text });
            }
            Ok(text.parse().map_or(Value::HugeInteger, Value::Integer))
        }
        _ => Ok(Value::Text(text)),
    }
}
