//! Lease records under any sequence of events, time moving forward.

use proptest::prelude::*;

use super::build::*;
use crate::placement::*;

const FARMS: [&str; 2] = ["erp", "office"];
const HOSTS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Event {
    Claim {
        farm: usize,
        host: usize,
        tunnel: u8,
        trust: Trust,
    },
    Renew(u8),
    Stood(u8),
    End(u8),
    Expire,
    Orphan,
    Wait(u64),
}

fn trust() -> impl Strategy<Value = Trust> {
    prop_oneof![3 => Just(Trust::Plain), 1 => Just(Trust::Doubtful)]
}

fn event() -> impl Strategy<Value = Event> {
    let tunnel = || 0..5_u8;
    prop_oneof![
        4 => (0..2_usize, 0..3_usize, tunnel(), trust())
            .prop_map(|(farm, host, tunnel, trust)| Event::Claim { farm, host, tunnel, trust }),
        2 => tunnel().prop_map(Event::Renew),
        3 => tunnel().prop_map(Event::Stood),
        3 => tunnel().prop_map(Event::End),
        1 => Just(Event::Expire),
        1 => Just(Event::Orphan),
        4 => prop_oneof![Just(1), Just(44), Just(45), Just(900), 0..2000_u64].prop_map(Event::Wait),
    ]
}

fn id(tunnel: u8) -> TunnelId {
    format!("t{tunnel}").into()
}

fn happen(record: &mut LeaseRecord, event: &Event, now: &mut Timestamp) {
    match event {
        Event::Claim {
            farm,
            host,
            tunnel,
            trust,
        } => {
            let _ = record.claim(
                &FARMS[*farm].into(),
                &HOSTS[*host].into(),
                &id(*tunnel),
                *trust,
                *now,
            );
        }
        Event::Renew(tunnel) => {
            record.renew_claim(&id(*tunnel), *now);
        }
        Event::Stood(tunnel) => {
            record.stood(&id(*tunnel), &user("ann"), secs(LEASE), *now);
        }
        Event::End(tunnel) => record.end(&id(*tunnel), secs(LEASE), *now),
        Event::Expire => record.expire(*now),
        Event::Orphan => record.orphan(*now),
        Event::Wait(seconds) => *now = *now + secs(*seconds),
    }
}

/// Everything a reader can learn, farm by farm.
fn seen(record: &LeaseRecord, now: Timestamp) -> Vec<(FarmId, HostId, LeaseState, Timestamp)> {
    let views = record.views(now);
    views
        .map(|v| (v.farm.clone(), v.host.clone(), v.state, v.until))
        .collect()
}

fn held(record: &LeaseRecord, now: Timestamp) -> Vec<(FarmId, HostId)> {
    let held = record.held(now);
    held.map(|(farm, host)| (farm.clone(), host.clone()))
        .collect()
}

/// Every unexpired hold, with farm and host, as stored.
fn holds(record: &LeaseRecord, now: Timestamp) -> Vec<(TunnelId, FarmId, HostId)> {
    let stored = serde_json::to_value(record).unwrap();
    let leases = stored["leases"].as_object().unwrap();
    let mut holds: Vec<_> = leases
        .iter()
        .flat_map(|(farm, lease)| {
            let lease: Lease = serde_json::from_value(lease.clone()).unwrap();
            let farm = FarmId::from(farm.as_str());
            let open = lease.holders.into_iter().filter(|h| h.until > now);
            let holds = open.map(|h| (h.tunnel, farm.clone(), lease.host.clone()));
            holds.collect::<Vec<_>>()
        })
        .collect();
    holds.sort();
    holds
}

proptest! {
    #[test]
    fn a_farm_has_at_most_one_host_and_readers_agree(events in proptest::collection::vec(event(), 0..40)) {
        let (mut record, mut now) = (LeaseRecord::default(), NOW);
        for event in &events {
            happen(&mut record, event, &mut now);
            let views = seen(&record, now);
            let mut farms: Vec<_> = views.iter().map(|v| v.0.clone()).collect();
            farms.dedup();
            prop_assert_eq!(farms.len(), views.len());
            for (farm, host) in held(&record, now) {
                let view = record.view(&farm, now);
                prop_assert_eq!(view.map(|v| v.host), Some(&host));
            }
            prop_assert!(views.iter().all(|v| v.3 > now));
        }
    }

    #[test]
    fn forgetting_what_ran_out_changes_nothing_a_reader_sees(events in proptest::collection::vec(event(), 0..40)) {
        let (mut record, mut now) = (LeaseRecord::default(), NOW);
        for event in &events {
            happen(&mut record, event, &mut now);
            let mut swept = record.clone();
            swept.expire(now);
            prop_assert_eq!(seen(&swept, now), seen(&record, now));
            prop_assert_eq!(held(&swept, now), held(&record, now));
            // Where the user was last is no lease, and goes in its own time.
            let known = FARMS.iter().any(|farm| swept.last(&(*farm).into(), now).is_some());
            prop_assert_eq!(swept.is_empty(), seen(&record, now).is_empty() && !known);
            prop_assert_eq!(swept.user().is_some(), known);
        }
    }

    #[test]
    fn every_lease_ends(events in proptest::collection::vec(event(), 0..40)) {
        let (mut record, mut now) = (LeaseRecord::default(), NOW);
        for event in &events {
            happen(&mut record, event, &mut now);
        }
        // Nobody renews: the longest there is is one lease time.
        now = now + secs(LEASE);
        prop_assert!(seen(&record, now).is_empty());
        // And nothing is remembered for ever.
        now = now + HISTORY;
        record.expire(now);
        prop_assert_eq!(record, LeaseRecord::default());
    }

    #[test]
    fn an_end_moves_nobody_else(events in proptest::collection::vec(event(), 0..40), ended in 0..5_u8) {
        let (mut record, mut now) = (LeaseRecord::default(), NOW);
        for event in &events {
            happen(&mut record, event, &mut now);
        }
        let ended = id(ended);
        let mut expected = holds(&record, now);
        expected.retain(|(tunnel, _, _)| *tunnel != ended);
        record.end(&ended, secs(LEASE), now);
        prop_assert_eq!(holds(&record, now), expected);
    }

    #[test]
    fn a_tunnel_that_never_stands_leaves_the_record_as_it_was(
        events in proptest::collection::vec(event(), 0..30),
        farm in 0..2_usize,
        host in 0..3_usize,
        renewals in 0..5_usize,
    ) {
        let (mut record, mut now) = (LeaseRecord::default(), NOW);
        for event in &events {
            happen(&mut record, event, &mut now);
        }
        record.expire(now);
        // Nobody is placed beside an open tunnel's host.
        let taken = held(&record, now).into_iter().find(|(f, _)| f.as_str() == FARMS[farm]);
        let host = taken.map_or(HOSTS[host].into(), |(_, host)| host);
        let mut tried = record.clone();
        let tunnel = TunnelId::from("visitor");
        prop_assert!(tried.claim(&FARMS[farm].into(), &host, &tunnel, Trust::Plain, now));
        for _ in 0..renewals {
            now = now + RENEWAL;
            prop_assert!(tried.renew_claim(&tunnel, now));
        }
        tried.end(&tunnel, secs(LEASE), now);
        prop_assert_eq!(seen(&tried, now), seen(&record, now));
    }
}
