//! From what a person sees to ACP's types.
use super::sizes;
use crate::{
    agent::port::{CallChanged, CallOpened, CallStatus, CompactionStatus, Question},
    log::{Exit, Image, Location, Part, PlanItem, PlanStatus, Priority, Severity, Shown, ToolKind},
    permit::Scope,
};
use hermes_protocol::acp;
use serde_json::{Value, json};

pub fn text(text: impl Into<String>) -> acp::ContentBlock {
    acp::ContentBlock::Text(acp::TextContent::new(text))
}

/// A chunk of a message. The id is always given: the same id is the same message.
pub fn chunk(id: &crate::id::MessageId, content: acp::ContentBlock) -> acp::ContentChunk {
    acp::ContentChunk::new(content).message_id(acp::MessageId::new(id.as_str()))
}

pub fn part(part: &Part) -> acp::ContentBlock {
    match part {
        Part::Text { text: t } => text(sizes::text(t)),
        Part::Image(image) => picture(image),
        Part::Link { uri, name, mime } => acp::ContentBlock::ResourceLink(
            acp::ResourceLink::new(name.as_str(), uri.as_str()).mime_type(mime.clone()),
        ),
        Part::Embedded { uri, mime, text } => {
            let contents =
                acp::TextResourceContents::new(sizes::text(text), uri.as_str()).mime_type(mime.clone());
            acp::ContentBlock::Resource(acp::EmbeddedResource::new(
                acp::EmbeddedResourceResource::TextResourceContents(contents),
            ))
        }
    }
}

/// `summary` goes only with `completed`, `error` only with `failed`.
pub fn compaction(
    id: &crate::id::MessageId,
    status: CompactionStatus,
    said: Option<String>,
) -> acp::CompactionUpdate {
    let update = |status| acp::CompactionUpdate::new(acp::CompactionId::new(id.as_str()), status);
    match (status, said) {
        (CompactionStatus::InProgress, _) => update(acp::CompactionStatus::InProgress),
        (CompactionStatus::Cancelled, _) => update(acp::CompactionStatus::Cancelled),
        (CompactionStatus::Completed, None) => update(acp::CompactionStatus::Completed),
        (CompactionStatus::Completed, Some(said)) => {
            update(acp::CompactionStatus::Completed).summary(vec![text(sizes::text(&said))])
        }
        (CompactionStatus::Failed, None) => update(acp::CompactionStatus::Failed),
        (CompactionStatus::Failed, Some(why)) => update(acp::CompactionStatus::Failed).error(why),
    }
}

fn picture(image: &Image) -> acp::ContentBlock {
    if image.data.len() > sizes::IMAGE {
        return text(format!("[image of {} bytes, not shown]", image.data.len() / 4 * 3));
    }
    acp::ContentBlock::Image(
        acp::ImageContent::new(image.data.as_ref(), image.mime.as_str()).uri(image.uri.clone()),
    )
}

pub fn kind(kind: ToolKind) -> acp::ToolKind {
    match kind {
        ToolKind::Read => acp::ToolKind::Read,
        ToolKind::Edit => acp::ToolKind::Edit,
        ToolKind::Delete => acp::ToolKind::Delete,
        ToolKind::Move => acp::ToolKind::Move,
        ToolKind::Search => acp::ToolKind::Search,
        ToolKind::Execute => acp::ToolKind::Execute,
        ToolKind::Think => acp::ToolKind::Think,
        ToolKind::Fetch => acp::ToolKind::Fetch,
        ToolKind::SwitchMode => acp::ToolKind::SwitchMode,
        ToolKind::Other => acp::ToolKind::Other,
    }
}

pub fn status(status: CallStatus) -> acp::ToolCallStatus {
    match status {
        CallStatus::Pending => acp::ToolCallStatus::Pending,
        CallStatus::InProgress => acp::ToolCallStatus::InProgress,
        CallStatus::Completed => acp::ToolCallStatus::Completed,
        CallStatus::Failed => acp::ToolCallStatus::Failed,
    }
}

pub fn locations(locations: &[Location]) -> Vec<acp::ToolCallLocation> {
    locations.iter().map(|l| acp::ToolCallLocation::new(l.path.clone()).line(l.line)).collect()
}

/// A card's content. `terminal`: this call's output is shown in a terminal of the client, under this id.
pub fn content(shown: &[Shown], terminal: Option<&str>) -> Vec<acp::ToolCallContent> {
    let mut out = Vec::new();
    for item in shown {
        match item {
            Shown::Text { text: t } => out.push(text(sizes::text(t)).into()),
            Shown::Image(image) => out.push(picture(image).into()),
            Shown::Diff { path, old, new } => out.extend(diff(path, old.as_deref(), new)),
            Shown::Terminal { .. } if terminal.is_some() => {}
            Shown::Terminal { output, exit, .. } => out.push(text(output_text(output, exit.as_ref())).into()),
        }
    }
    if let Some(id) = terminal {
        out.push(acp::ToolCallContent::Terminal(acp::Terminal::new(acp::TerminalId::new(id))));
    }
    out
}

/// A command's output for a client without a terminal.
pub fn output_text(output: &str, exit: Option<&Exit>) -> String {
    let mut out = match output.trim() {
        "" => "(no output)".to_owned(),
        _ => crate::agent::fence("", &sizes::text(output)),
    };
    match exit {
        Some(Exit { signal: Some(signal), .. }) => out.push_str(&format!("\nEnded by {signal}")),
        Some(Exit { code: Some(code), .. }) if *code != 0 => out.push_str(&format!("\nExit code {code}")),
        _ => {}
    }
    out
}

