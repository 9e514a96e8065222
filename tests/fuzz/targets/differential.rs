#![no_main]

libfuzzer_sys::fuzz_target!(
    init: sessionguard_fuzz::plant("differential"),
    |input: &[u8]| {
        sessionguard_fuzz::differential::run(input);
    }
);
