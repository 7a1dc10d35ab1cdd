//! Tool calls put together from fragments, however a server numbers and repeats them.
use super::surrogates;
use crate::{log::Native, model::Delta};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};

/// The calls of one reply, in the order in which they began.
#[derive(Debug, Default)]
pub struct Calls(Vec<Call>);

#[derive(Debug)]
struct Call {
    index: Option<i64>,
    id: Option<String>,
    name: String,
    args: String,
    extra: Option<Value>,
}

impl Calls {
    /// Takes a fragment, the `nth` of its event. An id that is new starts a call, whatever the index says, and so does a
    /// name with an id that is known under another index; without an id, the index tells; without both, it belongs to the call that is open.
    pub fn fragment(
        &mut self,
        nth: usize,
        index: Option<i64>,
        id: Option<String>,
        name: Option<String>,
        args: &str,
        extra: Option<Value>,
    ) {
        let at = match self.of(nth, index, id.as_deref(), name.as_deref(), args) {
            Some(at) => at,
            None => {
                self.0.push(Call { index, id: None, name: String::new(), args: String::new(), extra: None });
                self.0.len() - 1
            }
        };
        let call = &mut self.0[at];
        if call.id.is_none() {
            call.id = id;
        }
        if let Some(name) = name {
            if name.starts_with(&call.name) {
                call.name = name;
            } else if call.args.is_empty() && !call.name.ends_with(&name) {
                call.name.push_str(&name);
            }
        }
        // The same whole call sent again adds nothing.
        if !(call.args == args && is_object(args)) {
            call.args.push_str(args);
        }
        call.extra = extra.or(call.extra.take());
    }

    fn of(
        &self,
        nth: usize,
        index: Option<i64>,
        id: Option<&str>,
        name: Option<&str>,
        args: &str,
    ) -> Option<usize> {
        let open = self.0.iter().rposition(|c| index.is_none() || c.index.is_none() || c.index == index);
        if let Some(id) = id {
            let is_same = |c: &Call| c.id.as_deref() == Some(id);
            let fits = |c: &Call| index.is_none() || c.index.is_none() || c.index == index;
            if let Some(same) = self.0.iter().rposition(|c| is_same(c) && fits(c)) {
                return Some(same);
            }
            if let Some(same) = self.0.iter().rposition(is_same) {
                // One id for all calls of a reply: the index and a name tell them apart.
                return Some(same).filter(|_| name.is_none());
            }
            // A server that makes up an id for each fragment gives the name but once.
            return open.filter(|at| {
                let call = &self.0[*at];
                let unnamed = name.is_none() && !is_object(&call.args);
                (call.id.is_none() && !is_object(&call.args)) || unnamed
            });
        }
        let at = open?;
        let another = name.is_some()
            && ((index.is_none() && nth > 0) || (is_object(&self.0[at].args) && !args.is_empty()));
        (!another).then_some(at)
    }

    /// The calls, whole; none is left.
    pub fn take(&mut self, tag: &str) -> Vec<Delta> {
        let mut calls = std::mem::take(&mut self.0);
        for at in 1..calls.len() {
            // Results find their calls by the id; whoever gets a call without one makes one up.
            if calls[..at].iter().any(|c| c.id.is_some() && c.id == calls[at].id) {
                calls[at].id = None;
            }
        }
        let whole = |c: Call| {
            let native = c.extra.map(|extra| Native {
                dialect: tag.into(),
                value: serde_json::json!({ "extra_content": extra }),
            });
            Delta::Call { provider_id: c.id, name: c.name, args: unwrapped(c.args), native }
        };
        calls.into_iter().filter(|c| !c.name.is_empty() || !c.args.is_empty()).map(whole).collect()
    }
}

/// Whether this is a JSON object, whole.
pub fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<BTreeMap<Cow<'_, str>, IgnoredAny>>(text).is_ok()
}

