//! What each turn of a session did and was allowed: one block a turn.
use crate::{
    agent::usage::{Spent, words},
    log::*,
    store::Loaded,
};
use std::collections::HashMap;

pub fn audit(loaded: &Loaded) -> String {
    let head = &loaded.head;
    let title = head.title.as_deref().unwrap_or("(no title)");
    let mut out = format!("{}  {}  {title}\n", head.id, head.cwd.display());
    let cards: HashMap<&str, &str> = loaded
        .entries
        .iter()
        .filter_map(|s| match &s.entry {
            Entry::Result { call, card, .. } | Entry::Action { call, card, .. } => {
                Some((call.as_str(), card.title.as_str()))
            }
            _ => None,
        })
        .collect();
    for stored in &loaded.entries {
        match &stored.entry {
            Entry::User { parts, state: PromptState::Sent, .. } => {
                let words = crate::agent::prompt::title(parts).unwrap_or_else(|| "(no text)".into());
                out.push_str(&format!("\n{}  {words}\n", stored.at.rfc3339()));
            }
            Entry::Asked { call, answer } => {
                let title = cards.get(call.as_str()).copied().unwrap_or(call.as_str());
                out.push_str(&format!("  asked: {title}: {answer}\n"));
            }
            Entry::Touched { call, files } => {
                let title = cards.get(call.as_str()).copied().unwrap_or(call.as_str());
                for file in files {
                    out.push_str(&format!("  changed: {} ({title})\n", file.path.display()));
                }
            }
            Entry::Result { card, outcome, .. } if *outcome != Outcome::Ok => {
                out.push_str(&format!("  {}: {}\n", word(*outcome), card.title));
            }
            Entry::Rewind { .. } => out.push_str("  taken back from here to an earlier prompt\n"),
            Entry::Ended { stop, requests, usage, detail, tools } => {
                out.push_str(&ended(stop, *requests, usage, detail.as_deref(), tools));
            }
            Entry::Side { task, model, usage } => {
                out.push_str(&format!("  beside it: {task} by {model}, {}\n", words(usage)));
            }
            _ => {}
        }
    }
    let spent = Spent::of(&loaded.entries);
    if spent.side != Usage::default() {
        out.push_str(&format!("\nturns: {}\nbeside them: {}\n", words(&spent.turns), words(&spent.side)));
    }
    out.push_str(&format!("\ntotal: {}\n", words(&spent.total())));
    out
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "done",
        Outcome::Failed => "failed",
        Outcome::Denied => "not allowed",
        Outcome::Cancelled => "cancelled",
        Outcome::Unknown => "outcome not known",
    }
}

fn ended(
    stop: &str,
    requests: u32,
    usage: &Usage,
    detail: Option<&str>,
    tools: &std::collections::BTreeMap<String, u32>,
) -> String {
    let mut out = format!("  ended: {stop}; {requests} model request(s), {}", words(usage));
    if !tools.is_empty() {
        let used: Vec<String> = tools.iter().map(|(name, n)| format!("{name} ×{n}")).collect();
        out.push_str(&format!("; tools: {}", used.join(", ")));
    }
    if let Some(detail) = detail {
        out.push_str(&format!("; {detail}"));
    }
    out + "\n"
}
