//! What the page is told, and whether it comes back by itself.

use super::*;
use crate::placement::SelectorError;

/// Every refusal there is. A new one does not compile before it has a line here.
fn every_refusal() -> Vec<Refusal> {
    let all = vec![
        Refusal::BadSelector(SelectorError::Empty),
        Refusal::FarmSelectorNotAllowed,
        Refusal::UnknownResource,
        Refusal::CarriersDisagree,
        Refusal::AmbiguousResource("r".into(), "s".into()),
        Refusal::ResourceDisabled("r".into()),
        Refusal::NoFarm,
        Refusal::UnknownFarm("f".into()),
        Refusal::FarmDisabled("f".into()),
        Refusal::EmptyFarm("f".into()),
        Refusal::HeldElsewhere("h".into()),
        Refusal::Unmatched,
        Refusal::LoginMismatch,
        Refusal::TooManyTunnels,
        Refusal::LogonsPending("f".into()),
        Refusal::Busy("f".into()),
        Refusal::Unreachable("f".into()),
    ];
    for refusal in &all {
        // Nothing but a reminder.
        match refusal {
            Refusal::BadSelector(_)
            | Refusal::FarmSelectorNotAllowed
            | Refusal::UnknownResource
            | Refusal::CarriersDisagree
            | Refusal::AmbiguousResource(..)
            | Refusal::ResourceDisabled(_)
            | Refusal::NoFarm
            | Refusal::UnknownFarm(_)
            | Refusal::FarmDisabled(_)
            | Refusal::EmptyFarm(_)
            | Refusal::HeldElsewhere(_)
            | Refusal::Unmatched
            | Refusal::LoginMismatch
            | Refusal::TooManyTunnels
            | Refusal::LogonsPending(_)
            | Refusal::Busy(_)
            | Refusal::Unreachable(_) => {}
        }
    }
    all
}

/// The code of each refusal, and whether the page retries by itself.
const CODES: [(u16, bool); 17] = [
    (0x204, false), // bad selector, unfilled token
    (0x303, false), // farm= not allowed
    (0x204, false), // unknown resource
    (0x205, false), // carriers disagree
    (0x205, false), // ambiguous
    (0x303, false), // resource disabled
    (0x204, false), // no farm
    (0x204, false), // unknown farm
    (0x303, false), // farm disabled
    (0x204, false), // farm without a host
    (0x201, false), // held on a host in maintenance or out of the farm
    (0x303, false), // unmatched = "refuse"
    (0x303, false), // require_match
    (0x31d, false), // max_tunnels_per_user
    (0x202, true),  // logons under way for the whole budget
    (0x201, false), // every reachable host full, in drain, unhealthy
    (0x208, true),  // no host reachable
];

#[test]
fn every_refusal_has_its_code() {
    let all = every_refusal();
    assert_eq!(all.len(), CODES.len());
    for (refusal, (code, retries)) in all.iter().zip(CODES) {
        let status = status_of(refusal);
        assert_eq!(status.code(), code, "{refusal}");
        assert_eq!(status.page_retries(), retries, "{refusal}");
    }
}

#[test]
fn the_page_comes_back_by_itself_only_for_what_passes_by_itself() {
    for refusal in every_refusal() {
        let passes = matches!(refusal, Refusal::LogonsPending(_) | Refusal::Unreachable(_));
        assert_eq!(status_of(&refusal).page_retries(), passes, "{refusal}");
    }
}

#[test]
fn no_refusal_logs_the_user_out() {
    // The page takes 0x301 for wrong credentials of its own.
    for refusal in every_refusal() {
        assert_ne!(status_of(&refusal), Status::ClientUnauthorized, "{refusal}");
    }
}

#[test]
fn every_unfilled_or_odd_selector_is_a_resource_that_does_not_exist() {
    for error in [
        SelectorError::Empty,
        SelectorError::UnknownKey,
        SelectorError::NoValue,
        SelectorError::Repeated,
        SelectorError::UnfilledToken,
    ] {
        let status = status_of(&Refusal::BadSelector(error));
        assert_eq!(status, Status::ResourceNotFound);
    }
}

#[test]
fn what_ends_a_handshake_without_a_decision_has_its_code_too() {
    let io = || io::Error::from(io::ErrorKind::ConnectionRefused);
    for (stop, code) in [
        (Stop::HandshakeTimeout, Some(0x308)),
        (
            Stop::Handshake(HandshakeError::Select {
                offset: 0,
                arguments: 2,
            }),
            Some(0x300),
        ),
        (Stop::GuacdSilent, Some(0x208)),
        (
            Stop::GuacdUnreachable {
                address: "127.0.0.1:4823".to_owned(),
                error: io(),
            },
            Some(0x208),
        ),
        (Stop::Closed(Side::Guacd), Some(0x208)),
        (Stop::UnknownJoin, Some(0x204)),
        (Stop::Shutdown, Some(0x20b)),
        (Stop::NothingSent, None),
        (Stop::Foreign, None),
        (Stop::Closed(Side::Guacamole), None),
    ] {
        let told = stop.status().map(Status::code);
        assert_eq!(told, code, "{stop}");
    }
}
