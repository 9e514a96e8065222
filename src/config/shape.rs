//! The tables of the configuration, and where a key that is not known was meant
//! to go. The keys themselves are in [`super::keys`].

use std::fmt;

use super::form::Key;
use super::keys;

/// A kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    /// The whole file.
    Document,
    Broker,
    BrokerScore,
    Identity,
    Guacd,
    Listen,
    Probe,
    Store,
    Api,
    Health,
    Limits,
    Log,
    Host,
    Farm,
    FarmScore,
    Resource,
}

impl Shape {
    /// Every kind of table.
    pub(super) const ALL: [Self; 16] = [
        Self::Document,
        Self::Broker,
        Self::BrokerScore,
        Self::Identity,
        Self::Guacd,
        Self::Listen,
        Self::Probe,
        Self::Store,
        Self::Api,
        Self::Health,
        Self::Limits,
        Self::Log,
        Self::Host,
        Self::Farm,
        Self::FarmScore,
        Self::Resource,
    ];

    /// The keys known here.
    pub(super) fn keys(self) -> &'static [Key] {
        match self {
            Self::Document => keys::DOCUMENT,
            Self::Broker => keys::BROKER,
            Self::BrokerScore => keys::BROKER_SCORE,
            Self::Identity => keys::IDENTITY,
            Self::Guacd => keys::GUACD,
            Self::Listen => keys::LISTEN,
            Self::Probe => keys::PROBE,
            Self::Store => keys::STORE,
            Self::Api => keys::API,
            Self::Health => keys::HEALTH_LISTENER,
            Self::Limits => keys::LIMITS,
            Self::Log => keys::LOG,
            Self::Host => keys::HOST,
            Self::Farm => keys::FARM,
            Self::FarmScore => keys::FARM_SCORE,
            Self::Resource => keys::RESOURCE,
        }
    }

    /// The names of these keys.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        self.keys().iter().map(|key| key.name)
    }

    pub(super) fn find(self, name: &str) -> Option<&'static Key> {
        self.keys().iter().find(|key| key.name == name)
    }

    pub(super) fn knows(self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The keys a table of this kind cannot do without.
    pub(super) fn required(self) -> &'static [&'static str] {
        match self {
            Self::Listen | Self::Host => &["address"],
            Self::Resource => &["kind"],
            _ => &[],
        }
    }

    /// Keys of [`Self::Broker`] that a farm must not decide for itself.
    pub(super) const GLOBAL_ONLY: [&'static str; 2] = ["single_session_per_user", "lease_seconds"];

    /// How the settings of this table are named from outside, where there is
    /// one such table only.
    pub(super) fn section(self) -> Option<&'static str> {
        match self {
            Self::Broker => Some("broker"),
            Self::BrokerScore => Some("broker.score"),
            Self::Identity => Some("identity"),
            Self::Guacd => Some("guacd"),
            Self::Probe => Some("probe"),
            Self::Store => Some("store"),
            Self::Api => Some("api"),
            Self::Health => Some("health"),
            Self::Limits => Some("limits"),
            Self::Log => Some("log"),
            Self::Document
            | Self::Listen
            | Self::Host
            | Self::Farm
            | Self::FarmScore
            | Self::Resource => None,
        }
    }

    /// A line that supplies a key this table cannot do without.
    pub(super) fn example(self, key: &str) -> Option<&'static str> {
        match (self, key) {
            (Self::Host, "address") => Some("address = \"10.0.0.11\""),
            (Self::Resource, "kind") => {
                Some("kind = \"desktop\", \"remoteapp\" or \"as-connected\"")
            }
            (Self::Resource, "remote_app") => Some("remote_app = \"||Alias\""),
            (Self::Listen, "address") => Some("address = \"127.0.0.1:4822\""),
            _ => None,
        }
    }

    /// The known key nearest to one that is not known, if it is near enough to
    /// be a slip of the finger.
    pub(super) fn near(self, key: &str) -> Option<&'static str> {
        const LONGEST: usize = 48;
        if key.len() > LONGEST {
            return None;
        }
        let plain = key.to_lowercase().replace('-', "_");
        let allowed = (plain.chars().count() / 3).min(2);
        self.names()
            .map(|known| (strsim::osa_distance(&plain, known), known))
            .filter(|(distance, _)| *distance <= allowed)
            .min()
            .map(|(_, known)| known)
    }

    /// The single table elsewhere that knows this very key. Objects are not
    /// asked: an unknown key there is rarely a setting of the broker.
    pub(super) fn home(self, key: &str) -> Option<Self> {
        if self != Self::Document && self.section().is_none() {
            return None;
        }
        let singles = Self::ALL
            .into_iter()
            .filter(|shape| shape.section().is_some());
        let mut homes = singles.filter(|shape| *shape != self && shape.knows(key));
        homes.next().filter(|_| homes.next().is_none())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Document => "the file",
            Self::Broker => "[broker]",
            Self::BrokerScore => "[broker.score]",
            Self::Identity => "[identity]",
            Self::Guacd => "[guacd]",
            Self::Listen => "a listener",
            Self::Probe => "[probe]",
            Self::Store => "[store]",
            Self::Api => "[api]",
            Self::Health => "[health]",
            Self::Limits => "[limits]",
            Self::Log => "[log]",
            Self::Host => "a host",
            Self::Farm => "a farm",
            Self::FarmScore => "a farm's score",
            Self::Resource => "a resource",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        for (shape, key, near) in [
            (Shape::Broker, "lease_secs", None),
            (Shape::Broker, "lease_second", Some("lease_seconds")),
            (Shape::Broker, "lease-seconds", Some("lease_seconds")),
            (Shape::Host, "adress", Some("address")),
            (Shape::Host, "prot", Some("port")),
            (Shape::Host, "ip", None),
            (
                Shape::Resource,
                "guacamoleConnectionName",
                Some("guacamole_connection_name"),
            ),
            (Shape::Document, "host", Some("hosts")),
            (Shape::Document, &"x".repeat(1 << 20), None),
        ] {
            assert_eq!(shape.near(key), near, "{key:.40}");
        }
    }

    #[test]
    fn a_key_in_the_wrong_table_is_sent_home() {
        assert_eq!(Shape::Document.home("lease_seconds"), Some(Shape::Broker));
        assert_eq!(Shape::Log.home("interval"), Some(Shape::Probe));
        assert_eq!(Shape::Host.home("level"), None);
        // Known in no other table, or none that stands alone.
        assert_eq!(Shape::Document.home("farm_ids"), None);
    }
}
