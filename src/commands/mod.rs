//! What administrators ask of agents: kept until the agent says what came of
//! it, or until it is too late.
//!
//! ```text
//! order -> store -> waiting -> (each heartbeat's answer) -> delivered
//!                      |                                        |
//!                      +--> expired                   result -> done
//! ```
//!
//! An agent carries a command out once, however often it is delivered: its id
//! is the same every time. One that is asked for again while it waits is the
//! same command.

mod command;
mod order;
mod queue;

pub use command::{Command, CommandId, CommandKind, Outcome, State, Target};
pub use order::{Order, OrderError};
pub use queue::{CommandError, Commands, Ordered};

#[cfg(test)]
mod tests;
