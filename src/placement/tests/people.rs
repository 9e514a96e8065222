//! Who connected through us, and for how long that is known.

use super::build::*;
use crate::placement::*;

const DAY: u64 = 24 * 3600;

fn known(people: &People, who: &str) -> bool {
    people.knows(&user(who))
}

#[test]
fn a_name_and_its_hosts_are_known_for_thirty_days_from_when_they_were_last_seen() {
    let mut people = People::default();
    people.remember(&user("corp\\ann"), &"a".into(), NOW);
    people.remember(&user("corp\\bob"), &"a".into(), NOW);
    people.remember(&user("corp\\bob"), &"b".into(), NOW + secs(DAY));
    people.forget(NOW + secs(30 * DAY - 1));
    assert!(known(&people, "corp\\ann") && people.was_on(&user("corp\\ann"), &"a".into()));
    people.forget(NOW + secs(30 * DAY));
    assert!(!known(&people, "corp\\ann") && !people.was_on(&user("corp\\ann"), &"a".into()));
    // The other was elsewhere since: known, but not from there any more.
    assert!(known(&people, "corp\\bob") && !people.was_on(&user("corp\\bob"), &"a".into()));
    assert!(people.was_on(&user("corp\\bob"), &"b".into()));
    people.forget(NOW + secs(31 * DAY));
    assert_eq!(people, People::default());
}

#[test]
fn a_name_that_was_forgotten_leaves_the_other_of_its_name_unambiguous() {
    let claims = claims("ann");
    let mut people = People::default();
    people.remember(&user("corp\\ann"), &"a".into(), NOW);
    people.remember(&user("other\\ann"), &"a".into(), NOW + secs(DAY));
    assert!(claims.who(&Rules::default(), None, &people).ambiguous);
    people.forget(NOW + secs(30 * DAY));
    let who = claims.who(&Rules::default(), None, &people);
    assert_eq!((who.user, who.ambiguous), (Some(user("other\\ann")), false));
}

#[test]
fn there_is_something_to_learn_from_another_host_and_from_another_day() {
    let mut people = People::default();
    let ann = user("ann");
    assert!(!people.remembers(&ann, &"a".into(), NOW));
    people.remember(&ann, &"a".into(), NOW);
    assert!(people.remembers(&ann, &"a".into(), NOW + secs(DAY - 1)));
    assert!(!people.remembers(&ann, &"a".into(), NOW + secs(DAY)));
    assert!(!people.remembers(&ann, &"b".into(), NOW));
    assert!(!people.remembers(&user("corp\\ann"), &"a".into(), NOW));
}

#[test]
fn a_session_without_a_domain_may_be_anybodys_of_that_name() {
    let mut people = People::default();
    people.remember(&user("corp\\ann"), &"a".into(), NOW);
    for (session, was_there) in [("corp\\ann", true), ("ann", true), ("other\\ann", false)] {
        assert_eq!(
            people.was_on(&user(session), &"a".into()),
            was_there,
            "{session}"
        );
        assert!(!people.was_on(&user(session), &"b".into()));
    }
}
