//! What administrators ask of agents: kept until the agent says what came of
//! it, or until it is too late.
//!
//! ```text
//! wish -> store -> waiting -> (each heartbeat's answer) -> delivered
//!                      |                                        |
//!                      +--> expired                   result -> done
//! ```
//!
//! Where replicas share the store, whichever of them the agent speaks to hands
//! the command out and hears what came of it, and the others learn of both.
//!
//! An agent carries a command out once, however often it is delivered: its id
//! is the same every time. One that is asked for again while it waits is the
//! same command.

mod command;
mod elsewhere;
mod queue;
mod restarts;
mod wish;

pub use command::{Command, CommandId, CommandKind, Drain, Outcome, State, Target};
pub use queue::{Asked, CommandError, Commands};
pub use restarts::Restarts;
pub use wish::{Wish, WishError};

#[cfg(test)]
mod tests;
