//! What the database saw: triggers write down every change of a lease and of a report, in the
//! transaction that makes it, and this takes those lines over while the run goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;
use tokio_postgres::{Client, Config, NoTls};
use uuid::Uuid;

use super::files::{FARM_IDS, role};
use crate::chaos::history::{Before, Farm, History, Host, Moment, Replica, User, What};
use crate::chaos::plan::REPLICAS;
use crate::support::postgres::{PASSWORD, USER};

/// Once the replicas have made their tables. The writer is told by its role.
pub(super) const TRIGGERS: &str = "
    CREATE SCHEMA chaos;
    CREATE TABLE chaos.history (
        seq bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
        kind text, key text, content text, writer text DEFAULT session_user::text
    );
    CREATE FUNCTION chaos.note_lease() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO chaos.history (kind, key, content) VALUES ('lease', NEW.key, NEW.record);
        RETURN NULL;
    END $$;
    CREATE FUNCTION chaos.note_report() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO chaos.history (kind, key, content)
        VALUES ('report', NEW.id, NEW.content::json #>> '{last,order}');
        RETURN NULL;
    END $$;
    CREATE TRIGGER chaos AFTER INSERT OR UPDATE ON sessionguard.leases
        FOR EACH ROW EXECUTE FUNCTION chaos.note_lease();
    CREATE TRIGGER chaos AFTER INSERT OR UPDATE ON sessionguard.documents
        FOR EACH ROW WHEN (NEW.kind = 'report') EXECUTE FUNCTION chaos.note_report();";

const READ: &str = "SELECT seq, (extract(epoch FROM at) * 1000000)::bigint, kind, key, content, \
    writer FROM chaos.history ORDER BY seq LIMIT 5000";

const FORGET: &str = "DELETE FROM chaos.history WHERE seq = ANY($1)";

const PAUSE: Duration = Duration::from_millis(300);

/// One user's lease of one farm, as it was written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Lease {
    host: Host,
    lingers: Option<Moment>,
    /// The older lease that comes back where this claim does not stand.
    replaced: Option<(Host, Moment)>,
    holders: BTreeMap<Uuid, (Moment, bool)>,
}

pub(super) type Record = BTreeMap<Farm, Lease>;

pub(in crate::chaos) struct Ledger {
    history: Arc<History>,
    port: u16,
    records: BTreeMap<User, Record>,
    /// Lines that were taken over and may come again.
    done: BTreeSet<i64>,
    client: Option<Client>,
}

/// A line that a trigger wrote.
struct Line {
    at: Moment,
    kind: String,
    key: String,
    content: Option<String>,
    writer: String,
}

impl Ledger {
    pub(super) fn new(history: &Arc<History>, port: u16) -> Self {
        Self {
            history: Arc::clone(history),
            port,
            records: BTreeMap::new(),
            done: BTreeSet::new(),
            client: None,
        }
    }

