//! Answers and failures as JSON, and bodies as what they must be.

use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::timeout;
use uuid::Uuid;

use crate::broker::PlaceError;
use crate::store::StoreError;

/// Largest body that is read, in bytes. Its depth is bounded by the reader of
/// JSON, which gives up long before its own stack is in danger.
const LARGEST: usize = 64 * 1024;

/// For the whole body to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) type Answer = Response<Full<Bytes>>;

/// Why there is no answer but an error.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    text: String,
    allow: Option<&'static str>,
}

/// A good answer.
pub(super) fn answer(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(json) => response(StatusCode::OK, json),
        Err(error) => {
            let text = format!("the answer cannot be written: {error}");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, text).into_answer()
        }
    }
}

fn response(status: StatusCode, json: Vec<u8>) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(json)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Reads a body that must be one JSON object of this form.
pub(super) async fn body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Failure> {
    let body = Limited::new(request.into_body(), LARGEST).collect();
    let bytes = match timeout(PATIENCE, body).await {
        Err(_) => {
            let text = "the body did not arrive in time".to_owned();
            return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, text));
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = format!("the body is larger than {LARGEST} bytes");
            return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        Ok(Err(error)) => return Err(Failure::bad(format!("the body broke off: {error}"))),
        Ok(Ok(collected)) => collected.to_bytes(),
    };
    serde_json::from_slice(&bytes).map_err(|error| Failure::bad(format!("the body: {error}")))
}

impl Failure {
    fn new(status: StatusCode, text: String) -> Self {
        Self {
            status,
            text,
            allow: None,
        }
    }

    /// The question itself is wrong.
    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text.into())
    }

    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text.into())
    }

    pub(super) fn no_such_path() -> Self {
        Self::not_found("there is nothing at this path")
    }

    pub(super) fn wrong_method(allow: &'static str) -> Self {
        let text = format!("this path answers {allow} only");
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, text)
        }
    }

    pub(super) fn forbidden() -> Self {
        let text = "only root and the user that sessionguard runs as may ask".to_owned();
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// This broker cannot do that.
    pub(super) fn not_implemented(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, text.into())
    }

    /// It may be possible later.
    pub(super) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text.into())
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_answer(self) -> Answer {
        let body = json!({ "error": self.text, "ref": Uuid::now_v7().to_string() });
        let mut answer = response(self.status, body.to_string().into_bytes());
        if let Some(allow) = self.allow {
            let headers = answer.headers_mut();
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        answer
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Self {
        Self::unavailable(error.to_string())
    }
}
