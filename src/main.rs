//! The front door: reads the command line and lets the library do the rest.

use std::alloc::System;
use std::process::ExitCode;

use clap::Parser;
use sessionguard::cli::Cli;
use zeroizing_alloc::ZeroAlloc;

/// Wipes what is freed. A password is copied many times on its way, by libraries too, and by
/// every buffer that grows: none of the copies stays behind.
#[global_allocator]
static ALLOCATOR: ZeroAlloc<System> = ZeroAlloc(System);

fn main() -> ExitCode {
    Cli::parse().run()
}
