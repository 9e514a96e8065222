//! Behaviour, as worked examples and laws. Every example builds its whole
//! farm in one block with the words of [`build`]; every law is tried on farms
//! nobody would build on purpose.

mod build;
mod cases;

mod farms;
mod fresh;
mod health;
mod identity_laws;
mod keys;
mod laws;
mod leases;
mod load;
mod membership;
mod put_back;
mod reconnect;
mod record;
mod record_laws;
mod refusals;
mod resources;
mod score;
mod ties;
mod tunnels;
