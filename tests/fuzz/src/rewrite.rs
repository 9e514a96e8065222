//! What guacd is told, under any names it announces and any values Guacamole
//! answers: through the broker's own gateway, over its sockets, since that is
//! the only door to it. Values stay with their names, there are as many as guacd
//! asked for, and all that is sent reads as it was meant.

mod case;
mod expect;
mod stage;

use std::cell::RefCell;
use std::path::Path;

use guac_protocol::{Instruction, Limits};

use super::lenient::guacd_reads;
use super::stream::{elements, fits_guacamole, fits_guacd, read, recordings};
use case::Case;
use stage::{Heard, Stage};

/// The parameter the broker adds to guacd's.
const EXTRA: &str = "sessionguard-resource";

thread_local! {
    static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) };
}

/// A [`Case`]. Counts what reached guacd.
pub fn run(input: &[u8]) -> usize {
    let case = Case::read(input);
    let heard = STAGE.with_borrow_mut(|stage| {
        let stage = stage.get_or_insert_with(Stage::new);
        stage.play(&case)
    });
    guacamole_heard(&case, &heard);
    guacd_heard(&case, &heard)
}

fn guacamole_heard(case: &Case, heard: &Heard) {
    let read = read(Limits::HANDSHAKE, &[&heard.guacamole]);
    assert_eq!((read.error, read.mid_instruction), (None, false));
    for instruction in &read.instructions {
        assert!(fits_guacamole(&elements(instruction)));
    }
    let opcodes: Vec<_> = read.instructions.iter().map(Instruction::opcode).collect();
    let well = ["args", "ready"];
    let refused = ["args", "ready", "error", "disconnect"];
    assert!(opcodes.starts_with(&well), "{opcodes:?}");
    assert!(
        heard.connect_at_guacd() || opcodes == refused,
        "{opcodes:?}"
    );
    let shown: Vec<_> = read.instructions[0]
        .args()
        .iter()
        .map(String::as_str)
        .collect();
    let announced = case.announced();
    let minimal = ["VERSION_1_5_0", "hostname"];
    match shown.strip_suffix(&[EXTRA]) {
        Some(rest) => assert!(rest == announced || shown == announced),
        None => assert!(shown == announced || shown == minimal),
    }
}

fn guacd_heard(case: &Case, heard: &Heard) -> usize {
    let read = read(Limits::HANDSHAKE, &[&heard.guacd]);
    assert_eq!((read.error, read.mid_instruction), (None, false));
    let mut at = 0;
    for (instruction, end) in read.instructions.iter().zip(&read.ends) {
        let ours = elements(instruction);
        assert!(fits_guacd(&ours));
        let ours = ours.iter().map(|text| text.as_bytes().to_vec()).collect();
        assert!(guacd_reads(&heard.guacd[at..]) == Some((ours, end - at)));
        at = *end;
    }
    let expected = expect::placed(case);
    let Some(connect) = read.instructions.iter().find(|i| i.opcode() == "connect") else {
        let told = String::from_utf8_lossy(&heard.guacamole);
        assert!(!case.must_be_placed(&expected), "refused: {told}");
        return 0;
    };
    let values = connect.args();
    assert_eq!(
        values.len(),
        case.announced().len(),
        "a value for each name"
    );
    let passed = expect::passed_through(case);
    let placed = expect::same(case, values, &expected);
    assert!(placed || !case.must_be_placed(&expected), "placed");
    assert!(placed || values == passed, "values stay with their names");
    1
}

/// The names every release announces, with what a connection of it answers.
pub fn seeds(traces: &Path) -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for [guacamole, guacd] in recordings(traces) {
        let args = read(Limits::HANDSHAKE, &[&guacd]).instructions;
        let connect = read(Limits::HANDSHAKE, &[&guacamole]).instructions;
        let args = args.iter().find(|i| i.opcode() == "args");
        let connect = connect.iter().find(|i| i.opcode() == "connect");
        if let (Some(args), Some(connect)) = (args, connect) {
            let pairs: Vec<_> = args.args().iter().zip(connect.args()).collect();
            seeds.extend((0..case::VARIANTS).map(|variant| case::written(variant, &pairs)));
        }
    }
    seeds
}
