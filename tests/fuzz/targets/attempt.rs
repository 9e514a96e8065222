#![no_main]

libfuzzer_sys::fuzz_target!(
    init: sessionguard_fuzz::plant("attempt"),
    |input: &[u8]| {
        sessionguard_fuzz::attempt::run(input);
    }
);
