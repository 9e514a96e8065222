//! A tunnel that may be somebody else's uses the lease and leaves it as it was.

use super::build::*;
use crate::placement::LeaseState::*;
use crate::placement::*;

impl Life {
    fn doubt(self, tunnel: &str, host: &str) -> Self {
        self.claim_as(Trust::Doubtful, "office", tunnel, host)
    }

    fn confirm(self, tunnel: &str) -> Self {
        self.act(|record, _| record.confirm(&tunnel.into()))
    }

    /// Forgets nothing and holds nothing: what a doubtful tunnel without a
    /// lease leaves behind.
    #[track_caller]
    fn untouched(self) -> Self {
        assert_eq!(self.record, LeaseRecord::default());
        self
    }
}

#[test]
fn without_a_part_in_the_lease_it_draws_no_user_who_is_believed() {
    let world = farm("office")
        .with(host("a").answering())
        .with(host("b").answering().pending_in_doubt("ann"))
        .lingers("office", "a", 300);
    assert_eq!(world.ask("ann"), Ok(("a".into(), Reason::Lease)));
}

#[test]
fn others_in_doubt_are_kept_together_with_it() {
    let world = farm("office")
        .with(host("a").answering())
        .with(host("b").answering().pending_in_doubt("ann"));
    let posing = Claims {
        name: "mallory".to_owned(),
        ..claims("ann")
    };
    let went = went(world.decide_as(by_resource("office"), posing));
    assert_eq!(went, Ok(("b".into(), Reason::Tunnel)));
}

/// Somebody logged in as mallory who says to be ann.
fn posing() -> Claims {
    Claims {
        name: "mallory".to_owned(),
        ..claims("ann")
    }
}

/// A farm of two where a stranger in doubt holds ann's lease on `a`, standing
/// or not, and ann has nothing.
fn claimed_by_a_stranger(a: HostWords, stands: bool) -> World {
    let world = farm("office")
        .with(a.pending_in_doubt("ann"))
        .with(host("b").answering());
    world.leases(|record| {
        let (office, a) = ("office".into(), "a".into());
        assert!(record.claim(&office, &a, &"a 0".into(), Trust::Doubtful, NOW));
        if stands {
            record.stood(&"a 0".into(), &user("ann"), secs(LEASE), NOW);
        }
    })
}

#[test]
fn a_stranger_who_names_a_user_steers_them_nowhere() {
    for stands in [false, true] {
        let busy = host("a").answering().stood("bob", 600);
        let world = claimed_by_a_stranger(busy, stands);
        assert_eq!(world.ask("ann"), on("b", Reason::Score));
        let other = went(world.decide_as(by_resource("office"), posing()));
        assert_eq!(other, on("a", Reason::Tunnel));
    }
}

#[test]
fn a_stranger_who_names_a_user_does_not_bar_them() {
    for stands in [false, true] {
        let closed = host("a").answering().mode(Mode::Maintenance);
        let world = claimed_by_a_stranger(closed, stands);
        assert_eq!(world.ask("ann"), on("b", Reason::Score));
        let other = went(world.decide_as(by_resource("office"), posing()));
        assert_eq!(other, Err(Refusal::HeldElsewhere("a".into())));
    }
}

#[test]
fn a_stranger_who_names_a_user_uses_up_none_of_their_tunnels() {
    let world = claimed_by_a_stranger(host("a").answering(), true);
    let world = world.rules(|r| r.max_tunnels_per_user = Some(1));
    assert!(world.ask("ann").is_ok());
    let other = went(world.decide_as(by_resource("office"), posing()));
    assert_eq!(other, Err(Refusal::TooManyTunnels));
}

#[test]
fn others_in_doubt_are_sent_where_the_lease_is_and_nowhere_beside_it() {
    let world = |mode| {
        farm("office")
            .with(host("a").answering().pending_in_doubt("ann"))
            .with(host("b").answering().mode(mode))
            .live("office", "b")
    };
    let asked = |mode| went(world(mode).decide_as(by_resource("office"), posing()));
    assert_eq!(asked(Mode::Online), on("b", Reason::Tunnel));
    let barred = Refusal::HeldElsewhere("b".into());
    assert_eq!(asked(Mode::Maintenance), Err(barred));
}

#[test]
fn the_users_own_claim_takes_the_lease_from_a_stranger() {
    for stands in [false, true] {
        let mut life = life().doubt("t", "a");
        if stands {
            life = life.stood("t");
        }
        life.claim("own", "b")
            .is("b", Claimed, 45)
            .stood("own")
            .is("b", Live, 900)
            .end("t")
            .is("b", Live, 900)
            .end("own")
            .is("b", Lingering, 900);
    }
    // One that never stood leaves nothing, neither its own nor the stranger's.
    life().doubt("t", "a").claim("own", "b").end("own").gone();
}

