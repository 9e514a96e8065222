//! How an agent's words become sessions.

use super::build::*;
use crate::placement::SessionState::*;
use crate::placement::*;

fn told<'a>(user: &'a str, domain: &'a str, state: &'a str) -> Told<'a> {
    Told {
        user,
        domain,
        state,
        latest: NOW,
        ..Told::default()
    }
}

/// What the words of host `a` of this world come to.
fn heard(world: &World, told: &[Told<'_>]) -> Heard {
    Session::reported(told, &world.directory(), &"a".into())
}

fn plain() -> World {
    farm("office").with(host("a"))
}

fn read(world: &World, user: &str, domain: &str) -> Option<String> {
    let mut sessions = heard(world, &[told(user, domain, "Active")]).sessions;
    sessions.pop().map(|session| session.user.to_string())
}

#[test]
fn every_spelling_of_a_user_is_one_user() {
    let world = plain().rules(|rules| {
        let domain = ("corp.example.com".to_owned(), "corp".to_owned());
        rules.domains.extend([domain]);
    });
    for (user, domain) in [
        ("ann", "CORP"),
        ("ANN", "corp"),
        ("CORP\\Ann", ""),
        ("ann@corp.example.com", ""),
        ("ann", "Corp.Example.COM"),
        (" ann ", " corp "),
    ] {
        let read = read(&world, user, domain);
        assert_eq!(read.as_deref(), Some("corp\\ann"), "{user} {domain}");
    }
    let apart = read(&world, "JU\u{308}RGEN", "corp");
    assert_eq!(apart.as_deref(), Some("corp\\j\u{fc}rgen"));
}

#[test]
fn without_a_domain_it_goes_by_the_user_unless_a_default_qualifies_it() {
    let ann = user("corp\\ann");
    let bare = heard(&plain(), &[told("Ann", "", "Active")]).sessions;
    assert_eq!(bare[0].user.domain(), None);
    assert!(ann.matches_session(&bare[0].user));
    let world = plain().rules(|rules| {
        rules.default_domain = Some("corp.example.com".to_owned());
        let domain = ("corp.example.com".to_owned(), "corp".to_owned());
        rules.domains.extend([domain]);
    });
    assert_eq!(read(&world, "ann", "").as_deref(), Some("corp\\ann"));
    assert_eq!(read(&world, "ann", "lab").as_deref(), Some("lab\\ann"));
}

#[test]
fn of_several_farms_the_hosts_own_order_chooses_the_default_domain() {
    let domain = |name: &str| {
        let name = name.to_owned();
        move |farm: &mut Farm| farm.overrides.default_domain = Some(name)
    };
    let world = |words: HostWords| {
        farm("a-farm")
            .whose_farm(domain("first"))
            .farm("b-farm")
            .whose_farm(domain("second"))
            .with(words)
            .rules(|rules| rules.default_domain = Some("global".to_owned()))
    };
    let own_order = world(host("a").also_in("a-farm"));
    assert_eq!(read(&own_order, "ann", "").as_deref(), Some("second\\ann"));
    let by_id = world(host("a").gone());
    assert_eq!(read(&by_id, "ann", "").as_deref(), Some("global\\ann"));
    let listed = world(host("a").gone()).whose_farm(|farm| farm.agent_ids = vec!["a".into()]);
    assert_eq!(read(&listed, "ann", "").as_deref(), Some("second\\ann"));
}

#[test]
fn states_are_read_in_any_letter_case_and_spelling() {
    for (word, state) in [
        ("Active", Active),
        ("ACTIVE", Active),
        ("wtsActive", Active),
        ("Shadow", Active),
        ("Connected", Connected),
        ("conn", Connected),
        ("ConnectQuery", Connected),
        ("connect-query", Connected),
        ("idle", Connected),
        ("Disconnected", Disconnected),
        (" disc ", Disconnected),
        ("WTSDisconnected", Disconnected),
    ] {
        let heard = heard(&plain(), &[told("ann", "", word)]);
        let states: Vec<_> = heard.sessions.iter().map(|s| s.state).collect();
        assert_eq!(states, [state], "{word}");
        assert!(heard.unknown_states.is_empty());
    }
}

#[test]
fn who_is_not_logged_on_is_no_session() {
    for (user, state) in [
        ("", "Active"),
        ("   ", "Disconnected"),
        ("", "Listen"),
        ("ann", "Listen"),
        ("ann", "Reset"),
        ("ann", "down"),
    ] {
        let heard = heard(&plain(), &[told(user, "corp", state)]);
        assert_eq!(heard, Heard::default(), "{user} {state}");
    }
}

#[test]
fn a_state_nobody_knows_counts_as_connected_and_is_said() {
    let all = [told("ann", "", "Hibernating"), told("bob", "", "")];
    let heard = heard(&plain(), &all);
    assert!(heard.sessions.iter().all(|s| s.state == Connected));
    let said: Vec<_> = heard.unknown_states.iter().map(String::as_str).collect();
    assert_eq!(said, ["", "Hibernating"]);
}

#[test]
fn the_clients_name_is_kept() {
    let tagged = Told {
        client_name: " sg-0123456789ab ",
        ..told("ann", "", "Active")
    };
    let heard = heard(&plain(), &[tagged, told("bob", "", "Active")]);
    let names = heard.sessions.iter().map(|s| s.client_name.as_deref());
    assert_eq!(names.collect::<Vec<_>>(), [Some("sg-0123456789ab"), None]);
}

#[test]
fn more_users_than_sessions_is_said() {
    let with_id = |id, user| Told {
        id,
        ..told(user, "", "Active")
    };
    let over = |all: &[Told<'_>]| heard(&plain(), all).overclaims;
    assert!(over(&[with_id("2", "ann"), with_id("2", "bob")]));
    assert!(!over(&[with_id("2", "ann"), with_id("3", "bob")]));
    assert!(!over(&[with_id("2", "ann"), with_id("3", "ann")]));
    assert!(!over(&[with_id("", "ann"), with_id("", "bob")]));
}
