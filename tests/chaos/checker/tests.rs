//! Histories made by hand: good ones that must be found good, and each way to break an invariant.

#![cfg(test)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::super::history::{Before, Event, Host, Members, Mode, Moment, Replica, Trouble, What};
use super::{Rules, judge};

const RULES: Rules = Rules {
    max_sessions: 2,
    lease: Duration::from_secs(30),
};

/// What happened at which second.
struct Story(Vec<Event>);

impl Story {
    /// Two replicas that know hosts 0 to 2 as farm 0.
    fn new() -> Self {
        let mut story = Self(Vec::new());
        for replica in [0, 1] {
            story = story
                .at(0.0, What::Up { replica })
                .written(0.0, replica, &[0, 1, 2]);
        }
        story
    }

    fn at(mut self, second: f64, what: What) -> Self {
        self.0.push(Event {
            at: at(second),
            what,
        });
        self
    }

    fn written(self, second: f64, replica: Replica, hosts: &[Host]) -> Self {
        let hosts: BTreeSet<_> = hosts.iter().copied().collect();
        let members = Arc::new(Members::from([(0, hosts)]));
        self.at(second, What::Written { replica, members })
    }

    /// A user clicks, and a claim is written; the tunnel has the visit's number.
    fn claimed(self, second: f64, visit: u32, (user, replica, host): (u16, Replica, Host)) -> Self {
        self.claimed_with(second, visit, (user, replica, host), Before::Nothing)
    }

    fn claimed_with(
        self,
        second: f64,
        visit: u32,
        (user, replica, host): (u16, Replica, Host),
        before: Before,
    ) -> Self {
        let clicked = What::Clicked {
            visit,
            user,
            farm: 0,
            replica,
        };
        let claimed = What::Claimed {
            user,
            farm: 0,
            host,
            tunnel: tunnel(visit),
            replica,
            until: at(second + 45.0),
            before,
        };
        self.at(second, clicked).at(second, claimed)
    }

    fn sent(self, second: f64, visit: u32, replica: Replica, host: Host) -> Self {
        let sent = What::Sent {
            connection: visit,
            visit,
            replica,
            host: Some(host),
        };
        self.at(second, sent)
    }

    /// A user is on a host for a while.
    fn tunnel(self, (from, to): (f64, f64), visit: u32, place: (u16, Replica, Host)) -> Self {
        let (_, replica, host) = place;
        let story = self
            .claimed(from, visit, place)
            .sent(from + 0.1, visit, replica, host);
        story.closed(to, visit).left(to + 0.1, visit, host)
    }

    fn closed(self, second: f64, visit: u32) -> Self {
        self.at(second, What::Closed { connection: visit })
    }

    fn left(self, second: f64, visit: u32, host: Host) -> Self {
        let left = What::Left {
            tunnel: tunnel(visit),
            host,
            lingers: Some(at(second + 30.0)),
        };
        self.at(second, left)
    }

    fn ordered(self, (from, to): (f64, f64), order: u32, host: Host, mode: Mode) -> Self {
        let ordered = What::Ordered {
            order,
            host,
            mode,
            replica: 0,
        };
        self.at(from, ordered).at(to, What::Acknowledged { order })
    }

    fn trouble(self, (from, to): (f64, f64), of: Trouble, replica: Option<Replica>) -> Self {
        let story = self.at(from, What::TroubleBegan { of, replica });
        story.at(to, What::TroubleEnded { of, replica })
    }

    fn reported(self, (from, to): (f64, f64), seq: u64, replica: Replica, taken: bool) -> Self {
        let host = 0;
        let story = self.at(from, What::Reported { host, seq, replica });
        story.at(to, What::Answered { host, seq, taken })
    }

    /// The invariants that it contradicts.
    fn judged(mut self) -> Vec<&'static str> {
        self.0.sort_by_key(|event| event.at);
        let found = judge(&self.0, &RULES);
        for violation in &found {
            assert!(!violation.events.is_empty(), "{violation}");
        }
        found.iter().map(|violation| violation.invariant).collect()
    }
}

fn at(second: f64) -> Moment {
    Moment::default()
        .plus(Duration::from_secs(1000))
        .plus(Duration::from_secs_f64(second))
}

fn tunnel(visit: u32) -> Uuid {
    Uuid::from_u128(visit.into())
}

#[test]
fn a_day_without_trouble_is_good() {
    let story = Story::new()
        .tunnel((1.0, 9.0), 1, (7, 0, 1))
        .tunnel((2.0, 9.0), 2, (7, 1, 1))
        .tunnel((3.0, 9.0), 3, (8, 1, 1))
        .tunnel((20.0, 30.0), 4, (7, 1, 2));
    assert_eq!(story.judged(), [""; 0]);
}

