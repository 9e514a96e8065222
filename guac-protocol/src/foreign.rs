//! Recognises peers that speak another protocol, so that the log can say which setting is wrong.
//!
//! Decides nothing: an unrecognised start is left to the decoder. Called with the first bytes of
//! a connection that failed to parse, or on a port that expects TLS.

/// A protocol that is not Guacamole's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// An HTTP request: a browser or a web probe, or a proxy that points here.
    Http,
    /// A TLS ClientHello: the peer was told to use TLS, this port was not.
    TlsClientHello,
}

/// First four bytes of the HTTP methods, and of the HTTP/2 preface.
const HTTP: [&[u8; 4]; 10] = [
    b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN", b"DELE", b"PATC", b"TRAC", b"PRI ",
];

/// Recognises a foreign protocol by its first bytes.
///
/// Four bytes are needed for HTTP, three for TLS (a handshake record of SSL 3.0 to TLS 1.3);
/// fewer give `None`, as does everything else.
#[must_use]
pub fn recognise(first_bytes: &[u8]) -> Option<Foreign> {
    if let [0x16, 0x03, 0x00..=0x04, ..] = first_bytes {
        return Some(Foreign::TlsClientHello);
    }
    let start = first_bytes.first_chunk::<4>()?;
    HTTP.contains(&start).then_some(Foreign::Http)
}
