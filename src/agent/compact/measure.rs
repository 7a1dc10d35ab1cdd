//! How full the model's window is: what the provider reported last, plus an estimate of what came after.
use crate::{
    agent::context::{self, View},
    log::{Block, Entry, Part, Stored},
    model::{Message, ModelInfo},
};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// The window of a model that says nothing of its own, until it turns out otherwise.
pub const ASSUMED: u64 = 128_000;
/// No window is taken to be smaller than this.
const SMALLEST: u64 = 2_000;
/// What a provider counts for an image, about; their sizes in bytes say nothing.
const IMAGE: u64 = 1_500;

/// Tokens of text by its length: four bytes each, near enough for code and English; the ratio mends the rest.
pub fn of_bytes(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

/// The estimate for a message.
pub fn message(message: &Message) -> u64 {
    const AROUND: u64 = 4;
    AROUND
        + match message {
            Message::User { parts } => parts.iter().map(part).sum(),
            Message::Assistant { blocks } => blocks.iter().map(block).sum(),
            Message::Result { text, images, .. } => of_bytes(text.len()) + IMAGE * images.len() as u64,
        }
}

fn part(part: &Part) -> u64 {
    match part {
        Part::Text { text } => of_bytes(text.len()),
        Part::Image(_) => IMAGE,
        Part::Link { uri, name, .. } => of_bytes(uri.len() + name.len() + 16),
        Part::Embedded { uri, text, .. } => of_bytes(uri.len() + text.len() + 16),
    }
}

fn block(block: &Block) -> u64 {
    match block {
        Block::Thinking { text, .. } | Block::Text { text } => of_bytes(text.len()),
        Block::Call(call) => of_bytes(call.name.len() + call.args.len() + call.provider_id.len() + 8),
    }
}

fn frame(entries: &[Stored]) -> u64 {
    let Some((system, tools)) = context::frame(entries) else { return 0 };
    let tools: usize =
        tools.iter().map(|t| t.name.len() + t.description.len() + t.schema.to_string().len()).sum();
    of_bytes(system.len() + tools)
}

/// What the next request weighs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Tokens, in the provider's count as far as it is known.
    pub used: u64,
    /// The provider's tokens for each token of our estimate.
    pub ratio: f64,
    /// System prompt and tools, in our estimate: what no compaction makes smaller.
    pub fixed: u64,
    /// The messages, in our estimate.
    pub messages: u64,
}

impl Measure {
    /// A pure function of the log.
    pub fn of(entries: &[Stored]) -> Measure {
        let all = context::messages(entries);
        let (fixed, messages) = (frame(entries), all.iter().map(message).sum());
        let view = View::of(entries);
        let reported = entries.iter().enumerate().rev().find_map(|(i, s)| match &s.entry {
            Entry::Assistant { usage: Some(usage), .. } if usage.input > 0 && !view.is_rewound(s.seq) => {
                Some((i, *usage))
            }
            _ => None,
        });
        let Some((at, usage)) = reported else {
            return Measure { used: fixed + messages, ratio: 1.0, fixed, messages };
        };
        let before = context::messages(&entries[..at]);
        let estimate = frame(&entries[..at]) + before.iter().map(message).sum::<u64>();
        let ratio = (usage.input as f64 / estimate.max(1) as f64).clamp(0.5, 3.0);
        let changed = entries[at..].iter().any(|s| {
            matches!(
                s.entry,
                Entry::Prune { .. } | Entry::Summary { .. } | Entry::Rewind { .. } | Entry::Frame { .. }
            )
        });
        let used = if changed {
            scaled(fixed + messages, ratio)
        } else {
            let reply = matches!(all.get(before.len()), Some(Message::Assistant { .. }));
            let after: u64 = all.iter().skip(before.len() + usize::from(reply)).map(message).sum();
            usage.input + usage.output + scaled(after, ratio)
        };
        Measure { used, ratio, fixed, messages }
    }

    /// Of our estimate, in the provider's count.
    pub fn scaled(&self, estimate: u64) -> u64 {
        scaled(estimate, self.ratio)
    }
}

