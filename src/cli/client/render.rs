//! The turn as people read it in a terminal: text as it comes, cards, diffs, live output, questions.
use super::{
    ClientError,
    diff::unified,
    show::Show,
    style::Style,
    text::{Ansi, visible},
};
use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, Diff, MessageId, Meta, Notice, NoticeSeverity, PermissionOption, Plan,
    PlanEntryStatus, RequestPermissionRequest, SessionUpdate, ToolCallContent, ToolCallId, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;
use std::{
    collections::HashMap,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Lines of a card's text that are shown; the rest is counted.
const CARD_LINES: usize = 20;

/// Writes a turn to `out`.
pub struct View<W> {
    out: W,
    style: Style,
    /// The session's folder: paths below it are shown relative to it.
    base: PathBuf,
    at: At,
    /// The cursor is behind the start of a line.
    open: bool,
    calls: HashMap<ToolCallId, Call>,
    usage: Option<(u64, u64, Option<f64>)>,
    failure: Option<io::Error>,
    /// What notices said.
    told: String,
}

/// What the last thing written belongs to.
#[derive(Clone, Debug, PartialEq)]
enum At {
    Start,
    Text(Option<MessageId>),
    Thought(Option<MessageId>),
    Call(ToolCallId),
    Plan,
    Note,
}

#[derive(Default)]
struct Call {
    title: String,
    kind: ToolKind,
    ended: bool,
    /// What the card showed last, so that a repeated content is not printed twice.
    diffs: Vec<Diff>,
    output: Ansi,
    /// A piece of its output was printed as it came.
    live: bool,
    exit: Option<String>,
}

impl<W: Write> View<W> {
    pub fn new(out: W, style: Style, base: &Path) -> Self {
        let base = base.to_path_buf();
        View {
            out,
            style,
            base,
            at: At::Start,
            open: false,
            calls: HashMap::new(),
            usage: None,
            failure: None,
            told: String::new(),
        }
    }

    fn put(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.open = !text.ends_with('\n');
        if let Err(e) = self.out.write_all(text.as_bytes()) {
            self.failure.get_or_insert(e);
        }
    }
    fn flush(&mut self) {
        if let Err(e) = self.out.flush() {
            self.failure.get_or_insert(e);
        }
    }
    fn close_line(&mut self) {
        if self.open {
            self.put("\n");
        }
    }
    /// Starts a block with a blank line before it, or goes on in it. True: it was started.
    fn go(&mut self, at: At) -> bool {
        if self.at == at {
            return false;
        }
        self.close_line();
        let same_sort = matches!((&self.at, &at), (At::Call(_), At::Call(_)) | (At::Note, At::Note));
        if self.at != At::Start && !same_sort {
            self.put("\n");
        }
        self.at = at;
        true
    }
    /// Text whose every line starts with `prefix`, painted line by line.
    fn indented(&mut self, prefix: &str, text: &str, paint: impl Fn(&str) -> String) {
        for line in text.split_inclusive('\n') {
            if !self.open {
                self.put(prefix);
            }
            let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
            self.put(&paint(body));
            self.put(end);
        }
    }

    fn chunk(&mut self, chunk: &ContentChunk, thought: bool) {
        let id = chunk.message_id.clone();
        let text = block_text(&chunk.content);
        let text = visible(&text);
        if thought {
            let style = self.style;
            self.go(At::Thought(id));
            self.indented("  ~ ", &text, |line| style.dim(line));
        } else {
            self.go(At::Text(id));
            self.put(&text);
        }
    }

    fn plan(&mut self, plan: &Plan) {
        self.at = match std::mem::replace(&mut self.at, At::Note) {
            At::Plan => At::Note,
            at => at,
        };
        self.go(At::Plan);
        let style = self.style;
        self.put(&format!("{}\n", style.bold("Plan")));
        for entry in &plan.entries {
            let content = visible(&entry.content);
            let line = match entry.status {
                PlanEntryStatus::Completed => style.dim(&format!("[x] {content}")),
                PlanEntryStatus::InProgress => style.cyan(&format!("[>] {content}")),
                _ => format!("[ ] {content}"),
            };
            self.put(&format!("  {line}\n"));
        }
    }

    fn header(&mut self, id: &ToolCallId, mark: &str) {
        let title = self.calls.get(id).map(|c| c.title.clone()).unwrap_or_default();
        let title = self.style.bold(&one_line(&title));
        self.put(&format!("{mark} {title}"));
    }
    /// Puts the cursor below the header of the card.
    fn enter(&mut self, id: &ToolCallId) {
        if self.go(At::Call(id.clone())) {
            let mark = self.style.cyan("▸");
            self.header(id, &mark);
        }
        self.close_line();
    }

    fn call(&mut self, id: &ToolCallId, fields: &ToolCallUpdateFields, meta: Option<&Meta>, fresh: bool) {
        let call = self.calls.entry(id.clone()).or_default();
        if let Some(title) = &fields.title {
            call.title.clone_from(title);
        }
        if let Some(kind) = fields.kind {
            call.kind = kind;
        }
        if fresh && self.go(At::Call(id.clone())) {
            let mark = self.style.cyan("▸");
            self.header(id, &mark);
        }
        let content = fields.content.as_deref().unwrap_or_default();
        self.diffs(id, content);
        self.terminal(id, meta);
        match fields.status {
            Some(ToolCallStatus::Completed) => self.ended(id, content, true),
            Some(ToolCallStatus::Failed) => self.ended(id, content, false),
            _ => {}
        }
    }

    /// Prints the diffs of the card that it did not show yet.
    fn diffs(&mut self, id: &ToolCallId, content: &[ToolCallContent]) {
        let shown = self.calls.get(id).map(|c| c.diffs.clone()).unwrap_or_default();
        let diffs: Vec<Diff> = content.iter().filter_map(as_diff).cloned().collect();
        for diff in diffs.iter().filter(|d| !shown.contains(d)) {
            self.enter(id);
            self.put_diff(diff);
        }
        if let Some(call) = self.calls.get_mut(id).filter(|_| !diffs.is_empty()) {
            call.diffs = diffs;
        }
    }
    fn put_diff(&mut self, diff: &Diff) {
        let text =
            unified(&diff.path, diff.old_text.as_deref(), &diff.new_text, &self.base.clone(), self.style);
        self.indented("  ", &text, str::to_owned);
    }

    /// The display-only terminal of agents that run commands themselves: `_meta.terminal_output`, `terminal_exit`.
    fn terminal(&mut self, id: &ToolCallId, meta: Option<&Meta>) {
        let Some(meta) = meta else { return };
        if let Some(data) = meta.get("terminal_output").and_then(|o| o["data"].as_str()) {
            let Some(call) = self.calls.get_mut(id) else { return };
            let text = call.output.push(data);
            self.go_live(id);
            let style = self.style;
            self.indented("  │ ", &text, |line| style.dim(line));
        }
        if let (Some(exit), Some(call)) = (meta.get("terminal_exit"), self.calls.get_mut(id)) {
            let code = exit["exit_code"].as_i64().map(|c| format!("exit {c}"));
            call.exit = code.or_else(|| exit["signal"].as_str().map(|s| format!("ended by {s}")));
        }
    }
    /// As `enter`, but a line of output that is still open is gone on with.
    fn go_live(&mut self, id: &ToolCallId) {
        let began = self.calls.get_mut(id).is_some_and(|call| std::mem::replace(&mut call.live, true));
        if !began || self.at != At::Call(id.clone()) {
            self.enter(id);
        }
    }

    fn ended(&mut self, id: &ToolCallId, content: &[ToolCallContent], ok: bool) {
        let style = self.style;
        let Some(call) = self.calls.get_mut(id) else { return };
        if std::mem::replace(&mut call.ended, true) {
            return;
        }
        let (kind, live) = (call.kind, call.live);
        let exit = call.exit.clone();
        let mark = if ok { style.green("✓") } else { style.red("✗") };
        let words = exit.map(|e| format!(" {e}")).unwrap_or_default();
        let here = self.at == At::Call(id.clone());
        if here && self.open && !live {
            self.put(&format!(" {mark}{words}\n"));
        } else if here {
            self.close_line();
            self.put(&format!("  {mark}{words}\n"));
        } else {
            self.go(At::Call(id.clone()));
            self.header(id, &mark);
            self.put(&format!("{words}\n"));
        }
        let quiet = matches!(kind, ToolKind::Read | ToolKind::Search | ToolKind::Edit | ToolKind::Think);
        if !(live || ok && quiet) {
            self.card_text(content);
        }
    }
    fn card_text(&mut self, content: &[ToolCallContent]) {
        let text: String = content.iter().filter_map(as_text).collect::<Vec<_>>().join("\n");
        let text = Ansi::default().push(unfence(&text));
        let total = text.lines().count();
        let style = self.style;
        for line in text.lines().take(CARD_LINES) {
            self.indented("  │ ", &format!("{line}\n"), |line| style.dim(line));
        }
        if total > CARD_LINES {
            self.put(&format!("  │ {}\n", style.dim(&format!("… {} more lines", total - CARD_LINES))));
        }
    }

    fn notice(&mut self, notice: &Notice) {
        let style = self.style;
        let mark = match notice.severity {
            NoticeSeverity::Error => style.red("error:"),
            NoticeSeverity::Warning => style.yellow("warning:"),
            _ => style.cyan("note:"),
        };
        self.go(At::Note);
        self.put(&format!("{mark} {}\n", visible(&notice.title)));
        if let Some(text) = &notice.description {
            self.told.push_str(text);
            self.indented("  ", &format!("{}\n", visible(text)), |line| style.dim(line));
        }
    }
}

impl<W: Write> Show for View<W> {
    fn session(&mut self, _id: &str) {}
    fn has_told(&self, text: &str) -> bool {
        self.told.contains(text)
    }

    fn update(&mut self, _raw: &Value, update: Option<&SessionUpdate>) {
        match update {
            Some(SessionUpdate::AgentMessageChunk(chunk)) => self.chunk(chunk, false),
            Some(SessionUpdate::AgentThoughtChunk(chunk)) => self.chunk(chunk, true),
            Some(SessionUpdate::Plan(plan)) => self.plan(plan),
            Some(SessionUpdate::ToolCall(call)) => {
                let meta = call.meta.clone();
                let update = ToolCallUpdate::from(call.clone());
                self.call(&update.tool_call_id, &update.fields, meta.as_ref(), true);
            }
            Some(SessionUpdate::ToolCallUpdate(update)) => {
                self.call(&update.tool_call_id, &update.fields, update.meta.as_ref(), false);
            }
            Some(SessionUpdate::Notice(notice)) => self.notice(notice),
            Some(SessionUpdate::UsageUpdate(usage)) => {
                self.usage = Some((usage.used, usage.size, usage.cost.as_ref().map(|c| c.amount)));
            }
            Some(SessionUpdate::CurrentModeUpdate(mode)) => {
                self.note(&format!("mode: {}", mode.current_mode_id))
            }
            _ => {}
        }
        self.flush();
    }

    fn question(&mut self, request: &RequestPermissionRequest) {
        let id = &request.tool_call.tool_call_id;
        let fields = &request.tool_call.fields;
        let repeat = self.at != At::Call(id.clone());
        if let Some(call) = self.calls.get_mut(id).filter(|_| repeat) {
            call.diffs.clear();
        }
        let call = self.calls.entry(id.clone()).or_default();
        if let Some(title) = &fields.title {
            call.title.clone_from(title);
        }
        self.enter(id);
        let content = fields.content.as_deref().unwrap_or_default();
        self.diffs(id, content);
        let style = self.style;
        let command = fields.raw_input.as_ref().and_then(|i| i["command"].as_str());
        if let Some(command) = command {
            self.indented("  $ ", &format!("{}\n", visible(command)), |line| style.bold(line));
        }
        let text: String = content.iter().filter_map(as_text).collect::<Vec<_>>().join("\n");
        let text = without_fence_of(&text, command);
        if !text.trim().is_empty() {
            self.indented("  ", &format!("{}\n", visible(text.trim())), str::to_owned);
        }
        let bare = command.is_none() && content.is_empty();
        if let Some(input) = fields.raw_input.as_ref().filter(|_| bare) {
            let input = serde_json::to_string_pretty(input).unwrap_or_default();
            self.indented("  ", &format!("{}\n", visible(&input)), str::to_owned);
        }
        self.flush();
    }

    fn options(&mut self, request: &RequestPermissionRequest) {
        self.close_line();
        for (n, option) in request.options.iter().enumerate() {
            let number = self.style.yellow(&(n + 1).to_string());
            self.put(&format!("  {number}  {}\n", one_line(&option.name)));
        }
    }

    fn ask_line(&mut self, words: &str) {
        self.close_line();
        let words = self.style.yellow(words);
        self.put(&format!("  {words} "));
        // The person's own Enter ends this line.
        self.open = false;
        self.flush();
    }

    fn answered(&mut self, _request: &RequestPermissionRequest, choice: Option<&PermissionOption>, by: &str) {
        let name = choice.map_or_else(|| "withdrawn".to_owned(), |c| one_line(&c.name));
        let by = if by.is_empty() { String::new() } else { format!(" ({by})") };
        self.close_line();
        let line = self.style.dim(&format!("→ {name}{by}"));
        self.put(&format!("  {line}\n"));
        self.flush();
    }

    fn note(&mut self, text: &str) {
        self.go(At::Note);
        let text = self.style.dim(&visible(text));
        self.put(&format!("{text}\n"));
        self.flush();
    }

    fn end(&mut self, result: &Result<String, ClientError>) {
        self.close_line();
        let why = match result.as_deref() {
            Ok("cancelled") | Err(ClientError::Interrupted) => "Cancelled.",
            Ok("max_tokens") => "Stopped: the model's output limit cut the answer off.",
            Ok("max_turn_requests") => "Stopped: the turn used up its model requests.",
            Ok("refusal") => "Stopped: the model refused to go on.",
            _ => "",
        };
        if !why.is_empty() {
            self.note(why);
        }
        if let Some((used, size, cost)) = self.usage.take() {
            let cost =
                cost.map(|dollars| format!("; {}", crate::agent::usage::money(dollars))).unwrap_or_default();
            self.note(&format!("context: {used} of {size} tokens{cost}"));
        }
        self.flush();
    }

    fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }
}