    /// Takes lines over until the run has ended and there are no more.
    pub(super) async fn keep(mut self, is_over: impl Fn() -> bool) -> Self {
        loop {
            let is_last = is_over();
            match self.take_over().await {
                Ok(0) if is_last => return self,
                Ok(1000..) => {}
                Ok(_) => sleep(PAUSE).await,
                // The database is down; what it was asked for may be done or not.
                Err(_) => {
                    self.client = None;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<&Client, tokio_postgres::Error> {
        if self.client.is_none() {
            let mut config = Config::new();
            config.host("127.0.0.1").port(self.port).dbname("postgres");
            config.user(USER).password(PASSWORD);
            config.connect_timeout(Duration::from_secs(2));
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            self.client = Some(client);
        }
        Ok(self.client.as_ref().unwrap())
    }

    async fn take_over(&mut self) -> Result<usize, tokio_postgres::Error> {
        let rows = self.connect().await?.query(READ, &[]).await?;
        let mut seen = Vec::new();
        for row in &rows {
            let seq: i64 = row.get(0);
            seen.push(seq);
            if self.done.insert(seq) {
                let line = Line {
                    at: Moment(row.get(1)),
                    kind: row.get(2),
                    key: row.get(3),
                    content: row.get(4),
                    writer: row.get(5),
                };
                self.note(&line);
            }
        }
        self.connect().await?.execute(FORGET, &[&seen]).await?;
        for seq in seen {
            self.done.remove(&seq);
        }
        Ok(rows.len())
    }

    fn note(&mut self, line: &Line) {
        let replica = (0..REPLICAS).find(|replica| role(*replica) == line.writer);
        let Some(replica) = replica else {
            return;
        };
        let content = line.content.as_deref();
        let content: Value = content.map_or(Value::Null, |it| serde_json::from_str(it).unwrap());
        if line.kind == "report" {
            // One that does not count says nothing of which is newer.
            let number = |name: &str| content[name].as_u64();
            if let (Some(boot), Some(seq)) = (number("boot"), number("seq")) {
                let host = numbered(&line.key, "rds");
                let kept = What::Kept {
                    host: host.try_into().unwrap(),
                    boot,
                    seq,
                    replica,
                };
                self.history.note_at(line.at, kept);
            }
            return;
        }
        let user = numbered(&line.key, "u");
        let new = read(&content);
        let old = self.records.insert(user, new.clone()).unwrap_or_default();
        for what in changes(user, (&old, &new), replica, line.at) {
            self.history.note_at(line.at, what);
        }
    }

    /// Leases that hold or linger after this moment, for people.
    pub(super) fn unended(&self, now: Moment) -> Vec<(User, Record)> {
        let is_over = |lease: &Lease| {
            let holders = lease.holders.values().map(|(until, _)| *until);
            holders.chain(lease.lingers).all(|until| until < now)
        };
        let all = self.records.iter();
        let unended = all.filter(|(_, record)| !record.values().all(is_over));
        unended
            .map(|(user, record)| (*user, record.clone()))
            .collect()
    }
}

fn numbered(text: &str, prefix: &str) -> u16 {
    text.strip_prefix(prefix).unwrap().parse().unwrap()
}

fn host(value: &Value) -> Host {
    numbered(value.as_str().unwrap(), "rds").try_into().unwrap()
}

fn moment(value: &Value) -> Option<Moment> {
    Some(Moment(value.as_i64()? * 1000))
}

fn read(record: &Value) -> Record {
    let leases = record["leases"].as_object().into_iter().flatten();
    let leases = leases.map(|(farm, lease)| {
        let farm = FARM_IDS.iter().position(|id| id == farm).unwrap();
        let holders = lease["holders"].as_array().into_iter().flatten();
        let holders = holders.map(|holder| {
            let tunnel = holder["tunnel"].as_str().unwrap().parse().unwrap();
            let until = moment(&holder["until"]).unwrap();
            (tunnel, (until, holder["stood"] == true))
        });
        let replaced = &lease["replaced"];
        let lease = Lease {
            host: host(&lease["host"]),
            lingers: moment(&lease["lingers_until"]),
            replaced: moment(&replaced["until"]).map(|until| (host(&replaced["host"]), until)),
            holders: holders.collect(),
        };
        (Farm::try_from(farm).unwrap(), lease)
    });
    leases.collect()
}

/// What a record had of a host.
fn before(record: &Record, host: Host, now: Moment) -> Before {
    let mut found = Before::Nothing;
    for lease in record.values() {
        if lease
            .replaced
            .is_some_and(|(old, until)| old == host && until > now)
        {
            return Before::Stood;
        }
        if lease.host != host {
            continue;
        }
        let mut live = lease.holders.values().filter(|(until, _)| *until > now);
        if lease.lingers.is_some_and(|until| until > now) || live.clone().any(|(_, stood)| *stood) {
            return Before::Stood;
        }
        if live.next().is_some() {
            found = Before::Claimed;
        }
    }
    found
}

fn changes(user: User, (old, new): (&Record, &Record), replica: Replica, now: Moment) -> Vec<What> {
    let mut changes = Vec::new();
    let known = |record: &Record, farm: Farm, host: Host, tunnel: &Uuid| {
        let lease = record.get(&farm).filter(|lease| lease.host == host);
        lease.and_then(|lease| lease.holders.get(tunnel)).copied()
    };
    for (farm, lease) in old {
        for tunnel in lease.holders.keys() {
            if known(new, *farm, lease.host, tunnel).is_none() {
                let next = new.get(farm).filter(|next| next.host == lease.host);
                changes.push(What::Left {
                    tunnel: *tunnel,
                    host: lease.host,
                    lingers: next.and_then(|next| next.lingers),
                });
            }
        }
    }
    for (farm, lease) in new {
        let host = lease.host;
        for (tunnel, (until, stood)) in &lease.holders {
            let (tunnel, until) = (*tunnel, *until);
            match known(old, *farm, host, &tunnel) {
                None => changes.push(What::Claimed {
                    user,
                    farm: *farm,
                    host,
                    tunnel,
                    replica,
                    until,
                    before: before(old, host, now),
                }),
                Some(earlier) if earlier != (until, *stood) => {
                    changes.push(What::Renewed {
                        tunnel,
                        host,
                        until,
                    });
                }
                Some(_) => {}
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(host: &str, holders: &Value, lingers: Option<i64>) -> Record {
        read(&json!({ "leases": { "lab": {
            "host": host, "lingers_until": lingers, "holders": holders, "replaced": null,
        } } }))
    }

    #[test]
    fn lines_are_read_as_claims_renewals_and_ends() {
        let tunnel = Uuid::from_u128(7);
        let now = Moment(50_000);
        let holder =
            |until: i64, stood: bool| json!([{ "tunnel": tunnel, "until": until, "stood": stood }]);
        let (nothing, claimed) = (Record::new(), record("rds9", &holder(100, false), None));
        let stood = record("rds9", &holder(200, true), None);
        let left = record("rds9", &json!([]), Some(300));
        let until = |until: i64| Moment(until * 1000);
        let claim = |before| What::Claimed {
            user: 3,
            farm: 1,
            host: 9,
            tunnel,
            replica: 2,
            until: until(100),
            before,
        };
        let of = |old: &Record, new: &Record| changes(3, (old, new), 2, now);
        assert_eq!(of(&nothing, &claimed), [claim(Before::Nothing)]);
        assert_eq!(of(&left, &claimed), [claim(Before::Stood)]);
        let renewed = What::Renewed {
            tunnel,
            host: 9,
            until: until(200),
        };
        assert_eq!(of(&claimed, &stood), [renewed]);
        assert_eq!(of(&stood, &stood), []);
        let lingers = |lingers| What::Left {
            tunnel,
            host: 9,
            lingers,
        };
        assert_eq!(of(&stood, &left), [lingers(Some(until(300)))]);
        assert_eq!(of(&stood, &nothing), [lingers(None)]);
        // Elsewhere it is another claim.
        let moved = record("rds8", &holder(200, true), None);
        assert_eq!(of(&stood, &moved).len(), 2);
    }
}
