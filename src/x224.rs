//! The smallest question an RDP host must answer: an X.224 connection request,
//! asked and dropped before any security or logon begins.
//!
//! From MS-RDPBCGR 2.2.1.1 and 2.2.1.2: a TPKT header (version 3, length in two
//! bytes), an X.224 connection request (code 0xE0) and an RDP negotiation
//! request; the answer is a connection confirm (0xD0), whose negotiation part
//! may agree or refuse. Either proves that RDP is served.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Connection request offering TLS and CredSSP, so that a host that insists on
/// either has no reason to log a refusal.
const REQUEST: [u8; 19] = [
    3, 0, 0, 19, // TPKT: version 3, 19 bytes in all
    14, 0xe0, 0, 0, 0, 0, 0, // X.224: 14 more bytes, connection request
    1, 0, 8, 0, 3, 0, 0, 0, // negotiation request: TLS | CredSSP
];

const TPKT_VERSION: u8 = 3;
const CONNECTION_CONFIRM: u8 = 0xd0;

/// Asks once; no deadline of its own.
///
/// # Errors
/// The stream ended or failed, or the answer is not RDP's.
pub async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    stream.write_all(&REQUEST).await?;
    let mut head = [0; 6];
    stream.read_exact(&mut head).await?;
    let [version, _, _, _, _, code] = head;
    if version == TPKT_VERSION && code & 0xf0 == CONNECTION_CONFIRM {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "something answers on this port, but it is not RDP",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(bytes: &[u8]) -> io::Result<()> {
        let (mut us, mut host) = tokio::io::duplex(64);
        host.write_all(bytes).await.unwrap();
        let asked = ask(&mut us).await;
        let mut request = [0; 19];
        host.read_exact(&mut request).await.unwrap();
        assert_eq!(request, REQUEST);
        asked
    }

    #[tokio::test]
    async fn a_confirm_proves_rdp_whether_it_agrees_or_refuses() {
        let agreed = [
            3, 0, 0, 19, 14, 0xd0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0,
        ];
        let refused = [
            3, 0, 0, 19, 14, 0xd0, 0, 0, 0x12, 0x34, 0, 3, 0, 8, 0, 5, 0, 0, 0,
        ];
        let old = [3, 0, 0, 11, 6, 0xd0, 0, 0, 0x12, 0x34, 0];
        for answer in [&agreed[..], &refused, &old] {
            assert!(answered(answer).await.is_ok());
        }
    }

    #[tokio::test]
    async fn something_else_on_the_port_is_not_rdp() {
        let error = answered(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn a_port_that_hangs_up_does_not_answer() {
        let (mut us, host) = tokio::io::duplex(64);
        drop(host);
        assert!(ask(&mut us).await.is_err());
    }
}
