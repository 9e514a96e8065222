//! The task that a tunnel is for hours. As small as can be: the relay itself, and
//! of what comes behind it nothing before it comes.

use std::mem::replace;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::{Next, Relay};

/// A tunnel's relay, and then its end.
pub(in crate::tunnel) enum Task {
    Relays(Box<Relay>),
    // Boxed twice, so that it is no larger than the relay.
    Ends(Box<Ending>),
    Over,
}

type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut *self {
                Self::Relays(relay) => {
                    let next = ready!(relay.poll_all(context));
                    let Self::Relays(relay) = replace(&mut *self, Self::Over) else {
                        continue;
                    };
                    match next {
                        Next::Ends(came) => {
                            let ending: Ending = Box::pin(relay.end_after(came));
                            *self = Self::Ends(Box::new(ending));
                        }
                        Next::Moves(there) => relay.move_to(&there),
                    }
                }
                Self::Ends(ending) => {
                    ready!((**ending).as_mut().poll(context));
                    *self = Self::Over;
                }
                Self::Over => return Poll::Ready(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thousands of them wait for hours, and a task of more than two words takes
    /// twice the room.
    #[test]
    fn it_is_two_words() {
        assert_eq!(size_of::<Task>(), 2 * size_of::<usize>());
    }
}
