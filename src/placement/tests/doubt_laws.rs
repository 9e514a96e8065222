//! Whatever tunnels in doubt do: without them the record is what it was.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::build::*;
use crate::placement::*;

const FARMS: [&str; 2] = ["erp", "office"];
const HOSTS: [&str; 3] = ["a", "b", "c"];
const TUNNELS: u8 = 4;

#[derive(Debug, Clone)]
enum Event {
    Claim(usize, usize, u8),
    Renew(u8),
    Stood(u8),
    End(u8),
    Expire,
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let tunnel = || 0..TUNNELS;
    prop_oneof![
        4 => (0..2_usize, 0..3_usize, tunnel()).prop_map(|(f, h, t)| Event::Claim(f, h, t)),
        2 => tunnel().prop_map(Event::Renew),
        3 => tunnel().prop_map(Event::Stood),
        2 => tunnel().prop_map(Event::End),
        1 => Just(Event::Expire),
        3 => prop_oneof![Just(1), Just(44), Just(45), Just(900), 0..1000_u64].prop_map(Event::Wait),
    ]
}

/// One more in the life of a record: by tunnels of this name, so believed.
fn happen(
    record: &mut LeaseRecord,
    event: &Event,
    (name, trust): (&str, Trust),
    now: &mut Timestamp,
) {
    let id = |tunnel: &u8| TunnelId::from(format!("{name}{tunnel}"));
    match event {
        Event::Claim(farm, host, tunnel) => {
            let (farm, host) = (FARMS[*farm].into(), HOSTS[*host].into());
            let _ = record.claim(&farm, &host, &id(tunnel), trust, *now);
        }
        Event::Renew(tunnel) => {
            record.renew_claim(&id(tunnel), *now);
        }
        Event::Stood(tunnel) => {
            record.stood(&id(tunnel), &user("ann"), secs(LEASE), *now);
        }
        Event::End(tunnel) => record.end(&id(tunnel), secs(LEASE), *now),
        Event::Expire => record.expire(*now),
        Event::Wait(seconds) => *now = *now + secs(*seconds),
    }
}

const BELIEVED: (&str, Trust) = ("own", Trust::Plain);
const DOUBTED: (&str, Trust) = ("doubt", Trust::Doubtful);

/// The record once every tunnel in doubt has ended.
fn without_doubt(record: &LeaseRecord, now: Timestamp) -> LeaseRecord {
    let mut record = record.clone();
    for tunnel in 0..TUNNELS {
        record.end(&format!("doubt{tunnel}").into(), secs(LEASE), now);
    }
    record.expire(now);
    record
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_believed_is_what_it_was(
        before in vec(event(), 0..20),
        doubted in vec(event(), 0..30),
    ) {
        let (mut record, mut now) = (LeaseRecord::default(), NOW);
        for event in &before {
            happen(&mut record, event, BELIEVED, &mut now);
        }
        let mut untouched = record.clone();
        for event in &doubted {
            happen(&mut record, event, DOUBTED, &mut now);
            untouched.expire(now);
            prop_assert_eq!(&without_doubt(&record, now), &untouched);
        }
    }

    #[test]
    fn to_a_believed_user_they_were_never_there(
        events in vec((event(), prop::bool::weighted(0.6)), 0..40),
    ) {
        let (mut record, mut now) = (LeaseRecord::default(), NOW);
        let (mut alone, mut same_now) = (LeaseRecord::default(), NOW);
        for (event, believed) in &events {
            let who = if *believed { BELIEVED } else { DOUBTED };
            happen(&mut record, event, who, &mut now);
            match event {
                Event::Wait(_) => same_now = now,
                Event::Expire => alone.expire(same_now),
                other if *believed => happen(&mut alone, other, BELIEVED, &mut same_now),
                _ => {}
            }
            // What is written is written by somebody who looked at the clock.
            record.expire(now);
            alone.expire(now);
            let seen = record.without_doubt();
            prop_assert!(seen.views(now).eq(alone.views(now)), "{:?} {:?}", seen, alone);
            prop_assert!(seen.held(now).eq(alone.held(now)));
            let open = |record: &LeaseRecord| -> BTreeSet<_> { record.tunnels(now).cloned().collect() };
            prop_assert_eq!(open(&seen), open(&alone));
        }
    }

    #[test]
    fn nobody_in_doubt_is_remembered(doubted in vec(event(), 0..30)) {
        let (mut record, mut now) = (LeaseRecord::default(), NOW);
        for event in &doubted {
            happen(&mut record, event, DOUBTED, &mut now);
            prop_assert_eq!(record.user(), None);
            for farm in FARMS {
                prop_assert_eq!(record.last(&farm.into(), now), None);
            }
        }
        prop_assert_eq!(without_doubt(&record, now), LeaseRecord::default());
    }

    #[test]
    fn a_process_that_dies_leaves_nothing_of_them(
        before in vec(event(), 0..20),
        doubted in vec(event(), 0..20),
    ) {
        let (mut record, mut now) = (LeaseRecord::default(), NOW);
        for event in &before {
            happen(&mut record, event, BELIEVED, &mut now);
        }
        let mut untouched = record.clone();
        for event in &doubted {
            happen(&mut record, event, DOUBTED, &mut now);
        }
        // What was written is written by somebody who looked at the clock.
        record.expire(now);
        untouched.expire(now);
        record.orphan(now);
        untouched.orphan(now);
        prop_assert_eq!(record, untouched);
    }
}
