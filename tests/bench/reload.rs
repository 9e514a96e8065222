//! A reload of 1,000 hosts and 5,000 resources, from the text to the decision
//! that sees it: read and checked, compared with what was in force, applied.

#![allow(
    clippy::panic,
    reason = "a benchmark that cannot be set up has no figure"
)]

mod farm;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion};
use sessionguard::config::{Config, change};
use sessionguard::fleet::Fleet;
use sessionguard::placement::Timestamp;

const HOSTS: u32 = 1_000;
const RESOURCES: u32 = 5_000;

fn reload(criterion: &mut Criterion) {
    let text = farm::toml("", HOSTS, RESOURCES);
    // One host less, one resource more: what a reload usually is.
    let other = farm::toml("", HOSTS - 1, RESOURCES + 1);
    let (before, after) = (farm::loaded(&text), farm::loaded(&other));
    let mut group = criterion.benchmark_group("reload, 1,000 hosts, 5,000 resources");
    group.sample_size(20);
    group.bench_function("read and check", |bencher| {
        bencher.iter(|| farm::loaded(black_box(&other)));
    });
    group.bench_function("compare", |bencher| {
        bencher.iter(|| change(black_box(&before), black_box(&after)));
    });
    group.bench_function("apply", |bencher| {
        bencher.iter_batched(
            || Fleet::new(Arc::clone(&before.directory)),
            |fleet| fleet.apply(Arc::clone(&after.directory), Timestamp::default()),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("all of it", |bencher| {
        bencher.iter_batched(
            || Fleet::new(Arc::clone(&before.directory)),
            |fleet| {
                let after: Config = farm::loaded(black_box(&other));
                black_box(change(&before, &after));
                fleet.apply(after.directory, Timestamp::default())
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    reload(&mut criterion);
    criterion.final_summary();
}
