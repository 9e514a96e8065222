//! The whole demo, as a test of the demo: it plays to its end, leaves nothing
//! behind and shows no password.

use std::io;

use super::*;

async fn played(options: Options, stop: &CancellationToken) -> (Result<(), Fault>, String) {
    let mut out = Vec::new();
    let played = run(options, &mut out, stop).await;
    (played, String::from_utf8(out).unwrap())
}

#[tokio::test]
async fn it_plays_to_its_end() {
    let (played, text) = played(Options::default(), &CancellationToken::new()).await;
    assert!(played.is_ok(), "{text}");
    for expected in [
        "STAND-IN",
        "||Sage",
        "RESOURCE_NOT_FOUND",
        "SERVER_BUSY",
        "Who went where",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let kept = "as Guacamole sent them, not shown: username, password\n";
    assert!(text.contains(kept), "{text}");
    let told = "select, size, audio, video, image, timezone, name, connect\n";
    assert!(text.contains(told), "{text}");
    assert!(!text.contains("'s password"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[tokio::test]
async fn hosts_that_are_not_there_end_it_with_a_reason() {
    // Bound and let go: nothing listens there now.
    let mut hosts = Vec::new();
    for _ in 0..2 {
        let bound = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = bound.local_addr().unwrap().port();
        let host = "127.0.0.1".to_owned();
        hosts.push((bound, HostPort { host, port }));
    }
    let hosts = hosts.into_iter().map(|(_, address)| address).collect();
    let options = Options {
        hosts,
        ..Options::default()
    };
    let (played, text) = played(options, &CancellationToken::new()).await;
    assert!(matches!(played, Err(Fault::Unexpected { .. })), "{text}");
    assert!(text.contains("NOT AS EXPECTED"), "{text}");
    assert!(
        text.contains("no host of farm office can be reached"),
        "{text}"
    );
}

#[tokio::test]
async fn it_can_be_interrupted() {
    let stop = CancellationToken::new();
    stop.cancel();
    let (played, text) = played(Options::default(), &stop).await;
    assert!(matches!(played, Err(Fault::Interrupted)), "{text}");
}

#[tokio::test]
async fn output_that_fails_ends_it() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let played = run(Options::default(), &mut Closed, &CancellationToken::new()).await;
    assert!(matches!(played, Err(Fault::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe));
}

#[test]
fn a_password_is_not_printed_with_the_options() {
    let login = Login {
        username: "anna".to_owned(),
        password: "hunter2".to_owned(),
    };
    let options = Options {
        login: Some(login),
        ..Options::default()
    };
    assert!(!format!("{options:?}").contains("hunter2"));
}
