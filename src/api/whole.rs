//! Work that is done to its end once it was begun: a caller that hangs up takes
//! its answer with it, and neither half of a change nor its line in the trail.

use std::future::Future;

use super::answer::{Answer, Failure};

/// Does it apart from the request that asked for it.
pub(super) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Answer<T>> + Send + 'static,
) -> Answer<T> {
    let ended = tokio::spawn(work).await;
    ended.unwrap_or_else(|_| Err(Failure::unavailable("the broker is stopping")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::super::answer::Told;
    use super::*;

    #[tokio::test]
    async fn whoever_hangs_up_stops_nothing() {
        let (go, gone) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let work = to_its_end(async move {
            let _ = gone.await;
            let _ = tell.send("done");
            Ok(Told(()))
        });
        assert!(timeout(Duration::from_millis(1), work).await.is_err());
        go.send(()).unwrap();
        let told = timeout(Duration::from_secs(10), told).await;
        assert_eq!(told.unwrap(), Ok("done"));
    }
}
