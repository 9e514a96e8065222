//! `POST /api/v1/explain`: what would be decided for somebody now. A dry run:
//! no seat is taken, no lease is claimed, nothing is kept.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::Api;
use super::answer::{Answer, Failure, Told};
use super::decisions::View;
use super::extract::Sent;
use crate::broker::{Act, Asked, Record};
use crate::placement::{self, Carried, Carriers, Claims, FarmId};

/// What is asked, as a connection would carry it; blank parts count as missing.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    /// RDP user; blank where Guacamole would prompt.
    username: String,
    /// RDP domain.
    #[serde(default)]
    domain: String,
    /// Guacamole login.
    #[serde(default)]
    name: String,
    /// A resource's id.
    #[serde(default)]
    resource_id: String,
    /// The Guacamole connection's id.
    #[serde(default)]
    connection_id: String,
    /// The Guacamole connection's name.
    #[serde(default)]
    connection_name: String,
    /// A farm's id: obeyed where `farm=` in a selector is.
    #[serde(default)]
    farm_id: String,
    /// May be a selector.
    #[serde(default)]
    hostname: String,
    /// The connection's RemoteApp.
    #[serde(default)]
    remote_app: String,
    /// The connection's `load-balance-info`.
    #[serde(default)]
    load_balance_info: String,
    /// Of the listener it would come in by.
    #[serde(default)]
    source: String,
}

/// What would be decided now, host by host; changes nothing
#[utoipa::path(post, path = "/explain", operation_id = "explain", request_body = Question,
    responses((status = 200, description = "The decision that would be made.", body = View)),
)]
pub(super) async fn explain(
    State(api): State<Arc<Api>>,
    Sent(question): Sent<Question>,
) -> Answer<View> {
    let record = api.dry_run(&question).await?;
    Ok(Told(View::of(Arc::new(record))))
}

impl Api {
    async fn dry_run(&self, question: &Question) -> Result<Record, Failure> {
        let claims = question.claims();
        let carriers = match question.carriers()? {
            Ok(carriers) => carriers,
            Err(refusal) => {
                let asked = Asked::by(&claims).at(&question.hostname);
                let answer = self.broker.unreadable(&refusal);
                return Ok(self.broker.record(&answer, Act::DryRun, asked));
            }
        };
        let request = placement::Request {
            carriers,
            claims,
            ..placement::Request::default()
        };
        let deadline = Instant::now() + self.config.get().timeouts.placement;
        let previewed = self.broker.preview(&request, deadline).await;
        let answer = previewed.map_err(|unplaced| unplaced.error)?;
        Ok(self
            .broker
            .record(&answer, Act::DryRun, Asked::from(&request)))
    }
}

impl Question {
    fn claims(&self) -> Claims {
        Claims {
            username: self.username.clone(),
            domain: self.domain.clone(),
            name: self.name.clone(),
        }
    }

    fn carriers(&self) -> Result<Result<Carriers, placement::Refusal>, Failure> {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let carrying = [
            &self.resource_id,
            &self.connection_id,
            &self.connection_name,
            &self.farm_id,
            &self.hostname,
            &self.load_balance_info,
        ];
        if carrying.into_iter().all(|text| given(text).is_none()) {
            return Err(Failure::bad(
                "say what is asked for: resource_id, connection_id, connection_name, farm_id, hostname or load_balance_info",
            ));
        }
        let read = Carriers::read(Carried {
            hostname: &self.hostname,
            extra: &self.resource_id,
            remote_app: &self.remote_app,
            load_balance_info: &self.load_balance_info,
            source: given(&self.source).as_deref(),
        });
        Ok(read.map(|mut carriers| {
            // What a selector in the hostname says stands.
            carriers.connection_id = carriers.connection_id.or(given(&self.connection_id));
            carriers.connection_name = carriers.connection_name.or(given(&self.connection_name));
            carriers.farm = carriers.farm.or(given(&self.farm_id).map(FarmId::from));
            carriers
        }))
    }
}
