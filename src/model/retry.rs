//! When a failed request is sent again: a table, and the loop around a provider that follows it.
//!
//! Only before the first delta: what a person has seen is never said twice.
use super::{Delta, ErrorKind, ModelError, ModelInfo, Provider, Request, policy};
use futures_util::{StreamExt, stream, stream::BoxStream};
use std::{fmt, time::Duration};
use tokio::time::Instant;

/// How long and how often a request is tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// From the first try to the start of the last one.
    pub total: Duration,
    /// The wait before the second try; doubles with each further one.
    pub first: Duration,
    /// The longest wait that we choose ourselves.
    pub longest: Duration,
    /// Tries, the first included.
    pub tries: u32,
    /// The longest wait, all in all, that a provider may ask for by name (`Retry-After`).
    pub asked: Duration,
}

/// How long a server may take to load a model: large ones take minutes from a disk.
const LOADING: Duration = Duration::from_secs(900);
/// The longest wait between two looks at whether it has.
const LOOK: Duration = Duration::from_secs(5);
/// A wait above this is counted down: said again at each half of it that is left.
const COUNTED: Duration = Duration::from_secs(8);

impl Default for Budget {
    fn default() -> Self {
        Budget {
            total: Duration::from_secs(20),
            first: Duration::from_millis(500),
            longest: Duration::from_secs(8),
            tries: 6,
            asked: Duration::from_secs(300),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Retry { delay: Duration },
    GiveUp,
}

/// What to do after try number `attempt` (from 1) failed, `elapsed` after the first began. `jitter` is in 0..1.
/// A provider's `retry_after` is kept to, or, if it lies beyond what the budget allows, the request is given up at once.
/// A server that loads its model is waited for, unless the budget is nothing.
pub fn verdict(
    kind: ErrorKind,
    attempt: u32,
    retry_after: Option<Duration>,
    elapsed: Duration,
    budget: &Budget,
    jitter: f64,
) -> Verdict {
    if kind == ErrorKind::Rotated {
        // It waits for nothing, and ends with the credentials.
        return Verdict::Retry { delay: Duration::ZERO };
    }
    if !policy::of(kind).retry || budget.total.is_zero() {
        return Verdict::GiveUp;
    }
    let grown = budget.first.saturating_mul(1 << (attempt - 1).min(16));
    // Between half and all of it, so that many clients do not come back at once.
    let own = |longest| grown.min(longest).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
    let (delay, limit, tries) = match retry_after {
        _ if kind == ErrorKind::Loading => (own(LOOK), LOADING, u32::MAX),
        Some(asked) => (asked.max(Duration::from_millis(10)), budget.asked.max(budget.total), budget.tries),
        None => (own(budget.longest), budget.total, budget.tries),
    };
    if attempt >= tries || elapsed.saturating_add(delay) > limit {
        return Verdict::GiveUp;
    }
    Verdict::Retry { delay }
}

/// Said before a request is sent again, and while that is waited for: a bounded number of times.
#[derive(Clone, Debug)]
pub struct RetryNotice {
    /// The try that failed, from 1.
    pub attempt: u32,
    /// What is left of the wait before the next.
    pub left: Duration,
    /// It was said before: only the time went by.
    pub again: bool,
    pub error: ModelError,
}

/// A provider whose requests are sent again while the budget lasts. The waits end at once when the stream is dropped.
pub struct Retrying<P> {
    inner: P,
    budget: Budget,
    on_retry: Box<dyn Fn(&RetryNotice) + Send + Sync>,
}

impl<P: fmt::Debug> fmt::Debug for Retrying<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retrying")
            .field("inner", &self.inner)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl<P: Provider> Retrying<P> {
    /// `on_retry` is called before each wait, from within the stream; it must not block.
    pub fn new(inner: P, budget: Budget, on_retry: impl Fn(&RetryNotice) + Send + Sync + 'static) -> Self {
        Retrying { inner, budget, on_retry: Box::new(on_retry) }
    }
}

impl<P> Retrying<P> {
    /// Waits, and counts a long wait down: each time that half of the rest is over.
    async fn wait(&self, attempt: u32, delay: Duration, error: ModelError) {
        let until = Instant::now() + delay;
        let mut notice = RetryNotice { attempt, left: delay, again: false, error };
        // A server that loads is looked at often, and spoken of ever more rarely.
        if notice.error.kind != ErrorKind::Loading || attempt.is_power_of_two() {
            (self.on_retry)(&notice);
        }
        while notice.left > COUNTED {
            tokio::time::sleep(notice.left / 2).await;
            notice =
                RetryNotice { left: until.saturating_duration_since(Instant::now()), again: true, ..notice };
            (self.on_retry)(&notice);
        }
        tokio::time::sleep_until(until).await;
    }
}

struct State<'a> {
    stream: BoxStream<'a, Result<Delta, ModelError>>,
    started: Instant,
    attempt: u32,
    spoke: bool,
    over: bool,
}

impl<P: Provider> Provider for Retrying<P> {
    fn stream<'a>(&'a self, request: &'a Request) -> BoxStream<'a, Result<Delta, ModelError>> {
        let state = State {
            stream: self.inner.stream(request),
            started: Instant::now(),
            attempt: 1,
            spoke: false,
            over: false,
        };
        stream::unfold(state, move |mut state| async move {
            loop {
                if state.over {
                    return None;
                }
                let error = match state.stream.next().await? {
                    Ok(delta) => {
                        state.spoke = true;
                        return Some((Ok(delta), state));
                    }
                    Err(error) => error,
                };
                let elapsed = state.started.elapsed();
                let verdict =
                    verdict(error.kind, state.attempt, error.retry_after, elapsed, &self.budget, jitter());
                match verdict {
                    Verdict::Retry { delay } if !state.spoke => {
                        let attempt = state.attempt;
                        state.attempt += u32::from(error.kind != ErrorKind::Rotated);
                        self.wait(attempt, delay, error).await;
                        state.stream = self.inner.stream(request);
                    }
                    _ => {
                        state.over = true;
                        return Some((Err(told(error, state.attempt, elapsed)), state));
                    }
                }
            }
        })
        .boxed()
    }

