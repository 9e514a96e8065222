//! Joins across replicas: whichever replica is asked, the way leads to the guacd that has the
//! connection, by one hop and never two, or ends with 0x204.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::postgres::{self, PASSWORD, Server, USER};
use crate::support::tls::{Authority, Identity};
use crate::support::{
    Broker, GuacdPeer, Names, ScriptedGuacd, ScriptedHost, Site, Stage, Visit, Visitor, eventually,
};

const VARIABLE: &str = "SESSIONGUARD_DATABASE_PASSWORD";

/// How long a presence counts that nobody renews, and what a loaded machine may add.
const GONE: Duration = Duration::from_secs(45);
const LATE: Duration = Duration::from_secs(30);

/// A refusal reaches a page that waits.
const SOON: Duration = Duration::from_secs(13);

fn polite() -> ScriptedGuacd {
    ScriptedGuacd::polite(Names::rdp("1.6.0"))
}

/// Two replicas on one database, each before a guacd of its own and the same hosts.
struct Two {
    one: Stage,
    other_guacd: ScriptedGuacd,
    other: Broker,
    _other_site: Site,
}

fn on(site: Site, server: &Server, database: &str) -> Site {
    let store = format!(
        "[store]\nkind = \"postgres\"\nreplicated = true\naddress = \"127.0.0.1:{}\"\n\
         database = \"{database}\"\nuser = \"{USER}\"\n\
         connect_timeout = \"5s\"\nquery_timeout = \"5s\"\n",
        server.port
    );
    site.with(store).knowing(VARIABLE, PASSWORD)
}

impl Two {
    /// Both are reached by the others, unless `adjust` says otherwise of the first.
    fn with(server: &Server, database: &str, adjust: impl FnOnce(Site) -> Site) -> Self {
        let one = Stage::adjusted(polite(), 2, |site| adjust(on(site, server, database)));
        let other_guacd = polite();
        let hosts: Vec<_> = one.hosts.iter().map(ScriptedHost::address).collect();
        let site = Stage::site(other_guacd.address(), &hosts);
        let site = on(site, server, database).listening(ADVERTISED);
        let other = site.start();
        Self {
            one,
            other_guacd,
            other,
            _other_site: site,
        }
    }

    fn reached(server: &Server, database: &str) -> Self {
        Self::with(server, database, |site| site.listening(ADVERTISED))
    }

    /// A tunnel with a desktop at the first replica, and its id.
    fn owner(&self, visit: &Visit) -> (Visitor, GuacdPeer, String) {
        let mut visitor = visit.at(&self.one.broker);
        let id = visitor.ready();
        let mut peer = self.one.guacd.ready();
        peer.stand();
        visitor.hear_past_nops("sync");
        (visitor, peer, id)
    }

    /// A join by the other replica that gets its seat, and leaves it.
    fn join(&self, id: &str) {
        let mut joiner = Visit::join(id).at(&self.other);
        assert_eq!(joiner.ready(), id, "{:#?}", self.other.said());
        self.one.guacd.ready();
    }

    /// A join by the other replica finds nothing, in time, and asks no guacd.
    fn assert_unknown(&self, id: &str) {
        let begun = Instant::now();
        let refusal = Visit::join(id).refused_at(&self.other);
        assert_eq!(refusal.code, 0x204, "{}", refusal.text);
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!(self.other_guacd.accepted(), 0);
    }
}

const ADVERTISED: &str = "advertise = \"127.0.0.1\"";

/// The tag of the replica that gave an id out, as its presence is named.
fn tag_of(id: &str) -> &str {
    &id[1..7]
}

fn presences(server: &Server, database: &str) -> Vec<String> {
    let sql =
        "SELECT id FROM sessionguard.documents WHERE kind = 'replica' AND content IS NOT NULL";
    let rows = server.psql(database, sql);
    rows.lines().map(str::to_owned).collect()
}

