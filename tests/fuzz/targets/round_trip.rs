#![no_main]

libfuzzer_sys::fuzz_target!(
    init: sessionguard_fuzz::plant("round_trip"),
    |input: &[u8]| {
        sessionguard_fuzz::round_trip::run(input);
    }
);
