//! What a request says, strictly: a field nobody knows is a mistake, and every
//! mistake is named.

use std::error::Error;
use std::time::Duration;

use axum::Form;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::answer::Failure;

/// Largest body that is read, in bytes. Its depth is bounded by the reader of
/// JSON, which gives up long before its own stack is in danger.
const LARGEST: usize = 64 * 1024;

/// For the whole body to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// The part of an address behind its `?`.
#[derive(Debug)]
pub(super) struct Filter<T>(pub(super) T);

/// The name at the end of a path, its escapes resolved.
#[derive(Debug)]
pub(super) struct Named(pub(super) String);

/// A body that is a form.
#[derive(Debug)]
pub(super) struct Filled<T>(pub(super) T);

/// A body that is one JSON object.
#[derive(Debug)]
pub(super) struct Sent<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Filter<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let query = parts.uri.query().unwrap_or_default();
        if !is_readable(query) {
            return Err(Failure::bad(
                "the query holds an escape that cannot be read",
            ));
        }
        let read = Query::<T>::try_from_uri(&parts.uri);
        let unreadable = |rejection| Failure::unreadable(why("the query", &rejection));
        let Query(filter) = read.map_err(unreadable)?;
        Ok(Self(filter))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let named = Path::<String>::from_request_parts(parts, state).await;
        let unreadable = |_| Failure::bad("the path holds an escape that cannot be read");
        named.map(|Path(name)| Self(name)).map_err(unreadable)
    }
}

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Sent<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        let bytes = whole(request.into_body(), LARGEST).await?;
        // A reader of fields takes their values in a list as well.
        if bytes.trim_ascii_start().first() == Some(&b'[') {
            return Err(Failure::bad(
                "the body: it is a list, and an object is wanted",
            ));
        }
        let read = serde_json::from_slice(&bytes);
        read.map(Self)
            .map_err(|error| Failure::unreadable(why("the body", &error)))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Filled<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let (head, body) = request.into_parts();
        let bytes = whole(body, LARGEST).await?;
        let text = std::str::from_utf8(&bytes).unwrap_or("%");
        if !is_readable(text) {
            return Err(Failure::bad("the form holds an escape that cannot be read"));
        }
        let request = Request::from_parts(head, Body::from(bytes));
        match Form::<T>::from_request(request, state).await {
            Ok(Form(filled)) => Ok(Self(filled)),
            Err(rejection) if rejection.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                let text = "a form is sent as application/x-www-form-urlencoded".to_owned();
                Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
            }
            Err(rejection) => Err(Failure::unreadable(why("the form", &rejection))),
        }
    }
}

/// A whole body of at most so many bytes.
///
/// # Errors
/// It is larger, broke off, or takes too long.
pub(super) async fn whole(body: Body, most: usize) -> Result<axum::body::Bytes, Failure> {
    let body = Limited::new(body, most).collect();
    match timeout(PATIENCE, body).await {
        Err(_) => {
            let text = "the body did not arrive in time".to_owned();
            Err(Failure::new(StatusCode::REQUEST_TIMEOUT, text))
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = format!("the body is larger than {most} bytes");
            Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text))
        }
        Ok(Err(error)) => Err(Failure::bad(format!("the body broke off: {error}"))),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
    }
}

/// The innermost reason: the rest names the library.
fn why(what: &str, rejection: &dyn Error) -> String {
    let mut innermost = rejection;
    while let Some(inner) = innermost.source() {
        innermost = inner;
    }
    format!("{what}: {}", unquoted(&innermost.to_string()))
}

/// A reader's reason without the values that it quotes, and without names that
/// are none: a secret was sent in their place, perhaps, and whoever reads the
/// answer may be somebody else.
pub(super) fn unquoted(reason: &str) -> String {
    let mut reason = without(reason, "string \"", "\", expected", |_| false);
    for open in ["unknown field `", "unknown variant `"] {
        for close in ["`, expected", "`, there are no"] {
            reason = without(&reason, open, close, is_name);
        }
    }
    // Where a form goes wrong the name stands before it all.
    match reason.split_once(": unknown field") {
        Some((name, rest)) if !is_name(name) => format!("unknown field{rest}"),
        _ => reason,
    }
}

fn without(reason: &str, open: &str, close: &str, may_stay: fn(&str) -> bool) -> String {
    let quoted = reason.find(open).and_then(|at| {
        let from = at + open.len();
        let to = from + reason.get(from..)?.rfind(close)?;
        Some((
            reason.get(..from)?,
            reason.get(from..to)?,
            reason.get(to..)?,
        ))
    });
    match quoted {
        Some((before, quoted, behind)) if !may_stay(quoted) => format!("{before}...{behind}"),
        _ => reason.to_owned(),
    }
}

/// Whether it looks like a field's name, and like no key.
fn is_name(text: &str) -> bool {
    const LONGEST: usize = 31;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.len() <= LONGEST && text.chars().all(fits)
}

/// Whether every escape is two digits and all of them together are a text: the
/// reader that follows would pass over what is not.
fn is_readable(query: &str) -> bool {
    let mut rest = query.bytes();
    let mut plain = Vec::with_capacity(query.len());
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            plain.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let read = digit().zip(digit());
        let Some(byte) = read.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) else {
            return false;
        };
        plain.push(byte);
    }
    String::from_utf8(plain).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{is_readable, unquoted};

    #[test]
    fn a_reason_names_fields_and_quotes_no_value() {
        for (reason, told) in [
            (
                "unknown field `farm`, expected one of `user`, `host`, `limit`",
                "unknown field `farm`, expected one of `user`, `host`, `limit`",
            ),
            (
                "sg_broker_0123456789ab_0123456789abcdef: unknown field `sg_broker_0123456789ab_0123456789abcdef`, expected `a`",
                "unknown field `...`, expected `a`",
            ),
            (
                "unknown field `a`, there are`, or `b`, expected one of `c`, `d`",
                "unknown field `...`, expected one of `c`, `d`",
            ),
            (
                r#"invalid type: string "a\"b", expected u64 at line 1"#,
                r#"invalid type: string "...", expected u64 at line 1"#,
            ),
            (
                "unknown variant `format disk`, expected `x`",
                "unknown variant `...`, expected `x`",
            ),
            ("EOF while parsing", "EOF while parsing"),
        ] {
            assert_eq!(unquoted(reason), told);
        }
    }

    #[test]
    fn broken_escapes_are_told_from_good_ones() {
        for good in ["", "user=corp%5Cj%C3%B6rg+x&&limit=3&flag", "a=100%25"] {
            assert!(is_readable(good), "{good}");
        }
        for broken in ["a=%", "a=%4", "a=%zz", "a=%ff", "a=%C3"] {
            assert!(!is_readable(broken), "{broken}");
        }
    }
}