/// Says in its place where a replica is.
fn write_presence(server: &Server, database: &str, tag: &str, port: u16, more: &str) {
    let content = format!("{{\"host\":\"127.0.0.1\",\"port\":{port}{more}}}");
    server.psql(
        database,
        &format!(
            "INSERT INTO sessionguard.documents (kind, id, content, write) \
             VALUES ('replica', '{tag}', '{content}', gen_random_uuid())"
        ),
    );
}

#[test]
fn a_join_by_another_replica_reaches_the_guacd_of_the_owner() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let database = server.database();
    let two = Two::reached(server, &database);
    let (_owner, of_owner, id) = two.owner(&Visit::office("ann"));
    let mut joiner = Visit::join(&id).at(&two.other);
    assert_eq!(joiner.ready(), id, "the same id again");
    assert_eq!(joiner.shown, Names::rdp("1.6.0").0);
    let mut peer = two.one.guacd.ready();
    assert_eq!(peer.select, of_owner.id);
    let settings: Vec<_> = peer
        .settings
        .iter()
        .map(|it| it.opcode().to_owned())
        .collect();
    assert_eq!(
        settings,
        ["size", "audio", "video", "image", "timezone", "name"]
    );

    joiner.wire.send(b"3.key,5.65307,1.1;").unwrap();
    assert_eq!(peer.wire.exact(18).unwrap(), b"3.key,5.65307,1.1;");
    peer.wire.send(b"4.sync,1.1;").unwrap();
    joiner.hear_past_nops("sync");

    let by = two
        .other
        .wait("Joined", |line| line["connection"] == id.as_str());
    assert_eq!(by["replica"], two.one.broker.address().to_string());
    two.one.broker.wait("Joined", |_| true);
    drop((joiner, peer));
    assert_eq!(two.other.ended(&by)["phase"], "relayed");
    assert_eq!(two.other_guacd.accepted(), 0);
    assert_eq!(presences(server, &database).len(), 2);
}

#[test]
fn what_passed_through_is_joined_by_another_replica_too() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let two = Two::reached(server, &server.database());
    let mut owner = Visit::rdp("ann")
        .answer("hostname", "elsewhere")
        .at(&two.one.broker);
    let id = owner.ready();
    let of_owner = two.one.guacd.ready();
    let mut joiner = Visit::join(&id).at(&two.other);
    assert_eq!(joiner.ready(), id);
    assert_eq!(two.one.guacd.ready().select, of_owner.id);
}

#[test]
fn an_owner_with_a_certificate_is_dialled_by_tls_and_known_by_that_certificate() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let database = server.database();
    let authority = Authority::new("authority");
    let shown = authority.sign("127.0.0.1");
    let two = Two::with(server, &database, |site| {
        shown.write(site.folder(), "guard");
        site.listening(ADVERTISED)
            .listening("tls_cert_file = \"guard.crt\"\ntls_key_file = \"guard.key\"")
    });
    let client = authority.client(None);
    let mut owner = Visitor::secured(two.one.broker.address(), &client, "127.0.0.1");
    owner.click(&Visit::office("ann"));
    let id = owner.ready();
    let mut of_owner = two.one.guacd.ready();
    of_owner.stand();
    owner.hear_past_nops("sync");
    let mut joiner = Visit::join(&id).at(&two.other);
    assert_eq!(joiner.ready(), id);
    assert_eq!(two.one.guacd.ready().select, of_owner.id);

    // The certificate is exchanged: others hear of it, and go by the new one.
    authority
        .sign("127.0.0.1")
        .write(two.one.site.folder(), "guard");
    two.one.broker.signal("HUP");
    two.one.broker.wait("Certificate exchanged", |_| true);
    eventually("a join by the new certificate", || {
        let mut joiner = Visit::join(&id).at(&two.other);
        joiner.ready();
        let peer = two.one.guacd.within(Duration::from_secs(1))?;
        (peer.select == of_owner.id).then_some(())
    });

    // Somebody else is there.
    let stranger = Identity::self_signed("127.0.0.1").server(None);
    let stranger = ScriptedGuacd::secured(stranger, Names::rdp("1.6.0"));
    let seal = shown.fingerprint();
    let port = stranger.address().port();
    let seal = format!(",\"certificate\":\"{seal}\"");
    write_presence(server, &database, "00000f", port, &seal);
    let refusal = eventually("that presence", || {
        let id = format!("$00000f{}", &id[7..]);
        let refusal = Visit::join(&id).refused_at(&two.other);
        (refusal.code != 0x204).then_some(refusal)
    });
    assert_eq!(refusal.code, 0x208, "{}", refusal.text);
    assert!(refusal.text.contains("no TLS"), "{}", refusal.text);
}

