//! The keys of `[store]`.

use super::super::form::{Form, Key, key};
use super::super::words::{DEGRADED, STORES, spelt};
use super::{ms, s};

pub(in crate::config) const STORE: &[Key] = &[
    key(
        "kind",
        Form::Word(|| spelt(STORES)),
        "embedded keeps all of it in one file of this process, postgres in a PostgreSQL database that several replicas share.",
    )
    .or("\"embedded\""),
    key(
        "replicated",
        Form::Switch,
        "Whether several replicas place the same users; refuses a store that each has to itself.",
    )
    .or("false"),
    key(
        "path",
        Form::File,
        "The file of the embedded store, with its journal beside it; its directory must be writable.",
    )
    .or("\"/var/lib/sessionguard/sessionguard.redb\""),
    key(
        "address",
        Form::HostPort,
        "Name or IP address of PostgreSQL or of a pooler before it, with the port.",
    )
    .or("\"127.0.0.1:5432\""),
    key("database", Form::Name, "The database.").or("\"sessionguard\""),
    key(
        "user",
        Form::Name,
        "The role that owns our tables in it.",
    )
    .or("\"sessionguard\""),
    key(
        "password_file",
        Form::SecretFile,
        "File that holds the role's password.",
    ),
    key(
        "tls",
        Form::Switch,
        "Whether the database must speak TLS; plain text to another machine must be said in so many words.",
    )
    .or("false"),
    key(
        "pin_sha256",
        Form::Fingerprints,
        "SHA-256 sums of whole certificates, one of which is the database's; neither names nor signatures on it matter then.",
    ),
    key(
        "ca_file",
        Form::File,
        "Authorities that sign the database's certificate, in PEM form; relative to the main file.",
    ),
    key(
        "tls_server_name",
        Form::Host,
        "The name in the database's certificate; that in the address if left out.",
    ),
    key(
        "pool_size",
        Form::Number(1, 200),
        "Most connections to the database at a time.",
    )
    .or("8"),
    key(
        "connect_timeout",
        Form::Time(ms(100), s(14)),
        "Time for one connection, TLS and login included.",
    )
    .or("\"2s\""),
    key(
        "query_timeout",
        Form::Time(ms(100), s(14)),
        "Time for one answer of the database, the wait for a free connection included.",
    )
    .or("\"3s\""),
    key(
        "degraded",
        Form::Word(|| spelt(DEGRADED)),
        "Who is placed while the database is away: refuse lets nobody in, existing-lease those whose lease was known last and still runs, on its host.",
    )
    .or("\"refuse\""),
];