#[test]
fn two_hosts_at_a_time_are_one_too_many() {
    let story = || Story::new().tunnel((1.0, 9.0), 1, (7, 0, 1));
    assert_eq!(story().tunnel((5.0, 12.0), 2, (7, 1, 2)).judged(), ["I1"]);
    // Two users are two.
    assert_eq!(story().tunnel((5.0, 12.0), 2, (8, 1, 2)).judged(), [""; 0]);
    // The first one's end is seen a moment late.
    assert_eq!(story().tunnel((8.5, 12.0), 2, (7, 1, 2)).judged(), [""; 0]);
    // And so is that of a tunnel whose replica was killed, however late.
    let killed = story().at(3.0, What::Killed { replica: 0 });
    assert_eq!(killed.tunnel((5.0, 12.0), 2, (7, 1, 2)).judged(), [""; 0]);
    // That explains nothing of another replica's.
    let killed = story().at(3.0, What::Killed { replica: 1 });
    assert_eq!(killed.tunnel((5.0, 12.0), 2, (7, 1, 2)).judged(), ["I1"]);
}

#[test]
fn whoever_is_sent_somewhere_has_a_claim() {
    let story = Story::new().tunnel((1.0, 9.0), 1, (7, 0, 1));
    let clicked = What::Clicked {
        visit: 2,
        user: 8,
        farm: 0,
        replica: 0,
    };
    let story = story.at(2.0, clicked).sent(2.1, 2, 0, 1);
    assert_eq!(story.judged(), ["I1"]);
}

#[test]
fn nobody_is_placed_behind_an_acknowledged_maintenance() {
    let story = || {
        let story = Story::new().ordered((10.0, 11.0), 1, 1, Mode::Maintenance);
        story.ordered((20.0, 21.0), 2, 1, Mode::Online)
    };
    let placed = |second: f64, place| story().tunnel((second, second + 3.0), 1, place).judged();
    for (second, host, found) in [
        (9.0, 1, None),
        // It was not acknowledged yet.
        (10.5, 1, None),
        (11.5, 1, Some("I2")),
        (19.5, 1, Some("I2")),
        (20.5, 1, None),
        (15.0, 2, None),
    ] {
        let judged = placed(second, (7, 1, host));
        assert_eq!(judged, Vec::from_iter(found), "{second} on {host}");
    }
    // A claim from before may reach guacd behind it; a tunnel that is renewed is no claim.
    let pending = story().claimed(10.5, 1, (7, 1, 1)).sent(12.0, 1, 1, 1);
    assert_eq!(pending.closed(13.0, 1).left(13.1, 1, 1).judged(), [""; 0]);
    // What the replica that took the order had decided by then is pending.
    let claim = |replica, decided: f64| What::Claimed {
        user: 7,
        farm: 0,
        host: 1,
        tunnel: tunnel(1),
        replica,
        until: at(decided + 45.0),
        before: Before::Nothing,
    };
    let late = |replica, decided| story().at(11.5, claim(replica, decided)).judged();
    assert_eq!(late(0, 10.9), [""; 0]);
    assert_eq!(late(0, 11.1), ["I2"]);
    assert_eq!(late(1, 10.9), ["I2"]);
    // Nothing is certain while an order is under way that nobody answered for.
    let lost = What::Ordered {
        order: 0,
        host: 1,
        mode: Mode::Online,
        replica: 1,
    };
    let unsure = story().at(5.0, lost).tunnel((15.0, 18.0), 1, (7, 1, 1));
    assert_eq!(unsure.judged(), [""; 0]);
}

#[test]
fn a_host_in_drain_gets_returning_users_only() {
    let story = || Story::new().ordered((10.0, 11.0), 1, 1, Mode::Drain);
    assert_eq!(story().tunnel((12.0, 15.0), 1, (7, 1, 1)).judged(), ["I11"]);
    let returns = story()
        .claimed_with(12.0, 1, (7, 1, 1), Before::Stood)
        .sent(12.1, 1, 1, 1);
    assert_eq!(returns.closed(15.0, 1).left(15.1, 1, 1).judged(), [""; 0]);
    let (host, user) = (1, 7);
    let session = story().at(3.0, What::LoggedOn { host, user });
    assert_eq!(session.tunnel((12.0, 15.0), 1, (7, 1, 1)).judged(), [""; 0]);
    // Somebody else's session is none of theirs.
    let other = story().at(3.0, What::LoggedOn { host, user: 8 });
    assert_eq!(other.tunnel((12.0, 15.0), 1, (7, 1, 1)).judged(), ["I11"]);
}

