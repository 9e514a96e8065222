//! The part of an address behind its `?`.

use super::answer::Failure;

/// Keys and values, their escapes resolved.
pub(super) fn pairs(query: &str) -> Result<Vec<(String, String)>, Failure> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((plain(key)?, plain(value)?))
        })
        .collect()
}

fn plain(text: &str) -> Result<String, Failure> {
    let bad = || Failure::bad("the query holds an escape that cannot be read");
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = digit().zip(digit()).ok_or_else(bad)?;
                u8::try_from(high * 16 + low).map_err(|_| bad())?
            }
            other => other,
        });
    }
    String::from_utf8(plain).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn escapes_are_resolved_and_broken_ones_refused() {
        let read = pairs("user=corp%5Cj%C3%B6rg+x&&limit=3&flag").unwrap();
        let read: Vec<_> = read.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            read,
            [("user", "corp\\jörg x"), ("limit", "3"), ("flag", "")]
        );
        for broken in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert!(pairs(broken).is_err(), "{broken}");
        }
    }
}
