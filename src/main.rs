//! front door
fn main() {}