/// Arguments without a second coat of JSON; none at all are an empty object.
pub fn unwrapped(args: String) -> String {
    let args = match surrogates::mend(&args) {
        Cow::Owned(mended) => mended,
        Cow::Borrowed(_) => args,
    };
    let trimmed = args.trim();
    if trimmed.is_empty() {
        return "{}".into();
    }
    if trimmed.starts_with('"')
        && let Ok(inner) = serde_json::from_str::<String>(trimmed)
        && is_object(&inner)
    {
        return inner;
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fragment<'a> = (usize, Option<i64>, &'a str, &'a str, &'a str);
    fn check(fragments: &[Fragment<'_>], want: &[(&str, &str, &str)]) {
        let mut calls = Calls::default();
        let some = |s: &str| Some(s.to_owned()).filter(|s| !s.is_empty());
        for (nth, index, id, name, args) in fragments {
            calls.fragment(*nth, *index, some(id), some(name), args, None);
        }
        let got: Vec<_> = calls
            .take("t")
            .into_iter()
            .map(|d| match d {
                Delta::Call { provider_id, name, args, .. } => (provider_id.unwrap_or_default(), name, args),
                _ => unreachable!(),
            })
            .collect();
        let want: Vec<_> =
            want.iter().map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string())).collect();
        assert_eq!(got, want, "{fragments:?}");
    }

    #[test]
    fn fragments_find_their_call() {
        let (a, b) = (r#"{"p":1}"#, r#"{"p":2}"#);
        // One id for both.
        check(
            &[(0, Some(0), "x", "read", a), (0, Some(1), "x", "read", ""), (0, Some(1), "x", "", b)],
            &[("x", "read", a), ("", "read", b)],
        );
        check(&[(0, Some(0), "x", "read", "{"), (0, Some(1), "x", "", "}")], &[("x", "read", "{}")]);
        // By the book, interleaved.
        check(
            &[
                (0, Some(0), "a", "r", ""),
                (0, Some(1), "b", "r", ""),
                (0, Some(0), "", "", a),
                (0, Some(1), "", "", b),
            ],
            &[("a", "r", a), ("b", "r", b)],
        );
        // All with index 0 (Ollama): a new id is a new call.
        check(&[(0, Some(0), "a", "r", a), (0, Some(0), "b", "r", b)], &[("a", "r", a), ("b", "r", b)]);
        check(
            &[
                (0, Some(0), "a", "r", ""),
                (0, Some(0), "", "", a),
                (0, Some(0), "b", "r", ""),
                (0, Some(0), "", "", b),
            ],
            &[("a", "r", a), ("b", "r", b)],
        );
        // No index.
        check(
            &[(0, None, "a", "r", "{\"p\""), (0, None, "", "", ":1}"), (0, None, "b", "r", b)],
            &[("a", "r", a), ("b", "r", b)],
        );
        // No id at all.
        check(&[(0, Some(0), "", "r", a), (0, Some(1), "", "r", b)], &[("", "r", a), ("", "r", b)]);
        check(&[(0, Some(0), "", "r", a), (0, Some(0), "", "r", b)], &[("", "r", a), ("", "r", b)]);
        check(&[(0, None, "", "r", ""), (1, None, "", "s", "")], &[("", "r", "{}"), ("", "s", "{}")]);
        // The name repeated, empty, or in pieces.
        check(
            &[(0, Some(0), "a", "r", ""), (0, Some(0), "a", "r", "{\"p\""), (0, Some(0), "a", "", ":1}")],
            &[("a", "r", a)],
        );
        check(
            &[(0, Some(0), "a", "read_", ""), (0, Some(0), "", "file", ""), (0, Some(0), "", "", a)],
            &[("a", "read_file", a)],
        );
        // A new id for each fragment, and the whole call twice.
        check(&[(0, Some(0), "x1", "r", "{\"p\""), (0, Some(0), "x2", "", ":1}")], &[("x1", "r", a)]);
        check(&[(0, Some(0), "a", "r", a), (0, Some(0), "a", "r", a)], &[("a", "r", a)]);
        // The id comes late.
        check(&[(0, Some(0), "", "r", ""), (0, Some(0), "a", "", a)], &[("a", "r", a)]);
        // Twice encoded.
        check(&[(0, Some(0), "a", "r", r#""{\"p\":1}""#)], &[("a", "r", a)]);
    }
}
