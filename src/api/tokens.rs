//! `POST /api/v1/broker/tokens`: [`super::resolve`] as forms, for whoever fills
//! tokens into a connection's parameters. Nothing to fill in is an empty answer:
//! a connection that is not ours stays as it is.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;

use super::Api;
use super::answer::Failure;
use super::caller::Caller;
use super::extract::Filled;
use super::resolve::{Settled, Wish};

const FORM: &str = "application/x-www-form-urlencoded";

/// Place a user whose connection does not come through the broker; forms
///
/// As `resolve`. Empty where the connection is none of the broker's, or `mode`
/// is `observe`.
#[utoipa::path(post, path = "/broker/tokens", operation_id = "tokens",
    request_body(content = Wish, content_type = "application/x-www-form-urlencoded"),
    responses((
        status = 200,
        description = "Pairs: SESSIONGUARD_HOST, _AGENT_ID, _RESOURCE_ID, _REMOTE_APP, _REMOTE_APP_DIR, _REMOTE_APP_ARGS.",
        body = String,
        content_type = "application/x-www-form-urlencoded",
    )),
)]
pub(super) async fn tokens(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Filled(wish): Filled<Wish>,
) -> Result<Response, Failure> {
    let pairs = match api.settle(&wish, &caller.actor).await? {
        Settled::There(resolved) => resolved.tokens,
        Settled::Unmapped(_) | Settled::Observed(_) => Default::default(),
    };
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(pairs);
    let mut response = Response::new(Body::from(form.finish()));
    let kind = HeaderValue::from_static(FORM);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
