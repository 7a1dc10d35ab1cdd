//! A first-come-first-served lock whose place in line is taken without waiting.
//!
//! Requests are admitted in arrival order by code that must not await (I7); an async mutex queues only when it is
//! polled, in whatever order the tasks run. Here the place is a value: taken at once, waited on later.
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

#[derive(Clone, Debug, Default)]
pub struct Line(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    held: bool,
    waiting: VecDeque<oneshot::Sender<Turnstile>>,
}

/// A place in line. Dropping it gives the place up.
#[derive(Debug)]
pub struct Ticket(Place);

#[derive(Debug)]
enum Place {
    First(Turnstile),
    Behind(oneshot::Receiver<Turnstile>),
}

/// Held by the one whose turn it is; dropping it lets the next one in.
#[derive(Debug)]
pub struct Turnstile(Option<Line>);

impl Line {
    /// Takes the next place. Never waits.
    pub fn ticket(&self) -> Ticket {
        let mut state = self.state();
        if state.held {
            let (next, place) = oneshot::channel();
            state.waiting.push_back(next);
            return Ticket(Place::Behind(place));
        }
        state.held = true;
        Ticket(Place::First(Turnstile(Some(self.clone()))))
    }

    /// Whether somebody holds it or waits for it.
    pub fn is_busy(&self) -> bool {
        self.state().held
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Waits until all who came before are through.
    pub async fn wait(self) -> Turnstile {
        match self.0 {
            Place::First(turnstile) => turnstile,
            Place::Behind(place) => match place.await {
                Ok(turnstile) => turnstile,
                // The sender lives in the line, which the turnstile before us keeps alive: only a lost line ends here.
                Err(_) => Turnstile(None),
            },
        }
    }
}

impl Drop for Turnstile {
    fn drop(&mut self) {
        let Some(line) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = line.state();
                match state.waiting.pop_front() {
                    Some(next) => next,
                    None => {
                        state.held = false;
                        return;
                    }
                }
            };
            match next.send(Turnstile(Some(line.clone()))) {
                Ok(()) => return,
                // The one who waited there gave up: disarm what comes back, go on with the one behind.
                Err(mut refused) => drop(refused.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn first_come_first_served_whatever_order_they_wait_in() {
        let line = Line::default();
        let (a, b, c) = (line.ticket(), line.ticket(), line.ticket());
        let order = Arc::new(Mutex::new(Vec::new()));
        let log = |name: &'static str, ticket: Ticket| {
            let order = order.clone();
            async move {
                let _turn = ticket.wait().await;
                tokio::task::yield_now().await;
                order.lock().unwrap().push(name);
            }
        };
        tokio::join!(log("c", c), log("b", b), log("a", a));
        assert_eq!(*order.lock().unwrap(), ["a", "b", "c"]);
        assert!(!line.is_busy());
    }

    #[tokio::test]
    async fn a_place_given_up_does_not_hold_the_line() {
        let line = Line::default();
        let a = line.ticket().wait().await;
        let (b, c) = (line.ticket(), line.ticket());
        drop(b);
        drop(a);
        let c = tokio::time::timeout(std::time::Duration::from_secs(5), c.wait())
            .await
            .expect("the line stands still");
        drop(c);
        assert!(!line.is_busy());
    }

    #[test]
    fn a_ticket_never_used_frees_the_line() {
        let line = Line::default();
        drop(line.ticket());
        assert!(!line.is_busy());
        let a = line.ticket();
        let b = line.ticket();
        drop(b);
        drop(a);
        assert!(!line.is_busy());
    }
}
