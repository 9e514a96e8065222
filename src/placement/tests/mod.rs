//! Behaviour