fn scaled(estimate: u64, ratio: f64) -> u64 {
    (estimate as f64 * ratio).ceil() as u64
}

/// The window of a model, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub size: u64,
    /// The provider said so, or it was learned; else it is assumed.
    pub known: bool,
}

impl Window {
    /// More than this is compacted: three quarters to four fifths, the rest is for the reply.
    pub fn limit(self) -> u64 {
        let reserve = (self.size / 4).min(8_192);
        (self.size / 5 * 4).min(self.size - reserve)
    }
    /// What the messages can take beside system prompt and tools, in our estimate.
    pub fn room(self, measure: &Measure) -> u64 {
        let size = (self.size as f64 / measure.ratio) as u64;
        size.saturating_sub(measure.fixed).max(size / 8)
    }
}

/// What was learned of the models' windows from their refusals, in this session and lately in others.
#[derive(Debug, Default)]
pub struct Windows(Mutex<HashMap<String, u64>>);

impl Windows {
    pub fn of(&self, info: &ModelInfo) -> Window {
        let learned = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&info.id).copied();
        let size = match (info.context, learned) {
            (Some(said), Some(learned)) => said.min(learned),
            (said, learned) => learned.or(said).unwrap_or(ASSUMED),
        };
        Window { size: size.max(SMALLEST), known: info.context.is_some() || learned.is_some() }
    }

    /// What was learned before.
    pub fn restore(&self, windows: Vec<(String, u64)>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(windows);
    }

    /// A request of about `used` tokens was too long, and these were the provider's words. What is known now.
    pub fn learn(&self, model: &str, used: u64, words: &str) -> u64 {
        let size = said(words).unwrap_or(u64::MAX).min(used / 20 * 19).max(SMALLEST);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(model.to_owned()).or_insert(u64::MAX);
        *known = size.min(*known);
        *known
    }
}

/// The window that an error names: "maximum context length is 8192 tokens", "205000 tokens > 200000 maximum".
fn said(words: &str) -> Option<u64> {
    const BEFORE: [&str; 10] = [
        "context length is ",
        "context length of ",
        "context length (",
        "context window of ",
        "context size (",
        "context size of ",
        "n_ctx: ",
        "limit of ",
        "limit is ",
        "> ",
    ];
    let words = words.to_lowercase();
    BEFORE.iter().find_map(|before| {
        let rest = &words[words.find(before)? + before.len()..];
        let digits: String =
            rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
        digits.parse().ok().filter(|n| *n >= SMALLEST)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_window() {
        for (words, size) in [
            (
                "This model's maximum context length is 128000 tokens. However, you sent 150000.",
                Some(128_000),
            ),
            ("prompt is too long: 205000 tokens > 200000 maximum", Some(200_000)),
            ("the request exceeds the available context size (8,192 tokens)", Some(8_192)),
            ("too many tokens > 12", None),
            ("too long", None),
        ] {
            assert_eq!(said(words), size, "{words}");
        }
    }

    #[test]
    fn a_window_is_learned_and_never_grows_back() {
        let (windows, mut info) =
            (Windows::default(), ModelInfo { id: "p/m".into(), ..ModelInfo::default() });
        assert_eq!(windows.of(&info), Window { size: ASSUMED, known: false });
        windows.learn("p/m", 300_000, "maximum context length is 200000 tokens");
        assert_eq!(windows.of(&info), Window { size: 200_000, known: true });
        windows.learn("p/m", 100_000, "too long");
        windows.learn("p/m", 180_000, "too long");
        assert_eq!(windows.of(&info).size, 95_000);
        info.context = Some(32_000);
        assert_eq!(windows.of(&info).size, 32_000);
        info.id = "p/other".into();
        assert_eq!(windows.of(&info).size, 32_000);
    }

    #[test]
    fn the_limit_leaves_room_for_the_reply() {
        for (size, limit) in [(8_000, 6_000), (32_000, 24_000), (128_000, 102_400), (1_000_000, 800_000)] {
            assert_eq!(Window { size, known: true }.limit(), limit, "{size}");
        }
    }
}
