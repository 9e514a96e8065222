//! What the document says of parameters beyond that they are text: a program
//! that keeps to it is not told that it asks wrongly.

use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::schema::{SchemaFormat, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};

use super::{decisions, listing};

/// One character at least that is no white space, as Unicode counts it.
const NOT_BLANK: &str = r"[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";
/// The id of a key.
const KEY: &str = "^[0-9a-f]{12}$";

/// Says what an endpoint's parameters may hold.
pub(super) fn narrow(path: &str, operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else {
            continue;
        };
        if let Some(schema) = schema(path, parameter) {
            parameter.schema = Some(RefOr::T(Schema::Object(schema.build())));
        }
    }
}

fn schema(path: &str, parameter: &Parameter) -> Option<ObjectBuilder> {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    match parameter.name.as_str() {
        "limit" => {
            let most = match path.ends_with("/decisions") {
                true => decisions::MOST,
                false => listing::MOST,
            };
            let number = ObjectBuilder::new().schema_type(Type::Integer);
            Some(number.minimum(Some(1)).maximum(Some(most)))
        }
        "user" | "host" | "farm" | "after" => Some(text().pattern(Some(NOT_BLANK))),
        "id" if path.ends_with("/decisions/{id}") => {
            Some(text().format(Some(SchemaFormat::Custom("uuid".to_owned()))))
        }
        "id" if path.contains("/keys/{id}") => Some(text().pattern(Some(KEY))),
        _ => None,
    }
}
