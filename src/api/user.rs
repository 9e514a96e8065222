//! Names of the users that call, as the machine's own list has them.

use crate::placement::Actor;

const USERS: &str = "/etc/passwd";

/// The user with this number, with a name. One that only a directory service
/// knows stays a number: asking it could hang.
pub(super) fn actor(uid: Option<u32>) -> Actor {
    let list = std::fs::read(USERS).unwrap_or_default();
    let name = uid.and_then(|uid| name(&String::from_utf8_lossy(&list), uid));
    Actor::User { uid, name }
}

fn name(list: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number == uid && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn a_user_is_found_by_the_number_alone() {
        let list =
            "root:x:0:0:root:/root:/bin/sh\n\n# a comment\nann:x:1000:0::/home/ann:\n:x:7::\n";
        assert_eq!(name(list, 0).as_deref(), Some("root"));
        assert_eq!(name(list, 1000).as_deref(), Some("ann"));
        for nobody in [1, 7, 100] {
            assert_eq!(name(list, nobody), None);
        }
    }
}
