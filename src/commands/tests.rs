use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::clock::Clock;
use crate::fleet::CommandResult;
use crate::placement::HostId;
use crate::store::{Answer as StoreAnswer, Document, Documents, Edit, Edited, Embedded, Kind};

struct Shelf {
    folder: tempfile::TempDir,
    store: Arc<Embedded>,
    clock: Clock,
    commands: Commands,
}

impl Shelf {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Embedded::open(&folder.path().join("store.redb")).unwrap());
        let clock = Clock::start();
        let commands = Commands::open(store.clone(), clock).await.unwrap();
        Self {
            folder,
            store,
            clock,
            commands,
        }
    }

    async fn again(self) -> Self {
        let commands = Commands::open(self.store.clone(), self.clock).await;
        Self {
            commands: commands.unwrap(),
            ..self
        }
    }

    async fn ask(&self, host: &str, wish: Wish) -> Result<Asked, CommandError> {
        let host = HostId::from(host);
        self.commands.ask(&host, wish, "uid 0".to_owned()).await
    }

    fn delivered(&self, host: &str) -> Vec<String> {
        let delivered = self.commands.deliver(&HostId::from(host));
        delivered.into_iter().map(|c| c.id.to_string()).collect()
    }

    async fn answer(&self, host: &str, id: &str, ok: bool) -> Vec<Command> {
        let results = [CommandResult {
            id: id.to_owned(),
            ok,
            message: "said".to_owned(),
        }];
        self.commands.answered(&HostId::from(host), &results).await
    }
}

fn logoff(user: &str) -> Wish {
    Wish {
        kind: CommandKind::Logoff,
        target: Target {
            user: Some(user.to_owned()),
            ..Target::default()
        },
        message: None,
        expires: None,
    }
}

#[tokio::test]
async fn a_command_is_delivered_until_it_is_answered_and_by_its_own_host_alone() {
    let shelf = Shelf::new().await;
    let asked = shelf.ask("a", logoff("ann")).await.unwrap();
    assert!(asked.is_new && asked.command.state(shelf.clock.now()) == State::Waiting);
    let id = asked.command.id.to_string();
    assert_eq!(shelf.delivered("b"), [""; 0]);
    for _ in 0..2 {
        assert_eq!(shelf.delivered("a"), [id.as_str()]);
    }
    // After a restart as well.
    let shelf = shelf.again().await;
    assert_eq!(shelf.delivered("a"), [id.as_str()]);
    assert!(shelf.answer("b", &id, true).await.is_empty());
    assert!(shelf.answer("a", "another", true).await.is_empty());
    assert_eq!(shelf.delivered("a"), [id.as_str()]);
    let answered = shelf.answer("a", &id, false).await;
    assert_eq!(answered[0].state(shelf.clock.now()), State::Failed);
    assert_eq!(answered[0].asked_by, "uid 0");
    assert!(
        shelf.answer("a", &id, true).await.is_empty(),
        "said already"
    );
    let shelf = shelf.again().await;
    assert_eq!(shelf.delivered("a"), [""; 0]);
    let listed = shelf.commands.of_host(&HostId::from("a"));
    assert_eq!(listed[0].outcome.as_ref().unwrap().message, "said");
    drop(shelf.folder);
}

#[tokio::test]
async fn the_same_again_is_the_same_command_while_it_waits() {
    let shelf = Shelf::new().await;
    let first = shelf.ask("a", logoff("ann")).await.unwrap().command.id;
    let again = shelf.ask("a", logoff("ann")).await.unwrap();
    assert!(!again.is_new && again.command.id == first);
    for (host, user) in [("a", "bob"), ("b", "ann")] {
        assert!(shelf.ask(host, logoff(user)).await.unwrap().is_new);
    }
    shelf.answer("a", first.as_str(), true).await;
    assert!(shelf.ask("a", logoff("ann")).await.unwrap().is_new);
}

/// A store that is slow where it is told to be.
struct Slow {
    store: Arc<Embedded>,
    /// One for each edit.
    permits: tokio::sync::Semaphore,
    asked: tokio::sync::Notify,
}

impl Documents for Slow {
    fn documents(&self, kind: Kind) -> StoreAnswer<'_, Vec<Document>> {
        self.store.documents(kind)
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> StoreAnswer<'a, Option<Document>> {
        self.store.document(kind, id)
    }

    fn edit(&self, edits: Vec<Edit>, sync: bool) -> StoreAnswer<'_, Edited> {
        Box::pin(async move {
            self.asked.notify_one();
            self.permits.acquire().await.unwrap().forget();
            self.store.edit(edits, sync).await
        })
    }
}

