#![no_main]

libfuzzer_sys::fuzz_target!(
    init: sessionguard_fuzz::plant("decode"),
    |input: &[u8]| {
        sessionguard_fuzz::decode::run(input);
    }
);
