//! Enrolment: a token made for this host alone becomes the host's own key.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::http::{HttpError, Server};
use super::key::{Key, KeyError, secret_file};
use super::wire::{EnrollAnswer, EnrollQuestion};

const ENROLL: &str = "/api/v1/agents/enroll";

/// What an enrolment needs.
#[derive(Debug)]
pub struct Enrolment {
    /// The broker's API, in the order tried.
    pub servers: Vec<Server>,
    /// A file with the enrollment token.
    pub token_file: PathBuf,
    /// Where the key goes.
    pub key_file: PathBuf,
    /// The host's name as an administrator would know it; its own by default.
    pub name: Option<String>,
}

/// Why a host was not enrolled.
#[derive(Debug, thiserror::Error)]
pub enum EnrollError {
    /// The token.
    #[error("the enrollment token: {0}")]
    Token(KeyError),
    /// The token's file is empty.
    #[error("the enrollment token: {} is empty", path.display())]
    NoToken {
        /// The file.
        path: PathBuf,
    },
    /// None is named.
    #[error("no broker is named")]
    NoServer,
    /// The broker.
    #[error("{0}{hint}", hint = hint(.0))]
    Asked(#[from] HttpError),
    /// It answered something else.
    #[error(
        "the broker gave no key: its answer has no usable agent_id and token; a host it knows already \
         may have to wait for an administrator's approval"
    )]
    NoKey,
    /// The key was given and could not be kept.
    #[error("{0}; the token is spent, so a new one is needed once this is mended")]
    Kept(KeyError),
}

fn hint(error: &HttpError) -> &'static str {
    if error.is_unauthorised() {
        "; a token serves one host once and for a short time: make a new one"
    } else {
        ""
    }
}

/// Enrols this host and keeps its key. Gives the id the broker knows it by.
///
/// # Errors
/// No token, no broker, a refusal, or a key that cannot be kept.
pub async fn enroll(enrolment: &Enrolment) -> Result<String, EnrollError> {
    let token = secret_file(&enrolment.token_file).map_err(EnrollError::Token)?;
    let token = token.trim();
    if token.is_empty() {
        return Err(EnrollError::NoToken {
            path: enrolment.token_file.clone(),
        });
    }
    let line = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let hostname = line("/proc/sys/kernel/hostname");
    let question = serde_json::json!(EnrollQuestion {
        enrollment_token: token,
        name: enrolment.name.as_deref().unwrap_or(hostname.trim()),
        machine_id: line("/etc/machine-id").trim(),
    });
    let question = question.to_string().into_bytes();
    let answer = ask(&enrolment.servers, question).await?;
    let answer: EnrollAnswer = serde_json::from_value(answer).map_err(|_| EnrollError::NoKey)?;
    let key = Key::new(&answer.agent_id, &answer.token).ok_or(EnrollError::NoKey)?;
    key.save(&enrolment.key_file).map_err(EnrollError::Kept)?;
    Ok(answer.agent_id)
}

/// Asks the first broker that can be asked. Whoever may have heard the token is
/// the last: it is good once.
async fn ask(servers: &[Server], question: Vec<u8>) -> Result<Value, EnrollError> {
    let mut first = None;
    for server in servers {
        let asked = server.post(ENROLL, None, question.clone()).await;
        match asked {
            Err(error) if error.is_before_the_question() => {
                first.get_or_insert(error);
            }
            asked => return Ok(asked?),
        }
    }
    Err(first.map_or(EnrollError::NoServer, EnrollError::Asked))
}
