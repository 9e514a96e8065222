//! Something made of files, made anew when they change.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{Context, SHA256};
use tracing::{error, info};

use super::certificate::Facts;
use super::fault::Fault;
use super::pem::Text;

/// How something is made of files.
pub(super) trait Recipe: fmt::Debug + Send + Sync {
    type Made: Send + Sync;

    /// The files, each with the key that names it.
    fn files(&self) -> Vec<(&'static str, &Path)>;

    /// Makes it of these files' contents, which come in the same order.
    fn make(&self, texts: &[Text<'_>]) -> Result<Batch<Self::Made>, Fault>;
}

/// What was made, and the certificates in it whose dates matter.
pub(super) struct Batch<T> {
    pub(super) made: T,
    pub(super) certificates: Vec<Shown>,
}

/// A certificate and the file it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) key: &'static str,
    pub(super) path: std::path::PathBuf,
    pub(super) facts: Facts,
}

/// What is in force, and how the files stand to it.
pub(super) struct Live<R: Recipe> {
    recipe: R,
    made: ArcSwap<R::Made>,
    // INVARIANT: locked by looks alone, which are short and one at a time.
    seen: Mutex<Seen>,
}

#[derive(Debug, Clone)]
struct Seen {
    /// The contents last looked at; `None` where they could not be read.
    print: Option<Print>,
    certificates: Vec<Shown>,
    last_error: Option<Fault>,
}

type Print = Vec<u8>;

/// What comes of files that could be read.
type Made<R> = Result<Batch<<R as Recipe>::Made>, Fault>;

/// How something live stands, whatever it is.
pub(super) struct State {
    pub(super) certificates: Vec<Shown>,
    pub(super) last_error: Option<Fault>,
}

/// What is common to all of it.
pub(super) trait Look: fmt::Debug + Send + Sync {
    /// Reads the files again; whether another one is in force now. Blocks.
    fn look(&self) -> bool;
    fn state(&self) -> State;
}

impl<R: Recipe> Live<R> {
    /// Blocks.
    pub(super) fn new(recipe: R) -> Result<Self, Fault> {
        let (print, batch) = read(&recipe)?;
        let batch = batch?;
        Ok(Self {
            recipe,
            made: ArcSwap::from_pointee(batch.made),
            seen: Mutex::new(Seen {
                print: Some(print),
                certificates: batch.certificates,
                last_error: None,
            }),
        })
    }

    pub(super) fn made(&self) -> Arc<R::Made> {
        self.made.load_full()
    }

    pub(super) fn recipe(&self) -> &R {
        &self.recipe
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        // Each change of it is one assignment.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files' contents in short, and what comes of them.
fn read<R: Recipe>(recipe: &R) -> Result<(Print, Made<R>), Fault> {
    let files = recipe.files().into_iter();
    let texts: Vec<_> = files
        .map(|(key, path)| Text::read(key, path))
        .collect::<Result<_, _>>()?;
    let mut print = Context::new(&SHA256);
    for text in &texts {
        print.update(&text.bytes.len().to_be_bytes());
        print.update(&text.bytes);
    }
    let print = print.finish().as_ref().to_vec();
    Ok((print, recipe.make(&texts)))
}

impl<R: Recipe> Look for Live<R> {
    fn look(&self) -> bool {
        let mut seen = self.seen();
        let fault = match read(&self.recipe) {
            Ok((print, _)) if seen.print.as_ref() == Some(&print) => return false,
            Ok((print, Ok(batch))) => {
                self.made.store(Arc::new(batch.made));
                *seen = Seen {
                    print: Some(print),
                    certificates: batch.certificates,
                    last_error: None,
                };
                let of = seen.certificates.first();
                let subject = of.map(|shown| shown.facts.subject.as_str());
                let file = of.map(|shown| shown.path.display().to_string());
                info!(file, subject, "Certificate exchanged");
                return true;
            }
            Ok((print, Err(fault))) => {
                seen.print = Some(print);
                fault
            }
            Err(fault) => {
                seen.print = None;
                fault
            }
        };
        // Said once: the same fault may be there for days.
        if seen.last_error.as_ref() != Some(&fault) {
            error!(reason = %fault, "Certificate refused, the one before stays in force");
            seen.last_error = Some(fault);
        }
        false
    }

    fn state(&self) -> State {
        let seen = self.seen();
        State {
            certificates: seen.certificates.clone(),
            last_error: seen.last_error.clone(),
        }
    }
}

/// Neither keys nor what they are wrapped in.
impl<R: Recipe> fmt::Debug for Live<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recipe = &self.recipe;
        f.debug_struct("Live")
            .field("recipe", recipe)
            .finish_non_exhaustive()
    }
}
