//! sessionguard
pub mod placement;
