//! What a handshake asks for: a placement, a seat in a live connection, or
//! nothing of ours. Pure.

use guac_protocol::{ConnectionId, Parameters, Select};

use crate::placement::{Carried, Carriers, Claims, Refusal, Request};

/// The parameter we add to guacd's, for connections that name their resource
/// in a parameter of its own.
pub(super) const EXTRA: &str = "sessionguard-resource";

/// The one protocol that is brokered.
const RDP: &str = "rdp";

/// What a handshake asks for.
#[derive(Debug)]
pub(super) enum Intent {
    /// A place on a host; or why the question cannot be understood.
    Place(Result<Box<Request>, Box<Unreadable>>),
    /// A seat in the connection that was given this id.
    Join(ConnectionId),
    /// A connection of a protocol that is not brokered.
    PassThrough(String),
}

/// A question that cannot be understood.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) refusal: Refusal,
    /// Who asks.
    pub(super) claims: Claims,
    /// What stood in the hostname.
    pub(super) hostname: String,
}

/// The names Guacamole is shown besides guacd's own.
pub(super) fn extra_names(select: &Select) -> &'static [&'static str] {
    match select {
        Select::Protocol(name) if name == RDP => &[EXTRA],
        Select::Protocol(_) | Select::Join(_) => &[],
    }
}

impl Intent {
    /// Reads an answered handshake. Our own parameter is taken out of
    /// `parameters` where we were who `added` it; a guacd that announced one of
    /// that name (another sessionguard, say) waits for its value. `source` is
    /// the listener's.
    pub(super) fn read(
        select: &Select,
        parameters: &mut Parameters,
        added: bool,
        login: &str,
        source: Option<&str>,
    ) -> Self {
        match select {
            Select::Join(id) => Self::Join(id.clone()),
            Select::Protocol(name) if name != RDP => Self::PassThrough(name.clone()),
            Select::Protocol(_) => {
                let extra = match added {
                    true => parameters.narrow(EXTRA),
                    false => parameters.get(EXTRA).map(str::to_owned),
                };
                let extra = extra.unwrap_or_default();
                let value = |name| parameters.get(name).unwrap_or_default();
                let claims = Claims {
                    username: value("username").to_owned(),
                    domain: value("domain").to_owned(),
                    name: login.to_owned(),
                };
                let carriers = Carriers::read(Carried {
                    hostname: value("hostname"),
                    extra: &extra,
                    remote_app: value("remote-app"),
                    load_balance_info: value("load-balance-info"),
                    source,
                });
                Self::Place(match carriers {
                    Ok(carriers) => Ok(Box::new(Request {
                        carriers,
                        claims,
                        ..Request::default()
                    })),
                    Err(refusal) => Err(Box::new(Unreadable {
                        refusal,
                        claims,
                        hostname: value("hostname").to_owned(),
                    })),
                })
            }
        }
    }
}
