//! Carries a command out on this host.
//!
//! A message is shown by a program of the session's user on its display. To
//! disconnect is to end the `xrdp` process that serves this connection alone.
//! To log off is to end the window manager, which is what xrdp takes for a
//! logoff: it then ends the rest of the session. (Its own `sesadmin kill`
//! signals a process that, in 0.9, does not heed it.)

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::proc_text;
use super::sessions::{ProcessKey, Seen};

/// A program that shows a message is taken to show it once it ran so long.
const SHOWN: Duration = Duration::from_secs(2);
/// For a process to end when told to.
const GRACE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// For a restart to be accepted.
const RESTART: Duration = Duration::from_secs(60);
/// How much of a program's complaint is told.
const COMPLAINT: u64 = 300;

/// Shows a text on a session's display, as the session's user.
///
/// # Errors
/// Why it was not shown.
pub(super) async fn message(session: &Seen, program: &[String], text: &str) -> Result<(), String> {
    let user = User::from_uid(session.uid.into()).ok().flatten();
    let user = user.ok_or("the session's user is not known to this system")?;
    let mut command = command(program)?;
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("DISPLAY", format!(":{}", session.display))
        .env("XAUTHORITY", user.dir.join(".Xauthority"))
        .env("HOME", &user.dir)
        .env("USER", &user.name)
        .env("LANG", "C.UTF-8")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if !nix::unistd::geteuid().is_root() {
        // Not root: this can only be for a session of our own user.
        if nix::unistd::geteuid().as_raw() != session.uid {
            return Err("the agent does not run as root and cannot reach this session".to_owned());
        }
    } else {
        command.uid(session.uid).gid(user.gid.as_raw());
    }
    let named = program.first().map(String::as_str).unwrap_or_default();
    let mut child = command
        .spawn()
        .map_err(|error| format!("{named}: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        // Told by its exit where it does not read.
        let _ = input.write_all(text.as_bytes()).await;
    }
    match timeout(SHOWN, child.wait()).await {
        // On the display until somebody has read it; who waits is the system.
        Err(_) => {
            tokio::spawn(async move { child.wait().await });
            Ok(())
        }
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(ended) => {
            let mut complaint = String::new();
            if let Some(errors) = child.stderr.take() {
                let _ = errors.take(COMPLAINT).read_to_string(&mut complaint).await;
            }
            let how = match ended {
                Ok(status) => match (status.code(), status.signal()) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, signal) => format!("signal {}", signal.unwrap_or_default()),
                },
                Err(error) => error.to_string(),
            };
            Err(format!("{named}: {how}: {}", one_line(&complaint)))
        }
    }
}

/// Hangs up on a session, which goes on.
///
/// # Errors
/// Why it is still connected.
pub(super) async fn disconnect(session: &Seen, proc: &Path) -> Result<(), String> {
    if !session.connected {
        return Ok(());
    }
    let carrier = session
        .carrier
        .ok_or("which process carries its connection is not known")?;
    if !carrier.alone {
        return Err(
            "xrdp serves all connections in one process (fork=false in xrdp.ini)".to_owned(),
        );
    }
    end(carrier.process, proc).await
}

/// Ends a session.
///
/// # Errors
/// Why it is still there.
pub(super) async fn logoff(session: &Seen, proc: &Path) -> Result<(), String> {
    let manager = session.manager.ok_or("its window manager is not there")?;
    end(manager, proc).await?;
    gone(session.leader, proc, GRACE)
        .await
        .then_some(())
        .ok_or_else(|| "xrdp has not ended the session yet".to_owned())
}

/// Restarts the host.
///
/// # Errors
/// What the program said.
pub(super) async fn restart(program: &[String]) -> Result<(), String> {
    let mut command = command(program)?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let named = program.first().map(String::as_str).unwrap_or_default();
    match timeout(RESTART, command.output()).await {
        Err(_) => Err(format!("{named} does not come to an end")),
        Ok(Err(error)) => Err(format!("{named}: {error}")),
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            Err(format!(
                "{named}: {}: {}",
                output.status,
                one_line(&complaint)
            ))
        }
    }
}

fn command(program: &[String]) -> Result<Command, String> {
    let (name, arguments) = program.split_first().ok_or("no program is set")?;
    let mut command = Command::new(name);
    command.args(arguments);
    Ok(command)
}

/// Asks a process to end, and makes it after a while.
async fn end(process: ProcessKey, proc: &Path) -> Result<(), String> {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        // Looked at right before: a number may be somebody else's by now.
        if !runs(process, proc) {
            return Ok(());
        }
        let pid = i32::try_from(process.pid).map_err(|_| "no such process")?;
        kill(Pid::from_raw(pid), signal).map_err(|error| error.desc().to_owned())?;
        if gone(process, proc, GRACE).await {
            return Ok(());
        }
    }
    Err(format!("process {} does not end", process.pid))
}

async fn gone(process: ProcessKey, proc: &Path, patience: Duration) -> bool {
    let look = async {
        while runs(process, proc) {
            sleep(LOOK_AGAIN).await;
        }
    };
    timeout(patience, look).await.is_ok()
}

fn runs(process: ProcessKey, proc: &Path) -> bool {
    let text = std::fs::read(proc.join(process.pid.to_string()).join("stat")).unwrap_or_default();
    let stat = proc_text::stat(&String::from_utf8_lossy(&text));
    stat.is_some_and(|stat| stat.started == process.started && !stat.ended)
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().take(200).collect();
    if line.is_empty() {
        "it says nothing".to_owned()
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(child: &tokio::process::Child) -> ProcessKey {
        let pid = child.id().unwrap();
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        ProcessKey {
            pid,
            started: proc_text::stat(&text).unwrap().started,
        }
    }

    fn words(line: &str) -> Vec<String> {
        line.split('|').map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn a_process_is_ended_and_its_number_s_next_owner_is_not() {
        let proc = Path::new("/proc");
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let key = started(&child);
        let other = ProcessKey {
            started: key.started + 1,
            ..key
        };
        end(other, proc).await.unwrap();
        assert!(
            child.try_wait().unwrap().is_none(),
            "it runs: another was meant"
        );
        end(key, proc).await.unwrap();
        assert_eq!(child.wait().await.unwrap().signal(), Some(15));
    }

    #[tokio::test]
    async fn a_restart_that_fails_says_why() {
        assert_eq!(restart(&words("true")).await, Ok(()));
        let failed = restart(&words("sh|-c|echo no right >&2; exit 3"))
            .await
            .unwrap_err();
        assert!(failed.contains("exit status: 3: no right"), "{failed}");
        let missing = restart(&words("/nonexistent/reboot")).await.unwrap_err();
        assert!(missing.starts_with("/nonexistent/reboot: "), "{missing}");
    }

    #[tokio::test]
    async fn a_message_reaches_its_program_or_the_failure_is_told() {
        let session = Seen {
            leader: ProcessKey { pid: 1, started: 1 },
            display: 77,
            uid: nix::unistd::geteuid().as_raw(),
            manager: None,
            connected: true,
            carrier: None,
        };
        let check = "sh|-c|test \"$(cat)\" = \"-hello $DISPLAY\" && test \"$DISPLAY\" = :77";
        // Not by the shell's own idea of the text: it is what stands there.
        assert!(
            message(&session, &words(check), "-hello $DISPLAY")
                .await
                .is_err()
        );
        assert_eq!(message(&session, &words(check), "-hello :77").await, Ok(()));
        let failed = message(&session, &words("sh|-c|echo no display >&2; exit 1"), "x").await;
        assert_eq!(failed.unwrap_err(), "sh: exit code 1: no display");
    }
}
