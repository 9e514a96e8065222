#![no_main]

libfuzzer_sys::fuzz_target!(
    init: sessionguard_fuzz::plant("rewrite"),
    |input: &[u8]| {
        sessionguard_fuzz::rewrite::run(input);
    }
);
