//! The model's view: a pure projection of the log (I14).
//!
//! Request *n*'s messages are a prefix of request *n+1*'s unless a frame, settings, prune, summary or rewind lies
//! between: nothing here looks at a clock, a file or the settings.
use crate::{
    log::{Block, Entry, Image, Outcome, Part, PromptState, Stored, ToolSpec},
    model::Message,
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The fixed head in force: of the last `Frame`.
pub fn frame(entries: &[Stored]) -> Option<(Arc<str>, &[ToolSpec])> {
    entries.iter().rev().find_map(|s| match &s.entry {
        Entry::Frame { system, tools } => Some((system.clone(), tools.as_slice())),
        _ => None,
    })
}

/// How every text that stands for a pruned result begins.
pub const PRUNED: &str = "[result removed to save space: ";
/// What stands for the result of a call that has none (a crash before it was written).
pub const NO_RESULT: &str = "[interrupted: no result was recorded]";

/// What stands in front of a summary.
pub(super) const SUMMARY: &str = "[Summary of the conversation so far]";

/// The messages of the next request.
pub fn messages(entries: &[Stored]) -> Vec<Message> {
    project(entries, &View::of(entries))
}

/// The messages with the results that were pruned, and without the summary in front: what a summary is made from.
pub(super) fn originals(entries: &[Stored]) -> Vec<Message> {
    let view = View { pruned: HashSet::new(), summary: None, ..View::of(entries) };
    project(entries, &view)
}

fn project(entries: &[Stored], view: &View<'_>) -> Vec<Message> {
    let mut out = Vec::with_capacity(entries.len());
    if let Some(summary) = view.summary {
        out.push(user(format!("{SUMMARY}\n\n{summary}")));
    }
    for stored in entries {
        if view.is_hidden(stored.seq) {
            continue;
        }
        match &stored.entry {
            Entry::User { parts, state: PromptState::Sent, volatile, .. } => {
                out.push(prompt(parts, volatile.as_deref()))
            }
            Entry::Steer { text, .. } => {
                out.push(user(format!("[The user says, while you are working]\n{text}")));
            }
            Entry::Nudge { text } => out.push(user(text.clone())),
            Entry::Assistant { blocks, interrupted, .. } => assistant(blocks, *interrupted, view, &mut out),
            _ => {}
        }
    }
    out
}

fn user(text: String) -> Message {
    Message::User { parts: vec![Part::Text { text }] }
}

fn prompt(parts: &[Part], volatile: Option<&str>) -> Message {
    let mut parts: Vec<Part> = parts.to_vec();
    if let Some(text) = volatile {
        // Parts are joined as they are: a paragraph of its own.
        parts.push(Part::Text { text: format!("\n\n{text}") });
    }
    if parts.is_empty() {
        parts.push(Part::Text { text: "(empty prompt)".into() });
    }
    Message::User { parts }
}

/// A reply, and right behind it the result of each of its calls, in source order.
fn assistant(blocks: &[Block], interrupted: bool, view: &View<'_>, out: &mut Vec<Message>) {
    let kept: Vec<Block> =
        blocks.iter().filter(|b| !(interrupted && matches!(b, Block::Call(_)))).cloned().collect();
    let says_something = kept.iter().any(|b| match b {
        Block::Text { text } => !text.trim().is_empty(),
        Block::Call(_) => true,
        Block::Thinking { .. } => false,
    });
    if !says_something {
        return;
    }
    let calls: Vec<_> = kept
        .iter()
        .filter_map(|b| match b {
            Block::Call(call) => Some(call.clone()),
            _ => None,
        })
        .collect();
    out.push(Message::Assistant { blocks: kept });
    for call in calls {
        let (text, images, failed) = match view.results.get(call.id.as_str()) {
            Some(r) if view.pruned.contains(call.id.as_str()) => (pruned(&call.name, r), vec![], false),
            Some(r) => (r.text.to_owned(), r.images.to_vec(), r.outcome != Outcome::Ok),
            None => (NO_RESULT.into(), vec![], true),
        };
        out.push(Message::Result { provider_id: call.provider_id, name: call.name, text, images, failed });
    }
}

/// What stands for a result that was pruned: what it was, and how to have it again.
fn pruned(name: &str, result: &ResultView<'_>) -> String {
    let again = match spilled(result.text) {
        Some(path) => format!("the whole is in {path}: `read` it with `offset` and `limit`"),
        None => format!("call `{name}` again, for the part that you need, if it is needed"),
    };
    let failed = if result.outcome == Outcome::Ok { "" } else { ", failed" };
    format!("{PRUNED}{}{failed}, {} lines; {again}]", result.title, result.text.lines().count())
}

/// Where a result that was too long was saved, as its text says.
fn spilled(text: &str) -> Option<&str> {
    let at = ["the whole result is in ", "the whole output is in "]
        .iter()
        .filter_map(|words| text.rfind(words).map(|at| at + words.len()))
        .max()?;
    let path = text[at..].split(": `read`").next()?;
    (path.len() < 4096 && path.len() < text[at..].len() && !path.contains('\n')).then_some(path)
}

struct ResultView<'a> {
    title: &'a str,
    outcome: Outcome,
    text: &'a str,
    images: &'a [Image],
}

