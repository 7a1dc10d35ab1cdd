//! The request for a summary: a side request, of which nothing reaches the log but the summary.
use super::{ledger::shortened, measure};
use crate::{
    agent::{context, session::Session},
    log::{Block, Part, Stored, Usage},
    model::{
        Delta, ErrorKind, Finish, Message, ModelError, Provider, Request,
        price::priced,
        retry::{Budget, Retrying},
    },
};
use futures_util::StreamExt;
use std::{fmt::Write as _, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

const INSTRUCTIONS: &str = include_str!("summary.md");
/// The longest that a summary may take; the turn goes on without a model's after that.
const LONGEST: Duration = Duration::from_secs(240);
/// The most requests for one summary.
const PARTS: usize = 4;
/// Bytes of a result in the record: its start and its end.
const RESULT: usize = 3_000;
/// Bytes of a call's arguments.
const ARGS: usize = 1_500;

/// How it ended.
pub enum Asked {
    Written(String),
    Cancelled,
    Failed(ModelError),
}

/// Asks for a summary.
pub struct Writer<'a> {
    pub session: &'a Session,
    pub provider: &'a Arc<dyn Provider>,
    pub cancel: &'a CancellationToken,
    /// What it should dwell on; may be empty.
    pub focus: &'a str,
    /// Bytes of record that one request can carry.
    pub carries: usize,
    /// Bytes of the summary.
    pub bytes: usize,
}

impl Writer<'_> {
    /// The summary of `covered`, which follows on `earlier`. A record that is too long for one request is taken in
    /// parts, each bringing the summary of those before it up to date. What was used is added to `usage`.
    pub async fn write(&self, covered: &[Stored], earlier: Option<&str>, usage: &mut Usage) -> Asked {
        let record = record(covered);
        let mut carries = self.carries;
        loop {
            let work = self.write_parts(parts(&record, carries), earlier, usage);
            let asked = tokio::select! {
                biased;
                () = self.cancel.cancelled() => Asked::Cancelled,
                asked = tokio::time::timeout(LONGEST, work) => asked.unwrap_or_else(|_| Asked::Failed(slow())),
            };
            match asked {
                // Our measure was wrong: once more in smaller pieces.
                Asked::Failed(e) if e.kind == ErrorKind::TooLong && carries == self.carries => carries /= 3,
                asked => return asked,
            }
        }
    }

    async fn write_parts(&self, parts: Vec<String>, earlier: Option<&str>, usage: &mut Usage) -> Asked {
        let mut summary = earlier.map(str::to_owned);
        for part in parts {
            let request = self.request(&part, summary.as_deref());
            match self.ask(&request, usage).await {
                Ok(text) => summary = Some(text),
                Err(e) => return Asked::Failed(e),
            }
        }
        Asked::Written(summary.unwrap_or_default())
    }

    fn request(&self, record: &str, earlier: Option<&str>) -> Request {
        let mut text = String::new();
        if let Some(earlier) = earlier {
            let _ = writeln!(text, "<earlier_summary>\n{earlier}\n</earlier_summary>\n");
        }
        let words = self.bytes / 7;
        let _ = write!(
            text,
            "<record>\n{record}\n</record>\n\nWrite the hand-over summary now, in at most {words} words."
        );
        if !self.focus.is_empty() {
            let _ = write!(text, " The user asks to give most of it to this: {}", self.focus);
        }
        Request {
            model: self.provider.info().id,
            system: INSTRUCTIONS.into(),
            tools: Arc::from([]),
            messages: vec![Message::User { parts: vec![Part::Text { text }] }],
            effort: None,
            max_output: None,
            cache_key: format!("{}-summary", self.session.id),
        }
    }

    async fn ask(&self, request: &Request, used: &mut Usage) -> Result<String, ModelError> {
        let budget = Budget {
            total: self.session.limits.retry_budget.min(Duration::from_secs(8)),
            tries: 2,
            ..Budget::default()
        };
        let retrying = Retrying::new(self.provider.clone(), budget, |_| {});
        let price = self.provider.info().price;
        let mut stream = retrying.stream(request);
        let (mut text, mut finish) = (String::new(), None);
        while let Some(delta) = stream.next().await {
            match delta? {
                Delta::Text(more) => text.push_str(&more),
                Delta::Usage(usage) => *used += priced(usage, price.as_ref()),
                Delta::End(how) => finish = Some(how),
                Delta::Thinking(_) | Delta::ThinkingDone(_) | Delta::Call { .. } => {}
            }
            if text.len() > self.bytes * 2 {
                break;
            }
        }
        let text = text.trim();
        if text.is_empty() || finish == Some(Finish::Refusal) {
            return Err(failed(ErrorKind::Malformed, "the model wrote no summary"));
        }
        Ok(shortened(text, self.bytes))
    }
}

