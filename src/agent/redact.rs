//! Our own secrets in what a call gives: replaced before anything of it is shown, kept, or read by the model (I20).
use crate::{
    effects::{Change, Effects},
    log::{Part, Shown},
    secret::Redactor,
    tools::Output,
};

/// Replaces them in a result.
pub fn output(secrets: &Redactor, output: &mut Output) {
    if secrets.is_empty() {
        return;
    }
    text(secrets, &mut output.text);
    shown(secrets, &mut output.shown);
    output.plan.iter_mut().flatten().for_each(|item| text(secrets, &mut item.content));
}

/// Replaces them in what a person says.
pub fn prompt(secrets: &Redactor, parts: &mut [Part]) {
    if secrets.is_empty() {
        return;
    }
    for part in parts {
        match part {
            Part::Text { text: t } | Part::Embedded { text: t, .. } => text(secrets, t),
            Part::Link { .. } | Part::Image(_) => {}
        }
    }
}

/// Replaces them in what a card shows.
pub fn shown(secrets: &Redactor, shown: &mut [Shown]) {
    if secrets.is_empty() {
        return;
    }
    let diff = |side: &mut std::sync::Arc<str>| {
        if let std::borrow::Cow::Owned(redacted) = secrets.text(side) {
            *side = redacted.into();
        }
    };
    for shown in shown {
        match shown {
            Shown::Text { text: t } | Shown::Terminal { output: t, .. } => text(secrets, t),
            Shown::Diff { old, new, .. } => {
                old.iter_mut().for_each(&diff);
                diff(new);
            }
            Shown::Image(_) => {}
        }
    }
}

/// Replaces them in a text.
pub fn text(secrets: &Redactor, text: &mut String) {
    if let std::borrow::Cow::Owned(redacted) = secrets.text(text) {
        *text = redacted;
    }
}

/// Why a plan is refused that would write a placeholder where the secret was, or run a command with one.
pub fn refusal(secrets: &Redactor, effects: &Effects) -> Option<String> {
    if secrets.is_empty() {
        return None;
    }
    let file = |change: &Change| {
        let (old, new) = match change {
            Change::Write { old, new, .. } => (old.as_ref(), new),
            Change::Move { old, new, .. } => (Some(old), new),
            Change::Delete { .. } => return None,
        };
        let old = old.map(|t| t.shown()).unwrap_or_default();
        secrets
            .added_placeholder(&old, &new.shown())
            .map(|p| format!("{}: the new text holds {p}", change.path()))
    };
    let command = effects.runs.as_ref().and_then(|c| secrets.added_placeholder("", &c.text));
    let what =
        effects.writes.iter().find_map(file).or_else(|| command.map(|p| format!("the command holds {p}")))?;
    Some(format!(
        "{what}, which stands for a secret value that is not shown to you: nothing was done. Leave the line with the \
         secret as it is (edit around it), or refer to it by a variable"
    ))
}

/// What is told beside a failed call whose arguments hold a placeholder: it matches nothing.
pub fn hint(secrets: &Redactor, arguments: &str) -> Option<String> {
    let placeholder = secrets.added_placeholder("", arguments)?;
    Some(format!(
        "\n[{placeholder} stands for a secret value; the file has the value itself: match other lines]"
    ))
}
