//! Answers and failures as JSON, always in the same form.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tracing::debug;
use utoipa::ToSchema;
use uuid::Uuid;

use super::caller::Role;
use crate::broker::{DecisionId, PlaceError};
use crate::store::StoreError;

/// A good answer.
#[derive(Debug)]
pub(super) struct Told<T>(pub(super) T);

/// What an endpoint comes to.
pub(super) type Answer<T> = Result<Told<T>, Failure>;

/// Why there is no answer but an error.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    status: StatusCode,
    text: String,
    /// What it is found by elsewhere; a number of its own where there is none.
    about: Option<DecisionId>,
    /// What it is, for programs; where one would do something about it.
    code: Option<&'static str>,
    // Boxed: few have one, and every answer has room for a failure.
    header: Option<Box<(HeaderName, HeaderValue)>>,
    /// Its text quotes what was sent, which whoever sent it may read, and no log.
    quotes: bool,
}

/// The words that paths are made of.
#[derive(Debug, Clone)]
pub(super) struct Words(Arc<BTreeSet<String>>);

impl Words {
    /// Those in these paths; names that stand in braces are none.
    pub(super) fn of<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let words = paths.into_iter().flat_map(|path| path.split('/'));
        let words = words.filter(|word| !word.starts_with('{'));
        Self(Arc::new(words.map(str::to_owned).collect()))
    }

    /// A path as a log may have it: somebody's key may stand where a name should.
    fn of_path(&self, path: &str) -> String {
        let words = path.split('/').map(|word| match self.0.contains(word) {
            true => word,
            false => "...",
        });
        words.collect::<Vec<_>>().join("/")
    }
}

/// Why there is no answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub(super) struct ErrorBody<'a> {
    /// The reason, for people.
    error: &'a str,
    /// The decision it is about, or this answer's own number.
    r#ref: String,
    /// What it is, where a program may do something about it: `force_required`,
    /// `approval_required`.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

impl<T: Serialize> IntoResponse for Told<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self.0).unwrap_or_else(|error| {
            let text = format!("the answer cannot be written: {error}");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        })
    }
}

fn json(status: StatusCode, value: &impl Serialize) -> serde_json::Result<Response> {
    let mut response = Response::new(Body::from(serde_json::to_vec(value)?));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The answer to a path that is none.
pub(super) async fn no_such_path() -> Failure {
    Failure::not_found("there is nothing at this path")
}

/// What every answer says to a browser that got here: this is no page.
const HEADERS: [(HeaderName, &str); 3] = [
    (CACHE_CONTROL, "no-store"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'",
    ),
];

/// Gives every failure the one form, those of the router too, and a line in the
/// log of whoever looks for it.
pub(super) async fn uniform(State(words): State<Words>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let mut response = one_form(&method, || words.of_path(&path), response);
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

fn one_form(method: &Method, path: impl Fn() -> String, mut response: Response) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    if response.extensions().get::<Failure>().is_none() {
        let allow = response.headers_mut().remove(ALLOW);
        let failure = match &allow {
            Some(allow) => Failure::wrong_method(allow),
            None => Failure::new(status, said_plainly(status)),
        };
        response = failure.into_response();
        response
            .headers_mut()
            .extend(allow.map(|allow| (ALLOW, allow)));
    }
    if let Some(failure) = response.extensions().get::<Failure>() {
        let error = match failure.quotes {
            true => "it cannot be read, and who sent it was told why",
            false => failure.text.as_str(),
        };
        // A method may be anything that somebody typed.
        let method = match *method {
            Method::GET | Method::POST | Method::PATCH | Method::DELETE | Method::PUT => {
                method.as_str()
            }
            _ => "another",
        };
        debug!(method, path = path(), %status, error, "Request failed");
    }
    response
}

fn said_plainly(status: StatusCode) -> String {
    let reason = status.canonical_reason().unwrap_or("failed");
    reason.to_lowercase()
}

impl Failure {
    pub(super) fn new(status: StatusCode, text: String) -> Self {
        Self {
            status,
            text,
            about: None,
            code: None,
            header: None,
            quotes: false,
        }
    }

    /// What was sent cannot be read; `why` may quote it.
    pub(super) fn unreadable(why: impl Into<String>) -> Self {
        Self {
            quotes: true,
            ..Self::bad(why)
        }
    }

    /// It came of this decision.
    #[must_use]
    pub(super) fn about(mut self, decision: DecisionId) -> Self {
        self.about = Some(decision);
        self
    }

    /// A program is told so by this word.
    #[must_use]
    pub(super) fn coded(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Who asks showed no key that is good, whatever the reason.
    pub(super) fn unauthorized() -> Self {
        let text = "this needs a valid key, sent as: Authorization: Bearer KEY".to_owned();
        let challenge = HeaderValue::from_static("Bearer realm=\"sessionguard\"");
        Self {
            header: Some(Box::new((WWW_AUTHENTICATE, challenge))),
            ..Self::new(StatusCode::UNAUTHORIZED, text)
        }
    }

    /// Who asks asks too often. The wait is told in whole seconds.
    pub(super) fn too_many(wait: Duration) -> Self {
        let seconds = wait.as_secs().saturating_add(1);
        let text = format!("too many requests: ask again in {seconds} s");
        Self {
            header: Some(Box::new((RETRY_AFTER, seconds.into()))),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, text)
        }
    }

    /// The question itself is wrong.
    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text.into())
    }

    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text.into())
    }

    /// What is asked for does not go together with how things stand.
    pub(super) fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, text.into())
    }

    fn wrong_method(allow: &HeaderValue) -> Self {
        // Whatever answers GET answers HEAD, which goes without saying.
        let allow = allow.to_str().unwrap_or_default().split(',');
        let allow = allow.filter(|method| *method != Method::HEAD.as_str());
        let allow: Vec<_> = allow.collect();
        let text = format!("this path answers {} only", allow.join(" and "));
        Self::new(StatusCode::METHOD_NOT_ALLOWED, text)
    }

    pub(super) fn forbidden() -> Self {
        let text = "only root and the user that sessionguard runs as may ask".to_owned();
        Self::new(StatusCode::FORBIDDEN, text)
    }

    pub(super) fn lacks(role: Role) -> Self {
        let text = format!("this needs the role {role}");
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// The token is not good, whatever the reason.
    pub(super) fn not_accepted() -> Self {
        let text =
            "the enrollment token is not accepted: each is good once, for one host, for a while";
        Self::new(StatusCode::UNAUTHORIZED, text.to_owned())
    }

    /// Who asks speaks for somebody else.
    pub(super) fn elsewhere(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text.into())
    }

    /// This broker cannot do that.
    pub(super) fn not_implemented(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, text.into())
    }

    /// It may be possible later.
    pub(super) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: &self.text,
            r#ref: match &self.about {
                Some(decision) => decision.to_string(),
                None => Uuid::now_v7().to_string(),
            },
            code: self.code,
        };
        // Texts: they can always be written.
        let mut response = json(self.status, &body).unwrap_or_default();
        let header = self.header.as_deref().cloned();
        response.headers_mut().extend(header);
        response.extensions_mut().insert(self);
        response
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
