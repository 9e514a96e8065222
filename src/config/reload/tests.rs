//! The reloader without a process around it: what is applied, what is refused,
//! what is said, and by which ways it notices.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Mutex;

use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;

const LONG: Duration = Duration::from_secs(3600);
const DEADLINE: Duration = Duration::from_secs(20);

struct House {
    folder: TempDir,
    reload: Reload,
    /// Lease seconds of each generation, in order.
    applied: Arc<Mutex<Vec<u64>>>,
    task: JoinHandle<()>,
}

fn lease(config: &Config) -> u64 {
    config.directory.rules().lease.as_secs()
}

fn seconds(lease: u64) -> String {
    format!("[broker]\nlease_seconds = {lease}\n")
}

impl House {
    /// Looks when asked and at nothing else.
    async fn deaf() -> Self {
        Self::at(Pace {
            quiet: Duration::from_millis(10),
            at_most: LONG,
            poll: LONG,
        })
        .await
    }

    async fn at(pace: Pace) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("main.toml"), seconds(100)).unwrap();
        Self::on(folder, pace).await
    }

    async fn on(folder: TempDir, pace: Pace) -> Self {
        let main = folder.path().join("main.toml");
        let origin = Origin::of(&main);
        let config = Arc::new(load(&main, []).unwrap().config);
        let applied = Arc::new(Mutex::new(vec![lease(&config)]));
        let seen = Arc::clone(&applied);
        let apply: Apply = Box::new(move |config| {
            let mut seen = seen.lock().unwrap();
            seen.push(lease(config));
            u64::try_from(seen.len()).unwrap()
        });
        let (mut reloader, reload) = Reloader::new(origin, config, 1, apply);
        reloader.pace = pace;
        let house = Self {
            folder,
            reload,
            applied,
            task: tokio::spawn(reloader.run()),
        };
        // It has begun to watch once a question is answered.
        assert_eq!(house.ask().await, Reloaded::Unchanged { generation: 1 });
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    async fn ask(&self) -> Reloaded {
        self.reload.now(Cause::Request).await.reloaded
    }

    fn applied(&self) -> Vec<u64> {
        self.applied.lock().unwrap().clone()
    }

    /// Waits until it has read what is in force now.
    async fn becomes(&self, lease: u64) {
        let wait = async {
            while self.applied().last() != Some(&lease) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(
            timeout(DEADLINE, wait).await.is_ok(),
            "{:?}",
            self.applied()
        );
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is wrong, in one text.
fn refused(result: Reloaded) -> String {
    match result {
        Reloaded::Refused { findings, .. } => findings.join("\n"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_same_contents_are_nothing_new() {
    let house = House::deaf().await;
    assert_eq!(house.ask().await, Reloaded::Unchanged { generation: 1 });
    house.write("main.toml", seconds(100));
    assert_eq!(house.ask().await, Reloaded::Unchanged { generation: 1 });
    house.write("main.toml", format!("# a comment\n{}", seconds(100)));
    assert_eq!(house.ask().await, Reloaded::Unchanged { generation: 1 });
    assert_eq!(house.applied(), [100]);
}

#[tokio::test]
async fn a_good_edit_is_one_more_generation() {
    let house = House::deaf().await;
    house.write("main.toml", seconds(200));
    let Reloaded::Applied {
        generation,
        changes,
    } = house.ask().await
    else {
        panic!()
    };
    assert_eq!(generation, 2);
    assert_eq!(changes.settings, ["broker.lease_seconds"]);
    assert_eq!(house.applied(), [100, 200]);
    let state = house.reload.state();
    assert!(state.is_ok() && state.generation == 2);
    assert_eq!(state.attempt.unwrap().cause, Cause::Request);
}

#[tokio::test]
async fn a_fault_changes_nothing_and_is_kept_until_it_is_gone() {
    let house = House::deaf().await;
    house.write("main.toml", "[broker]\nlease_secnds = 3\n");
    let said = refused(house.ask().await);
    assert!(said.contains("main.toml:2:1: fault"), "{said}");
    let state = house.reload.state();
    assert_eq!((state.is_ok(), state.generation), (false, 1));
    assert_eq!(state.findings().join("\n"), said);
    // The same again: the same answer, and no second attempt.
    assert_eq!(refused(house.ask().await), said);
    assert_eq!(house.reload.state().attempt, state.attempt);
    house.write("main.toml", seconds(300));
    assert!(matches!(
        house.ask().await,
        Reloaded::Applied { generation: 2, .. }
    ));
    assert!(house.reload.state().is_ok());
    assert_eq!(house.applied(), [100, 300]);
}

#[tokio::test]
async fn a_fault_taken_back_is_forgotten() {
    let house = House::deaf().await;
    house.write("main.toml", "broken");
    refused(house.ask().await);
    house.write("main.toml", seconds(100));
    assert_eq!(house.ask().await, Reloaded::Unchanged { generation: 1 });
    assert!(house.reload.state().is_ok());
    house.write("main.toml", "broken");
    refused(house.ask().await);
    assert!(!house.reload.state().is_ok());
}

#[tokio::test]
async fn a_file_cut_to_nothing_is_not_taken_for_all_defaults() {
    let house = House::deaf().await;
    for nothing in ["", "\n  \n"] {
        house.write("main.toml", nothing);
        let said = refused(house.ask().await);
        assert!(
            said.contains("main.toml") && said.contains("empty"),
            "{said}"
        );
    }
    fs::create_dir(house.path("conf.d")).unwrap();
    house.write("conf.d/a.toml", seconds(200));
    let said = refused(house.ask().await);
    assert!(said.contains("main.toml"), "{said}");
    // That it is meant can be said.
    house.write("main.toml", "# all in conf.d\n");
    assert!(matches!(house.ask().await, Reloaded::Applied { .. }));
    house.write("conf.d/a.toml", "");
    refused(house.ask().await);
    fs::remove_file(house.path("conf.d/a.toml")).unwrap();
    assert!(matches!(house.ask().await, Reloaded::Applied { .. }));
    assert_eq!(house.applied(), [100, 200, 900]);
}

#[tokio::test]
async fn files_that_are_gone_or_unreadable_change_nothing() {
    let house = House::deaf().await;
    fs::remove_file(house.path("main.toml")).unwrap();
    refused(house.ask().await);
    house.write("main.toml", [0xff, 0xfe]);
    refused(house.ask().await);
    house.write("conf.d", "no directory");
    refused(house.ask().await);
    assert_eq!(house.applied(), [100]);
}

#[tokio::test]
async fn what_needs_a_restart_is_kept_in_the_state() {
    let house = House::deaf().await;
    let elsewhere = "[store]\npath = \"/elsewhere\"\n";
    house.write("main.toml", format!("{}{elsewhere}", seconds(100)));
    let Reloaded::Applied {
        generation,
        changes,
    } = house.ask().await
    else {
        panic!()
    };
    assert_eq!((generation, &changes.restart[..]), (1, &["store"][..]));
    assert_eq!(house.reload.state().restart, ["store"]);
    house.write("main.toml", format!("{}{elsewhere}", seconds(200)));
    assert!(matches!(
        house.ask().await,
        Reloaded::Applied { generation: 2, .. }
    ));
    assert_eq!(house.reload.state().restart, ["store"]);
    house.write("main.toml", seconds(200));
    house.ask().await;
    assert!(house.reload.state().restart.is_empty());
}

#[tokio::test]
async fn what_changed_since_the_load_is_found_at_the_start() {
    let folder = TempDir::new().unwrap();
    let main = folder.path().join("main.toml");
    fs::write(&main, seconds(100)).unwrap();
    let house = House::deaf().await;
    // As if the load had come before the edit.
    let origin = Origin::of(&main);
    fs::write(&main, seconds(200)).unwrap();
    let (told, mut tellings) = mpsc::channel(1);
    let apply: Apply = Box::new(move |config| {
        told.try_send(lease(config)).unwrap();
        2
    });
    let config = Arc::new(load(&house.path("main.toml"), []).unwrap().config);
    let (reloader, _reload) = Reloader::new(origin, config, 1, apply);
    let task = tokio::spawn(reloader.run());
    assert_eq!(timeout(DEADLINE, tellings.recv()).await.unwrap(), Some(200));
    task.abort();
}

#[tokio::test]
async fn an_edit_is_noticed_by_itself() {
    let house = House::at(Pace {
        poll: LONG,
        ..Pace::default()
    })
    .await;
    house.write("main.toml", seconds(200));
    house.becomes(200).await;
    fs::create_dir(house.path("conf.d")).unwrap();
    house.write("conf.d/a.toml", seconds(300));
    house.becomes(300).await;
    house.write("conf.d/a.toml", seconds(400));
    house.becomes(400).await;
    // As an editor does it that writes aside and renames.
    house.write("conf.d/.a.toml.swp", seconds(500));
    fs::rename(
        house.path("conf.d/.a.toml.swp"),
        house.path("conf.d/a.toml"),
    )
    .unwrap();
    house.becomes(500).await;
    fs::remove_dir_all(house.path("conf.d")).unwrap();
    house.becomes(200).await;
    assert_eq!(house.reload.state().attempt.unwrap().cause, Cause::Files);
}

/// A new version, as Kubernetes mounts it: a directory of its own, and a link
/// to it that is swapped in one step; the version before is swept away.
fn mount(folder: &Path, nth: u64, lease: u64) {
    let version = folder.join(format!("..v{nth}"));
    fs::create_dir(&version).unwrap();
    fs::write(version.join("main.toml"), seconds(lease)).unwrap();
    symlink(format!("..v{nth}"), folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    if nth > 1 {
        fs::remove_dir_all(folder.join(format!("..v{}", nth - 1))).unwrap();
    }
}

#[tokio::test]
async fn the_swap_of_a_link_is_noticed_again_and_again() {
    let folder = TempDir::new().unwrap();
    mount(folder.path(), 1, 100);
    symlink("..data/main.toml", folder.path().join("main.toml")).unwrap();
    let house = House::on(
        folder,
        Pace {
            poll: LONG,
            ..Pace::default()
        },
    )
    .await;
    house.ask().await;
    for nth in 2..5 {
        mount(house.folder.path(), nth, 100 * nth);
        house.becomes(100 * nth).await;
    }
}

#[tokio::test]
async fn a_file_elsewhere_that_a_name_leads_to_is_noticed() {
    let elsewhere = TempDir::new().unwrap();
    let real = elsewhere.path().join("real.toml");
    fs::write(&real, seconds(100)).unwrap();
    let folder = TempDir::new().unwrap();
    symlink(&real, folder.path().join("main.toml")).unwrap();
    let house = House::on(
        folder,
        Pace {
            poll: LONG,
            ..Pace::default()
        },
    )
    .await;
    house.ask().await;
    fs::write(&real, seconds(200)).unwrap();
    house.becomes(200).await;
}

#[tokio::test]
async fn what_no_event_tells_of_is_found_by_the_poll() {
    // A directory that is swapped as a whole: what is watched is the old one.
    let folder = TempDir::new().unwrap();
    let house = House::at(Pace {
        poll: Duration::from_millis(50),
        ..Pace::default()
    })
    .await;
    for (version, lease) in [("one", 100), ("two", 200)] {
        fs::create_dir(folder.path().join(version)).unwrap();
        fs::write(
            folder.path().join(version).join("main.toml"),
            seconds(lease),
        )
        .unwrap();
    }
    symlink("one", folder.path().join("current")).unwrap();
    let origin = Origin::of(&folder.path().join("current/main.toml"));
    let config = Arc::new(load(&origin.path, []).unwrap().config);
    let seen = Arc::clone(&house.applied);
    let apply: Apply = Box::new(move |config| {
        seen.lock().unwrap().push(lease(config));
        2
    });
    let (mut reloader, reload) = Reloader::new(origin, config, 1, apply);
    reloader.pace.poll = Duration::from_millis(50);
    let task = tokio::spawn(reloader.run());
    reload.now(Cause::Request).await;
    symlink("two", folder.path().join("next")).unwrap();
    fs::rename(folder.path().join("next"), folder.path().join("current")).unwrap();
    house.becomes(200).await;
    assert_eq!(reload.state().attempt.unwrap().cause, Cause::Poll);
    task.abort();
}

#[tokio::test]
async fn our_own_reading_does_not_keep_us_awake() {
    let house = House::at(Pace {
        quiet: Duration::from_millis(5),
        at_most: Duration::from_millis(50),
        poll: LONG,
    })
    .await;
    house.ask().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = house.reload.state().looked;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(house.reload.state().looked, before);
    // A change is noticed by the same watch: it is not deaf.
    house.write("main.toml", seconds(200));
    house.becomes(200).await;
}

#[tokio::test]
async fn many_edits_end_in_the_last() {
    let house = House::at(Pace {
        poll: LONG,
        ..Pace::default()
    })
    .await;
    house.ask().await;
    for nth in 0..20 {
        house.write("main.toml", seconds(200 + nth));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    house.becomes(219).await;
    // They were quick: most of them were never looked at.
    assert!(house.applied().len() < 10, "{:?}", house.applied());
}

#[tokio::test]
async fn with_the_reloader_gone_a_request_is_told_so() {
    let house = House::deaf().await;
    house.task.abort();
    assert_eq!(house.ask().await, Reloaded::Ending);
}
