//! Does what the plan says, and notes when a replica or its way to the database is in trouble.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::{World, http};
use crate::chaos::history::{Farm, Host, Members, Mode, Replica, Trouble, What};
use crate::chaos::plan::{Fault, REPLICAS};
use crate::support::Way;

/// An administrator waits longer for an answer than any trouble lasts.
const PATIENCE: Duration = Duration::from_secs(25);

/// How long an administrator tries to put a host online again.
const INSISTS: Duration = Duration::from_secs(90);

/// A farm with fewer hosts has no room for its users.
const FEWEST: usize = 5;

impl World {
    /// Until all of it is over.
    pub(in crate::chaos) async fn suffer(self: &Arc<Self>, fault: Fault) {
        match fault {
            Fault::Kill { replica, down } => {
                self.process(replica).kill(down);
                sleep(down).await;
            }
            Fault::Pause { replica, span } => {
                self.begins(Trouble::Process, Some(replica));
                self.process(replica).stand_still();
                sleep(span).await;
                self.process(replica).go_on();
                self.ends(Trouble::Process, Some(replica));
            }
            Fault::Database { immediate, down } => self.restart(immediate, down).await,
            Fault::Cut { replica } => {
                self.begins(Trouble::Store, Some(replica));
                let world = Arc::clone(self);
                let reset = move || world.proxies[usize::from(replica)].reset();
                spawn_blocking(reset).await.unwrap();
                self.ends(Trouble::Store, Some(replica));
            }
            Fault::Stall {
                replica,
                out,
                back,
                span,
            } => {
                self.begins(Trouble::Store, Some(replica));
                let proxy = &self.proxies[usize::from(replica)];
                for (way, stalls) in [(Way::Out, out), (Way::Back, back)] {
                    if stalls {
                        proxy.stall(way);
                    }
                }
                sleep(span).await;
                proxy.flow();
                self.ends(Trouble::Store, Some(replica));
            }
            Fault::Order {
                host,
                mode,
                through,
                span,
            } => {
                self.order(host, mode, through).await;
                sleep(span).await;
                self.online(host, through).await;
            }
            Fault::Reload { host, farm, apart } => self.reload(host, farm, apart).await,
            Fault::Spoil { span } => {
                for process in &self.replicas {
                    process.files.spoil();
                }
                sleep(span).await;
                for process in &self.replicas {
                    process.files.mend();
                }
            }
        }
    }

    fn process(&self, replica: Replica) -> &super::replica::Process {
        &self.replicas[usize::from(replica)]
    }

    fn begins(&self, of: Trouble, replica: Option<Replica>) {
        self.history.note(What::TroubleBegan { of, replica });
    }

    fn ends(&self, of: Trouble, replica: Option<Replica>) {
        self.history.note(What::TroubleEnded { of, replica });
    }

    async fn restart(self: &Arc<Self>, immediate: bool, down: Duration) {
        self.begins(Trouble::Store, None);
        let server = Arc::clone(&self.server);
        let stop = move || server.lock().unwrap().stop(immediate);
        spawn_blocking(stop).await.unwrap();
        sleep(down).await;
        let server = Arc::clone(&self.server);
        let start = move || server.lock().unwrap().start_again();
        spawn_blocking(start).await.unwrap();
        self.ends(Trouble::Store, None);
    }

    /// Gives an order; whether it was acknowledged.
    async fn order(&self, host: Host, mode: Mode, through: Replica) -> bool {
        let order = self.next_order();
        let path = format!("/api/v1/hosts/rds{host}");
        let wish = json!({ "mode": mode.as_str(), "reason": "chaos", "force": true });
        let socket = self.process(through).files.socket();
        self.history.note(What::Ordered {
            order,
            host,
            mode,
            replica: through,
        });
        let answer = http::ask(&socket, ("PATCH", &path), "", &wish, PATIENCE).await;
        let is_done = matches!(answer, Ok((200, _)));
        if is_done {
            self.history.note(What::Acknowledged { order });
        }
        is_done
    }

    /// Puts a host online again, through whichever replica does it.
    pub(in crate::chaos) async fn online(&self, host: Host, first: Replica) {
        let until = Instant::now() + INSISTS;
        let mut through = first;
        while !self.order(host, Mode::Online, through).await {
            through = (through + 1) % REPLICAS;
            assert!(Instant::now() < until, "rds{host} cannot be put online");
            sleep(Duration::from_millis(300)).await;
        }
    }

    async fn reload(&self, host: Host, farm: Farm, apart: Duration) {
        let members = {
            let mut members = self.members.lock().unwrap();
            if !toggle(&mut members, host, farm) {
                return;
            }
            Arc::new(members.clone())
        };
        self.write(&members, apart).await;
    }

    /// Every replica's files say so, one after the other.
    pub(in crate::chaos) async fn write(&self, members: &Arc<Members>, apart: Duration) {
        for process in &self.replicas {
            process.files.write(members);
            sleep(apart).await;
        }
    }
}

/// Puts a host into a farm or takes it out; false, and nothing, where too few would be left.
fn toggle(members: &mut Members, host: Host, farm: Farm) -> bool {
    let elsewhere = members
        .iter()
        .any(|(other, hosts)| *other != farm && hosts.contains(&host));
    let hosts = members.get_mut(&farm).unwrap();
    if !hosts.contains(&host) {
        return hosts.insert(host);
    }
    elsewhere && hosts.len() > FEWEST && hosts.remove(&host)
}
