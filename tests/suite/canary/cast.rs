//! Who takes part in a run, what must never be seen of them, and what was seen of the broker.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::ClientConfig;
use tempfile::TempDir;

use super::marks::{self, Search};
use super::running::Running;
use crate::support::{
    Asker, BINARY, GuacdPeer, Names, ScriptedGuacd, ScriptedHost, Site, Stage, Visit, Visitor,
};

/// What is no secret and must be found, or a search is worth nothing.
pub(super) const USER: &str = "canary-user";
pub(super) const LABEL: &str = "canary-label";

pub(super) struct Cast {
    pub(super) site: Site,
    pub(super) running: Running,
    pub(super) guacd: ScriptedGuacd,
    _hosts: Vec<ScriptedHost>,
    /// How Guacamole comes by TLS, if it does.
    pub(super) client: Option<Arc<ClientConfig>>,
    pub(super) search: Search,
    /// What was seen, and where.
    seen: Vec<(String, Vec<u8>)>,
    /// Files in which a secret was put by whoever set the broker up.
    pub(super) theirs: Vec<PathBuf>,
    /// Where the secrets of the run are.
    pub(super) vault: TempDir,
    /// The broker's temporary files.
    pub(super) temporary: TempDir,
    /// What the command line knows, too.
    variables: Vec<(&'static str, String)>,
}

/// A guacd of several protocols, with a parameter that nobody has heard of.
fn guacd() -> ScriptedGuacd {
    ScriptedGuacd::playing(|peer| {
        peer.hear_select()?;
        let names = match peer.select.as_str() {
            "ssh" => Names(
                [
                    "VERSION_1_5_0",
                    "hostname",
                    "port",
                    "username",
                    "password",
                    "private-key",
                    "passphrase",
                ]
                .map(str::to_owned)
                .to_vec(),
            ),
            _ => {
                let mut names = Names::rdp("1.6.0");
                names.0.push("unheard-of".to_owned());
                names
            }
        };
        peer.wire.say(&names.to_instruction())?;
        peer.hear_connect(&names)?;
        peer.say_ready()
    })
}

impl Cast {
    /// Two hosts and a broker that is set up with a marked broker key, administrator's key and
    /// parameters, and whatever else `adjust` says.
    pub(super) fn new(
        variables: Vec<(&'static str, String)>,
        client: Option<Arc<ClientConfig>>,
        adjust: impl FnOnce(Site, &mut Search) -> Site,
    ) -> Self {
        let (vault, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut search = Search::new();
        let guacd = guacd();
        let hosts: Vec<_> = (0..2).map(|_| ScriptedHost::up()).collect();
        let addresses: Vec<_> = hosts.iter().map(ScriptedHost::address).collect();
        let broker_key = marks::key("the configured broker key");
        search.add("the configured broker key", broker_key.as_bytes());
        let file = secret_file(&vault, "broker.key", &broker_key);
        let mut variables = variables;
        variables.push((
            "SESSIONGUARD_ADMIN_API_KEY",
            marks::key("the configured admin key"),
        ));
        for (name, value) in &variables {
            search.add(name, value.as_bytes());
        }
        let mut set = |of: &str| {
            let secret = marks::password(of);
            search.add(of, secret.as_bytes());
            serde_json::to_string(&secret).unwrap()
        };
        let resource = format!(
            "[[resources]]\nid = \"vault\"\nname = \"Vault\"\nkind = \"desktop\"\nfarm_id = \"office\"\n\
             guacamole_connection_id = \"44\"\n[resources.parameters]\ngateway-hostname = \"gateway.example\"\n\
             gateway-password = {}\nunknown-here = {}\n",
            set("a gateway's password that a resource sets"),
            set("a value that a resource sets and guacd does not know"),
        );
        let mut site = Stage::site(guacd.address(), &addresses)
            .with(resource)
            .with(format!("[api]\nbroker_key_file = {file:?}\n"));
        site.level = "trace";
        for (name, value) in &variables {
            site = site.knowing(name, value.clone());
        }
        let site = adjust(site, &mut search);
        let running = Running::start(&site, temporary.path());
        let theirs = vec![site.folder().join("conf.d/01.toml")];
        Self {
            site,
            running,
            guacd,
            _hosts: hosts,
            client,
            search,
            seen: Vec::new(),
            theirs,
            vault,
            temporary,
            variables,
        }
    }

    /// A new secret, looked for from now on.
    pub(super) fn secret(&mut self, of: &str) -> String {
        let secret = marks::password(of);
        self.search.add(of, secret.as_bytes());
        secret
    }

    /// One that a header may carry.
    pub(super) fn key(&mut self, of: &str) -> String {
        let secret = marks::key(of);
        self.search.add(of, secret.as_bytes());
        secret
    }

    /// A key of the broker's own making: what of it is secret.
    pub(super) fn made(&mut self, of: &str, key: &str) {
        let secret = key.split('_').nth(3).expect("a whole key");
        self.search.add(of, secret.as_bytes());
    }

    pub(super) fn saw(&mut self, place: &str, bytes: impl Into<Vec<u8>>) {
        self.seen.push((place.to_owned(), bytes.into()));
    }

    /// Everything seen in places that begin so.
    pub(super) fn all_of(&self, place: &str) -> Vec<u8> {
        let seen = self.seen.iter().filter(|(at, _)| at.starts_with(place));
        seen.flat_map(|(_, bytes)| bytes.iter().copied()).collect()
    }

    /// No secret was seen anywhere, and in these places what is none was.
    pub(super) fn assert_clean(&self, proofs: &[(&str, &str)]) {
        for (place, harmless) in proofs {
            let seen = self.all_of(place);
            let found = seen
                .windows(harmless.len())
                .any(|it| it == harmless.as_bytes());
            assert!(found, "{place} shows no {harmless}: nothing was searched");
        }
        let seen = self.seen.iter();
        let found = seen.flat_map(|(place, bytes)| self.search.shown(place, bytes));
        let found: Vec<_> = found.collect();
        assert!(found.is_empty(), "{found:#?}");
    }

    pub(super) fn main_file(&self) -> PathBuf {
        self.site.folder().join("sessionguard.toml")
    }

    /// A file of a secret that only its owner may read.
    pub(super) fn file(&self, name: &str, text: &str) -> String {
        secret_file(&self.vault, name, text)
    }

    /// Runs a command, and sees what it says; its exit code and standard output.
    pub(super) fn runs(&mut self, arguments: &[&str]) -> (i32, String) {
        let (code, out) = self.runs_secretly(arguments);
        self.saw(&format!("output of {arguments:?}"), out.clone());
        (code, out)
    }

    /// The same where standard output is where a secret belongs.
    pub(super) fn runs_secretly(&mut self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(BINARY);
        command.args(arguments);
        if !arguments.contains(&"--server") {
            command.arg("--config").arg(self.main_file());
        }
        let variables = self.variables.iter();
        command.envs(variables.map(|(name, value)| (*name, value.as_str())));
        let output = command
            .env("TMPDIR", self.temporary.path())
            .output()
            .unwrap();
        self.saw(&format!("errors of {arguments:?}"), output.stderr);
        let code = output.status.code().expect("an exit code");
        (code, String::from_utf8(output.stdout).unwrap())
    }

    pub(super) fn dial(&self) -> Visitor {
        let address = self.running.address("Listening");
        match &self.client {
            Some(client) => Visitor::secured(address, client, super::NAME),
            None => Visitor::dial(address),
        }
    }

    pub(super) fn click(&self, visit: &Visit) -> Visitor {
        let mut visitor = self.dial();
        visitor.click(visit);
        visitor
    }

    /// The next connection to guacd that got its `ready`.
    pub(super) fn served(&self) -> GuacdPeer {
        loop {
            let peer = self.guacd.next();
            if !peer.id.is_empty() {
                return peer;
            }
        }
    }

    pub(super) fn api(&self) -> Asker {
        Asker::to(self.running.address("API ready"))
    }
}

fn secret_file(folder: &TempDir, name: &str, text: &str) -> String {
    let path: &Path = &folder.path().join(name);
    fs::write(path, format!("{text}\n")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}
