//! What is said in a tunnel that stands: instructions, whole and valid.

use crate::support::Dice;

/// What makes a desktop.
pub(crate) const SYNC: &[u8] = b"4.sync,8.12345678,1.1;";

/// What a hand on a mouse says.
pub(crate) const SMALL: &[u8] = b"5.mouse,3.100,3.200;";

/// Base64 in one `blob`, as guacd cuts a picture: 6048 bytes of it.
const BLOB: usize = 8064;
/// Blobs written at a time.
const BLOBS: usize = 16;

/// Frames of a desktop in use, in bytes.
const SMALLEST: f64 = 200.0;
const LARGEST: f64 = 8192.0;
const FRAMES: usize = 64;

/// Much of a picture: about 126 KiB.
pub(crate) fn bulk() -> Vec<u8> {
    let mut dice = Dice::of(1);
    let mut all = Vec::new();
    for _ in 0..BLOBS {
        blob(&mut all, BLOB, &mut dice);
    }
    all
}

/// Frames from 200 bytes to 8 KiB, small ones as likely as large ones by their
/// order of magnitude; each begins with a picture and ends with its `sync`.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut dice = Dice::of(2);
    let frames = (0..FRAMES).map(|nth| {
        let share = nth as f64 / (FRAMES - 1) as f64;
        let length = (SMALLEST * (LARGEST / SMALLEST).powf(share)) as usize;
        let mut frame = b"3.img,1.1,2.14,1.0,10.image/jpeg,3.128,3.256;".to_vec();
        let end = [b"3.end,1.1;", SYNC].concat();
        // What stands round the text of a blob takes up to 17 bytes.
        let text = length - frame.len() - end.len() - 17;
        blob(&mut frame, text, &mut dice);
        frame.extend(end);
        frame
    });
    frames.collect()
}

fn blob(into: &mut Vec<u8>, length: usize, dice: &mut Dice) {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    into.extend(format!("4.blob,1.1,{length}.").bytes());
    let letters = (0..length).map(|_| LETTERS[dice.roll() as usize % LETTERS.len()]);
    into.extend(letters);
    into.push(b';');
}
