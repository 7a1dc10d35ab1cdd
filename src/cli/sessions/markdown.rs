//! A session as Markdown: as a person saw it.
use crate::{
    agent::fence,
    log::*,
    store::{GapKind, Loaded},
};
use std::collections::HashMap;

pub fn markdown(loaded: &Loaded) -> String {
    let head = &loaded.head;
    let title = head.title.as_deref().unwrap_or("Session");
    let mut out = format!("# {title}\n\n- Session: `{}`\n- Folder: `{}`\n", head.id, head.cwd.display());
    out.push_str(&format!("- From {} to {}\n", head.created.rfc3339(), head.updated.rfc3339()));
    if let Some(parent) = &head.parent {
        out.push_str(&format!("- Forked from `{}`\n", parent.session));
    }
    let results: HashMap<&str, &Entry> = loaded
        .entries
        .iter()
        .filter_map(|s| match &s.entry {
            Entry::Result { call, .. } => Some((call.as_str(), &s.entry)),
            _ => None,
        })
        .collect();
    for stored in &loaded.entries {
        entry(&stored.entry, &results, &mut out);
    }
    let newer = loaded.damaged.iter().filter(|g| matches!(g.kind, GapKind::Unknown(_))).count();
    if !loaded.damaged.is_empty() {
        out.push_str(&format!(
            "\n> {} entries could not be read ({newer} of a newer version).\n",
            loaded.damaged.len()
        ));
    }
    out
}

fn entry(entry: &Entry, results: &HashMap<&str, &Entry>, out: &mut String) {
    match entry {
        Entry::User { parts, state, .. } => {
            let note = if *state == PromptState::Withdrawn { " (withdrawn)" } else { "" };
            out.push_str(&format!("\n## User{note}\n\n"));
            parts.iter().for_each(|p| part(p, out));
        }
        Entry::Steer { text, .. } => out.push_str(&format!("\n## User (while it worked)\n\n{text}\n")),
        Entry::Said { text, .. } => out.push_str(&format!("\n## Hermes\n\n{text}\n")),
        Entry::Assistant { blocks, interrupted, model, .. } => {
            let by = if model.is_empty() { String::new() } else { format!(" ({model})") };
            out.push_str(&format!("\n## Hermes{by}\n"));
            for block in blocks {
                self::block(block, *interrupted, results, out);
            }
            if *interrupted {
                out.push_str("\n*Interrupted.*\n");
            }
        }
        Entry::Action { outcome, card, .. } => self::card(card, *outcome, out),
        Entry::Notice { title, text, .. } => out.push_str(&format!("\n> **{title}** {text}\n")),
        Entry::Summary { text, .. } => {
            out.push_str(&format!(
                "\n<details><summary>Summary for the model</summary>\n\n{text}\n\n</details>\n"
            ));
        }
        Entry::Rewind { .. } => {
            out.push_str("\n> *Taken back: the conversation goes on from an earlier prompt.*\n")
        }
        _ => {}
    }
}

fn part(part: &Part, out: &mut String) {
    match part {
        Part::Text { text } => out.push_str(&format!("{text}\n")),
        Part::Image(image) => out.push_str(&format!("*[image, {}]*\n", image.mime)),
        Part::Link { uri, name, .. } => out.push_str(&format!("[{name}](<{uri}>)\n")),
        Part::Embedded { uri, text, .. } => out.push_str(&format!("`{uri}`\n\n{}\n", fence("", text))),
    }
}

fn block(block: &Block, interrupted: bool, results: &HashMap<&str, &Entry>, out: &mut String) {
    match block {
        Block::Text { text } => out.push_str(&format!("\n{text}\n")),
        Block::Thinking { text, .. } if text.is_empty() => {}
        Block::Thinking { text, .. } => {
            out.push_str(&format!("\n<details><summary>Thought</summary>\n\n{text}\n\n</details>\n"));
        }
        Block::Call(_) if interrupted => {}
        Block::Call(call) => match results.get(call.id.as_str()) {
            Some(Entry::Result { outcome, card, .. }) => self::card(card, *outcome, out),
            _ => out.push_str(&format!("\n### {} (no result)\n", call.name)),
        },
    }
}

fn card(card: &Card, outcome: Outcome, out: &mut String) {
    let mark = match outcome {
        Outcome::Ok => "",
        Outcome::Failed => " (failed)",
        Outcome::Denied => " (not allowed)",
        Outcome::Cancelled => " (cancelled)",
        Outcome::Unknown => " (outcome not known)",
    };
    out.push_str(&format!("\n### {}{mark}\n", card.title));
    for shown in &card.shown {
        match shown {
            Shown::Text { text } => out.push_str(&format!("\n{text}\n")),
            Shown::Image(image) => out.push_str(&format!("\n*[image, {}]*\n", image.mime)),
            Shown::Terminal { output, .. } => out.push_str(&format!("\n{}\n", fence("", output))),
            Shown::Diff { path, old, new } => {
                let old = old.as_deref().unwrap_or("");
                let diff =
                    similar::TextDiff::from_lines(old, &**new).unified_diff().context_radius(3).to_string();
                out.push_str(&format!("\n`{}`\n\n{}\n", path.display(), fence("diff", &diff)));
            }
        }
    }
}
