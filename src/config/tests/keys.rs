//! No key is listed and not read, none read and not listed.

use crate::config::load_text;
use crate::config::shape::Shape;

/// A document in which one key of a shape has a value no key accepts.
fn with_nonsense(shape: Shape, key: &str) -> String {
    let nonsense = format!("{key} = [[1979-05-27]]\n");
    match shape {
        Shape::Document => nonsense,
        Shape::Listen => format!("[[listen]]\n{nonsense}"),
        Shape::Host => format!("[[hosts]]\n{nonsense}"),
        Shape::Farm => format!("[[farms]]\n{nonsense}"),
        Shape::FarmScore => format!("[[farms]]\nid = \"a\"\n[farms.score]\n{nonsense}"),
        Shape::Resource => {
            let kind = if key == "kind" {
                ""
            } else {
                "kind = \"remoteapp\"\n"
            };
            format!("[[resources]]\n{kind}{nonsense}")
        }
        single => format!("[{}]\n{nonsense}", single.section().unwrap()),
    }
}

#[test]
fn every_listed_key_is_read() {
    for shape in Shape::ALL {
        for key in shape.names() {
            let text = with_nonsense(shape, key);
            let line = text.lines().count();
            let faults = load_text("a.toml", &text).expect_err(&text);
            let read = faults.findings().iter().any(|finding| {
                let at = finding.place().position().map(|position| position.line);
                at == Some(line) && !finding.message().starts_with("unknown key")
            });
            assert!(read, "{shape} {key}: {faults}");
        }
    }
}

#[test]
fn a_key_nobody_knows_is_refused_everywhere() {
    for shape in Shape::ALL {
        let text = with_nonsense(shape, "zzz");
        let faults = load_text("a.toml", &text).expect_err(&text);
        let refusal = format!("unknown key `zzz` in {shape}");
        assert!(
            faults.findings().iter().any(|f| f.message() == refusal),
            "{faults}"
        );
    }
}
