//! What is said between two processes of which one takes over from the other. A
//! later release may add to it; what it adds is passed over.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::replicas::Question;
use crate::store::{Call, Told};

/// What whoever dials wants.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Hello {
    /// To take over.
    TakeOver { store: Kept },
    /// To go on beside us until its tunnels have ended.
    Beside {
        store: Kept,
        /// Where it takes joins of its tunnels.
        joins: Option<SocketAddr>,
    },
}

/// Where the store is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kept {
    /// In this file.
    File(PathBuf),
    /// In a database.
    Database,
}

/// A taking over, as the new process says it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Wish {
    /// Close the store's file.
    Release,
    /// Accept no more: from now on I do.
    Ready,
}

/// The same, as the old one says it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Word {
    /// The listening sockets, which come beside it in this order.
    Offer { sockets: Vec<Socket> },
    /// The file is closed.
    Released,
    /// Accepts no more.
    Stopped,
    /// It will not be.
    Refused { reason: String },
}

/// What a listening socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Socket {
    /// For whoever listens on its address.
    Tcp,
    /// The admin socket.
    Admin,
}

/// What the old process says for as long as it has tunnels.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Old {
    /// A call of the store.
    Call(u64, Box<Call>),
    /// The answer to a question.
    Answer(u64, serde_json::Value),
}

/// What the new one says to it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum New {
    /// It may go on.
    Welcome,
    /// It may not.
    Refused { reason: String },
    /// What came of a call.
    Told(u64, Box<Told>),
    /// A question.
    Ask(u64, Question),
    /// Every call that was read is answered; somebody else takes over here.
    Leaving,
}
