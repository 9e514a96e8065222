//! Instructions a second: the strict decoder on the small instructions of a handshake, and the
//! framing on a stream as guacd draws it.
//!
//! Both are fed in reads of 16 KiB, as the broker reads. Guacamole moves a few hundred
//! instructions a second for one user.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use guac_protocol::{Decoder, Framing, Instruction, Limits, Side};

const READ: usize = 16_384;

/// The bytes, and how many instructions they hold.
type Stream = (Vec<u8>, u64);
/// Reads the bytes and returns how many instructions it found.
type Reader = fn(&[u8]) -> u64;

fn encode(opcode: &str, args: &[&str]) -> Vec<u8> {
    let instruction = Instruction::new(opcode, args.iter().copied());
    instruction.encode(Side::Guacd).unwrap_or_default()
}

/// A handshake's settings over and over, one in eleven a `connect` of 89 values.
fn handshakes(times: usize) -> Stream {
    let mut values = vec![""; 89];
    for (slot, value) in values.iter_mut().zip(["VERSION_1_5_0", "desk-1", "3389"]) {
        *slot = value;
    }
    let one = [
        encode("select", &["rdp"]),
        encode("size", &["1920", "1080", "96"]),
        encode("audio", &["audio/L8", "audio/L16"]),
        encode("video", &[]),
        encode("image", &["image/jpeg", "image/png", "image/webp"]),
        encode("timezone", &["Europe/Paris"]),
        encode("name", &["älice.müller@example.com"]),
        encode("nop", &[]),
        encode("sync", &["1234567890"]),
        encode("mouse", &["812", "377", "0"]),
        encode("connect", &values),
    ];
    (one.concat().repeat(times), (one.len() * times) as u64)
}

/// Frames of drawing: a few small instructions around an image of 6 KB, then `sync`.
fn frames(times: usize) -> Stream {
    let image = "iVBORw0KGgoAAAANSUhEUgAAA".repeat(240);
    let one = [
        encode("img", &["3", "14", "0", "image/png", "512", "64"]),
        encode("blob", &["3", &image]),
        encode("end", &["3"]),
        encode("rect", &["0", "0", "0", "1024", "768"]),
        encode("cfill", &["14", "0", "0", "0", "0", "255"]),
        encode("copy", &["0", "0", "0", "64", "64", "14", "0", "64", "0"]),
        encode("cursor", &["0", "0", "-2", "0", "0", "32", "32"]),
        encode("mouse", &["812", "377", "0", "929275"]),
        encode("sync", &["929275", "1"]),
    ];
    (one.concat().repeat(times), (one.len() * times) as u64)
}

fn decode_all(stream: &[u8]) -> u64 {
    let mut decoder = Decoder::new(Limits::HANDSHAKE);
    let mut count = 0;
    for read in stream.chunks(READ) {
        let mut rest = read;
        while let Ok(decoded) = decoder.decode(rest) {
            let Some(instruction) = decoded.instruction else {
                break;
            };
            black_box(instruction);
            count += 1;
            rest = rest.get(decoded.consumed..).unwrap_or_default();
        }
    }
    count
}

fn scan_all(stream: &[u8]) -> u64 {
    let mut framing = Framing::new();
    let mut count = 0;
    for read in stream.chunks(READ) {
        let scanned = framing.scan(read, |seen| {
            black_box(seen.opcode());
            count += 1;
        });
        assert!(scanned.is_ok(), "the stream is sound");
    }
    count
}

fn bench(criterion: &mut Criterion) {
    let cases: [(&str, Stream, Reader); 3] = [
        ("decode/handshakes", handshakes(100), decode_all),
        ("framing/handshakes", handshakes(100), scan_all),
        ("framing/frames", frames(100), scan_all),
    ];
    for (name, (stream, instructions), run) in cases {
        assert_eq!(run(&stream), instructions, "all are counted");
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(instructions));
        group.bench_function("instructions", |b| b.iter(|| run(black_box(&stream))));
        group.throughput(Throughput::Bytes(stream.len() as u64));
        group.bench_function("bytes", |b| b.iter(|| run(black_box(&stream))));
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(std::time::Duration::from_millis(500))
        .measurement_time(std::time::Duration::from_secs(2));
    targets = bench
}
criterion_main!(benches);
