//! How the broker behaves, seen from outside: the real binary between a scripted Guacamole, a
//! scripted guacd and scripted RDP hosts, all on loopback ports that the system chose.
//!
//! One module a behaviour; the cast is in `support`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests state facts; a panic there is the report"
)]

mod support;

mod suite {
    mod admin;
    mod agent;
    mod api;
    mod asking;
    mod attempts;
    mod audit;
    mod breaker;
    mod canary;
    mod capacity;
    mod carriers;
    mod commands;
    mod demo;
    mod ending;
    mod enrollment;
    mod explain;
    mod faults;
    mod fuzz;
    mod guacd_pool;
    mod guides;
    mod handshake;
    mod health;
    mod heartbeats;
    mod house;
    mod join;
    mod joins_replicas;
    mod keys;
    mod leases;
    mod liars;
    mod lifecycle;
    mod log;
    mod log_places;
    mod malformed;
    mod metrics;
    mod modes;
    mod morning;
    mod observe;
    mod openapi;
    mod overload;
    mod page;
    mod parameters;
    mod paths;
    mod people;
    mod picture;
    mod placement_wire;
    mod proxy;
    mod quiet;
    mod refusals;
    mod relay;
    mod reload;
    mod replicas;
    mod reported;
    mod resolve;
    mod rewrite;
    mod security;
    mod simulation;
    mod stood;
    mod supervised;
    mod symptoms;
    mod tls;
    mod tokens;
    mod upgrade;
    mod wire;
}
