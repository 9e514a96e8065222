//! `sessionguard reload`: the running broker reads its configuration now.

use std::process::ExitCode;

use serde_json::Value;

use super::ask::{Asking, Output};
use super::table::visible;
use super::{FAILED, complain, say};

pub(super) fn run(arguments: &Asking) -> ExitCode {
    let answer = match arguments.broker.post("/api/v1/reload", None) {
        Ok(answer) => answer,
        Err(code) => return code,
    };
    let result = answer
        .get("result")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let refused = result == "refused";
    let generation = answer.get("generation").unwrap_or(&Value::Null);
    let listed = |name| {
        let listed = answer.get(name).and_then(Value::as_array);
        listed.map_or(&[][..], Vec::as_slice)
    };
    let exchanged = listed("exchanged");
    if arguments.output == Output::Table {
        for file in exchanged.iter().filter_map(Value::as_str) {
            // Where it cannot be said, what follows cannot either.
            let _ = say(format_args!("exchanged: {}", visible(file, false)));
        }
    }
    let said = match (arguments.output, result) {
        (Output::Json, _) => say(format_args!("{answer:#}")),
        (Output::Table, "applied") => say(format_args!("configuration {generation} is in force")),
        (Output::Table, "unchanged") if !exchanged.is_empty() => {
            say(format_args!("configuration {generation} stays in force"))
        }
        (Output::Table, "unchanged") => say(format_args!(
            "nothing has changed: configuration {generation} is in force"
        )),
        (Output::Table, _) => {
            let findings = answer.get("findings").and_then(Value::as_array);
            for finding in findings.into_iter().flatten() {
                let finding = finding.as_str().unwrap_or_default();
                complain(format_args!("{}", visible(finding, true)));
            }
            complain(format_args!(
                "refused: configuration {generation} stays in force"
            ));
            ExitCode::from(FAILED)
        }
    };
    let kept = listed("not_exchanged");
    for fault in kept.iter().filter_map(Value::as_str) {
        complain(format_args!("not exchanged: {}", visible(fault, false)));
    }
    if refused || !kept.is_empty() {
        ExitCode::from(FAILED)
    } else {
        said
    }
}
