//! Words of the user that reach a turn while it runs: at the next tool result, or where it would have ended.
use super::{journal::KeepError, port::Update, turn::Turn};
use crate::{
    id::MessageId,
    log::{Entry, Part, PromptState},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What waits for the running turn of a session.
#[derive(Debug, Default)]
pub struct Steering(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// A turn runs and will look here once more.
    open: bool,
    waiting: Vec<Steer>,
}

/// One message, in the user's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steer {
    pub id: MessageId,
    pub text: String,
}

impl Steering {
    /// Hands words to the running turn. `false`: there is none that could take them.
    pub fn push(&self, text: String) -> bool {
        let mut state = self.state();
        if state.open {
            state.waiting.push(Steer { id: MessageId::new(), text });
        }
        state.open
    }

    /// A turn begins. Nothing is taken any more once what this gives is dropped, however the turn ends.
    pub(super) fn open(&self) -> Open<'_> {
        self.state().open = true;
        Open(self)
    }

    pub(super) fn take(&self) -> Vec<Steer> {
        std::mem::take(&mut self.state().waiting)
    }

    /// The turn is about to end: what waits still, for which it goes on; if nothing does, nothing is taken any more.
    pub(super) fn take_or_close(&self) -> Vec<Steer> {
        let mut state = self.state();
        state.open = !state.waiting.is_empty();
        std::mem::take(&mut state.waiting)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that takes what the user says.
pub(super) struct Open<'a>(&'a Steering);

impl Open<'_> {
    fn close(&self) -> Vec<Steer> {
        let mut state = self.0.state();
        state.open = false;
        std::mem::take(&mut state.waiting)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

impl Turn<'_> {
    /// Puts words of the user into the conversation, where the model reads them next, and shows that they arrived.
    pub(super) async fn steer(&mut self, steers: Vec<Steer>) -> Result<(), KeepError> {
        for Steer { id, text } in steers {
            self.journal.append(vec![Entry::Steer { id: id.clone(), text: text.clone() }]).await?;
            let parts = vec![Part::Text { text }];
            self.editor.update(&self.session.id, Update::User { id, parts }).await;
        }
        Ok(())
    }

    /// The turn ended otherwise than by its own word: what did not reach the model is kept as such.
    pub(super) async fn withdraw_steers(&mut self, steering: Open<'_>) {
        let late = steering.close().into_iter().map(|Steer { id, text }| Entry::User {
            id,
            parts: vec![Part::Text { text }],
            state: PromptState::Withdrawn,
            volatile: None,
        });
        if let Err(e) = self.journal.append(late.collect()).await {
            tracing::warn!("what the user said at the end of a turn was not kept: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_taken_is_lost() {
        let steering = Steering::default();
        assert!(!steering.push("a".into()), "no turn runs");
        let open = steering.open();
        assert!(steering.push("b".into()));
        assert_eq!(steering.take_or_close().len(), 1, "the turn goes on");
        assert!(steering.push("c".into()));
        assert_eq!(steering.take().len(), 1);
        assert!(steering.take_or_close().is_empty());
        assert!(!steering.push("d".into()), "the turn ends");
        drop(open);
        drop(steering.open());
        assert!(!steering.push("e".into()), "a turn that broke off takes nothing");
    }
}
