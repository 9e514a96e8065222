//! The page for administrators: files that hold no datum and so need no key.
//! Whatever the page shows it asks of the API, with the key that was typed in.

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::answer::{self, Failure, Words};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// Where the files are that the page itself names.
const BESIDE: &str = "/page/";

const INDEX: &str = include_str!("page/index.html");

/// The rest, by name. One that is missing here is missing on the page, which a
/// test finds.
const FILES: &[(&str, &str, &str)] = &[
    ("icon.svg", PICTURE, include_str!("page/icon.svg")),
    ("page.css", STYLE, include_str!("page/page.css")),
    ("api.js", SCRIPT, include_str!("page/api.js")),
    ("decision.js", SCRIPT, include_str!("page/decision.js")),
    ("decisions.js", SCRIPT, include_str!("page/decisions.js")),
    ("dom.js", SCRIPT, include_str!("page/dom.js")),
    ("host.js", SCRIPT, include_str!("page/host.js")),
    ("hosts.js", SCRIPT, include_str!("page/hosts.js")),
    ("order.js", SCRIPT, include_str!("page/order.js")),
    ("overview.js", SCRIPT, include_str!("page/overview.js")),
    ("page.js", SCRIPT, include_str!("page/page.js")),
    ("rights.js", SCRIPT, include_str!("page/rights.js")),
    ("sessions.js", SCRIPT, include_str!("page/sessions.js")),
    ("shortcuts.js", SCRIPT, include_str!("page/shortcuts.js")),
    ("table.js", SCRIPT, include_str!("page/table.js")),
    ("tunnels.js", SCRIPT, include_str!("page/tunnels.js")),
    ("user.js", SCRIPT, include_str!("page/user.js")),
    ("words.js", SCRIPT, include_str!("page/words.js")),
];

/// Nothing foreign, nothing inside the page that is not in these files, no page
/// around it; and no text that is turned into markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

const HEAD: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    // Another release has other files under the same names.
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Whether this path is the page's, and not the API's.
pub(super) fn is_page(path: &str) -> bool {
    let name = path.strip_prefix(BESIDE);
    path == "/" || name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

/// The page beside what else there is.
pub(super) fn beside(api: Router) -> Router {
    Router::new()
        .route("/", get(async || file(HTML, INDEX)).fallback(only_get))
        .route("/page/{name}", get(named).fallback(only_get))
        .layer(middleware::from_fn(unless_turned_away))
        .layer(middleware::from_fn_with_state(
            Words::of(["", "page"]),
            answer::uniform,
        ))
        .layer(middleware::map_response(with_policy))
        .fallback_service(api)
}

/// An address that asks too often is not served here either.
async fn unless_turned_away(request: Request, next: Next) -> Result<Response, Failure> {
    match request.extensions().get::<Failure>() {
        Some(failure) => Err(failure.clone()),
        None => Ok(next.run(request).await),
    }
}

/// A router would say so behind every layer, and in other words.
async fn only_get() -> Response {
    let text = "this path answers GET only".to_owned();
    let mut response = Failure::new(StatusCode::METHOD_NOT_ALLOWED, text).into_response();
    let allow = HeaderValue::from_static("GET,HEAD");
    response.headers_mut().insert(ALLOW, allow);
    response
}

async fn named(Path(name): Path<String>) -> Result<Response, Failure> {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    let found = found.map(|(_, kind, text)| file(kind, text));
    found.ok_or_else(|| Failure::not_found("there is nothing at this path"))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let mut response = text.into_response();
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// In place of what the API tells browsers: this is a page.
async fn with_policy(mut response: Response) -> Response {
    for (name, value) in HEAD {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served_under_its_own_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/page");
        let there = std::fs::read_dir(folder).unwrap();
        let there = there.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let served = FILES.iter().map(|(name, ..)| (*name).to_owned());
        let served: BTreeSet<_> = served.chain(["index.html".to_owned()]).collect();
        assert_eq!(served, there.collect());
        for (name, kind, text) in FILES {
            let ending = match *kind {
                STYLE => ".css",
                SCRIPT => ".js",
                _ => ".svg",
            };
            assert!(name.ends_with(ending), "{name}");
            assert!(!text.is_empty(), "{name}");
        }
    }

    /// What the browser's policy would forbid, or what could make markup of a
    /// text, is not even tried.
    #[test]
    fn nothing_foreign_and_no_markup_from_texts() {
        let all = FILES.iter().map(|(name, _, text)| (*name, *text));
        for (name, text) in all.chain([("index.html", INDEX)]) {
            for never in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "https://",
                "style=",
                " onclick=\"",
                "localStorage",
                "document.cookie",
            ] {
                assert!(!text.contains(never), "{name}: {never}");
            }
        }
    }
}
