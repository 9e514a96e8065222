//! A seat in somebody's connection: only by the id that we gave out, only while it lives.

use guac_protocol::Instruction;
use uuid::Uuid;

use crate::support::{GuacdPeer, Names, ScriptedGuacd, Stage, Visit, Visitor};

/// A tunnel with a desktop, and the id that Guacamole was given for it.
fn owner(stage: &Stage, visit: &Visit) -> (Visitor, GuacdPeer, String) {
    let mut visitor = visit.at(&stage.broker);
    let id = visitor.ready();
    let mut peer = stage.guacd.ready();
    peer.stand();
    visitor.hear_past_nops("sync");
    (visitor, peer, id)
}

#[test]
fn a_second_client_joins_by_the_id_we_gave_and_guacd_gets_its_own() {
    let stage = Stage::one();
    let (_owner, of_owner, id) = owner(&stage, &Visit::office("ann"));
    assert_ne!(id, of_owner.id);

    let mut joiner = Visit::join(&id).at(&stage.broker);
    assert_eq!(joiner.ready(), id, "the same id again");
    assert_eq!(
        joiner.shown,
        Names::rdp("1.6.0").0,
        "nothing of ours is added"
    );
    let mut peer = stage.guacd.ready();
    assert_eq!(peer.select, of_owner.id);
    assert!(peer.connect.values().all(String::is_empty));

    joiner.wire.send(b"3.key,5.65307,1.1;").unwrap();
    assert_eq!(peer.wire.exact(18).unwrap(), b"3.key,5.65307,1.1;");
    peer.wire.send(b"4.sync,1.1;").unwrap();
    joiner.hear_past_nops("sync");

    drop((joiner, peer));
    let joined = stage
        .broker
        .wait("Joined", |line| line["connection"] == id.as_str());
    assert_eq!(stage.broker.ended(&joined)["phase"], "relayed");
    assert_eq!(stage.broker.lines("Placed").len(), 1, "the owner's alone");
}

#[test]
fn ids_that_are_not_ours_are_refused_and_guacd_never_sees_them() {
    let stage = Stage::one();
    let (_owner, of_owner, id) = owner(&stage, &Visit::office("ann"));
    let foreign = format!("${}", Uuid::new_v4());
    let shouted = id.to_uppercase();
    for unknown in [foreign, of_owner.id, shouted] {
        let refusal = Visit::join(&unknown).refused_at(&stage.broker);
        assert_eq!(refusal.code, 0x204, "{}", refusal.text);
        assert_ne!(refusal.id, unknown);
    }
    stage.assert_guacd_saw(1);
}

#[test]
fn an_id_given_with_a_refusal_cannot_be_joined() {
    let stage = Stage::one();
    let refused = Visit::rdp("ann").answer("sessionguard-resource", "nothing");
    let id = refused.refused_at(&stage.broker).id;
    assert_eq!(Visit::join(&id).refused_at(&stage.broker).code, 0x204);
}

#[test]
fn an_id_is_gone_when_its_owner_is() {
    let stage = Stage::one();
    let (visitor, _of_owner, id) = owner(&stage, &Visit::office("ann"));
    let mut joiner = Visit::join(&id).at(&stage.broker);
    joiner.ready();
    let mut of_joiner = stage.guacd.ready();

    drop(visitor);
    stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(Visit::join(&id).refused_at(&stage.broker).code, 0x204);

    // Who sits there already is guacd's to send away.
    of_joiner.wire.send(b"3.nop;").unwrap();
    joiner.hear("nop");
}

#[test]
fn connections_that_pass_through_can_be_joined_too() {
    let names = Names::recorded("1.6.0", "vnc-refused");
    let stage = Stage::before(ScriptedGuacd::polite(names.clone()), 1);
    let (_owner, of_owner, id) = owner(&stage, &Visit::protocol("vnc"));
    let mut joiner = Visit::join(&id).at(&stage.broker);
    assert_eq!(joiner.ready(), id);
    assert_eq!(joiner.shown, names.0);
    assert_eq!(stage.guacd.ready().select, of_owner.id);
}

#[test]
fn a_connection_that_guacd_has_lost_is_told_as_guacd_tells_it() {
    let guacd = ScriptedGuacd::playing(|peer| {
        peer.hear_select()?;
        if peer.select.starts_with('$') {
            return peer
                .wire
                .say(&Instruction::new("error", ["No such connection.", "516"]));
        }
        let names = Names::rdp("1.6.0");
        peer.wire.say(&names.to_instruction())?;
        peer.hear_connect(&names)?;
        peer.say_ready()
    });
    let stage = Stage::before(guacd, 1);
    let (_owner, _of_owner, id) = owner(&stage, &Visit::office("ann"));
    assert_eq!(Visit::join(&id).refused_at(&stage.broker).code, 0x204);
}
