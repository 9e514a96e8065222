//! `POST /api/v1/reload`: the configuration is read now, and what came of it is
//! the answer.

use super::Api;
use super::answer::{Answer, Failure, answer};
use crate::config::{Cause, Reloaded};

impl Api {
    pub(super) async fn reload(&self) -> Result<Answer, Failure> {
        let reload = self.reload.as_ref().ok_or_else(|| {
            Failure::not_implemented("this broker's configuration came from no file")
        })?;
        match reload.now(Cause::Request).await {
            Reloaded::Ending => Err(Failure::unavailable("the broker is ending")),
            // One that was refused is a good answer, too: the broker is well.
            told => Ok(answer(&told)),
        }
    }
}
