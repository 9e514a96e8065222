use std::collections::*; use std::sync::Arc; use std::time::*;
use sessionguard::{broker::*, placement::{self,*}, store::Embedded, clock::Clock, audit::Audit, config::AuditTarget};
fn snap(n: usize) -> Snapshot {
    let hosts: Vec<Host> = (0..n).map(|i| Host{ id: format!("rds-{i:03}").into(), address: format!("10.0.0.{i}"), port:3389, farm_ids: vec!["office".into()], tags: BTreeMap::new(), mode: Mode::Online, max_sessions: None, max_pending_logons: None, parameters: Default::default()}).collect();
    let farm = Farm{ id:"office".into(), name:"o".into(), enabled:true, agent_ids: vec![], required_tags: BTreeMap::new(), overrides: Default::default()};
    let r = Resource{ id:"desk".into(), name:"d".into(), kind: ResourceKind::Desktop, farm_id: Some("office".into()), enabled:true, guacamole_connection_id:None, guacamole_connection_name:None, source:None, hostnames: vec![], load_balance_info:None, keep_parameters: BTreeSet::new(), parameters: Default::default()};
    let views = hosts.iter().map(|h| (h.id.clone(), Arc::new(HostView{ probe: placement::Probe::Answering{since: Timestamp::from_millis(1)}, ..Default::default()}))).collect();
    Snapshot{ generation: 1, configuration:1, directory: Arc::new(Directory::new(Rules::default(), hosts, [farm],[r])), hosts: views, people: Default::default()}
}
#[tokio::main]
async fn main() {
    for n in [3usize, 10, 100, 500] {
        let s = snap(n);
        let req = Request{ carriers: Carriers{ resource: Some("desk".into()), ..Default::default()}, claims: Claims{ username: "CORP\\ann".into(), ..Default::default()}};
        let now = Timestamp::from_millis(1_764_000_000_000);
        let rounds = 20_000 / n.max(10);
        let t = Instant::now();
        for _ in 0..rounds { std::hint::black_box(decide(&s, &req, &LeaseRecord::default(), now)); }
        let d = t.elapsed()/rounds as u32;
        let folder = std::env::temp_dir().join(format!("cost{n}")); let _ = std::fs::remove_dir_all(&folder);
        let store = Arc::new(Embedded::open(&folder.join("s.redb")).unwrap());
        let clock = Clock::start();
        let audit = Audit::open(&AuditTarget::File(folder.join("a.jsonl"))).unwrap().unwrap();
        let (decisions, recorder) = Decisions::stored(store.clone(), Some(audit.0), clock);
        let stop = tokio_util::sync::CancellationToken::new();
        let rec = tokio::spawn(recorder.run(stop.clone()));
        let answers: Vec<_> = (0..rounds).map(|i| Answer{ id: DecisionId::parse(&format!("019a22b1-0000-7000-8000-{i:012x}")).unwrap(), decision: decide(&s,&req,&LeaseRecord::default(),now), directory: s.directory.clone(), configuration:1, hold: None}).collect();
        let (mut total, mut worst) = (Duration::ZERO, Duration::ZERO);
        for a in &answers {
            let t = Instant::now();
            let r = Record::of(a, Act::Placement, Asked::from(&req), now).by(&"01234567-tunnel".into()).with(Rewritten::default());
            decisions.keep(r);
            let e = t.elapsed(); total += e; worst = worst.max(e);
            if n == 10 { tokio::time::sleep(Duration::from_micros(300)).await; }
        }
        let t = Instant::now(); stop.cancel(); rec.await.unwrap();
        println!("{n} hosts: decide {d:?}, keep {:?} mean, {worst:?} worst, flush {:?}, lost {:?}, file {} KiB for {rounds}", total/rounds as u32, t.elapsed(), decisions.losses(), std::fs::metadata(folder.join("s.redb")).unwrap().len()/1024);
        let one = decisions.newest(None, 1).await.unwrap(); println!("   json {} bytes", serde_json::to_string(&*one[0]).unwrap().len());
    }
    // full: 200_000 rows of 10 hosts
    use sessionguard::store::{Archive, Kept, Bounds, Store};
    let folder = std::env::temp_dir().join("costfull"); let _ = std::fs::remove_dir_all(&folder);
    let store = Arc::new(Embedded::open(&folder.join("s.redb")).unwrap());
    let t = Instant::now();
    for b in 0..800u128 { 
        let v = (0..256u128).map(|i| Kept{ id: ((1_764_000_000_000 + b*256+i) << 80) | i, names: vec![format!("corp\\u{}", i), format!("u{}", i)], json: "x".repeat(2600)}).collect();
        store.keep(v, b%20==19).await.unwrap();
    }
    println!("204800 rows kept in {:?}, file {} MiB", t.elapsed(), std::fs::metadata(folder.join("s.redb")).unwrap().len()>>20);
    let key = placement::LeaseKey::of_user(&UserKey::new("ann","corp").unwrap());
    let t = Instant::now(); for _ in 0..200 { store.read(&key).await.unwrap(); } println!("lease read {:?}", t.elapsed()/200);
    let t = Instant::now(); let l = store.decisions(Some("u7"), 500).await.unwrap().len(); println!("{l} by name in {:?}", t.elapsed());
    let t = Instant::now(); let l = store.decisions(None, 500).await.unwrap().len(); println!("{l} newest in {:?}", t.elapsed());
    let bounds = Bounds{ since: Timestamp::from_millis(0), rows: 200_000, bytes: u64::MAX };
    let mut worst = Duration::ZERO; let mut n = 0; loop { let t = Instant::now(); let c = store.prune(bounds).await.unwrap(); worst = worst.max(t.elapsed()); n += c; if c == 0 {break} }
    println!("pruned {n}, worst batch {worst:?}");
}