/// What later entries say about earlier ones.
pub(super) struct View<'a> {
    results: HashMap<&'a str, ResultView<'a>>,
    pruned: HashSet<&'a str>,
    pub summary: Option<&'a str>,
    /// Entries below are covered by the summary.
    covers: u64,
    /// Ranges taken back by a rewind: from `to` up to the rewind itself.
    rewound: Vec<(u64, u64)>,
}

impl<'a> View<'a> {
    pub fn of(entries: &'a [Stored]) -> Self {
        let rewound: Vec<(u64, u64)> = entries
            .iter()
            .filter_map(|s| match s.entry {
                Entry::Rewind { to } => Some((to, s.seq)),
                _ => None,
            })
            .collect();
        let mut view =
            View { results: HashMap::new(), pruned: HashSet::new(), summary: None, covers: 0, rewound };
        for stored in entries {
            if view.is_hidden(stored.seq) {
                continue;
            }
            match &stored.entry {
                Entry::Result { call, outcome, text, images, card } => {
                    let title = card.title.as_str();
                    view.results.insert(call.as_str(), ResultView { title, outcome: *outcome, text, images });
                }
                Entry::Prune { calls } => view.pruned.extend(calls.iter().map(|c| c.as_str())),
                Entry::Summary { covers, text, .. } => {
                    (view.covers, view.summary) = (*covers, Some(text.as_str()));
                }
                _ => {}
            }
        }
        view
    }

    /// Whether an entry is not shown to the model as itself.
    pub fn is_hidden(&self, seq: u64) -> bool {
        seq < self.covers || self.is_rewound(seq)
    }

    pub fn is_rewound(&self, seq: u64) -> bool {
        self.rewound.iter().any(|&(from, to)| (from..to).contains(&seq))
    }

