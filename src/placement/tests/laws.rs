//! What holds for every decision, whatever it is made on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::build::{NOW, read};
use super::cases::case;
use crate::placement::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_farm_boundary_is_never_crossed_and_maintenance_never_chosen(case in case()) {
        let decision = case.decide();
        if let Outcome::Placed(placement) = &decision.outcome {
            let directory = &case.snapshot.directory;
            let farm = decision.farm.as_ref().unwrap();
            prop_assert!(directory.is_member(farm, &placement.host));
            prop_assert_ne!(case.view(&placement.host).mode(NOW), Mode::Maintenance);
            let configured = directory.host(&placement.host).unwrap();
            prop_assert_eq!(&placement.address, &configured.address);
            prop_assert_eq!(placement.port, configured.port);
        }
        for candidate in &decision.candidates {
            prop_assert!(!candidate.score.total.is_nan());
        }
    }

    #[test]
    fn an_open_tunnels_host_is_kept_or_refused_and_never_another(case in case()) {
        let decision = case.decide();
        let (Some(farm), Some(key)) = (&decision.farm, &decision.key) else { return Ok(()) };
        let held = case.held(farm, key);
        if held.is_empty() { return Ok(()) }
        match &decision.outcome {
            Outcome::Placed(p) => {
                prop_assert!(held.contains(&p.host));
                prop_assert_eq!(p.reason, Reason::Tunnel);
            }
            Outcome::Refused(Refusal::HeldElsewhere(host)) => prop_assert!(held.contains(host)),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn a_draining_host_gets_returning_users_only(case in case()) {
        let Outcome::Placed(placement) = case.decide().outcome else { return Ok(()) };
        if case.view(&placement.host).mode(NOW) == Mode::Drain {
            prop_assert_ne!(placement.reason, Reason::Score);
        }
    }

    #[test]
    fn a_newcomer_gets_the_best_of_the_eligible(case in case()) {
        let decision = case.decide();
        let Outcome::Placed(placement) = &decision.outcome else { return Ok(()) };
        if placement.reason != Reason::Score { return Ok(()) }
        let mut eligible = decision.candidates.iter().filter(|c| c.exclusion.is_none());
        let chosen = eligible.clone().find(|c| c.host == placement.host).unwrap();
        prop_assert!(eligible.all(|c| c.score.total <= chosen.score.total));
    }

    #[test]
    fn nobody_is_refused_for_lack_of_hosts_while_one_is_eligible(case in case()) {
        let decision = case.decide();
        let Outcome::Refused(refusal) = &decision.outcome else { return Ok(()) };
        // Who is bound to one host waits for that one.
        if !matches!(refusal, Refusal::HeldElsewhere(_) | Refusal::LogonsPending(_)) {
            prop_assert!(decision.candidates.iter().all(|c| c.exclusion.is_some()));
        }
    }

    #[test]
    fn the_same_question_has_the_same_answer(case in case()) {
        prop_assert_eq!(case.decide(), case.clone().decide());
    }

    // What a host says of a user may be contradicted by a host of any farm of
    // its (see trust), so "other farms" are those that share none of ours.
    #[test]
    fn what_happens_in_other_farms_moves_nobody_here(case in case()) {
        let decision = case.decide();
        let farm = decision.farm.clone().unwrap();
        let mut fewer = case.clone();
        let directory = Arc::clone(&case.snapshot.directory);
        let farms = |id| {
            let farms = directory.farms().filter(|farm| directory.is_member(&farm.id, id));
            farms.map(|farm| &farm.id).collect::<BTreeSet<_>>()
        };
        let ours = case.snapshot.hosts.keys().filter(|id| directory.is_member(&farm, id));
        let near: BTreeSet<_> = ours.flat_map(farms).collect();
        let mut emptied = BTreeMap::new();
        for (id, view) in &case.snapshot.hosts {
            let mut view = view.as_ref().clone();
            if near.is_disjoint(&farms(id)) {
                view.report = None;
                view.probe = Probe::Unknown;
                view.tunnels.retain(|t| t.farm == farm);
            }
            emptied.insert(id.clone(), Arc::new(view));
        }
        fewer.snapshot.hosts = emptied;
        prop_assert_eq!(fewer.decide().outcome, decision.outcome);
    }

    #[test]
    fn no_moment_and_no_carrier_panics(
        case in case(),
        millis in any::<u64>(),
        texts in any::<[String; 3]>(),
        claims in any::<[String; 3]>(),
    ) {
        let now = Timestamp::from_millis(millis);
        case.decide_at(now);
        let [username, domain, name] = claims;
        let claims = Claims { username, domain, name };
        let prefixed = format!("sessionguard:{}", texts[0]);
        for hostname in [&texts[0], &prefixed] {
            if let Ok(carriers) = read(hostname, &texts[1], &texts[2]) {
                let request = Request { carriers, claims: claims.clone(), ..Request::default() };
                decide(&case.snapshot, &request, &case.leases, now);
            }
        }
    }
}
