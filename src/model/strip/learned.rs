//! What a provider refused before, for as long as the process lives.
use super::{What, apply};
use crate::model::Request;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// By model, or by model and session where it is about what the session had then.
#[derive(Debug, Default)]
pub struct Learned(Mutex<BTreeMap<(String, What), usize>>);

impl Learned {
    /// The request as the provider will take it. `place`: the address and the model.
    pub fn fit<'r>(&self, place: &str, request: &'r Request) -> Cow<'r, Request> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fit = Cow::Borrowed(request);
        for what in super::ORDER {
            let Some(messages) = known.get(&key(place, what, request)) else { continue };
            if let Some(less) = apply(what, &fit, *messages) {
                fit = Cow::Owned(less);
            }
        }
        fit
    }

    /// It took the request once this was done to it.
    pub fn remember(&self, place: &str, what: What, request: &Request) {
        let messages = if is_of_session(what) { request.messages.len() } else { usize::MAX };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key(place, what, request), messages);
    }
}

/// Later reasoning and later images may be taken.
fn is_of_session(what: What) -> bool {
    matches!(what, What::Reasoning | What::BadImages | What::Limit)
}

fn key(place: &str, what: What, request: &Request) -> (String, What) {
    let session = if is_of_session(what) { request.cache_key.as_str() } else { "" };
    (format!("{place} {session}"), what)
}
