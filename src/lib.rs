//! sessionguard: a connection broker between Apache Guacamole and guacd.
//!
//! ```text
//!            select, connect                          connect, rewritten
//! Guacamole ----------------->  tunnel  ------------------------------->  guacd --> host
//!                                 | request    ^ placement
//!                                 v            |
//!                               broker  ---->  placement::decide
//!                                 |              ^
//!                                 | claim        | snapshot
//!                                 v              |
//!                               store          fleet  <-- probes, own tunnels, leases, reports
//! ```
//!
//! The rooms, in the order a connection walks through them:

pub mod cli;

pub mod app;

// What this process may have open, and who gets how much of it.
pub mod descriptors;

// Where everybody comes in: one loop for every listener.
pub mod entrance;

// The data path: one Guacamole connection, one file a step.
pub mod tunnel;

// What is shown on either leg, and how the other side is known.
pub mod tls;

// From a request to a claimed place on a host.
pub mod broker;

// The thinking, pure: which host, and why.
pub mod placement;

// The memory: lease records that outlive the process.
pub mod store;

// The live picture of every host.
pub mod fleet;

// Who else shares our store, and whose a connection id is.
pub mod replicas;

// From one version to the next: listeners and store change hands, tunnels go on.
pub mod succession;

// Who may: keys, from making to revoking.
pub mod keys;
// From what agents say to the live picture, to disk and back.
pub mod reports;

// What other replicas wrote, from the store to every room.
pub mod follow;

// What agents are asked to do, until they say what came of it.
pub mod commands;

// Whoever asks the running broker: why, how it is, to reload.
pub mod api;

// Files in, one checked configuration out.
pub mod config;

// The show without installation: the real broker between scripted neighbours.
pub mod demo;

// On a host, beside no broker: reports its sessions, load and health.
pub mod agent;

// What is counted and measured, for Prometheus.
pub mod metrics;

/// What was decided, one line each, for a log collector.
pub mod audit;

// A file that grows by lines and that others may move away.
pub mod appended;

pub mod clock;
pub mod logging;
// One trace a connection, for who collects them.
pub mod panics;
pub mod privacy;
pub mod shutdown;
pub mod supervisor;
#[cfg(feature = "otel")]
pub mod traces;
pub mod x224;
