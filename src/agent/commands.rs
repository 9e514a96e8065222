//! Which commands are carried out, and on which sessions; pure.

use super::host::Name;
use super::moment;
use super::sessions::Seen;
use super::wire::{Command, CommandKind, Target};
use crate::placement::Timestamp;

/// What is to become of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is carried out.
    CarryOut(CommandKind),
    /// It is not, and the broker is told why.
    Refuse(&'static str),
}

/// Judges a command that was not seen before. `now` is by the broker's clock,
/// whose the expiry is, too.
pub(super) fn judge(command: &Command, allowed: &[CommandKind], now: Timestamp) -> Verdict {
    let kind = serde_json::from_value(command.kind.clone().into());
    let Ok(kind) = kind else {
        return Verdict::Refuse("this agent knows no such command");
    };
    if !allowed.contains(&kind) {
        return Verdict::Refuse("not among the commands this host's agent.toml allows");
    }
    let Some(expiry) = command.expires_at.as_deref().and_then(moment::parse) else {
        return Verdict::Refuse("it names no time after which it must not be carried out");
    };
    if expiry <= now {
        return Verdict::Refuse("it came after its time");
    }
    if kind == CommandKind::Message
        && command
            .message
            .as_deref()
            .unwrap_or_default()
            .trim()
            .is_empty()
    {
        return Verdict::Refuse("it brings no text");
    }
    if kind != CommandKind::RestartServer && command.target == Target::default() {
        return Verdict::Refuse("it names no session");
    }
    Verdict::CarryOut(kind)
}

/// Whether a command means this session. Everything it names must fit.
pub(super) fn means(target: &Target, session: &Seen, name: &Name) -> bool {
    let same = |wanted: &str, is: &str| wanted.to_lowercase() == is.to_lowercase();
    let id = target.session_id.as_ref();
    let user = target.user.as_ref();
    let state = if session.connected {
        "active"
    } else {
        "disconnected"
    };
    let domain = target.domain.as_deref().filter(|domain| !domain.is_empty());
    // A session without a domain fits any: that is how sessions are matched.
    let domain_fits =
        domain.is_none_or(|wanted| name.domain.as_deref().is_none_or(|is| same(wanted, is)));
    *target != Target::default()
        && id.is_none_or(|id| *id == session.display.to_string())
        && user.is_none_or(|user| same(user, &name.user))
        && domain_fits
        && target
            .state
            .as_ref()
            .is_none_or(|wanted| same(wanted, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::sessions::ProcessKey;

    const ALL: &[CommandKind] = &[
        CommandKind::Message,
        CommandKind::Disconnect,
        CommandKind::Logoff,
        CommandKind::RestartServer,
    ];

    fn command(json: &str) -> Command {
        serde_json::from_str(json).unwrap()
    }

    fn now() -> Timestamp {
        moment::parse("2026-11-30T08:00:00Z").unwrap()
    }

    #[test]
    fn what_is_allowed_in_time_and_whole_is_carried_out() {
        for (json, kind) in [
            (
                r#"{"id":"1","type":"restart_server","expires_at":"2026-11-30T08:00:01Z"}"#,
                CommandKind::RestartServer,
            ),
            (
                r#"{"id":2,"type":"logoff","expires_at":"2026-11-30T09:01:00+01:00","session_id":10}"#,
                CommandKind::Logoff,
            ),
            (
                r#"{"id":"3","type":"disconnect","expires_at":"2026-12-01T00:00:00Z","all":true,"extra":1}"#,
                CommandKind::Disconnect,
            ),
            (
                r#"{"id":"4","type":"message","expires_at":"2026-12-01T00:00:00Z","user":"ann","message":"hello"}"#,
                CommandKind::Message,
            ),
        ] {
            assert_eq!(
                judge(&command(json), ALL, now()),
                Verdict::CarryOut(kind),
                "{json}"
            );
            assert!(
                matches!(judge(&command(json), &[], now()), Verdict::Refuse(_)),
                "nothing is allowed"
            );
        }
    }

    #[test]
    fn what_is_late_unknown_or_vague_is_refused() {
        for json in [
            r#"{"id":"1","type":"restart_server","expires_at":"2026-11-30T08:00:00Z"}"#,
            r#"{"id":"1","type":"restart_server"}"#,
            r#"{"id":"1","type":"restart_server","expires_at":"soon"}"#,
            r#"{"id":"1","type":"format_disk","expires_at":"2026-12-01T00:00:00Z"}"#,
            r#"{"id":"1","type":"logoff","expires_at":"2026-12-01T00:00:00Z"}"#,
            r#"{"id":"1","type":"logoff","expires_at":"2026-12-01T00:00:00Z","all":false}"#,
            r#"{"id":"1","type":"message","expires_at":"2026-12-01T00:00:00Z","all":true,"message":" "}"#,
        ] {
            assert!(
                matches!(judge(&command(json), ALL, now()), Verdict::Refuse(_)),
                "{json}"
            );
        }
    }

    #[test]
    fn every_part_of_a_target_must_fit() {
        let session = Seen {
            leader: ProcessKey { pid: 1, started: 1 },
            display: 10,
            uid: 1,
            manager: None,
            connected: false,
            carrier: None,
        };
        let ann = Name {
            user: "Ann".into(),
            domain: Some("CORP".into()),
        };
        let bare = Name {
            user: "ann".into(),
            domain: None,
        };
        let target = |json: &str| serde_json::from_str::<Target>(json).unwrap();
        for (json, fits, fits_bare) in [
            (r"{}", false, false),
            (r#"{"all":true}"#, true, true),
            (r#"{"session_id":10}"#, true, true),
            (r#"{"session_id":"10","user":"ann"}"#, true, true),
            (r#"{"session_id":"10","user":"bob"}"#, false, false),
            (r#"{"session_id":1}"#, false, false),
            (r#"{"user":"ANN","domain":"corp"}"#, true, true),
            (r#"{"user":"ann","domain":"other"}"#, false, true),
            (r#"{"state":"Disconnected"}"#, true, true),
            (r#"{"state":"active","all":true}"#, false, false),
        ] {
            assert_eq!(means(&target(json), &session, &ann), fits, "{json}");
            assert_eq!(means(&target(json), &session, &bare), fits_bare, "{json}");
        }
    }
}
