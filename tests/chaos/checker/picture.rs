//! A history, sorted by what it is about.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::super::history::{
    Before, Connection, Event, Farm, Host, Members, Mode, Moment, OrderId, Replica, Trouble, User,
    Visit, What,
};

/// How long an order that nobody answered for may still be on its way.
const UNHEARD: Duration = Duration::from_secs(20);

/// What a claim lives unless it is renewed, from its decision on.
pub(super) const CLAIM: Duration = Duration::from_secs(45);

/// Clicks that cannot be told apart by the order in which they are seen.
const TOGETHER: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Picture<'a> {
    pub(super) events: &'a [Event],
    pub(super) clicks: BTreeMap<Visit, Click<'a>>,
    pub(super) tunnels: Vec<Tunnel<'a>>,
    pub(super) claims: Vec<Claim<'a>>,
    /// What was written of each tunnel's lease, in order.
    pub(super) written: BTreeMap<Uuid, Vec<&'a Event>>,
    /// In which mode a host certainly was, and by which order.
    pub(super) modes: BTreeMap<Host, Vec<Ruling<'a>>>,
    pub(super) configurations: BTreeMap<Replica, Vec<Configured<'a>>>,
    /// When users were logged on.
    pub(super) sessions: BTreeMap<(Host, User), Vec<Span>>,
    pub(super) troubles: Vec<(Trouble, Option<Replica>, Span)>,
    pub(super) lives: BTreeMap<Replica, Vec<&'a Event>>,
}

/// From a moment up to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Moment,
    pub(super) to: Moment,
}

#[derive(Debug)]
pub(super) struct Click<'a> {
    pub(super) user: User,
    pub(super) farm: Farm,
    pub(super) replica: Replica,
    pub(super) event: &'a Event,
}

/// A connection to guacd that was sent to a host.
#[derive(Debug)]
pub(super) struct Tunnel<'a> {
    pub(super) visit: Visit,
    pub(super) user: User,
    pub(super) farm: Farm,
    pub(super) replica: Replica,
    pub(super) host: Option<Host>,
    /// It lasted from here to there.
    pub(super) span: Span,
    pub(super) sent: &'a Event,
    pub(super) end: Option<&'a Event>,
    /// The claim it was sent by.
    pub(super) claim: Option<usize>,
    /// Between which moments the tunnel of that claim ended: two clicks of a user in one moment at
    /// one replica cannot be told apart by what they claimed.
    pub(super) ends: Span,
}

/// A tunnel's first claim on a host; what is written again of it later is none.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    pub(super) user: User,
    pub(super) farm: Farm,
    pub(super) host: Host,
    pub(super) tunnel: Uuid,
    pub(super) replica: Replica,
    pub(super) before: Before,
    /// When it was written, and when it was decided.
    pub(super) at: Moment,
    pub(super) decided: Moment,
    pub(super) event: &'a Event,
    /// The connection that came of it.
    pub(super) sent: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Ruling<'a> {
    pub(super) mode: Mode,
    /// Which one took the order.
    pub(super) replica: Replica,
    pub(super) span: Span,
    pub(super) ordered: &'a Event,
    pub(super) acknowledged: &'a Event,
}

/// What a replica's files said, possibly in force for so long.
#[derive(Debug)]
pub(super) struct Configured<'a> {
    pub(super) members: &'a Members,
    pub(super) span: Span,
    pub(super) event: &'a Event,
}

impl Span {
    pub(super) fn holds(self, at: Moment) -> bool {
        self.from < at && at < self.to
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.from < other.to && other.from < self.to
    }
}

impl<'a> Picture<'a> {
    pub(super) fn of(events: &'a [Event]) -> Self {
        let mut picture = Self {
            events,
            clicks: BTreeMap::new(),
            tunnels: Vec::new(),
            claims: Vec::new(),
            written: BTreeMap::new(),
            modes: modes(events),
            configurations: configurations(events),
            sessions: sessions(events),
            troubles: troubles(events),
            lives: BTreeMap::new(),
        };
        picture.read();
        picture.link();
        picture.pair();
        picture
    }

