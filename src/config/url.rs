//! What an error may show of an address that somebody wrote down.

/// The URL without what may be a secret in it: a name and password before the host, and
/// whatever is behind a `?`.
pub fn shown_url(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (kept, cut) = url.split_at_checked(end).unwrap_or((url, ""));
    let (scheme, rest) = match kept.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), kept),
    };
    let rest = match rest.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => rest.to_owned(),
    };
    let cut = if cut.is_empty() { "" } else { "?***" };
    format!("{scheme}{rest}{cut}")
}

#[cfg(test)]
mod tests {
    use super::shown_url;

    #[test]
    fn names_passwords_and_queries_are_not_shown() {
        for (url, shown) in [
            ("http://127.0.0.1:9822", "http://127.0.0.1:9822"),
            ("broker:9822", "broker:9822"),
            (
                "https://ann:pw@broker.example/x",
                "https://***@broker.example/x",
            ),
            ("ann:p@w@broker", "***@broker"),
            ("https://broker/?token=abc", "https://broker/?***"),
            ("https://broker#abc@d", "https://broker?***"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }
}
