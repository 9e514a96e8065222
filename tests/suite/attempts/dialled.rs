//! guacd is slow before the desktop, or silent when it is dialled again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{click, fail, stage};
use crate::support::{Names, ScriptedGuacd, Stage, eventually};

/// Where the second connection says nothing any more.
#[derive(Clone, Copy, Debug)]
pub(super) enum MuteBefore {
    Args,
    Ready,
}

/// A guacd that is polite once, then listens and says nothing.
pub(super) fn mute_when_dialled_again(before: MuteBefore) -> ScriptedGuacd {
    let count = AtomicUsize::new(0);
    ScriptedGuacd::playing(move |peer| {
        let names = Names::rdp("1.6.0");
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            return peer.shake_hands(&names);
        }
        peer.hear_select()?;
        if let MuteBefore::Ready = before {
            peer.wire.say(&names.to_instruction())?;
            peer.hear_connect(&names)?;
        }
        Ok(())
    })
}

#[test]
fn one_that_is_silent_when_it_is_dialled_again_is_unavailable_in_time_and_blames_no_host() {
    for before in [MuteBefore::Args, MuteBefore::Ready] {
        let stage = Stage::before(mute_when_dialled_again(before), 2);
        let start = Instant::now();
        let (mut visitor, first) = click(&stage, "ann");
        fail(first, b"5.error,1.x,3.519;");
        let mut second = stage.guacd.ready();
        let (code, text) = visitor.farewell();
        assert_eq!(code, 0x208, "{before:?}: the page comes back by itself");
        assert!(text.starts_with("guacd does not answer"), "{text}");
        let elapsed = start.elapsed();
        assert!(elapsed < Duration::from_secs(15), "{before:?}: {elapsed:?}");
        let said = String::from_utf8_lossy(&visitor.wire.arrived);
        assert!(said.contains("3.nop;"), "it was kept awake: {said}");
        // It is let go of: by a reset where it had not read all.
        let _ = second.wire.rest();
        assert_eq!(stage.guacd.accepted(), 2);
        let ended = stage.broker.ended(&stage.broker.placed("ann"));
        assert_eq!(
            (&ended["by"], &ended["attempts"]),
            (&"guacd".into(), &2.into())
        );
        let failed = "Host failed before the desktop stood, trying the next";
        assert_eq!(stage.broker.lines(failed).len(), 1, "the first alone");
        eventually("no lease", || {
            let leases = crate::suite::asking::list(&stage, "leases?user=ann");
            leases.is_empty().then_some(())
        });
    }
}

#[test]
fn a_byte_at_a_time_before_the_desktop_arrives_whole_within_the_deadline_and_beyond() {
    let said = b"4.size,1.0,4.1024,3.768;4.sync,5.12345,1.1;";
    // It takes six seconds: a `nop` is due meanwhile, and must not get in between.
    for deadline in ["13s", "3s"] {
        let stage = stage(2, &format!("[broker]\nattempt_deadline = \"{deadline}\"\n"));
        let (mut visitor, mut peer) = click(&stage, "ann");
        for byte in said {
            peer.wire.send([*byte]).unwrap();
            thread::sleep(Duration::from_millis(150));
        }
        let size = visitor.hear_past_nops("size");
        assert_eq!(size.args(), ["0", "1024", "768"]);
        assert_eq!(visitor.hear_past_nops("sync").args(), ["12345", "1"]);
        let arrived = String::from_utf8_lossy(&visitor.wire.arrived);
        let whole = String::from_utf8_lossy(said);
        assert!(arrived.ends_with(&*whole), "{arrived}");
        assert_eq!(stage.guacd.accepted(), 1);
        drop((visitor, peer));
        let ended = stage.broker.ended(&stage.broker.placed("ann"));
        assert_eq!(ended["phase"], "stood", "{deadline}");
    }
}