    fn info(&self) -> ModelInfo {
        self.inner.info()
    }
}

/// The error, with how often it was tried.
fn told(mut error: ModelError, attempts: u32, elapsed: Duration) -> ModelError {
    if attempts > 1 {
        error.message =
            format!("{} (after {attempts} tries in {} s)", error.message, elapsed.as_secs_f64().round());
    }
    error
}

fn jitter() -> f64 {
    // The hasher of std is seeded from the system once and differs with each use: enough to spread clients.
    use std::hash::{BuildHasher, Hasher};
    let bits = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        Finish,
        scripted::{Scripted, Step, error, text},
    };
    use futures_util::FutureExt;
    use std::sync::{Arc, Mutex};

    #[test]
    fn the_table() {
        let b = Budget::default();
        let s = Duration::from_secs;
        let at = |kind, attempt, after, elapsed| verdict(kind, attempt, after, elapsed, &b, 1.0);
        use ErrorKind::*;
        for kind in [Auth, Quota, TooLong, Refused, StaleReasoning, BadRequest, ModelNotFound, Tls] {
            assert_eq!(at(kind, 1, Some(s(1)), s(0)), Verdict::GiveUp, "{kind:?}");
        }
        for kind in [RateLimit, Overloaded, Loading, Network, Timeout, Malformed] {
            assert_eq!(at(kind, 1, None, s(0)), Verdict::Retry { delay: b.first }, "{kind:?}");
        }
        for (attempt, elapsed) in [(1, 0), (100, 10_000)] {
            assert_eq!(at(Rotated, attempt, Some(s(9)), s(elapsed)), Verdict::Retry { delay: s(0) });
        }
        assert_eq!(at(Overloaded, 3, None, s(0)), Verdict::Retry { delay: s(2) });
        assert_eq!(at(Overloaded, 5, None, s(0)), Verdict::Retry { delay: s(8) });
        assert_eq!(at(Overloaded, 6, None, s(0)), Verdict::GiveUp);
        assert_eq!(at(RateLimit, 1, Some(s(1)), s(0)), Verdict::Retry { delay: s(1) });
        assert_eq!(at(RateLimit, 1, Some(s(60)), s(0)), Verdict::Retry { delay: s(60) });
        assert_eq!(at(RateLimit, 1, Some(s(301)), s(0)), Verdict::GiveUp);
        assert_eq!(at(RateLimit, 2, Some(s(200)), s(150)), Verdict::GiveUp);
        assert_eq!(at(RateLimit, 2, None, s(20)), Verdict::GiveUp);
        // A model that is loaded may take minutes, and many looks.
        assert_eq!(at(Loading, 100, None, s(600)), Verdict::Retry { delay: s(5) });
        assert_eq!(at(Loading, 100, None, s(899)), Verdict::GiveUp);
        let none = Budget { total: Duration::ZERO, ..b };
        for kind in [RateLimit, Loading] {
            assert_eq!(verdict(kind, 1, Some(s(1)), s(0), &none, 1.0), Verdict::GiveUp);
        }
        assert_eq!(verdict(Overloaded, 1, None, s(0), &b, 0.0), Verdict::Retry { delay: b.first / 2 });
    }

