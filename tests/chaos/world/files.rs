//! A replica's configuration: what its files say, and when that was written.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::Bounds;
use super::hosts::Hosts;
use crate::chaos::history::{Farm, History, Host, Members, Moment, Replica, What};
use crate::chaos::plan::{FARMS, HOSTS};

/// Farms by their numbers.
pub(super) const FARM_IDS: [&str; FARMS as usize] = ["office", "lab"];

/// What every replica's database connection names itself by, so that the database can tell.
pub(super) fn role(replica: Replica) -> String {
    format!("replica{replica}")
}

#[derive(Debug)]
pub(super) struct Files {
    replica: Replica,
    folder: TempDir,
    history: Arc<History>,
    hosts: Arc<Hosts>,
    bounds: Bounds,
    last_written: Mutex<Moment>,
}

/// Who belongs where at first: the first eight hosts are the office's, the last six the lab's.
pub(super) fn first_members() -> Members {
    let office: BTreeSet<Host> = (0..8).collect();
    let lab: BTreeSet<Host> = (6..HOSTS).collect();
    Members::from([(0, office), (1, lab)])
}

impl Files {
    pub(super) fn new(
        replica: Replica,
        (history, hosts): (&Arc<History>, &Arc<Hosts>),
        bounds: Bounds,
        guacd: SocketAddr,
        database: SocketAddr,
    ) -> Self {
        let files = Self {
            replica,
            folder: tempfile::tempdir().unwrap(),
            history: Arc::clone(history),
            hosts: Arc::clone(hosts),
            bounds,
            last_written: Mutex::default(),
        };
        fs::create_dir(files.part("")).unwrap();
        fs::write(files.main(), files.settings(guacd, database)).unwrap();
        files.write(&Arc::new(first_members()));
        files
    }

    pub(super) fn main(&self) -> PathBuf {
        self.path().join("sessionguard.toml")
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path().join("admin.sock")
    }

    fn part(&self, name: &str) -> PathBuf {
        self.path().join("conf.d").join(name)
    }

    fn settings(&self, guacd: SocketAddr, database: SocketAddr) -> String {
        let Bounds {
            max_sessions,
            lease,
            ..
        } = self.bounds;
        format!(
            "[broker]\nlease_seconds = {}\nmax_sessions = {max_sessions}\nslow_start = \"0s\"\n\
             [guacd]\naddress = \"{guacd}\"\n\
             [[listen]]\naddress = \"127.0.0.1:0\"\n\
             [probe]\ninterval = \"2s\"\ntimeout = \"2s\"\n\
             [store]\nkind = \"postgres\"\nreplicated = true\naddress = \"{database}\"\n\
             database = \"postgres\"\nuser = \"{}\"\npool_size = 6\n\
             connect_timeout = \"2s\"\nquery_timeout = \"3s\"\n\
             [api]\nlisten = \"off\"\nsocket = {:?}\n\
             [health]\nlisten = \"off\"\n\
             [log]\nformat = \"json\"\n",
            lease.as_secs(),
            role(self.replica),
            self.socket(),
        )
    }

    /// Writes who belongs where, all at once.
    pub(super) fn write(&self, members: &Arc<Members>) {
        let mut text = String::new();
        for farm in FARM_IDS {
            write!(
                text,
                "[[farms]]\nid = \"{farm}\"\n\
                 [[resources]]\nid = \"{farm}\"\nkind = \"desktop\"\nfarm_id = \"{farm}\"\n"
            )
            .unwrap();
        }
        for host in 0..HOSTS {
            let of = |farm: &Farm| members[farm].contains(&host);
            let farms = (0..FARMS).filter(of);
            let farms: Vec<_> = farms.map(|farm| FARM_IDS[usize::from(farm)]).collect();
            write!(
                text,
                "[[hosts]]\nid = \"rds{host}\"\naddress = \"127.0.0.1\"\nport = {}\n\
                 farm_ids = {farms:?}\n",
                self.hosts.port(host)
            )
            .unwrap();
        }
        let aside = self.path().join("farms.new");
        fs::write(&aside, text).unwrap();
        let (members, replica) = (Arc::clone(members), self.replica);
        // Noted first: it may be in force before it is noted otherwise.
        self.history.note(What::Written { replica, members });
        *self.last_written.lock().unwrap() = Moment::now();
        fs::rename(aside, self.part("10-farms.toml")).unwrap();
    }

    pub(super) fn last_written(&self) -> Moment {
        *self.last_written.lock().unwrap()
    }

    /// A file that nobody can read.
    pub(super) fn spoil(&self) {
        fs::write(self.part("90-broken.toml"), "[[hosts]\nid = ").unwrap();
    }

    pub(super) fn mend(&self) {
        fs::remove_file(self.part("90-broken.toml")).unwrap();
    }
}
