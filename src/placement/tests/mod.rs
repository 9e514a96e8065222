//! Behaviour, as worked examples and laws. Every example builds its whole
//! farm in one block with the words of [`build`]; every law is tried on farms
//! nobody would build on purpose.

mod build;
mod cases;

mod breaker;
mod breaker_laws;
mod capacity;
mod capacity_laws;
mod carriers;
mod count_laws;
mod defaults;
mod doubt;
mod doubt_laws;
mod farms;
mod first_report;
mod fresh;
mod health;
mod hearing;
mod history;
mod identity_laws;
mod keys;
mod laws;
mod leases;
mod lingering;
mod load;
mod membership;
mod modes;
mod people;
mod put_back;
mod reconnect;
mod record;
mod record_laws;
mod refusals;
mod reported;
mod resources;
mod score;
mod silence;
mod slow_start;
mod ties;
mod tried;
mod trust;
mod trust_laws;
mod tunnels;
mod tunnels_cap;
mod who;
mod who_laws;
