//! sessionguard
pub mod clock;
pub mod placement;
pub mod store;
pub mod fleet;
pub mod broker;
pub mod tunnel;