fn diff(path: &std::path::Path, old: Option<&str>, new: &str) -> Vec<acp::ToolCallContent> {
    if old.map_or(0, str::len) + new.len() <= sizes::DIFF {
        return vec![acp::Diff::new(path, new).old_text(old.map(str::to_owned)).into()];
    }
    let (old, new, note) = sizes::extract(old.unwrap_or(""), new);
    vec![acp::Diff::new(path, new).old_text(old).into(), text(note).into()]
}

pub fn opened(call: &CallOpened, terminal: Option<&str>) -> acp::ToolCall {
    acp::ToolCall::new(acp::ToolCallId::new(call.id.as_str()), call.card.title.as_str())
        .name(call.name.clone())
        .kind(kind(call.card.kind))
        .status(status(call.status))
        .content(content(&call.card.shown, terminal))
        .locations(locations(&call.card.locations))
        .raw_input(sizes::raw(&call.raw_input))
}

pub fn changed(change: &CallChanged, terminal: Option<&str>) -> acp::ToolCallUpdate {
    let fields = acp::ToolCallUpdateFields::new()
        .status(change.status.map(status))
        .title(change.title.clone())
        .locations(change.locations.as_deref().map(locations))
        .content(change.shown.as_deref().map(|shown| content(shown, terminal)));
    acp::ToolCallUpdate::new(acp::ToolCallId::new(change.id.as_str()), fields)
}

/// What a question shows: everything that the card shows, under the same id.
pub fn question(question: &Question, terminal: Option<&str>) -> acp::ToolCallUpdate {
    let mut shown = question.card.shown.clone();
    if !question.why.is_empty() {
        shown.push(Shown::Text { text: question.why.clone() });
    }
    let fields = acp::ToolCallUpdateFields::new()
        .status(acp::ToolCallStatus::Pending)
        .title(question.card.title.clone())
        .kind(kind(question.card.kind))
        .locations((!question.card.locations.is_empty()).then(|| locations(&question.card.locations)))
        .raw_input(sizes::raw(&question.raw_input))
        .content((!shown.is_empty()).then(|| content(&shown, terminal)));
    acp::ToolCallUpdate::new(acp::ToolCallId::new(question.call.as_str()), fields)
}

pub fn options(question: &Question) -> Vec<acp::PermissionOption> {
    question
        .options
        .iter()
        .map(|o| {
            let kind = match (o.allow, o.scope) {
                (true, Scope::Once) => acp::PermissionOptionKind::AllowOnce,
                (true, _) => acp::PermissionOptionKind::AllowAlways,
                (false, Scope::Once) => acp::PermissionOptionKind::RejectOnce,
                (false, _) => acp::PermissionOptionKind::RejectAlways,
            };
            acp::PermissionOption::new(acp::PermissionOptionId::new(o.id), o.name.as_str(), kind)
        })
        .collect()
}

/// The hunks of a question, for a client that reviews by hunk (contract: `protocol/README.md`).
pub fn hunks(question: &Question) -> Option<acp::Meta> {
    let hunks: Vec<Value> = question
        .hunks
        .iter()
        .map(|h| {
            json!({"id": h.id, "path": h.path, "oldStart": h.old_lines.0, "oldEnd": h.old_lines.1,
                   "newStart": h.new_lines.0, "newEnd": h.new_lines.1})
        })
        .collect();
    (!hunks.is_empty()).then(|| meta("hermes-editor", json!({"hunks": hunks})))
}

pub fn meta(key: &str, value: Value) -> acp::Meta {
    let mut meta = acp::Meta::new();
    meta.insert(key.to_owned(), value);
    meta
}

pub fn plan(items: &[PlanItem]) -> acp::Plan {
    let entries = items.iter().map(|item| {
        let priority = match item.priority {
            Priority::High => acp::PlanEntryPriority::High,
            Priority::Medium => acp::PlanEntryPriority::Medium,
            Priority::Low => acp::PlanEntryPriority::Low,
        };
        let status = match item.status {
            PlanStatus::Pending => acp::PlanEntryStatus::Pending,
            PlanStatus::InProgress => acp::PlanEntryStatus::InProgress,
            PlanStatus::Completed => acp::PlanEntryStatus::Completed,
        };
        acp::PlanEntry::new(item.content.as_str(), priority, status)
    });
    acp::Plan::new(entries.collect())
}

pub fn severity(severity: Severity) -> acp::NoticeSeverity {
    match severity {
        Severity::Info => acp::NoticeSeverity::Info,
        Severity::Warning => acp::NoticeSeverity::Warning,
        Severity::Error => acp::NoticeSeverity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_carries_what_its_status_allows() {
        let sent = |status, said: Option<&str>| {
            serde_json::to_value(compaction(&"m_1".into(), status, said.map(str::to_owned))).unwrap()
        };
        let summary = json!([{"type": "text", "text": "S"}]);
        for (status, said, want) in [
            (CompactionStatus::InProgress, None, json!({"compactionId": "m_1", "status": "in_progress"})),
            (
                CompactionStatus::Completed,
                Some("S"),
                json!({"compactionId": "m_1", "status": "completed", "summary": summary}),
            ),
            (CompactionStatus::Completed, None, json!({"compactionId": "m_1", "status": "completed"})),
            (
                CompactionStatus::Failed,
                Some("why"),
                json!({"compactionId": "m_1", "status": "failed", "error": "why"}),
            ),
            (CompactionStatus::Cancelled, Some("x"), json!({"compactionId": "m_1", "status": "cancelled"})),
        ] {
            assert_eq!(sent(status, said), want);
        }
    }
}
