//! Whatever happens to a host: its breaker is what its whole history makes of
//! it, though it remembers but a little of that.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::build::*;
use crate::placement::*;

#[derive(Debug, Clone)]
enum Event {
    Fails(Option<u8>, Option<u8>),
    Stands,
    GoesDown,
    Returns,
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (option::weighted(0.9, 0..4_u8), option::weighted(0.8, 0..4_u8))
            .prop_map(|(user, resource)| Event::Fails(user, resource)),
        1 => Just(Event::Stands),
        1 => Just(Event::GoesDown),
        1 => Just(Event::Returns),
        6 => prop_oneof![0..10_000_u64, 0..90_000_u64, 0..400_000_u64].prop_map(Event::Wait),
    ]
}

fn tunnel(user: Option<u8>, resource: Option<u8>) -> TunnelView {
    TunnelView {
        tunnel: "t".into(),
        key: None,
        user: user.and_then(|user| UserKey::new(&format!("user{user}"), "")),
        trust: Trust::Plain,
        farm: "office".into(),
        resource: resource.map(|resource| format!("resource{resource}").into()),
        since: NOW,
        stood: None,
        elsewhere: false,
    }
}

/// The rule, over everything that ever happened, in milliseconds.
#[derive(Default)]
struct History {
    failed: Vec<(u64, u8, Option<u8>)>,
    flips: Vec<u64>,
    /// Every opening: when, until when, and when a tunnel closed it.
    openings: Vec<(u64, u64, Option<u64>)>,
}

impl History {
    fn state(&self, now: u64) -> &'static str {
        match self.openings.last() {
            Some((_, until, None)) if now < *until => "open",
            Some((_, until, None)) if now < until + 300_000 => "half open",
            _ => "closed",
        }
    }

    fn open(&mut self, now: u64) {
        let last = self.openings.last();
        let longer = last.and_then(|(since, until, closed)| {
            let over = closed.unwrap_or(*until);
            (now < over + 300_000).then(|| (until - since) * 2)
        });
        let span = longer.unwrap_or(5_000).min(300_000);
        self.openings.push((now, now + span, None));
        self.failed.clear();
    }

    fn fails(&mut self, now: u64, user: Option<u8>, resource: Option<u8>) {
        let Some(user) = user else { return };
        match self.state(now) {
            "open" => {}
            "half open" => self.open(now),
            _ => {
                let mut young = self.failed.iter().filter(|(at, ..)| now < at + 60_000);
                if young.any(|(_, other, what)| *other != user && *what != resource) {
                    self.open(now);
                } else {
                    self.failed.push((now, user, resource));
                }
            }
        }
    }

    fn stands(&mut self, now: u64) {
        self.failed.clear();
        if self.state(now) != "closed"
            && let Some((.., closed)) = self.openings.last_mut()
        {
            *closed = Some(now);
        }
    }

    fn flips(&mut self, now: u64, returned: bool) {
        self.flips.push(now);
        let late = self.flips.iter().filter(|at| now < **at + 300_000).count();
        if returned && late >= 3 {
            self.open(now);
        }
    }
}

fn state(view: &HostView, now: Timestamp) -> &'static str {
    match view.breaker(now) {
        BreakerState::Closed => "closed",
        BreakerState::HalfOpen(_) => "half open",
        BreakerState::Open(_) => "open",
    }
}

proptest! {
    #[test]
    fn a_breaker_is_what_its_whole_history_makes_of_it(events in vec(event(), 1..120)) {
        let (mut view, mut history, mut now) = (HostView::default(), History::default(), NOW);
        for event in events {
            let at = now.as_millis();
            match event {
                Event::Wait(millis) => now = now + std::time::Duration::from_millis(millis),
                Event::Fails(user, resource) => {
                    let opened = view.attempt_failed(&tunnel(user, resource), now);
                    let before = history.openings.len();
                    history.fails(at, user, resource);
                    prop_assert_eq!(opened, history.openings.len() > before);
                }
                Event::Stands => {
                    view.attempt_stood(now);
                    history.stands(at);
                }
                Event::GoesDown | Event::Returns => {
                    let returned = matches!(event, Event::Returns);
                    view.probe_changed(returned, now);
                    history.flips(at, returned);
                }
            }
            prop_assert_eq!(state(&view, now), history.state(now.as_millis()));
            if let Some(opening) = view.breaker(now).opening() {
                let (since, until, _) = history.openings.last().unwrap();
                prop_assert_eq!(opening.since.as_millis(), *since);
                prop_assert_eq!(opening.until.as_millis(), *until);
                let span = opening.until.since(opening.since);
                prop_assert!((SHORTEST..=LONGEST).contains(&span));
            }
            // It is a picture of the host that is copied at every change.
            let written = format!("{:?}", view.breaker);
            prop_assert!(written.len() < 3_000, "{}", written);
        }
    }

    #[test]
    fn one_user_alone_never_opens_it(
        resources in vec((option::of(0..4_u8), 0..30_u64), 1..60),
    ) {
        let (mut view, mut now) = (HostView::default(), NOW);
        for (resource, seconds) in resources {
            now = now + secs(seconds);
            prop_assert!(!view.attempt_failed(&tunnel(Some(1), resource), now));
        }
        prop_assert_eq!(state(&view, now), "closed");
    }

    #[test]
    fn one_resource_alone_never_opens_it(users in vec((option::of(0..9_u8), 0..30_u64), 1..60)) {
        let (mut view, mut now) = (HostView::default(), NOW);
        for (user, seconds) in users {
            now = now + secs(seconds);
            prop_assert!(!view.attempt_failed(&tunnel(user, Some(1)), now));
        }
        prop_assert_eq!(state(&view, now), "closed");
    }
}
