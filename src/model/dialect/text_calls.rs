//! Tool calls that a model wrote into its text, because the server did not know the model's format.
//!
//! Seen of local models: <https://github.com/anomalyco/opencode/issues/4428>. A call counts only if it names a tool that
//! the request had; all else stays the text that it is. Text is held back only from a mark on.
mod parse;

use crate::log::ToolSpec;
use std::sync::Arc;

/// What held text turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Text(String),
    Thinking(String),
    Call { name: String, args: String },
}

/// What begins a call, by the models that write it: Hermes, Qwen and GLM; Qwen3-Coder and Llama; Mistral; DeepSeek; Kimi;
/// gpt-oss; Granite; Llama 3; MiniMax and others that learned it from Anthropic; DeepSeek 3.2.
const MARKS: [&str; 13] = [
    "<tool_call>",
    "<function=",
    "[TOOL_CALLS]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<|tool_calls_section_begin|>",
    "<|channel|>",
    "<|start|>assistant",
    "<|tool_call|>",
    "<|python_tag|>",
    "<minimax:tool_call>",
    "<function_calls>",
    "<｜DSML｜function_calls>",
];
/// The labels of a fence that may hold a call.
const LABELS: [&str; 5] = ["json", "tool_call", "tool", "xml", ""];
/// The most that is held back as what may be one JSON object.
const WHOLE_CAP: usize = 256 << 10;

/// Watches the text of one reply.
#[derive(Debug)]
pub struct Watch {
    tools: Arc<[ToolSpec]>,
    state: State,
    held: String,
    ticks: Ticks,
}

/// Where in Markdown the text is: inside code nothing is a call.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    /// Inside a fence.
    code: bool,
    /// Back ticks right before.
    run: u8,
}

impl Ticks {
    fn pass(&mut self, byte: u8) {
        self.run = if byte == b'`' { self.run + 1 } else { 0 };
        if self.run == 3 {
            *self = Ticks { code: !self.code, run: 0 };
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but white space so far.
    Start,
    /// The reply may be one JSON object, fenced or not.
    Whole,
    Text,
    /// Behind a mark: held to the end.
    Held,
    /// The request had no tools.
    Off,
}

impl Watch {
    pub fn new(tools: Arc<[ToolSpec]>) -> Self {
        let state = if tools.is_empty() { State::Off } else { State::Start };
        Watch { tools, state, held: String::new(), ticks: Ticks::default() }
    }

    /// Takes the next text; `None`: all of it is held back.
    pub fn push(&mut self, text: String) -> Option<String> {
        if self.state == State::Off {
            return Some(text);
        }
        let mut text = if self.held.is_empty() {
            text
        } else {
            self.held.push_str(&text);
            std::mem::take(&mut self.held)
        };
        if matches!(self.state, State::Start | State::Whole) {
            match whole(&text) {
                _ if text.len() > WHOLE_CAP => self.state = State::Text,
                None => self.state = State::Text,
                Some(state) => {
                    self.state = state;
                    self.held = text;
                    return None;
                }
            }
        }
        if self.state == State::Text
            && let Some(at) = self.mark(&text)
        {
            self.held = text.split_off(at);
            if MARKS.iter().any(|m| self.held.starts_with(m)) {
                self.state = State::Held;
            }
        } else if self.state == State::Held {
            self.held = text;
            return None;
        }
        (!text.is_empty()).then_some(text)
    }

    /// Where a mark begins, or an end that may be the beginning of one.
    fn mark(&mut self, text: &str) -> Option<usize> {
        for (at, byte) in text.bytes().enumerate() {
            let free = !self.ticks.code && self.ticks.run == 0;
            if free
                && matches!(byte, b'<' | b'[')
                && MARKS.iter().any(|m| text[at..].starts_with(m) || m.starts_with(&text[at..]))
            {
                return Some(at);
            }
            self.ticks.pass(byte);
        }
        None
    }

    /// The reply ended: what was held, as calls where it is unambiguous, else as the text it is.
    pub fn finish(&mut self) -> Vec<Found> {
        let held = std::mem::take(&mut self.held);
        let found = match self.state {
            State::Held => parse::marked(&held, &self.tools),
            State::Whole => parse::whole(&held, &self.tools),
            _ => None,
        };
        match found {
            Some(found) => found,
            None if held.is_empty() => Vec::new(),
            None => vec![Found::Text(held)],
        }
    }

    /// The text that is held, as it is: calls came by the proper way, or the reply broke off.
    pub fn release(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// The tool that a reply calls in a fence among other words, where it is no call because of them: the model may have
/// meant one.
pub fn quoted(text: &str, tools: &[ToolSpec]) -> Option<String> {
    let fenced = text.split("```").skip(1).step_by(2).filter_map(|fenced| {
        let fenced = LABELS.iter().find_map(|l| fenced.strip_prefix(l)).unwrap_or(fenced);
        parse::whole(fenced, tools)?.into_iter().next()
    });
    // A line that begins an object may be one of several calls, of which another cannot be read.
    let lines = text.match_indices('{').filter(|(at, _)| {
        text[..*at].trim_end_matches([' ', '\t']).ends_with('\n') || text[..*at].trim().is_empty()
    });
    let lines = lines.take(50).filter_map(|(at, _)| parse::leading(&text[at..], tools));
    fenced.chain(lines).find_map(|found| match found {
        Found::Call { name, args } if parse::is_complete(&name, &args, tools) => Some(name),
        _ => None,
    })
}

/// Whether text from the start of a reply may be one JSON object that is a call; `None`: it is not.
fn whole(text: &str) -> Option<State> {
    let mut rest = text.trim_start();
    if rest.is_empty() {
        return Some(State::Start);
    }
    if let Some(fenced) = rest.strip_prefix("```") {
        rest = LABELS.iter().find_map(|l| fenced.strip_prefix(l))?.trim_start();
        // Calls in tags, in a fence around all of them.
        if !rest.is_empty() && MARKS.iter().any(|m| rest.starts_with(m) || m.starts_with(rest)) {
            return Some(State::Whole);
        }
    } else if "```".starts_with(rest) {
        return Some(State::Whole);
    }
    // A label that is still coming.
    if rest.is_empty() || LABELS.iter().any(|l| l.starts_with(rest)) && text.trim_start().starts_with("```") {
        return Some(State::Whole);
    }
    let inside = rest.strip_prefix('[').unwrap_or(rest).trim_start();
    let keys = [
        "\"name\"",
        "\"arguments\"",
        "\"parameters\"",
        "\"function\"",
        "\"tool\"",
        "\"type\"",
        "\"id\"",
        "\"tool_calls\"",
    ];
    let key = match inside.strip_prefix('{') {
        Some(key) => key.trim_start(),
        None if inside.is_empty() => return Some(State::Whole),
        None => return None,
    };
    keys.iter().any(|k| key.starts_with(k) || k.starts_with(key)).then_some(State::Whole)
}

#[cfg(test)]
mod tests;
