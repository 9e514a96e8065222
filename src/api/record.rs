//! What a decision's record looks like, for the API's document: the types that
//! are told belong to rooms that know nothing of documents.
//!
//! A unit test holds the two together.

use std::collections::BTreeMap;

use utoipa::ToSchema;

/// One decision as it is kept.
#[derive(ToSchema)]
#[schema(as = Record)]
#[expect(dead_code, reason = "describes what another room writes")]
pub(super) struct RecordBody {
    /// The decision's id, as in the log and in the message on the page.
    id: String,
    /// When it was made, in milliseconds since the Unix epoch.
    at: u64,
    /// `placement`, `observation` or `dry-run`.
    act: String,
    /// The tunnel that asked; missing for a dry run.
    tunnel: Option<String>,
    /// What was asked for, by name; blank parts are left out.
    asked: BTreeMap<String, String>,
    /// Generation of the configuration it was made on.
    configuration: u64,
    decision: Option<DecisionBody>,
    /// The score's weights in that farm.
    #[schema(value_type = Option<Object>)]
    weights: (),
    /// Names of connection parameters that were rewritten, never values.
    #[schema(value_type = Option<Object>)]
    rewritten: (),
    /// Why it came to nothing, whatever was decided.
    failure: Option<String>,
}

/// What was decided, able to explain itself.
#[derive(ToSchema)]
#[schema(as = Decision)]
#[expect(dead_code, reason = "describes what another room writes")]
pub(super) struct DecisionBody {
    /// Generation of the live picture it was made on.
    generation: u64,
    configuration: u64,
    resource: Option<String>,
    farm: Option<String>,
    /// Domain and user.
    #[schema(value_type = Option<Object>)]
    user: (),
    /// `plain`, `doubtful` or `ambiguous`.
    trust: String,
    /// The lease it stands on.
    key: Option<String>,
    /// `unmatched`, or an object `placed` or `refused` with the details.
    #[schema(value_type = serde_json::Value)]
    outcome: (),
    /// Every host of the farm; empty where a tunnel already open decided alone.
    candidates: Vec<CandidateBody>,
}

/// What one host of the farm had to say.
#[derive(ToSchema)]
#[schema(as = Candidate)]
#[expect(dead_code, reason = "describes what another room writes")]
pub(super) struct CandidateBody {
    host: String,
    /// The sum, and every figure it is made of.
    #[schema(value_type = Object)]
    score: (),
    /// `online`, `unknown`, `silent` or `dead`.
    reach: String,
    /// What our own probe said, and since when.
    #[schema(value_type = Object)]
    probe: (),
    /// When its agent's last report came, in milliseconds since the Unix epoch.
    report: Option<u64>,
    /// How full it is.
    #[schema(value_type = Object)]
    occupancy: (),
    /// The rule that kept it out of a new session.
    exclusion: Option<String>,
    /// The order that has it in drain or maintenance: mode, by whom, why, from
    /// when and until when; missing where the configuration does, or nothing.
    #[schema(value_type = Option<Object>)]
    order: (),
    /// Why it is not believed that the user has a session there: `overclaims`,
    /// `strangers`, `contradicted` or `not-in-history`; missing where it is, or
    /// where the host does not say so.
    session_set_aside: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use serde_json::Value;
    use utoipa::PartialSchema;

    use super::*;
    use crate::placement::{
        Actor, Directory, Farm, FarmOverrides, Host, HostView, Mistrust, Mode, Modes, Order,
        Orders, Report, Request, Rules, Session, SessionState, Snapshot, Timestamp, UserKey,
        decide,
    };

    fn described<T: PartialSchema>() -> BTreeSet<String> {
        let schema = serde_json::to_value(T::schema()).unwrap();
        schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    }

    fn written(value: &Value) -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    }

    /// A host of which everything is said that can be.
    fn in_drain_and_lying(now: Timestamp) -> HostView {
        let order = Order {
            mode: Mode::Drain,
            by: Actor::Key { id: "1".to_owned() },
            reason: None,
            message: None,
            at: now,
            from: None,
            until: None,
            restart_when_drained: false,
            online_after_restart: false,
        };
        let of_ann = Session {
            user: UserKey::new("ann", "").unwrap(),
            state: SessionState::Active,
            latest: now,
            client_name: None,
        };
        HostView {
            modes: Modes {
                configured: Mode::Online,
                orders: Arc::new(Orders::default().give(Mode::Online, order).0),
            },
            report: Some(Arc::new(Report {
                received: now,
                health: 100,
                rdp_listener_ok: true,
                cpu_percent: None,
                memory_used_percent: None,
                sessions: vec![of_ann],
                missing_remote_apps: Vec::new(),
                order: None,
                taken: now,
                overclaims: true,
            })),
            ..HostView::default()
        }
    }

    #[test]
    fn every_word_for_why_a_session_is_set_aside_is_described() {
        let schema = serde_json::to_value(CandidateBody::schema()).unwrap();
        let described = schema["properties"]["session_set_aside"]["description"].clone();
        let described = described.as_str().unwrap();
        for why in [
            Mistrust::Overclaims,
            Mistrust::Strangers,
            Mistrust::Contradicted,
            Mistrust::NotInHistory,
        ] {
            let word = serde_json::to_value(why).unwrap();
            let word = format!("`{}`", word.as_str().unwrap());
            assert!(described.contains(&word), "{word} is not in {described}");
        }
    }

    #[test]
    fn what_is_described_is_what_is_written() {
        let farm = Farm {
            id: "f".into(),
            name: "f".into(),
            enabled: true,
            agent_ids: vec!["h".into()],
            required_tags: BTreeMap::new(),
            overrides: FarmOverrides::default(),
        };
        let host = Host {
            id: "h".into(),
            address: "h.example".into(),
            port: 3389,
            farm_ids: Vec::new(),
            tags: BTreeMap::new(),
            mode: Mode::Online,
            max_sessions: None,
            max_pending_logons: None,
            parameters: Default::default(),
        };
        let rules = Rules {
            default_farm: Some("f".into()),
            ..Rules::default()
        };
        let now = Timestamp::from_millis(1);
        let snapshot = Snapshot {
            directory: Arc::new(Directory::new(rules, [host], [farm], [])),
            hosts: [("h".into(), Arc::new(in_drain_and_lying(now).into()))].into(),
            ..Snapshot::default()
        };
        let mut request = Request::default();
        request.carriers.any_host = true;
        request.claims.username = "ann".to_owned();
        let decision = decide(&snapshot, &request, &Default::default(), now);
        let decision = serde_json::to_value(decision).unwrap();
        assert_eq!(written(&decision), described::<DecisionBody>());
        assert_eq!(
            written(&decision["candidates"][0]),
            described::<CandidateBody>()
        );
    }
}
