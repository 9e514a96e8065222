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
        let Query(filter) = read.map_err(|rejection| Failure::bad(why("the query", &rejection)))?;
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
            .map_err(|error| Failure::bad(format!("the body: {error}")))
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
            Err(rejection) => Err(Failure::bad(why("the form", &rejection))),
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
    format!("{what}: {innermost}")
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
    use super::is_readable;

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
