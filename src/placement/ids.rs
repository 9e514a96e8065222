//! Names that cannot be swapped: each kind of id is a type of its own. As text of
//! one word's size, for every open tunnel has dozens of them.

use arcstr::ArcStr;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(ArcStr);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

text_id! {
    /// A host's id; also its agent's id.
    HostId
}
text_id! {
    /// A farm's id.
    FarmId
}
text_id! {
    /// A resource's id.
    ResourceId
}
text_id! {
    /// A tunnel's id: unique over all replicas and restarts.
    TunnelId
}
text_id! {
    /// A replica's id: one a process, unique over all restarts.
    ReplicaId
}

impl TunnelId {
    /// What the ids of visits begin with.
    const VISIT: &str = "visit-";

    /// The id of a user's way to a host that does not lead through us.
    pub fn of_visit(unique: impl fmt::Display) -> Self {
        Self::from(format!("{}{unique}", Self::VISIT))
    }

    /// Whether it stands for such a way.
    pub fn is_visit(&self) -> bool {
        self.0.starts_with(Self::VISIT)
    }

    /// Longest name of a client that RDP carries, in characters (MS-RDPBCGR
    /// 2.2.1.3.2: 32 bytes of UTF-16, the last character a NUL).
    pub const TAG: usize = 15;

    /// The client's name that a tunnel gets whose user is not known yet: the
    /// host's agent reports it with the session, which tells who came by it.
    pub fn tag(&self) -> String {
        let digits: Vec<char> = self.0.chars().filter(char::is_ascii_hexdigit).collect();
        // The end of a UUIDv7 is its random part.
        let tail = digits.len().saturating_sub(Self::TAG - 3);
        let tail = digits.get(tail..).unwrap_or_default();
        tail.iter()
            .fold("sg-".to_owned(), |tag, c| tag + &c.to_string())
    }
}

/// The id an object without one gets from its name: lower case, each run of
/// other than letters and digits made one `-`, none at the ends
/// (`Office Desktop` becomes `office-desktop`). Empty where the name holds no
/// letter or digit.
pub fn derive_id(name: &str) -> String {
    let mut id = String::with_capacity(name.len());
    for c in name.chars().flat_map(char::to_lowercase) {
        if c.is_alphanumeric() {
            id.push(c);
        } else if !id.is_empty() && !id.ends_with('-') {
            id.push('-');
        }
    }
    if id.ends_with('-') {
        id.pop();
    }
    id
}

#[cfg(test)]
mod tests {
    use super::derive_id;

    #[test]
    fn derived_ids_are_lower_case_with_single_dashes() {
        for (name, id) in [
            ("Office Desktop", "office-desktop"),
            ("  Sage -- 2024! ", "sage-2024"),
            ("Büro", "büro"),
            ("!!!", ""),
            ("ERP", "erp"),
        ] {
            assert_eq!(derive_id(name), id, "{name}");
        }
    }
}
