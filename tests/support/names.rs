//! What guacd announces and what it was recorded saying.

use std::fs;
use std::path::PathBuf;

use guac_protocol::{Decoder, Instruction, Limits};

fn data(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("guac-protocol/tests/data")
        .join(path)
}

/// The first instruction in some bytes.
pub(crate) fn instruction(bytes: &[u8]) -> Instruction {
    let decoded = Decoder::new(Limits::HANDSHAKE).decode(bytes).unwrap();
    decoded.instruction.unwrap()
}

/// What guacd said in a recording, `args` and `ready` first.
pub(crate) fn trace(release: &str, what: &str) -> Vec<u8> {
    let file = format!("traces/guacd-{release}-{what}.server.guac");
    fs::read(data(&file)).unwrap()
}

/// The elements behind `args`, a version first where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) Vec<String>);

impl Names {
    /// As a release of guacd announces them for RDP.
    pub(crate) fn rdp(release: &str) -> Self {
        let text = fs::read_to_string(data(&format!("args/rdp-{release}.txt"))).unwrap();
        Self(text.lines().map(str::to_owned).collect())
    }

    /// As they stand in a recording.
    pub(crate) fn recorded(release: &str, what: &str) -> Self {
        Self(instruction(&trace(release, what)).into_args())
    }

    pub(crate) fn to_instruction(&self) -> Instruction {
        Instruction::new("args", self.0.iter())
    }

    /// Without the version.
    pub(crate) fn names(&self) -> &[String] {
        &self.0[usize::from(self.has_version())..]
    }

    pub(crate) fn has_version(&self) -> bool {
        self.0
            .first()
            .is_some_and(|name| name.starts_with("VERSION_"))
    }

    pub(crate) fn version(&self) -> Option<&str> {
        self.has_version().then(|| self.0[0].as_str())
    }
}
