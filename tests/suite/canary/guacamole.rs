//! What Guacamole and guacd say of secrets: in tunnels that stand, on the way to them, refused,
//! malformed and cut.

use guac_protocol::Instruction;

use super::cast::{Cast, USER};
use crate::support::{GuacdPeer, Visit, Visitor};

/// Parameters that hold, or may hold, what nobody else may read.
const SECRET: [&str; 11] = [
    "password",
    "gateway-password",
    "sftp-password",
    "sftp-passphrase",
    "sftp-private-key",
    "preconnection-blob",
    "load-balance-info",
    "remote-app-args",
    "initial-program",
    "wol-mac-addr",
    "unheard-of",
];

fn marked(cast: &mut Cast, mut visit: Visit) -> Visit {
    for name in SECRET {
        // What names a resource is no secret.
        if name != "load-balance-info" {
            visit = visit.answer(name, &cast.secret(&format!("parameter {name}")));
        }
    }
    visit
}

/// As it stands on the wire.
fn element(text: &str) -> String {
    format!("{}.{text}", text.chars().count())
}

/// Tunnels of every kind; one of them is left open.
pub(super) fn users(cast: &mut Cast) -> (Visitor, GuacdPeer) {
    let office = marked(cast, Visit::office(USER));
    let secret = cast.secret("what passes in a tunnel");
    let mut visitor = cast.click(&office);
    let id = visitor.ready();
    let mut peer = cast.served();
    assert_eq!(peer.value("password"), office.value("password"));
    assert_eq!(peer.value("unheard-of"), office.value("unheard-of"));
    // The first host fails: the second one is told the same.
    peer.wire
        .say(&Instruction::new("error", [secret.as_str(), "519"]))
        .unwrap();
    let mut peer = cast.served();
    assert_eq!(peer.value("password"), office.value("password"));
    peer.stand();
    visitor.hear_past_nops("sync");
    let blob = Instruction::new("blob", ["1", secret.as_str()]);
    visitor.wire.say(&blob).unwrap();
    peer.wire.say(&blob).unwrap();
    visitor.hear_past_nops("blob");
    // Nothing that follows is understood any more.
    peer.wire.send(format!("x.{secret};")).unwrap();

    let mut joiner = cast.click(&Visit::join(&id).answer("password", &secret));
    joiner.ready();
    drop((joiner, cast.served()));

    for visit in [
        marked(
            cast,
            Visit::rdp(USER).answer("hostname", "sessionguard:id=44"),
        ),
        marked(
            cast,
            Visit::rdp(USER).answer("hostname", "elsewhere.example"),
        ),
        {
            let mut visit = Visit::protocol("ssh").login(Some(USER));
            for name in ["password", "private-key", "passphrase"] {
                visit = visit.answer(name, &cast.secret(&format!("parameter {name} of SSH")));
            }
            visit
        },
    ] {
        let mut visitor = cast.click(&visit);
        visitor.ready();
        let peer = cast.served();
        assert_eq!(peer.value("password"), visit.value("password"));
        drop((visitor, peer));
    }
    (visitor, peer)
}

/// What comes to nothing; what Guacamole is told of it.
pub(super) fn refused(cast: &mut Cast) {
    for visit in [
        Visit::rdp(USER).answer("hostname", "sessionguard:id=0"),
        Visit::rdp(USER).answer("hostname", "sessionguard:resource=office;farm=office"),
        Visit::rdp(USER).answer("hostname", "${SESSIONGUARD_HOST}"),
        Visit::join("$00000000-0000-4000-8000-000000000000"),
    ] {
        let visit = marked(cast, visit);
        let text = cast.click(&visit).refusal().text;
        cast.saw("refusals", text);
    }
}

/// What is no handshake, with a secret wherever one may come to stand.
pub(super) fn malformed(cast: &mut Cast) {
    let secret = cast.secret("in what is malformed");
    let element = element(&secret);
    let long = element.replacen('.', "0.", 1);
    let wire = [
        format!("7.connect,{element};"),
        format!("{element},1.x;"),
        format!("4.name,{long};"),
        format!("4.name,9.{secret};"),
        format!("4.name,{secret};"),
        format!("4.size,{element},{element},{element};"),
        format!("6.select,{element};"),
        format!("3.nop;{element};{element};"),
        format!("5.error,{element},{element};"),
        format!("10.disconnect,{element};"),
        secret.clone(),
    ];
    for bytes in &wire {
        let mut visitor = cast.dial();
        visitor.select("rdp");
        visitor.read_args();
        visitor.wire.send(bytes).unwrap();
        visitor.wire.finish();
        heard(cast, visitor);
    }
    let http = format!(
        "GET /?token={secret} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n\r\n"
    );
    for bytes in wire.iter().chain([&http]) {
        let mut visitor = cast.dial();
        visitor.wire.send(bytes).unwrap();
        visitor.wire.finish();
        heard(cast, visitor);
    }
    // Cut in the middle of each value, and answered once more.
    let visit = marked(cast, Visit::office(USER));
    for part in 1..4 {
        let mut visitor = cast.dial();
        visitor.select("rdp");
        visitor.read_args();
        let connect = visit
            .connect(&visitor.shown)
            .encode(guac_protocol::Side::Guacd)
            .unwrap();
        visitor
            .wire
            .send(&connect[..connect.len() * part / 4])
            .unwrap();
        visitor.wire.finish();
        heard(cast, visitor);
    }
    let mut visitor = cast.click(&visit);
    let connect = visit.connect(&visitor.shown);
    visitor.wire.say(&connect).unwrap();
    heard(cast, visitor);
}

/// All that a page was told.
fn heard(cast: &mut Cast, mut visitor: Visitor) {
    // A reset may come behind it.
    let _ = visitor.wire.rest();
    cast.saw("refusals", visitor.wire.arrived);
}
