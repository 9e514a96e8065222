//! What holds of trust, whatever hosts say.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::build::{NOW, user};
use super::cases::{Case, case};
use crate::placement::*;

/// A case in which agents may be anything, with people known from some hosts.
fn doubted() -> impl Strategy<Value = Case> {
    let liars = any::<[bool; 5]>();
    let known = vec((0..5_usize, any::<bool>()), 0..4);
    (case(), liars, known, any::<bool>()).prop_map(|(mut case, liars, known, strict)| {
        let rules = case.snapshot.directory.rules().clone();
        case = with_rules(
            case,
            Rules {
                trust_agents: if strict {
                    TrustAgents::History
                } else {
                    TrustAgents::Always
                },
                ..rules
            },
        );
        let mut people = People::default();
        let hosts: Vec<_> = case.snapshot.hosts.keys().cloned().collect();
        for (at, domain) in known {
            let who = if domain { "corp\\ann" } else { "ann" };
            people.remember(&user(who), &hosts[at % hosts.len()], NOW);
        }
        case.snapshot.people = Arc::new(people);
        for (view, lies) in case.snapshot.hosts.values_mut().zip(liars) {
            let view = Arc::make_mut(view);
            if let Some(report) = &mut view.report {
                Arc::make_mut(report).overclaims = lies;
            }
        }
        case
    })
}

fn with_rules(mut case: Case, rules: Rules) -> Case {
    let directory = &case.snapshot.directory;
    case.snapshot.directory = Arc::new(Directory::new(
        rules,
        directory.hosts().cloned(),
        directory.farms().cloned(),
        directory.resources().cloned(),
    ));
    case
}

/// Whether our tunnels, leases and history say that this user is or was there.
fn is_known(case: &Case, who: &UserKey, host: &HostId) -> bool {
    let view = case.view(host);
    let lasting = view.lingering.left(NOW);
    case.snapshot.people.took(who, host)
        || view.tunnels.iter().any(|t| t.user.as_ref() == Some(who))
        || lasting.map(|(key, _)| key.user()).any(|user| user == *who)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_claim_that_is_set_aside_takes_nobody_back(case in doubted()) {
        let decision = case.decide();
        let Outcome::Placed(Placement { host, reason: Reason::Reconnect(_), .. }) = &decision.outcome
        else { return Ok(()) };
        let candidate = decision.candidates.iter().find(|c| c.host == *host).unwrap();
        prop_assert_eq!(candidate.session_set_aside, None);
        let strict = case.snapshot.directory.rules().trust_agents == TrustAgents::History;
        if strict || case.view(host).report.as_ref().unwrap().overclaims {
            prop_assert!(is_known(&case, decision.user.as_ref().unwrap(), host));
        }
    }

    #[test]
    fn what_we_know_ourselves_is_never_set_aside(case in doubted()) {
        let decision = case.decide();
        let Some(who) = &decision.user else { return Ok(()) };
        for candidate in decision.candidates.iter().filter(|c| c.session_set_aside.is_some()) {
            prop_assert!(!is_known(&case, who, &candidate.host));
            prop_assert!(case.view(&candidate.host).report.as_ref().unwrap().shows(who));
        }
    }

    #[test]
    fn trust_changes_nothing_for_newcomers(case in doubted()) {
        let mut plain = case.clone();
        plain.snapshot.people = Arc::default();
        for view in plain.snapshot.hosts.values_mut() {
            if let Some(report) = Arc::make_mut(view).report.as_mut().map(Arc::make_mut) {
                report.overclaims = false;
            }
        }
        let farm = case.decide().farm.unwrap();
        // As text, since a figure may be no number.
        let says = |case: &Case| format!("{:?}", newcomer(&case.snapshot, &farm, NOW));
        prop_assert_eq!(says(&case), says(&plain));
    }
}
