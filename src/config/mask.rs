//! Finds the values that no fault may show.
//!
//! Called by [`super::source`] before an excerpt is cut. Secrets do not belong
//! in these files, but people put them there, and a fault about such a line
//! goes to a log. The search works on plain text, not on the tree, because a
//! file that does not parse needs it most; where in doubt it hides too much.

use std::ops::Range;

/// How far behind a word, or behind the end of its line, the separator may stand
/// that makes it a key; bounds the work on a file that is one line of megabytes.
const KEY_REACH: usize = 256;

/// The values of all keys that look secret, in order and not overlapping.
pub(super) fn secret_values(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut secret_table = false;
    let mut offset = 0;
    while offset < text.len() {
        let end = offset + rest_of_line(text, offset).len();
        let line = text.get(offset..end).unwrap_or_default();
        if line.trim_start().starts_with('[') {
            secret_table = words(line).any(|word| looks_secret(line, &word));
        }
        while let Some(start) = value_start(text, offset, end, secret_table) {
            offset = value_end(text, start).max(offset + 1);
            found.push(start..offset);
        }
        // A value may have ended on a later line: go on with what follows it.
        offset = offset.max(end + 1);
    }
    found
}

/// Where, from here to the end of the line, the first secret value begins.
fn value_start(text: &str, offset: usize, end: usize, all: bool) -> Option<usize> {
    let line = text.get(offset..end)?;
    let later = text.get(end..)?;
    let after_key = if all {
        0
    } else {
        words(line)
            .find(|word| looks_secret(line, word) && names_a_value(line, word, later))?
            .end
    };
    let tail = line.get(after_key..)?;
    let separator = match tail.find(['=', ':']) {
        Some(at) => offset + after_key + at + 1,
        None => end + separator_below(later)? + 1,
    };
    let value = text.get(separator..)?;
    let space = value.len() - value.trim_start().len();
    Some(separator + space)
}

/// Whether a separator follows the word before anything that would end its key.
fn names_a_value(line: &str, word: &Range<usize>, later: &str) -> bool {
    let tail = line.get(word.end..).unwrap_or_default();
    let mut near = tail.chars().take(KEY_REACH);
    match near.find(|c| matches!(c, '=' | ':' | ',' | '{' | '}' | '[')) {
        Some(c) => c == '=' || c == ':',
        None => tail.len() <= KEY_REACH && separator_below(later).is_some(),
    }
}

/// Where the next line with anything in it begins with the separator of a key
/// that stands above, as JSON allows it.
fn separator_below(later: &str) -> Option<usize> {
    let mut near = later.char_indices().take(KEY_REACH);
    let (at, c) = near.find(|(_, c)| !c.is_whitespace())?;
    (c == ':').then_some(at)
}

/// Where the value that begins here ends.
fn value_end(text: &str, start: usize) -> usize {
    let value = text.get(start..).unwrap_or_default();
    let length = if let Some(quote) = ["\"\"\"", "'''"].iter().find(|q| value.starts_with(**q)) {
        let inner = value.get(quote.len()..).unwrap_or_default();
        inner
            .find(quote)
            .map_or(value.len(), |at| at + 2 * quote.len())
    } else if value.starts_with(['[', '{']) {
        bracketed(value)
    } else if value.starts_with(['"', '\'']) {
        quoted(value)
    } else {
        0
    };
    let rest = value.get(length..).unwrap_or_default();
    // What follows a whole value may go on being shown; anything else may be
    // the rest of a secret that was quoted wrongly.
    let whole = length > 0
        && rest
            .trim_start_matches([' ', '\t'])
            .starts_with([',', '}', ']', '#']);
    let length = if whole {
        length
    } else {
        length + rest_of_line(rest, 0).len()
    };
    start + length
}

/// Length of a quoted text with its quotes, at most to the end of the line.
fn quoted(value: &str) -> usize {
    let mut chars = value.char_indices();
    let Some((_, quote)) = chars.next() else {
        return 0;
    };
    let mut escaped = false;
    for (at, c) in chars {
        match c {
            '\n' => return at,
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    value.len()
}

/// Length of a list or table up to its closing bracket.
fn bracketed(value: &str) -> usize {
    let mut depth = 0_usize;
    let mut offset = 0;
    while let Some(c) = value.get(offset..).and_then(|rest| rest.chars().next()) {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return offset + 1;
                }
            }
            '"' | '\'' => {
                offset += quoted(value.get(offset..).unwrap_or_default()).max(1);
                continue;
            }
            _ => {}
        }
        offset += c.len_utf8();
    }
    value.len()
}

fn rest_of_line(text: &str, offset: usize) -> &str {
    let rest = text.get(offset..).unwrap_or_default();
    rest.split('\n').next().unwrap_or_default()
}

/// Runs of letters, digits and what joins them in a key.
fn words(line: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = line.get(from..)?;
        let start = from + rest.find(in_word)?;
        let tail = line.get(start..)?;
        let end = start + tail.find(|c| !in_word(c)).unwrap_or(tail.len());
        from = end;
        Some(start..end)
    })
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