fn as_diff(content: &ToolCallContent) -> Option<&Diff> {
    if let ToolCallContent::Diff(diff) = content { Some(diff) } else { None }
}
fn as_text(content: &ToolCallContent) -> Option<String> {
    if let ToolCallContent::Content(content) = content { Some(block_text(&content.content)) } else { None }
}

fn block_text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[image {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[audio {}]", audio.mime_type),
        ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
        _ => "[resource]".to_owned(),
    }
}

/// A title or an option on one line.
fn one_line(text: &str) -> String {
    visible(&text.replace(['\n', '\r'], " ")).into_owned()
}

/// The text without the fenced block that repeats the command, which is shown by itself.
fn without_fence_of(text: &str, command: Option<&str>) -> String {
    let Some(command) = command else { return text.to_owned() };
    let repeats = |block: &str| block.split_once('\n').is_some_and(|(_, body)| body.trim() == command.trim());
    let mut parts = text.split("```");
    let mut out = parts.next().unwrap_or_default().to_owned();
    while let Some(block) = parts.next() {
        if !repeats(block) {
            out.push_str(&format!("```{block}```"));
        }
        out.push_str(parts.next().unwrap_or_default());
    }
    out
}

/// The text inside a Markdown fence that encloses all of it.
fn unfence(text: &str) -> &str {
    let inner = text.trim().strip_prefix("```").and_then(|t| t.strip_suffix("```"));
    inner.and_then(|t| t.split_once('\n')).map_or(text, |(_, body)| body)
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
