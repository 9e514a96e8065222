use std::collections::VecDeque;
use std::io::{Error, ErrorKind};
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::*;

const NOT_YET: Duration = Duration::from_millis(1);

async fn waits(places: &Arc<Places>) -> bool {
    timeout(NOT_YET, places.take()).await.is_err()
}

#[tokio::test]
async fn the_longest_idle_one_leaves_and_whoever_kept_its_place_stays() {
    let places = Places::new("test", 3, Beyond::Wait);
    let mut ended = Vec::new();
    for name in ["kept", "first", "second"] {
        let place = places.take().await.unwrap();
        if name == "kept" {
            place.pass().keep();
        }
        let held = place.hold(std::future::pending());
        ended.push(tokio::spawn(held));
    }
    assert_eq!(places.taken(), 3);
    let third = places.take().await.unwrap();
    assert!(!ended[0].is_finished() && !ended[2].is_finished());
    let first = ended.remove(1);
    first.await.unwrap();
    assert_eq!((places.taken(), places.closed()), (3, 1));
    third.pass().keep();
    let fourth = places.take().await.unwrap();
    ended.remove(1).await.unwrap();
    fourth.pass().keep();
    // Everybody here has something to do.
    assert!(waits(&places).await);
    assert_eq!((places.taken(), places.closed()), (3, 2));
    drop(third);
    assert!(places.take().await.is_some());
    ended[0].abort();
}

#[tokio::test]
async fn a_place_is_kept_by_whoever_took_the_pass_along() {
    let places = Places::new("test", 1, Beyond::Close);
    let place = places.take().await.unwrap();
    let pass = place.pass();
    pass.keep();
    place.hold(std::future::ready(())).await;
    assert_eq!(places.taken(), 1);
    assert!(places.take().await.is_none());
    drop(pass);
    assert_eq!(places.taken(), 0);
}

#[tokio::test]
async fn two_doors_with_the_same_places_are_both_told_of_what_is_left() {
    let places = Places::new("test", 2, Beyond::Wait);
    let (one, other) = (places.take().await.unwrap(), places.take().await.unwrap());
    one.pass().keep();
    other.pass().keep();
    let waiting = [(); 2].map(|()| {
        let places = Arc::clone(&places);
        tokio::spawn(async move { places.take().await })
    });
    tokio::task::yield_now().await;
    drop((one, other));
    for place in waiting {
        let place = timeout(Duration::from_secs(10), place).await;
        std::mem::forget(place.unwrap().unwrap().unwrap());
    }
    assert_eq!(places.taken(), 2);
}

#[tokio::test]
async fn where_nobody_waits_the_next_one_is_closed_and_counted() {
    let places = Places::new("test", 1, Beyond::Close);
    let only = places.take().await.unwrap();
    only.pass().keep();
    assert!(places.take().await.is_none());
    assert_eq!((places.taken(), places.closed()), (1, 1));
    drop(only);
    assert!(places.take().await.is_some());
    assert_eq!((places.taken(), places.closed()), (0, 1));
}

/// Fails and works as it is told; at the end it waits.
struct Scripted {
    script: Mutex<VecDeque<Result<(), ErrorKind>>>,
    asked: Mutex<Vec<Instant>>,
    over: Notify,
}

impl Scripted {
    fn new(script: impl IntoIterator<Item = Result<(), ErrorKind>>) -> Self {
        Self {
            script: Mutex::new(script.into_iter().collect()),
            asked: Mutex::default(),
            over: Notify::new(),
        }
    }
}

impl Listener for Scripted {
    type Socket = ();
    type Peer = ();

    async fn accept(&self) -> io::Result<((), ())> {
        let next = self.script.lock().unwrap().pop_front();
        self.asked.lock().unwrap().push(Instant::now());
        match next {
            Some(Ok(())) => Ok(((), ())),
            Some(Err(kind)) => Err(Error::from(kind)),
            None => {
                self.over.notify_one();
                std::future::pending().await
            }
        }
    }
}

/// The pauses between accepts, and how many were served.
async fn play(script: impl IntoIterator<Item = Result<(), ErrorKind>>) -> (Vec<u64>, usize) {
    let listener = Scripted::new(script);
    let (places, tasks) = (Places::new("test", 9, Beyond::Wait), TaskTracker::new());
    let mut served = 0;
    let receive = |(), ()| {
        served += 1;
        Some(|_: Pass| async {})
    };
    tokio::select! {
        () = accept("test", &listener, &places, &tasks, receive) => {}
        () = listener.over.notified() => {}
    }
    let asked = listener.asked.lock().unwrap();
    let pauses = asked.windows(2).map(|pair| pair[1] - pair[0]);
    let pauses = pauses.map(|pause| u64::try_from(pause.as_millis()).unwrap());
    (pauses.collect(), served)
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_to_a_second_and_begin_anew_once_it_worked() {
    let failed = Err(ErrorKind::OutOfMemory);
    let mut script = vec![failed; 10];
    script.extend([Ok(()), failed, Ok(())]);
    let (pauses, served) = play(script).await;
    assert_eq!(
        pauses,
        [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 0, 5, 0]
    );
    assert_eq!(served, 2);
}

#[tokio::test(start_paused = true)]
async fn whoever_left_before_it_was_accepted_makes_nobody_wait() {
    let gone = Err(ErrorKind::ConnectionAborted);
    let (pauses, served) = play([gone, gone, Ok(()), gone, Ok(())]).await;
    assert_eq!(pauses, [0; 5]);
    assert_eq!(served, 2);
}

#[tokio::test]
async fn whoever_is_sent_away_costs_nobody_a_place() {
    let listener = Scripted::new([Ok(()), Ok(())]);
    let (places, tasks) = (Places::new("test", 1, Beyond::Wait), TaskTracker::new());
    let resident = tokio::spawn(places.take().await.unwrap().hold(std::future::pending()));
    let receive = |(), ()| None::<fn(Pass) -> std::future::Ready<()>>;
    tokio::select! {
        () = accept("test", &listener, &places, &tasks, receive) => {}
        () = listener.over.notified() => {}
    }
    assert!(!resident.is_finished());
    assert_eq!((places.taken(), places.closed()), (1, 0));
    resident.abort();
}