fn slow() -> ModelError {
    failed(ErrorKind::Timeout, "the summary took too long")
}

fn failed(kind: ErrorKind, message: &str) -> ModelError {
    ModelError { kind, message: message.into(), host: String::new(), status: None, retry_after: None }
}

/// The record of a conversation: one text for each message.
fn record(covered: &[Stored]) -> Vec<String> {
    context::originals(covered).iter().map(line).collect()
}

fn line(message: &Message) -> String {
    match message {
        Message::User { parts } => {
            let mut out = String::from("USER:");
            for part in parts {
                match part {
                    Part::Text { text } => _ = write!(out, " {text}"),
                    Part::Image(_) => out.push_str(" [an image]"),
                    Part::Link { uri, .. } => _ = write!(out, " [file {uri}]"),
                    Part::Embedded { uri, text, .. } => {
                        let _ = write!(out, " [text of {uri}]\n{}", shortened(text, RESULT));
                    }
                }
            }
            out
        }
        Message::Assistant { blocks } => {
            let mut out = String::from("AGENT:");
            for block in blocks {
                match block {
                    Block::Text { text } => _ = write!(out, " {text}"),
                    Block::Call(call) => {
                        let _ = write!(out, "\nCALL {} {}", call.name, shortened(&call.args, ARGS));
                    }
                    Block::Thinking { .. } => {}
                }
            }
            out
        }
        Message::Result { name, text, failed, .. } => {
            let how = if *failed { " (failed)" } else { "" };
            format!("RESULT of {name}{how}: {}", shortened(text, RESULT))
        }
    }
}

/// The record in at most [`PARTS`] pieces of at most `bytes`. What is still too long loses the middle of its longest
/// texts, so that every message keeps its start and end.
fn parts(record: &[String], bytes: usize) -> Vec<String> {
    let bytes = bytes.max(1_000);
    let total: usize = record.iter().map(|l| l.len() + 2).sum();
    let mut most = bytes / 2;
    if total > bytes * (PARTS - 1) {
        // Half of the pieces' room for each message alike; the rest is for the pieces' ends.
        most = most.min((bytes * PARTS / 2) / record.len().max(1)).max(80);
    }
    let mut out = vec![String::new()];
    for line in record {
        let line = shortened(line, most);
        match out.last_mut() {
            Some(last) if last.is_empty() || last.len() + line.len() + 2 <= bytes => {
                last.push_str(&line);
                last.push_str("\n\n");
            }
            _ => out.push(format!("{line}\n\n")),
        }
    }
    // Only an endless number of messages comes to this: the first piece and the newest ones stay.
    if out.len() > PARTS {
        out.drain(1..out.len() - (PARTS - 1));
    }
    out
}

/// Bytes of record that a request of a window can carry beside the instructions and an earlier summary.
pub fn carries(room: u64, summary: u64) -> usize {
    let used = measure::of_bytes(INSTRUCTIONS.len()) + 2 * summary;
    usize::try_from((room * 8 / 10).saturating_sub(used).max(500) * 4).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_carry_every_message() {
        let record: Vec<String> =
            (0..400).map(|n| format!("USER: needle-{n}; {}", "x".repeat(n * 3))).collect();
        for bytes in [1_000, 20_000, 100_000, 10_000_000] {
            let parts = parts(&record, bytes);
            assert!(parts.len() <= PARTS, "{bytes}: {}", parts.len());
            let all = parts.concat();
            assert!(parts.iter().all(|p| p.len() <= bytes + 200), "{bytes}");
            let kept = (0..400).filter(|n| all.contains(&format!("needle-{n};"))).count();
            assert!(kept == 400 || bytes < 20_000, "{bytes}: {kept}");
        }
    }

    #[test]
    fn the_instructions_have_their_sections() {
        for heading in
            ["Goal", "Demands", "Done", "State", "Blocked", "Decisions", "Open requests", "Files", "Facts"]
        {
            assert!(INSTRUCTIONS.contains(&format!("## {heading}")), "{heading}");
        }
    }
}