    pub fn is_pruned(&self, call: &str) -> bool {
        self.pruned.contains(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Millis, id::*, log::*};

    fn log(entries: Vec<Entry>) -> Vec<Stored> {
        entries
            .into_iter()
            .enumerate()
            .map(|(i, entry)| Stored { seq: i as u64, at: Millis(0), entry })
            .collect()
    }
    fn said(text: &str) -> Entry {
        Entry::User {
            id: MessageId::new(),
            parts: vec![Part::Text { text: text.into() }],
            state: PromptState::Sent,
            volatile: None,
        }
    }
    fn reply(blocks: Vec<Block>, interrupted: bool) -> Entry {
        Entry::Assistant { id: MessageId::new(), blocks, interrupted, model: "p/m".into(), usage: None }
    }
    fn call(id: &str) -> Block {
        Block::Call(Call {
            id: id.into(),
            provider_id: format!("p-{id}"),
            name: "read".into(),
            args: "{}".into(),
            native: None,
        })
    }
    fn result(id: &str, text: &str) -> Entry {
        Entry::Result {
            call: id.into(),
            outcome: Outcome::Ok,
            text: text.into(),
            images: vec![],
            card: Card::default(),
        }
    }
    fn shape(messages: &[Message]) -> Vec<String> {
        messages
            .iter()
            .map(|m| match m {
                Message::User { parts } => match &parts[0] {
                    Part::Text { text } => format!("user {text}"),
                    _ => "user".into(),
                },
                Message::Assistant { blocks } => format!("assistant {}", blocks.len()),
                Message::Result { provider_id, text, .. } => format!("{provider_id} {text}"),
            })
            .collect()
    }

    #[test]
    fn results_follow_their_calls_in_source_order() {
        let entries = log(vec![
            said("go"),
            reply(vec![call("a"), call("b")], false),
            Entry::Began { call: "a".into(), plan: vec![], card: None },
            result("b", "B"),
            result("a", "A"),
        ]);
        assert_eq!(shape(&messages(&entries)), ["user go", "assistant 2", "p-a A", "p-b B"]);
    }

    #[test]
    fn a_call_without_a_result_is_answered() {
        let entries = log(vec![said("go"), reply(vec![call("a")], false)]);
        assert_eq!(shape(&messages(&entries)), ["user go", "assistant 1", &format!("p-a {NO_RESULT}")]);
    }

    #[test]
    fn an_interrupted_reply_keeps_its_text_and_loses_its_calls() {
        let text = Block::Text { text: "half".into() };
        let entries = log(vec![said("go"), reply(vec![text, call("a")], true), reply(vec![call("b")], true)]);
        assert_eq!(shape(&messages(&entries)), ["user go", "assistant 1"]);
    }

    #[test]
    fn a_withdrawn_prompt_is_not_sent() {
        let mut withdrawn = said("never");
        if let Entry::User { state, .. } = &mut withdrawn {
            *state = PromptState::Withdrawn;
        }
        assert_eq!(shape(&messages(&log(vec![said("go"), withdrawn]))), ["user go"]);
    }

    #[test]
    fn a_summary_covers_and_a_rewind_takes_back() {
        let summary = Entry::Summary { id: MessageId::new(), covers: 2, text: "S".into() };
        let entries = log(vec![
            said("a"),
            said("b"),
            said("c"),
            summary,
            said("d"),
            Entry::Rewind { to: 4 },
            said("e"),
        ]);
        assert_eq!(
            shape(&messages(&entries)),
            ["user [Summary of the conversation so far]\n\nS", "user c", "user e"]
        );
    }

    #[test]
    fn a_pruned_result_says_what_it_was_and_where_it_is() {
        let bounded = "head\n[… 9 bytes left out here; the whole result is in /s/t_1.txt: `read` it with `offset` and `limit` …]\n";
        let entries = log(vec![
            said("go"),
            reply(vec![call("a"), call("b")], false),
            result("a", bounded),
            result("b", "one\ntwo\n"),
            Entry::Prune { calls: vec!["a".into(), "b".into()] },
        ]);
        let shown = shape(&messages(&entries));
        assert!(shown[2].contains("2 lines; the whole is in /s/t_1.txt: `read` it"), "{}", shown[2]);
        assert!(shown[3].contains("2 lines; call `read` again"), "{}", shown[3]);
    }

    /// I14: what was sent is a prefix of what is sent next.
    #[test]
    fn i14_the_messages_only_grow() {
        let entries = log(vec![
            said("go"),
            reply(vec![call("a"), call("b")], false),
            result("a", "A"),
            result("b", "B"),
            Entry::Nudge { text: "n".into() },
            reply(vec![Block::Text { text: "done".into() }], false),
            said("more"),
        ]);
        let full = messages(&entries);
        for cut in [1, 4, 5, 6] {
            let part = messages(&entries[..cut]);
            assert_eq!(part, full[..part.len()], "cut at {cut}");
        }
    }
}