fn looks_secret(line: &str, word: &Range<usize>) -> bool {
    line.get(word.clone()).is_some_and(is_secret_name)
}

/// Whether a key of this name is taken to hold a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    let parts = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "credential",
    ];
    parts.iter().any(|part| lower.contains(part))
        || has_secret_word(name)
        || means_parameters(&lower)
}

/// Connection parameters hold passwords under names of every kind; a slip of
/// the finger in `parameters` must not show them.
fn means_parameters(lower: &str) -> bool {
    const NAME: &str = "parameters";
    const SLIPS: usize = 2;
    let near = lower.len().abs_diff(NAME.len()) <= SLIPS;
    lower == "params" || (near && strsim::osa_distance(lower, NAME) <= SLIPS)
}

/// Short words count where they stand by themselves, `api_key` and `apiKey`, not `monkey`; and so
/// do the long ones with a slip of the finger in them, or in another language.
fn has_secret_word(name: &str) -> bool {
    const SHORT: [&str; 5] = ["key", "keys", "pass", "pwd", "pw"];
    const LONG: [(&str, usize); 5] = [
        ("password", 2),
        ("passphrase", 2),
        ("credential", 2),
        ("secret", 1),
        ("token", 1),
    ];
    let mut spaced = String::with_capacity(name.len());
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        spaced.extend(c.to_lowercase());
    }
    let mut words = spaced.split(|c: char| !c.is_alphanumeric());
    words.any(|word| {
        let slips = |(of, most): (&str, usize)| {
            word.len().abs_diff(of.len()) <= most && strsim::osa_distance(word, of) <= most
        };
        SHORT.contains(&word) || LONG.into_iter().any(slips)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        let mut shown = String::new();
        let mut from = 0;
        for range in secret_values(text) {
            shown += &text[from..range.start];
            shown += "***";
            from = range.end;
        }
        shown + &text[from..]
    }

    #[test]
    fn values_of_secret_keys_are_found_in_every_form() {
        for (text, shown) in [
            ("password = \"abc\"\nname = 1", "password = ***\nname = 1"),
            ("db.api-key = 'x' # note", "db.api-key = *** # note"),
            ("apiKey = 12\nmonkey = 5", "apiKey = ***\nmonkey = 5"),
            ("a = { token = \"t\", b = 1 }", "a = { token = ***, b = 1 }"),
            (
                r#"{"Secret" : "a\"b", "k": 1}"#,
                r#"{"Secret" : ***, "k": 1}"#,
            ),
            ("{\"secret\":\n  \"abc\"\n}", "{\"secret\":\n  ***\n}"),
            ("{\"secret\"\n\n  : \"abc\"\n}", "{\"secret\"\n\n  : ***\n}"),
            (
                "{\"parameters\"\r\n:{\"a\":\"x\"}, \"b\": 1}",
                "{\"parameters\"\r\n:***, \"b\": 1}",
            ),
            (
                "pw_secret = \"\"\"\nab\ncd\"\"\"\nx = 1",
                "pw_secret = ***\nx = 1",
            ),
            (
                "tokens = [\n \"a]\",\n \"b\"\n]\nx = 1",
                "tokens = ***\nx = 1",
            ),
            ("\"my token\" = \"abc\"", "\"my token\" = ***"),
            ("# password: abc", "# password: ***"),
            ("password = \"abc\"def\nx = 1", "password = ***\nx = 1"),
            ("password = \"abc", "password = ***"),
            ("password = '''abc\ndef", "password = ***"),
            (
                "[secrets]\na = \"x\"\n[log]\nlevel = 1",
                "[secrets]\na = ***\n[log]\nlevel = 1",
            ),
            ("a_token = 1, b_token = 2", "a_token = ***"),
            (
                "parameters = { sftp = \"x\" }\nkeep_parameters = [1]",
                "parameters = ***\nkeep_parameters = [1]",
            ),
            (
                "[hosts.parameters]\ndomain = \"x\"\n[[hosts]]\nport = 1",
                "[hosts.parameters]\ndomain = ***\n[[hosts]]\nport = 1",
            ),
            ("parameters.domain = \"x\"", "parameters.domain = ***"),
            ("paramters = { a = \"x\" }", "paramters = ***"),
            ("pasword = \"x\"", "pasword = ***"),
            (
                "dbPasswort = \"x\"\ndb_pw = 'y'",
                "dbPasswort = ***\ndb_pw = ***",
            ),
            ("toekn = \"x\"", "toekn = ***"),
            (
                r#"{"parameters": {"a": "}", "b": "x"}, "c": 1}"#,
                r#"{"parameters": ***, "c": 1}"#,
            ),
        ] {
            assert_eq!(masked(text), shown, "{text}");
        }
    }

    #[test]
    fn ordinary_lines_stay_as_they_are() {
        for text in [
            "name = \"token\"\nlevel = \"info\"",
            "passed = 1\nbroken = 2\ncompass = 3\nsecure = 4",
            "monkey = 1\nhockey = 2",
            "farm_ids = [\"secret\", \"b\"]\nport = 1",
            "",
            "=\n:\n[",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