#[tokio::test]
async fn what_came_of_a_command_is_not_lost_to_who_asks_for_it_again() {
    let shelf = Shelf::new().await;
    let slow = Arc::new(Slow {
        store: shelf.store.clone(),
        permits: tokio::sync::Semaphore::new(1),
        asked: tokio::sync::Notify::new(),
    });
    let commands = Commands::open(slow.clone(), shelf.clock).await.unwrap();
    let shelf = Shelf { commands, ..shelf };
    let id = shelf.ask("a", logoff("ann")).await.unwrap().command.id;
    slow.asked.notified().await;
    let again = shelf.ask("a", logoff("ann"));
    let meanwhile = async {
        // The one above is being written.
        slow.asked.notified().await;
        assert_eq!(shelf.delivered("a"), [id.as_str()]);
        slow.permits.add_permits(2);
        shelf.answer("a", id.as_str(), true).await
    };
    let (again, answered) = tokio::join!(again, meanwhile);
    let again = again.unwrap();
    assert!(!again.is_new && again.command.delivered_at.is_some());
    assert_eq!(answered.len(), 1);
    assert_eq!(shelf.delivered("a"), [""; 0], "it was answered");
    let shelf = shelf.again().await;
    assert_eq!(shelf.delivered("a"), [""; 0], "after a restart, too");
}

#[tokio::test]
async fn only_so_many_wait_and_only_so_many_are_remembered() {
    let shelf = Shelf::new().await;
    for nth in 0..100 {
        shelf.ask("a", logoff(&format!("u{nth}"))).await.unwrap();
    }
    let refused = shelf.ask("a", logoff("one-more")).await;
    assert!(matches!(refused, Err(CommandError::TooMany { .. })));
    shelf.ask("b", logoff("one-more")).await.unwrap();
    for id in shelf.delivered("a") {
        shelf.answer("a", &id, true).await;
    }
    for nth in 0..10 {
        let asked = shelf.ask("a", logoff(&format!("v{nth}"))).await.unwrap();
        shelf.answer("a", asked.command.id.as_str(), true).await;
    }
    shelf.ask("a", logoff("last")).await.unwrap();
    assert_eq!(shelf.commands.of_host(&HostId::from("a")).len(), 101);
    let shelf = shelf.again().await;
    assert_eq!(shelf.commands.of_host(&HostId::from("a")).len(), 101);
}

#[tokio::test]
async fn what_is_vague_or_pointless_is_no_command() {
    let shelf = Shelf::new().await;
    let refused = async |wish: Wish, why: WishError| {
        let answer = shelf.ask("a", wish).await;
        assert_eq!(answer, Err(CommandError::Wish(why)));
    };
    let nobody = Wish {
        target: Target::default(),
        ..logoff("ann")
    };
    refused(nobody.clone(), WishError::Target).await;
    let mut both = logoff("ann");
    both.target.all = true;
    refused(both, WishError::Target).await;
    let mut domain_alone = nobody.clone();
    domain_alone.target.domain = Some("corp".to_owned());
    domain_alone.target.all = true;
    refused(domain_alone, WishError::Target).await;
    let mut odd = nobody.clone();
    odd.target.state = Some("asleep".to_owned());
    refused(odd, WishError::State).await;
    for id in [String::new(), " ".to_owned(), "x".repeat(257)] {
        let mut unheard_of = nobody.clone();
        unheard_of.target.session_id = Some(id);
        refused(unheard_of, WishError::SessionId).await;
    }
    let restart = Wish {
        kind: CommandKind::RestartServer,
        ..logoff("ann")
    };
    refused(restart, WishError::WholeHost).await;
    let text = |kind, text: Option<&str>| Wish {
        kind,
        message: text.map(str::to_owned),
        ..logoff("ann")
    };
    let long = "x".repeat(1001);
    for bad in [None, Some(" "), Some("a\u{7}"), Some(long.as_str())] {
        refused(text(CommandKind::Message, bad), WishError::Text).await;
    }
    refused(text(CommandKind::Logoff, Some("hello")), WishError::NoText).await;
    for seconds in [9, 86_401] {
        let wish = Wish {
            expires: Some(Duration::from_secs(seconds)),
            ..logoff("ann")
        };
        refused(wish, WishError::Expiry).await;
    }
    assert!(shelf.delivered("a").is_empty());
    let good = text(CommandKind::Message, Some("Back in\nfive minutes"));
    assert!(shelf.ask("a", good).await.unwrap().is_new);
}

#[test]
fn a_command_that_nobody_took_in_time_is_expired() {
    let at = crate::placement::Timestamp::from_millis;
    let mut command = Command {
        id: CommandId::mint(),
        host: HostId::from("a"),
        kind: CommandKind::RestartServer,
        target: Target::default(),
        message: None,
        asked_at: at(0),
        asked_by: String::new(),
        expires_at: at(1000),
        delivered_at: None,
        outcome: None,
        drain: None,
    };
    assert_eq!(command.state(at(999)), State::Waiting);
    command.delivered_at = Some(at(500));
    assert_eq!(command.state(at(999)), State::Delivered);
    assert_eq!(command.state(at(1000)), State::Expired);
    assert!(command.is_pending(at(999)) && !command.is_pending(at(1000)));
}
