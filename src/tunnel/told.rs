//! The word that a tunnel must end: said once, for good, by whoever ends this
//! one, or all. A tunnel waits for it in each of its steps, for hours in the
//! last, so that it is as small as can be: who listens is one task.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Whether a tunnel was told to end, and whom to wake for it.
#[derive(Debug, Default)]
pub(super) struct Told {
    is_told: AtomicBool,
    listener: Mutex<Option<Waker>>,
}

impl Told {
    /// Tells it. Whoever looks later finds it told.
    pub(super) fn tell(&self) {
        self.is_told.store(true, Ordering::SeqCst);
        // Woken without the lock: it may look at once.
        let listener = self.lock().take();
        if let Some(listener) = listener {
            listener.wake();
        }
    }

    /// Whether it was told. Cheaper than to listen again, for who listens already.
    pub(super) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::SeqCst)
    }

    /// Whether it was told; where it was not, this task is woken once it is, and
    /// none that listened before.
    pub(super) fn listen(&self, context: &Context<'_>) -> bool {
        let mut listener = self.lock();
        match &mut *listener {
            Some(known) => known.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        drop(listener);
        // After it listens, or a word in between would go unheard.
        self.is_told()
    }

    /// Nobody listens any more.
    pub(super) fn leave(&self) {
        drop(self.lock().take());
    }

    /// What `work` comes to; `None` where the word came first.
    pub(super) async fn unless_told<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| match self.listen(context) {
            true => Poll::Ready(None),
            false => work.as_mut().poll(context).map(Some),
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        // A whole value behind a panic.
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn who_listens_is_woken_and_who_looks_later_finds_it_told() {
        let told = Arc::new(Told::default());
        assert_eq!(told.unless_told(async { 1 }).await, Some(1));
        let waiting = tokio::spawn({
            let told = Arc::clone(&told);
            async move { told.unless_told(std::future::pending::<()>()).await }
        });
        tokio::task::yield_now().await;
        assert!(!told.is_told() && !waiting.is_finished());
        told.tell();
        assert_eq!(waiting.await.unwrap(), None);
        assert_eq!(told.unless_told(async { 1 }).await, None);
    }

    #[tokio::test]
    async fn only_the_last_step_that_listened_is_kept() {
        let told = Told::default();
        let step = std::task::Waker::noop();
        assert!(!told.listen(&Context::from_waker(step)));
        let woken = Arc::new(Woken::default());
        let last = Waker::from(Arc::clone(&woken));
        assert!(!told.listen(&Context::from_waker(&last)));
        assert_eq!(Arc::strong_count(&woken), 3);
        told.tell();
        assert!(woken.0.load(Ordering::SeqCst) && told.is_told());
        assert!(told.listen(&Context::from_waker(&last)));
        told.leave();
        drop(last);
        assert_eq!(Arc::strong_count(&woken), 1);
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}