#[test]
fn believed_beside_the_users_own_tunnel_it_goes_without_the_lease() {
    let mut both = life().doubt("t", "a").stood("t").claim("own", "b");
    both = both.stood("own").confirm("t");
    let claim = |record: &mut LeaseRecord| {
        let (office, a) = ("office".into(), "a".into());
        record.claim(&office, &a, &"t".into(), Trust::Plain, NOW)
    };
    assert!(!claim(&mut both.record));
    both.is("b", Live, 900);
}

#[test]
fn where_there_is_no_lease_its_own_claim_ends_with_it() {
    life()
        .doubt("t", "a")
        .is("a", Claimed, 45)
        .stood("t")
        .is("a", Live, 900)
        .end("t")
        .untouched();
    life().doubt("t", "a").end("t").untouched();
    life().doubt("t", "a").stood("t").orphan().untouched();
}

#[test]
fn it_does_not_extend_a_lease_it_uses() {
    for stood in [false, true] {
        let mut life = life().left("a").wait(100).doubt("t", "a");
        if stood {
            life = life.stood("t");
        }
        life.wait(20)
            .end("t")
            .is("a", Lingering, 780)
            .wait(780)
            .gone();
    }
}

#[test]
fn it_does_not_release_a_lease_it_uses() {
    life()
        .left("a")
        .doubt("t", "a")
        .end("t")
        .is("a", Lingering, 900);
    life()
        .left("a")
        .doubt("t", "a")
        .orphan()
        .is("a", Lingering, 900);
    life()
        .left("a")
        .doubt("t", "a")
        .stood("t")
        .orphan()
        .is("a", Lingering, 900);
}

#[test]
fn it_does_not_move_a_lease_to_another_host() {
    life()
        .left("a")
        .doubt("t", "b")
        .is("a", Lingering, 900)
        .act(|record, now| assert!(!record.stood(&"t".into(), &user("ann"), secs(LEASE), now)))
        .is("a", Lingering, 900)
        .end("t")
        .is("a", Lingering, 900);
}

#[test]
fn it_does_not_hold_beyond_its_own_end_what_ran_out_meanwhile() {
    life()
        .left("a")
        .doubt("t", "a")
        .stood("t")
        .wait(600)
        .stood("t")
        .wait(600)
        .is("a", Live, 300)
        .end("t")
        .gone();
}

#[test]
fn it_is_not_given_a_second_host_beside_an_open_tunnel() {
    let known = life().claim("t", "a").stood("t");
    let mut record = known.record.clone();
    let claim = record.claim(
        &"office".into(),
        &"b".into(),
        &"u".into(),
        Trust::Doubtful,
        NOW,
    );
    assert!(!claim);
    assert_eq!(record, known.record);
}

#[test]
fn it_does_not_make_good_a_move_that_never_stood() {
    // The believed one was on its way from `a` to `b` and failed.
    life()
        .left("a")
        .claim("t", "b")
        .doubt("u", "b")
        .stood("u")
        .end("t")
        .end("u")
        .is("a", Lingering, 900);
}

#[test]
fn it_leaves_no_history_and_no_name() {
    let life = life().doubt("t", "a").stood("t");
    assert_eq!(life.record.last(&"office".into(), life.now()), None);
    assert_eq!(life.record.user(), None);
}

#[test]
fn once_believed_it_is_a_tunnel_like_any_other() {
    let believed = life()
        .left("a")
        .wait(100)
        .doubt("t", "a")
        .stood("t")
        .wait(60)
        .confirm("t");
    let believed = believed.stood("t").is("a", Live, 900);
    let past = believed
        .record
        .last(&"office".into(), believed.now())
        .unwrap();
    assert_eq!(past.at, believed.now());
    assert_eq!(believed.record.user(), Some(&user("ann")));
    believed.end("t").is("a", Lingering, 900);
    life()
        .doubt("t", "a")
        .stood("t")
        .confirm("t")
        .stood("t")
        .end("t")
        .is("a", Lingering, 900);
}

#[test]
fn to_believe_one_is_to_believe_no_other() {
    life()
        .doubt("t", "a")
        .doubt("u", "a")
        .stood("t")
        .stood("u")
        .confirm("t")
        .end("t")
        .is("a", Live, 900)
        .end("u")
        .is("a", Lingering, 900);
    life()
        .doubt("t", "a")
        .doubt("u", "a")
        .stood("u")
        .confirm("t")
        .end("u")
        .end("t")
        .gone();
}

#[test]
fn a_believed_tunnel_beside_it_makes_the_lease_its_own() {
    life()
        .doubt("t", "a")
        .claim("u", "a")
        .stood("u")
        .end("t")
        .is("a", Live, 900)
        .end("u")
        .is("a", Lingering, 900);
}

#[test]
fn doubt_survives_the_store() {
    let life = life().doubt("t", "a").stood("t");
    let text = serde_json::to_string(&life.record).unwrap();
    assert!(text.contains("doubtful"));
    assert_eq!(
        serde_json::from_str::<LeaseRecord>(&text).unwrap(),
        life.record
    );
    // And costs nothing where there is none.
    let plain = serde_json::to_string(&super::build::life().claim("t", "a").record).unwrap();
    assert!(!plain.contains("doubtful"));
}
