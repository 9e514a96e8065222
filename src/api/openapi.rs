//! `GET /api/v1/openapi.json`: the endpoints and their answers, for programs.
//! Made from the same table that answers, so that it cannot say otherwise.

use std::sync::Arc;

use axum::{Extension, Router};
use serde::Serialize;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, InfoBuilder, LicenseBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::answer::{ErrorBody, Told, Words};
use super::caller::ASKING;
use super::narrow::narrow;
use super::{Api, BASE};

/// The document, ready to be sent.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub(super) struct Document(Arc<OpenApi>);

impl Document {
    /// What the paths in it are made of.
    pub(super) fn words(&self) -> Words {
        Words::of(self.0.paths.paths.keys().map(String::as_str))
    }
}

/// The router of these endpoints, and what there is to say of it.
pub(super) fn document(endpoints: OpenApiRouter<Arc<Api>>) -> (Router<Arc<Api>>, Document) {
    let below = OpenApiRouter::new().nest(BASE, endpoints);
    let (router, mut document) = below.split_for_parts();
    // Whole: what is left out would be the library's own author and licence.
    let licence = env!("CARGO_PKG_LICENSE");
    let licence = LicenseBuilder::new()
        .name(licence)
        .identifier(Some(licence));
    document.info = InfoBuilder::new()
        .title("sessionguard")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Asks the running broker."))
        .license(Some(licence.build()))
        .build();
    let error = Ref::from_schema_name(ErrorBody::name());
    let failed = ResponseBuilder::new()
        .description("Why there is no answer.")
        .content("application/json", Content::new(Some(RefOr::Ref(error))))
        .build();
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            narrow(path, operation);
            let responses = &mut operation.responses.responses;
            responses.insert("default".to_owned(), RefOr::T(failed.clone()));
        }
    }
    let components = document.components.get_or_insert_default();
    for (role, _) in ASKING {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(format!("A key of the role {role}.")))
            .build();
        components
            .security_schemes
            .insert(role.to_owned(), RefOr::T(SecurityScheme::Http(scheme)));
    }
    let schema = ErrorBody::schema();
    components
        .schemas
        .insert(ErrorBody::name().into_owned(), schema);
    (router, Document(Arc::new(document)))
}

/// The operations of a path.
pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let operations = [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.patch,
        &mut item.delete,
    ];
    operations.into_iter().flatten()
}

/// This document
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", responses(
    (status = 200, description = "An OpenAPI document.", content_type = "application/json"),
))]
pub(super) async fn show(Extension(document): Extension<Document>) -> Told<Document> {
    Told(document)
}