    fn read(&mut self) {
        let mut open: BTreeMap<Connection, usize> = BTreeMap::new();
        let mut places: BTreeMap<Uuid, Host> = BTreeMap::new();
        for event in self.events {
            match &event.what {
                What::Clicked {
                    visit,
                    user,
                    farm,
                    replica,
                } => {
                    let (user, farm, replica) = (*user, *farm, *replica);
                    let click = Click {
                        user,
                        farm,
                        replica,
                        event,
                    };
                    self.clicks.insert(*visit, click);
                }
                What::Sent {
                    connection,
                    visit,
                    replica,
                    host,
                } => {
                    let Some(click) = self.clicks.get(visit) else {
                        continue;
                    };
                    open.insert(*connection, self.tunnels.len());
                    self.tunnels.push(Tunnel {
                        visit: *visit,
                        user: click.user,
                        farm: click.farm,
                        replica: *replica,
                        host: *host,
                        span: Span {
                            from: event.at,
                            to: Moment::NEVER,
                        },
                        sent: event,
                        end: None,
                        claim: None,
                        ends: Span {
                            from: Moment::NEVER,
                            to: Moment::NEVER,
                        },
                    });
                }
                What::Closed { connection } => {
                    if let Some(at) = open.remove(connection) {
                        self.tunnels[at].ends(event);
                    }
                }
                What::Up { replica } => self.lives.entry(*replica).or_default().push(event),
                What::Killed { replica } | What::Died { replica, .. } => {
                    self.lives.entry(*replica).or_default().push(event);
                    // Its sockets died with it, whenever guacd gets to see it.
                    open.retain(|_, at| {
                        let is_of = self.tunnels[*at].replica == *replica;
                        if is_of {
                            self.tunnels[*at].ends(event);
                        }
                        !is_of
                    });
                }
                What::Claimed {
                    user,
                    farm,
                    host,
                    tunnel,
                    replica,
                    before,
                    until,
                } => {
                    self.written.entry(*tunnel).or_default().push(event);
                    if places.insert(*tunnel, *host) != Some(*host) {
                        self.claims.push(Claim {
                            user: *user,
                            farm: *farm,
                            host: *host,
                            tunnel: *tunnel,
                            replica: *replica,
                            before: *before,
                            at: event.at,
                            decided: until.minus(CLAIM),
                            event,
                            sent: None,
                        });
                    }
                }
                What::Renewed { tunnel, .. } | What::Left { tunnel, .. } => {
                    self.written.entry(*tunnel).or_default().push(event);
                }
                _ => {}
            }
        }
    }

    /// Finds the claim that each connection was sent by: the last one before it of the same user
    /// by the same replica on the same host that led to no other, if there is one.
    fn link(&mut self) {
        let mut by_place: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, claim) in self.claims.iter().enumerate() {
            let place = (claim.user, claim.farm, claim.replica, claim.host);
            by_place.entry(place).or_default().push(at);
        }
        for (at, tunnel) in self.tunnels.iter_mut().enumerate() {
            let Some(host) = tunnel.host else {
                continue;
            };
            let place = (tunnel.user, tunnel.farm, tunnel.replica, host);
            let claims = by_place.get(&place).into_iter().flatten().rev();
            let mut earlier = claims.filter(|claim| self.claims[**claim].at <= tunnel.span.from);
            let has_left = |event: &&Event| {
                matches!(event.what, What::Left { .. }) && event.at <= tunnel.span.from
            };
            let mut last = earlier.clone().filter(|claim| {
                let written = self.written.get(&self.claims[**claim].tunnel);
                !written.into_iter().flatten().any(has_left)
            });
            let last = last.next();
            if let Some(claim) = earlier.find(|claim| self.claims[**claim].sent.is_none()) {
                tunnel.claim = Some(*claim);
                self.claims[*claim].sent = Some(at);
            } else {
                // guacd is dialled once more for a tunnel whose claim still holds.
                tunnel.claim = last.copied();
            }
        }
    }

    fn pair(&mut self) {
        let mut by_place: BTreeMap<_, Vec<(Moment, Moment)>> = BTreeMap::new();
        let place = |tunnel: &Tunnel<'_>| (tunnel.user, tunnel.farm, tunnel.replica, tunnel.host);
        for tunnel in &self.tunnels {
            let Span { from, to } = tunnel.span;
            by_place.entry(place(tunnel)).or_default().push((from, to));
        }
        for tunnel in &mut self.tunnels {
            let from = tunnel.span.from;
            let twins = by_place[&place(tunnel)].iter().filter(|(sent, _)| {
                let apart = sent.since(from).max(from.since(*sent));
                apart < TOGETHER
            });
            let ends = twins.map(|(_, end)| *end);
            tunnel.ends = Span {
                from: ends.clone().min().unwrap_or(tunnel.span.to),
                to: ends.max().unwrap_or(tunnel.span.to),
            };
        }
    }

    /// The mode that a host certainly had.
    pub(super) fn ruling(&self, host: Host, at: Moment) -> Option<&Ruling<'a>> {
        let rulings = self.modes.get(&host)?;
        rulings.iter().find(|ruling| ruling.span.holds(at))
    }

    /// Whether a user was logged on within this time.
    pub(super) fn was_on(&self, host: Host, user: User, within: Span) -> bool {
        let spans = self.sessions.get(&(host, user)).into_iter().flatten();
        spans.into_iter().any(|span| span.meets(within))
    }

    /// When a replica was in trouble, or the database for all; a while for recovering included.
    pub(super) fn troubles_of(
        &self,
        replica: Replica,
        pause: Duration,
    ) -> impl Iterator<Item = (Trouble, Span)> {
        let theirs = self.troubles.iter();
        let theirs = theirs.filter(move |(_, whose, _)| whose.is_none_or(|it| it == replica));
        theirs.map(move |(of, _, span)| {
            let to = span.to.plus(pause);
            (*of, Span { to, ..*span })
        })
    }

    pub(super) fn is_troubled(&self, replica: Replica, within: Span, pause: Duration) -> bool {
        let mut troubles = self.troubles_of(replica, pause);
        troubles.any(|(_, span)| span.meets(within))
    }
}

