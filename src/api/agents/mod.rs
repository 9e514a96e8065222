//! What agents call: they say how their hosts are, and are told what to do.

pub(super) mod enroll;
pub(super) mod heartbeat;
mod shape;

use axum::http::HeaderMap;

use super::answer::Failure;
use super::caller::Caller;
use crate::placement::HostId;

/// The header in which an agent says whom it speaks for.
const AGENT_ID: &str = "x-agent-id";

/// The host that a caller speaks for: its key's. Whatever else the request says
/// of it must agree. Over the admin socket there is no key: whoever owns the
/// broker may speak for any host.
///
/// # Errors
/// It speaks for another host.
fn host_of(caller: &Caller, headers: &HeaderMap, agent_id: &str) -> Result<HostId, Failure> {
    let mut named = headers.get_all(AGENT_ID).iter();
    let (Some(named), None) = (named.next(), named.next()) else {
        return Err(Failure::elsewhere(
            "the header X-Agent-ID is missing, or there twice",
        ));
    };
    let named = HostId::from(named.to_str().unwrap_or_default());
    let host = caller.host.clone().unwrap_or_else(|| named.clone());
    if named != host {
        return Err(Failure::elsewhere(
            "the header X-Agent-ID names another host than the key",
        ));
    }
    if agent_id != host.as_str() {
        return Err(Failure::elsewhere(
            "agent_id names another host than the key",
        ));
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::super::caller::Role;
    use super::*;
    use crate::placement::Actor;

    fn host(key: Option<&str>, headers: &[&'static str], agent_id: &str) -> Result<String, u16> {
        use axum::response::IntoResponse;

        let caller = Caller {
            actor: Actor::User {
                uid: None,
                name: None,
            },
            roles: Role::ALL,
            host: key.map(HostId::from),
        };
        let mut map = HeaderMap::new();
        for value in headers {
            map.append(AGENT_ID, axum::http::HeaderValue::from_static(value));
        }
        let found = host_of(&caller, &map, agent_id);
        found
            .map(|host| host.to_string())
            .map_err(|failure| failure.into_response().status().as_u16())
    }

    #[test]
    fn an_agent_speaks_for_the_host_of_its_key_alone() {
        let rds1 = Ok("rds1".to_owned());
        assert_eq!(host(Some("rds1"), &["rds1"], "rds1"), rds1);
        assert_eq!(host(Some("rds1"), &["rds2"], "rds1"), Err(403));
        assert_eq!(host(Some("rds1"), &["rds1"], "rds2"), Err(403));
        assert_eq!(host(Some("rds1"), &["rds2"], "rds2"), Err(403));
        assert_eq!(host(Some("rds1"), &[], "rds1"), Err(403));
        assert_eq!(host(Some("rds1"), &["rds1", "rds1"], "rds1"), Err(403));
        assert_eq!(host(Some("rds1"), &["RDS1"], "rds1"), Err(403));
        // Over the admin socket.
        assert_eq!(host(None, &["rds1"], "rds1"), rds1);
        assert_eq!(host(None, &["rds1"], "rds2"), Err(403));
        assert_eq!(host(None, &[], "rds2"), Err(403));
    }
}
