#![no_main]

libfuzzer_sys::fuzz_target!(
    init: sessionguard_fuzz::plant("configuration"),
    |input: &[u8]| {
        sessionguard_fuzz::configuration::run(input);
    }
);