impl<'a> Tunnel<'a> {
    fn ends(&mut self, event: &'a Event) {
        self.span.to = event.at;
        self.end = Some(event);
    }

    /// What shows it.
    pub(super) fn events(&self) -> impl Iterator<Item = &'a Event> {
        std::iter::once(self.sent).chain(self.end)
    }
}

/// What each host's orders make certain: from the answer on, until the next order is on its way.
fn modes(events: &[Event]) -> BTreeMap<Host, Vec<Ruling<'_>>> {
    struct Order<'a> {
        host: Host,
        mode: Mode,
        replica: Replica,
        ordered: &'a Event,
        acknowledged: Option<&'a Event>,
    }
    let mut orders: BTreeMap<OrderId, Order<'_>> = BTreeMap::new();
    for event in events {
        match event.what {
            What::Ordered {
                order,
                host,
                mode,
                replica,
            } => {
                let given = Order {
                    host,
                    mode,
                    replica,
                    ordered: event,
                    acknowledged: None,
                };
                orders.insert(order, given);
            }
            What::Acknowledged { order } => {
                if let Some(given) = orders.get_mut(&order) {
                    given.acknowledged = Some(event);
                }
            }
            _ => {}
        }
    }
    let mut modes: BTreeMap<Host, Vec<Ruling<'_>>> = BTreeMap::new();
    let mut unheard: BTreeMap<Host, Moment> = BTreeMap::new();
    for order in orders.values() {
        let rulings = modes.entry(order.host).or_default();
        let sent = order.ordered.at;
        if let Some(last) = rulings.last_mut() {
            last.span.to = last.span.to.min(sent);
        }
        match order.acknowledged {
            Some(acknowledged) if unheard.get(&order.host).is_none_or(|until| *until < sent) => {
                rulings.push(Ruling {
                    mode: order.mode,
                    replica: order.replica,
                    span: Span {
                        from: acknowledged.at,
                        to: Moment::NEVER,
                    },
                    ordered: order.ordered,
                    acknowledged,
                });
            }
            Some(_) => {}
            None => {
                unheard.insert(order.host, sent.plus(UNHEARD));
            }
        }
    }
    modes
}

fn configurations(events: &[Event]) -> BTreeMap<Replica, Vec<Configured<'_>>> {
    let mut all: BTreeMap<Replica, Vec<Configured<'_>>> = BTreeMap::new();
    for event in events {
        match &event.what {
            What::Written { replica, members } => {
                let configured = Configured {
                    members: Arc::as_ref(members),
                    span: Span {
                        from: event.at,
                        to: Moment::NEVER,
                    },
                    event,
                };
                all.entry(*replica).or_default().push(configured);
            }
            // The last one written is in force, and every earlier one no more.
            What::Applied { replica } => {
                if let Some((_, earlier)) =
                    all.get_mut(replica).and_then(|all| all.split_last_mut())
                {
                    for configured in earlier {
                        configured.span.to = configured.span.to.min(event.at);
                    }
                }
            }
            _ => {}
        }
    }
    all
}

fn sessions(events: &[Event]) -> BTreeMap<(Host, User), Vec<Span>> {
    let mut sessions: BTreeMap<_, Vec<Span>> = BTreeMap::new();
    for event in events {
        match event.what {
            What::LoggedOn { host, user } => sessions.entry((host, user)).or_default().push(Span {
                from: event.at,
                to: Moment::NEVER,
            }),
            What::LoggedOff { host, user } => {
                let spans = sessions.entry((host, user)).or_default();
                if let Some(span) = spans.last_mut() {
                    span.to = event.at;
                }
            }
            _ => {}
        }
    }
    sessions
}

fn troubles(events: &[Event]) -> Vec<(Trouble, Option<Replica>, Span)> {
    let mut open = BTreeMap::new();
    let mut over = Vec::new();
    for event in events {
        let (of, replica, begins) = match event.what {
            What::TroubleBegan { of, replica } => (of, replica, true),
            What::TroubleEnded { of, replica } => (of, replica, false),
            What::Killed { replica } | What::Died { replica, .. } => {
                (Trouble::Process, Some(replica), true)
            }
            What::Up { replica } => (Trouble::Process, Some(replica), false),
            _ => continue,
        };
        if begins {
            open.entry((of, replica)).or_insert(event.at);
        } else if let Some(from) = open.remove(&(of, replica)) {
            let to = event.at;
            over.push((of, replica, Span { from, to }));
        }
    }
    let still = open.into_iter().map(|((of, replica), from)| {
        let to = Moment::NEVER;
        (of, replica, Span { from, to })
    });
    over.extend(still);
    over
}