#[test]
fn a_host_that_is_no_member_gets_nobody() {
    let story = || Story::new().written(10.0, 1, &[0, 2]);
    let applied = || story().at(11.0, What::Applied { replica: 1 });
    assert_eq!(
        applied().tunnel((9.0, 10.0), 1, (7, 1, 1)).judged(),
        [""; 0]
    );
    assert_eq!(
        applied().tunnel((10.5, 11.0), 1, (7, 1, 1)).judged(),
        [""; 0]
    );
    assert_eq!(
        applied().tunnel((15.0, 16.0), 1, (7, 1, 1)).judged(),
        ["I3"]
    );
    // It is not in force yet, or at the other replica only.
    assert_eq!(story().tunnel((15.0, 16.0), 1, (7, 1, 1)).judged(), [""; 0]);
    assert_eq!(
        applied().tunnel((15.0, 16.0), 1, (7, 0, 1)).judged(),
        [""; 0]
    );
    // What was decided before it stood still is written when it goes on.
    let still = applied().trouble((9.0, 15.0), Trouble::Process, Some(1));
    assert_eq!(still.tunnel((15.1, 16.0), 1, (7, 1, 1)).judged(), [""; 0]);
}

#[test]
fn an_address_of_nobody_is_noticed() {
    let sent = What::Sent {
        connection: 1,
        visit: 1,
        replica: 0,
        host: None,
    };
    let story = Story::new().claimed(1.0, 1, (7, 0, 1)).at(1.1, sent);
    assert!(
        story
            .closed(2.0, 1)
            .left(2.1, 1, 1)
            .judged()
            .contains(&"I4")
    );
}

#[test]
fn new_sessions_never_push_a_host_beyond_its_bound() {
    let full = || {
        let story = Story::new().tunnel((1.0, 30.0), 1, (1, 0, 1));
        story.tunnel((2.0, 30.0), 2, (2, 1, 1))
    };
    assert_eq!(full().tunnel((9.0, 12.0), 3, (3, 1, 1)).judged(), ["I14"]);
    // Who is there counts once, and who comes back is let in.
    assert_eq!(full().tunnel((9.0, 12.0), 3, (2, 0, 1)).judged(), [""; 0]);
    let back = full()
        .claimed_with(9.0, 3, (3, 1, 1), Before::Stood)
        .sent(9.1, 3, 1, 1);
    assert_eq!(back.closed(12.0, 3).left(12.1, 3, 1).judged(), [""; 0]);
    assert_eq!(full().tunnel((29.9, 32.0), 3, (3, 1, 1)).judged(), [""; 0]);
    // A claim that has not reached guacd yet has its seat.
    let pending = full().claimed(4.0, 3, (3, 0, 2)).claimed(4.1, 4, (4, 0, 2));
    let pending = pending.claimed(4.2, 5, (5, 1, 2));
    let sent = pending
        .sent(4.3, 5, 1, 2)
        .sent(4.4, 4, 0, 2)
        .sent(4.5, 3, 0, 2);
    let ended = (3..=5).fold(sent, |story, visit| {
        story.closed(9.0, visit).left(9.1, visit, 2)
    });
    assert_eq!(ended.judged(), ["I14"]);
}

#[test]
fn sessions_that_are_reported_have_their_seat() {
    let (host, user) = (0, 2);
    let session = || {
        let story = Story::new().tunnel((1.0, 40.0), 1, (1, 0, 0));
        story.at(2.0, What::LoggedOn { host, user })
    };
    let told = || session().reported((3.0, 3.1), 1, 0, true);
    let newcomer =
        |story: Story, second| story.tunnel((second, second + 3.0), 3, (3, 1, 0)).judged();
    // It takes a moment to be known everywhere, and a report.
    assert_eq!(newcomer(told(), 15.0), ["I14"]);
    assert_eq!(newcomer(told(), 4.0), [""; 0]);
    assert_eq!(newcomer(session(), 15.0), [""; 0]);
    let logged_off = told().at(14.0, What::LoggedOff { host, user });
    assert_eq!(newcomer(logged_off, 15.0), [""; 0]);
    let cut_off = told().trouble((3.0, 14.0), Trouble::Store, Some(1));
    assert_eq!(newcomer(cut_off, 15.0), [""; 0]);
}