#[test]
fn who_joins_by_another_replica_waits_until_the_desktop_stood() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let two = Two::reached(server, &server.database());
    let mut owner = Visit::office("ann").at(&two.one.broker);
    let id = owner.ready();
    let mut first = two.one.guacd.ready();
    thread::scope(|scope| {
        let joining = scope.spawn(|| {
            let mut joiner = Visit::join(&id).at(&two.other);
            assert_eq!(joiner.ready(), id);
            joiner
        });
        first.wire.send(b"5.error,1.x,3.519;").unwrap();
        first.wire.finish();
        let mut second = two.one.guacd.ready();
        second.stand();
        owner.hear_past_nops("sync");
        assert_eq!(two.one.guacd.ready().select, second.id);
        joining.join().unwrap();
    });
}

#[test]
fn who_joins_a_tunnel_that_gets_no_desktop_is_told_so_by_any_replica() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let two = Two::with(server, &server.database(), |site| {
        site.listening(ADVERTISED)
            .with("[broker]\nattempt_deadline = \"60s\"\n")
    });
    let mut owner = Visit::office("ann").at(&two.one.broker);
    let id = owner.ready();
    let _peer = two.one.guacd.ready();
    let refusal = Visit::join(&id).refused_at(&two.other);
    assert_eq!(refusal.code, 0x202, "the page comes back by itself");
}

#[test]
fn ids_of_nobody_lead_nowhere() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let two = Two::reached(server, &server.database());
    let (_owner, of_owner, id) = two.owner(&Visit::office("ann"));
    let mut own = Visit::office("bob").at(&two.other);
    let of_other = own.ready();
    drop((own, two.other_guacd.next()));
    let reached = two.one.guacd.accepted();
    let forged = |tag: &str| format!("${tag}00-0000-8000-a000-000000000000");
    let before = two.other_guacd.accepted();
    for unknown in [
        // The other's own tag, a tag of nobody, guacd's own id, an id without a tag, one that was
        // sent on already, and one that is neither.
        forged(tag_of(&of_other)),
        forged("ffffff"),
        of_owner.id.clone(),
        format!("${}", uuid::Uuid::new_v4()),
        id.to_uppercase(),
        format!("{}4{}", &id[..15], &id[16..]),
    ] {
        let refusal = Visit::join(&unknown).refused_at(&two.other);
        assert_eq!(refusal.code, 0x204, "{unknown}: {}", refusal.text);
        assert_ne!(refusal.id, unknown);
    }
    assert_eq!(two.other_guacd.accepted(), before);
    assert_eq!(two.one.broker.lines("Joined").len(), 0);
    // A tag of the owner and an id that it does not know: asked there, found nowhere.
    let refusal = Visit::join(&forged(tag_of(&id))).refused_at(&two.other);
    assert_eq!(refusal.code, 0x204, "{}", refusal.text);
    assert_eq!(two.one.guacd.accepted(), reached);
    // The owner takes its own id as it is sent on.
    let mut joiner = Visit::join(&id.to_uppercase()).at(&two.one.broker);
    joiner.ready();
    assert_eq!(two.one.guacd.ready().select, of_owner.id);
}

#[test]
fn an_owner_that_is_gone_is_known_to_be() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let database = server.database();
    let mut two = Two::reached(server, &database);
    let (_owner, _of_owner, id) = two.owner(&Visit::office("ann"));
    two.join(&id);
    // Without a word: its presence stays for a while, and its port is closed.
    two.one = two.one.restarted(Broker::kill);
    assert!(presences(server, &database).contains(&tag_of(&id).to_owned()));
    two.assert_unknown(&id);
    // A new process has a tag of its own, and in good order it leaves nothing.
    let (_owner, _of_owner, id) = two.owner(&Visit::office("bob"));
    two.join(&id);
    drop((_owner, _of_owner));
    two.one.broker.signal("TERM");
    eventually("its presence is taken away", || {
        let left = presences(server, &database);
        (!left.contains(&tag_of(&id).to_owned())).then_some(())
    });
    two.assert_unknown(&id);
}

