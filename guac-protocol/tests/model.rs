//! The demand that guacd, as the model in `lenient` reads, agrees with whatever we accept.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use guac_protocol::{Decoder, Limits};

use crate::lenient::guacd_reads;
use crate::properties::instruction;

/// If we read an instruction out of the stream, guacd reads the same.
fn agree(stream: &[u8]) -> Result<bool, TestCaseError> {
    let Ok(decoded) = Decoder::new(Limits::HANDSHAKE).decode(stream) else {
        return Ok(false);
    };
    let Some(instruction) = decoded.instruction else {
        return Ok(false);
    };
    let mut ours = vec![instruction.opcode().as_bytes().to_vec()];
    ours.extend(instruction.args().iter().map(|arg| arg.as_bytes().to_vec()));
    prop_assert_eq!(guacd_reads(stream), Some((ours, decoded.consumed)));
    Ok(true)
}

#[test]
fn the_model_is_as_easily_fooled_as_guacd() {
    let fooled: [&[u8]; 3] = [b"4.name,2.a\0;", b"4.name,1.\xF0;,,;", b"04.name,.;"];
    for stream in fooled {
        assert!(guacd_reads(stream).is_some(), "{stream:?}");
        assert!(!agree(stream).unwrap(), "refused here");
    }
    assert!(agree("4.name,2.é😀;".as_bytes()).unwrap());
}

/// Bytes close to the grammar, so that many are accepted and many nearly.
fn near_grammar() -> impl Strategy<Value = Vec<u8>> {
    let edit = (
        any::<prop::sample::Index>(),
        prop_oneof![
            Just(b'.'),
            Just(b','),
            Just(b';'),
            Just(0_u8),
            Just(b'0'),
            Just(b'1'),
            any::<u8>()
        ],
        0..3_u8,
    );
    (instruction(), prop::collection::vec(edit, 0..4)).prop_map(|(instruction, edits)| {
        let mut bytes = crate::properties::bytes_of(&instruction);
        for (index, byte, kind) in edits {
            let at = index.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        bytes
    })
}

/// Elements put together by hand: now and then a length is off by one, a character is not one, or
/// an element ends in something else.
fn by_hand() -> impl Strategy<Value = Vec<u8>> {
    let sound = prop::sample::select(vec!["a", "7", ".", ",", ";", "é", "日", "😀"]);
    let character = prop_oneof![
        20 => sound.prop_map(|text| text.as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    let off = prop_oneof![12 => Just(0_usize), 1 => Just(1)];
    let end = prop_oneof![4 => Just(b','), 4 => Just(b';'), 1 => any::<u8>()];
    let element = (prop::collection::vec(character, 0..4), off, end);
    let element = element.prop_map(|(text, off, end)| {
        let length = (text.len() + off).to_string();
        [length.as_bytes(), b".", &text.concat(), &[end]].concat()
    });
    prop::collection::vec(element, 1..6).prop_map(|elements| elements.concat())
}

/// The properties below would say nothing if hardly anything was accepted, or everything.
#[test]
fn the_streams_are_neither_all_accepted_nor_all_refused() {
    let mut runner = TestRunner::deterministic();
    let mut share = |streams: BoxedStrategy<Vec<u8>>| {
        let mut draw = || streams.new_tree(&mut runner).unwrap().current();
        (0..300).filter(|_| agree(&draw()).unwrap()).count()
    };
    let (edited, built) = (share(near_grammar().boxed()), share(by_hand().boxed()));
    assert!((60..280).contains(&edited), "{edited} of 300");
    assert!((60..280).contains(&built), "{built} of 300");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn guacd_reads_what_we_accept(stream in near_grammar()) {
        agree(&stream)?;
    }

    #[test]
    fn guacd_reads_what_we_accept_of_streams_by_hand(stream in by_hand()) {
        agree(&stream)?;
    }
}
