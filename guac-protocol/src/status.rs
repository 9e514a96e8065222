//! The status codes of `error`, by their protocol names.
//!
//! The code alone chooses what the user reads, and whether the page connects again by itself.
//! Called by whoever refuses or ends a tunnel, and by whoever reads guacd's `error`.

use std::fmt;

macro_rules! statuses {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)*) => {
        /// A status code of the Guacamole protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Status { $($(#[$doc])* $variant = $code,)* }

        impl Status {
            /// Every status, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The number on the wire (written there in decimal).
            #[must_use]
            pub const fn code(self) -> u16 {
                match self { $(Self::$variant => $code,)* }
            }

            /// The status with this number; `None` for one the protocol does not define.
            #[must_use]
            pub const fn from_code(code: u16) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// The protocol's name, for example `SERVER_BUSY`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

statuses! {
    /// No error.
    Success = 0x000, "SUCCESS";
    /// The request is not supported.
    Unsupported = 0x100, "UNSUPPORTED";
    /// An internal error.
    ServerError = 0x200, "SERVER_ERROR";
    /// Too busy to take the request.
    ServerBusy = 0x201, "SERVER_BUSY";
    /// The desktop does not answer.
    UpstreamTimeout = 0x202, "UPSTREAM_TIMEOUT";
    /// The desktop answered with an error.
    UpstreamError = 0x203, "UPSTREAM_ERROR";
    /// What was asked for does not exist.
    ResourceNotFound = 0x204, "RESOURCE_NOT_FOUND";
    /// What was asked for is in use.
    ResourceConflict = 0x205, "RESOURCE_CONFLICT";
    /// What was asked for was closed.
    ResourceClosed = 0x206, "RESOURCE_CLOSED";
    /// The desktop cannot be found or does not accept a connection.
    UpstreamNotFound = 0x207, "UPSTREAM_NOT_FOUND";
    /// The desktop refuses service, or the connection to it was lost.
    UpstreamUnavailable = 0x208, "UPSTREAM_UNAVAILABLE";
    /// Another connection took the session over.
    SessionConflict = 0x209, "SESSION_CONFLICT";
    /// The session was idle for too long.
    SessionTimeout = 0x20A, "SESSION_TIMEOUT";
    /// The session was ended by force.
    SessionClosed = 0x20B, "SESSION_CLOSED";
    /// The request makes no sense.
    ClientBadRequest = 0x300, "CLIENT_BAD_REQUEST";
    /// Not logged in, or wrong credentials; the page may log the user out.
    ClientUnauthorized = 0x301, "CLIENT_UNAUTHORIZED";
    /// Not allowed, whoever asks.
    ClientForbidden = 0x303, "CLIENT_FORBIDDEN";
    /// The client took too long.
    ClientTimeout = 0x308, "CLIENT_TIMEOUT";
    /// The client sent more than agreed.
    ClientOverrun = 0x30D, "CLIENT_OVERRUN";
    /// The client sent an unsupported type.
    ClientBadType = 0x30F, "CLIENT_BAD_TYPE";
    /// The client uses too much already.
    ClientTooMany = 0x31D, "CLIENT_TOO_MANY";
}

impl Status {
    /// Whether Guacamole's page connects again by itself after 15 s (releases up to 1.6.0).
    ///
    /// Never send such a status for a condition that lasts: every refused page comes back.
    #[must_use]
    pub const fn page_retries(self) -> bool {
        matches!(
            self,
            Self::ServerError
                | Self::UpstreamTimeout
                | Self::UpstreamError
                | Self::UpstreamNotFound
                | Self::UpstreamUnavailable
                | Self::ClientUnauthorized
                | Self::ClientTimeout
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
