//! Configurations of any size, as text: what an administrator would have written.

use std::fmt::Write;

use sessionguard::config::{Config, load_text};

/// So many hosts `rds-N` in the farm `office`, and so many resources on it, of
/// which the first is `desktop-0`. `settings` is more TOML, before all else.
pub(crate) fn toml(settings: &str, hosts: u32, resources: u32) -> String {
    let mut text = format!("{settings}\n[[farms]]\nid = \"office\"\n");
    for at in 0..hosts {
        let written = write!(
            text,
            "[[hosts]]\nid = \"rds-{at}\"\naddress = \"rds-{at}.example.com\"\n\
             farm_ids = [\"office\"]\nmax_sessions = 2000\n"
        );
        assert!(written.is_ok());
    }
    for at in 0..resources {
        let written = write!(
            text,
            "[[resources]]\nid = \"desktop-{at}\"\nname = \"Desktop {at}\"\nkind = \"desktop\"\n\
             farm_id = \"office\"\nguacamole_connection_id = \"{at}\"\n\
             hostnames = [\"desktop-{at}.example.com\"]\n\
             [resources.parameters]\ntimezone = \"Europe/Berlin\"\n"
        );
        assert!(written.is_ok());
    }
    text
}

/// A configuration that must be sound.
pub(crate) fn loaded(toml: &str) -> Config {
    match load_text("bench.toml", toml) {
        Ok(loaded) => loaded.config,
        Err(faults) => panic!("{faults:?}"),
    }
}