#[test]
fn an_older_report_never_wins() {
    let story = || Story::new().reported((1.0, 1.1), 5, 0, true);
    assert_eq!(story().reported((4.0, 4.1), 4, 1, true).judged(), ["I16"]);
    assert_eq!(story().reported((4.0, 4.1), 4, 1, false).judged(), [""; 0]);
    assert_eq!(story().reported((4.0, 4.1), 6, 1, true).judged(), [""; 0]);
    // The other replica cannot know yet, or was cut off.
    assert_eq!(story().reported((1.2, 1.3), 4, 1, true).judged(), [""; 0]);
    let cut_off = story().trouble((2.0, 3.0), Trouble::Store, Some(1));
    assert_eq!(cut_off.reported((4.0, 4.1), 4, 1, true).judged(), [""; 0]);
    // Or who heard the newer one could not tell.
    let untold = || story().trouble((0.5, 3.0), Trouble::Store, Some(0));
    assert_eq!(untold().reported((4.0, 4.1), 4, 1, true).judged(), [""; 0]);
    assert_eq!(untold().reported((4.0, 4.1), 4, 0, false).judged(), [""; 0]);
    let kept = |first, second| Story::new().at(1.0, first).at(2.0, second).judged();
    let of = |boot, seq| What::Kept {
        host: 0,
        boot,
        seq,
        replica: 0,
    };
    assert_eq!(kept(of(1, 5), of(1, 6)), [""; 0]);
    assert_eq!(kept(of(1, 5), of(2, 1)), [""; 0]);
    assert_eq!(kept(of(1, 5), of(1, 4)), ["I16"]);
}

#[test]
fn a_live_tunnels_lease_does_not_run_out() {
    let renewed = |second: f64| What::Renewed {
        tunnel: tunnel(1),
        host: 1,
        until: at(second + 30.0),
    };
    let story = || Story::new().claimed(1.0, 1, (7, 0, 1)).sent(1.1, 1, 0, 1);
    let ends = |story: Story| story.closed(100.0, 1).left(100.1, 1, 1).judged();
    let steady = [2.0, 12.0, 22.0, 40.0, 65.0, 90.0];
    let steady = steady
        .iter()
        .fold(story(), |story, at| story.at(*at, renewed(*at)));
    assert_eq!(ends(steady), [""; 0]);
    let gap = || {
        story()
            .at(2.0, renewed(2.0))
            .at(60.0, renewed(60.0))
            .at(80.0, renewed(80.0))
    };
    assert_eq!(ends(gap()), ["I19"]);
    // The store was out of reach whenever it was due.
    let cut_off = gap().trouble((11.0, 55.0), Trouble::Store, None);
    assert_eq!(ends(cut_off), [""; 0]);
    // Of no use is a trouble that left time enough.
    let short = gap().trouble((11.0, 14.0), Trouble::Store, None);
    assert_eq!(ends(short), ["I19"]);
    // It ended with its replica.
    let killed = story()
        .at(2.0, renewed(2.0))
        .at(20.0, What::Killed { replica: 0 });
    assert_eq!(killed.judged(), [""; 0]);
}

#[test]
fn every_lease_ends() {
    let renewed = |second: f64, span: f64| What::Renewed {
        tunnel: tunnel(1),
        host: 1,
        until: at(second + span),
    };
    let story = || Story::new().tunnel((1.0, 9.0), 1, (7, 0, 1));
    assert_eq!(story().at(3.0, renewed(3.0, 30.0)).judged(), [""; 0]);
    assert_eq!(story().at(3.0, renewed(3.0, 300.0)).judged(), ["I19"]);
    assert_eq!(story().at(20.0, renewed(20.0, 30.0)).judged(), ["I19"]);
    // It may be the other one of two clicks in one moment.
    let twin = story().claimed(1.0, 2, (7, 0, 1)).sent(1.05, 2, 0, 1);
    let twin = twin.closed(20.0, 2).left(20.1, 2, 1);
    assert_eq!(twin.at(15.0, renewed(15.0, 30.0)).judged(), [""; 0]);
}

#[test]
fn only_a_killed_replica_breaks_tunnels_and_lets_clicks_down() {
    let broken = || {
        let story = Story::new().tunnel((1.0, 9.0), 1, (7, 0, 1));
        story.at(9.0, What::Broken { visit: 1 })
    };
    assert_eq!(broken().judged(), ["I6"]);
    assert_eq!(
        broken().trouble((8.0, 9.0), Trouble::Store, None).judged(),
        ["I6"]
    );
    assert_eq!(
        broken().at(8.9, What::Killed { replica: 0 }).judged(),
        [""; 0]
    );
    assert_eq!(
        broken().at(8.9, What::Killed { replica: 1 }).judged(),
        ["I6"]
    );
    let let_down = || {
        let story = Story::new().claimed(1.0, 1, (7, 0, 1)).left(16.0, 1, 1);
        story.at(16.0, What::LetDown { visit: 1 })
    };
    assert_eq!(let_down().judged(), ["I10"]);
    let paused = let_down().trouble((2.0, 9.0), Trouble::Process, Some(0));
    assert_eq!(paused.judged(), [""; 0]);
    let how = String::from("signal 6");
    assert_eq!(
        Story::new()
            .at(1.0, What::Died { replica: 0, how })
            .judged(),
        ["process"]
    );
}
