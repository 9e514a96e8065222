#![no_main]

libfuzzer_sys::fuzz_target!(
    init: sessionguard_fuzz::plant("handshake"),
    |input: &[u8]| {
        sessionguard_fuzz::handshake::run(input);
    }
);