    fn request() -> Request {
        Request {
            model: "m".into(),
            system: "".into(),
            tools: Arc::from([]),
            messages: vec![],
            effort: None,
            max_output: None,
            cache_key: "k".into(),
        }
    }
    /// Waits so short that a test does not feel them.
    const QUICK: Budget = Budget {
        total: Duration::from_secs(20),
        first: Duration::from_micros(10),
        longest: Duration::from_micros(50),
        tries: 6,
        asked: Duration::from_secs(20),
    };
    fn fails(kind: ErrorKind, after: Option<Duration>) -> Vec<Step> {
        vec![Step::Fail(ModelError { retry_after: after, ..error(kind, "h answered 503.") })]
    }

    #[tokio::test]
    async fn waits_as_asked_then_works_and_says_so() {
        let asked = Duration::from_millis(20);
        let model = Arc::new(Scripted::new([fails(ErrorKind::RateLimit, Some(asked)), text("hi")]));
        let notices = Arc::new(Mutex::new(Vec::new()));
        let seen = notices.clone();
        let retrying =
            Retrying::new(model.clone(), QUICK, move |n| seen.lock().unwrap().push((n.attempt, n.left)));
        let (request, start) = (request(), Instant::now());
        let all: Vec<_> = retrying.stream(&request).map(Result::unwrap).collect().await;
        assert_eq!(all, [Delta::Text("hi".into()), Delta::End(Finish::Stop)]);
        assert!(start.elapsed() >= asked);
        assert_eq!(*notices.lock().unwrap(), [(1, asked)]);
        assert_eq!(model.requests().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_wait_is_counted_down_a_few_times() {
        let asked = Duration::from_secs(200);
        let model = Arc::new(Scripted::new([fails(ErrorKind::RateLimit, Some(asked)), text("hi")]));
        let notices = Arc::new(Mutex::new(Vec::new()));
        let seen = notices.clone();
        let retrying = Retrying::new(model, Budget::default(), move |n| {
            seen.lock().unwrap().push((n.left.as_secs(), n.again));
        });
        let (request, start) = (request(), Instant::now());
        assert_eq!(retrying.stream(&request).count().await, 2);
        assert_eq!(start.elapsed().as_secs(), 200);
        let seen = notices.lock().unwrap();
        assert_eq!(seen[..3], [(200, false), (100, true), (50, true)]);
        assert!(seen.len() < 8 && seen.last().unwrap().0 <= 8, "{seen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_that_is_loaded_is_waited_for_and_seldom_spoken_of() {
        let loading = (0..60).map(|_| fails(ErrorKind::Loading, None));
        let model = Arc::new(Scripted::new(loading.chain([text("hi")])));
        let said = Arc::new(Mutex::new(0));
        let count = said.clone();
        let retrying = Retrying::new(model.clone(), Budget::default(), move |_| *count.lock().unwrap() += 1);
        let request = request();
        let all: Vec<_> = retrying.stream(&request).map(Result::unwrap).collect().await;
        assert_eq!(all.len(), 2);
        assert_eq!(model.requests().len(), 61);
        assert_eq!(*said.lock().unwrap(), 6);
    }

    #[tokio::test]
    async fn gives_up_within_the_budget_and_says_how_often() {
        let model = Arc::new(Scripted::new((0..20).map(|_| fails(ErrorKind::Overloaded, None))));
        let retrying = Retrying::new(model.clone(), QUICK, |_| {});
        let request = request();
        let mut all: Vec<_> = retrying.stream(&request).collect().await;
        assert_eq!(all.len(), 1);
        let error = all.remove(0).unwrap_err();
        assert!(error.message.starts_with("h answered 503. (after 6 tries in "), "{error}");
        assert_eq!(model.requests().len(), 6);
    }

    #[tokio::test]
    async fn never_again_once_something_was_said() {
        let model = Arc::new(Scripted::new([
            vec![Step::Say(Delta::Text("half".into())), Step::Fail(error(ErrorKind::Network, "reset"))],
            text("half and whole"),
        ]));
        let retrying = Retrying::new(model.clone(), QUICK, |_| {});
        let request = request();
        let all: Vec<_> = retrying.stream(&request).collect().await;
        assert_eq!(all.len(), 2);
        assert!(all[1].is_err());
        assert_eq!(model.requests().len(), 1);
    }

    #[tokio::test]
    async fn a_wait_ends_when_the_stream_is_dropped() {
        let model = Arc::new(Scripted::new([
            fails(ErrorKind::RateLimit, Some(Duration::from_secs(10))),
            text("never"),
        ]));
        let retrying = Retrying::new(model.clone(), Budget::default(), |_| {});
        let request = request();
        let mut stream = retrying.stream(&request);
        assert!(stream.next().now_or_never().is_none());
        drop(stream);
        assert_eq!(model.requests().len(), 1);
    }
}