#[test]
fn a_presence_that_nobody_renews_is_believed_for_a_while_only() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let database = server.database();
    let two = Two::reached(server, &database);
    // Somebody takes connections there and hangs up.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    write_presence(server, &database, "0a0b0c", port, "");
    let id = "$0a0b0c00-0000-8000-a000-000000000000";
    let began = Instant::now();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            let mut times = Vec::new();
            while began.elapsed() < GONE + LATE {
                match listener.accept() {
                    Ok((stream, _)) => {
                        times.push(began.elapsed());
                        drop(stream);
                    }
                    Err(_) => thread::sleep(Duration::from_millis(20)),
                }
                if times
                    .last()
                    .is_some_and(|last| began.elapsed() > *last + 3 * SOON)
                {
                    break;
                }
            }
            times
        });
        while began.elapsed() < GONE + LATE - SOON {
            two.assert_unknown(id);
            thread::sleep(Duration::from_secs(1));
        }
        let times = accepting.join().unwrap();
        let (first, last) = (times.first().unwrap(), times.last().unwrap());
        assert!(*first < LATE, "{times:?}");
        assert!(*last < GONE + LATE / 2, "{times:?}");
    });
}

#[test]
fn a_replica_that_no_other_reaches_says_so_and_its_joins_are_made_at_it() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let two = Two::with(server, &server.database(), |site| site);
    let (_owner, of_owner, id) = two.owner(&Visit::office("ann"));
    two.assert_unknown(&id);
    let said = two.one.broker.said();
    let line = said
        .iter()
        .find(|line| line.to_string().contains("advertise in [[listen]]"));
    assert_eq!(line.expect("what to do")["level"], "WARN");
    let mut joiner = Visit::join(&id).at(&two.one.broker);
    assert_eq!(joiner.ready(), id);
    assert_eq!(two.one.guacd.ready().select, of_owner.id);
}

#[test]
fn no_address_makes_a_way_of_more_than_one_hop() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let database = server.database();
    let two = Two::reached(server, &database);
    let (_owner, _of_owner, id) = two.owner(&Visit::office("ann"));
    let (one, other) = (two.one.broker.address(), two.other.address());
    // Somebody who seems to be where the other is, somebody where the first is, who owns neither.
    for (tag, port) in [("00000a", other.port()), ("00000b", one.port())] {
        write_presence(server, &database, tag, port, "");
    }
    let id_of = |tag: &str| format!("${tag}{}", &id[7..]);
    // Each way that was taken leaves a line here.
    let hops = || two.other.lines("Joined").len();
    let mut asked = 0;
    eventually("those presences are read", || {
        asked += 1;
        two.assert_unknown(&id_of("00000b"));
        (hops() == 1).then_some(())
    });
    // One that leads to ourselves is not even dialled; the other is asked once, and asks nobody.
    two.assert_unknown(&id_of("00000a"));
    assert_eq!(hops(), 1);
    two.assert_unknown(&id_of("00000b"));
    assert_eq!(hops(), 2);
    two.other.wait_for_lines("Tunnel ended", asked + 2);
    two.one.broker.wait_for_lines("Tunnel ended", 2);
    let witness = Visit::join("$ffffff00-0000-8000-a000-000000000000");
    witness.refused_at(&two.one.broker);
    witness.refused_at(&two.other);
    let ended = two.one.broker.wait_for_lines("Tunnel ended", 3);
    assert_eq!(ended.len(), 3, "two that were sent on, and the witness");
    assert!(two.one.broker.lines("Joined").is_empty());
    let ended = two.other.wait_for_lines("Tunnel ended", asked + 3);
    assert_eq!(ended.len(), asked + 3, "nothing came back");
}
