//! The gate: what the policy says of a plan, and the question where it says "ask".
use super::{
    hunks,
    port::{Answer, Choice, Editor, Question},
    session::Session,
};
use crate::{
    effects::Effects,
    id::CallId,
    log::{Card, Entry},
    permit::{Decision, Grant, Scope, decide},
};
use serde_json::Value;

/// What became of a plan at the gate.
pub enum Permitted {
    /// As it may happen, which may be less than was planned. `note`: what the model is told of that.
    Yes { effects: Box<Effects>, note: Option<String> },
    /// What the model is told.
    No(String),
    /// The person cancelled the question.
    Gone,
}

/// A plan at the gate.
pub struct Ask<'a> {
    pub session: &'a Session,
    pub editor: &'a dyn Editor,
    pub call: &'a CallId,
    pub card: &'a Card,
    pub raw_input: &'a Value,
}

impl Ask<'_> {
    /// Decides; asks where it must. The mode is read now, so a change in mid-turn counts. `asked`: what the audit keeps
    /// of a question, also where this future is dropped while it is open.
    pub async fn permit(&self, effects: Effects, asked: &mut Option<Entry>) -> Permitted {
        let (why, remember) = match decide(self.session.settings().mode, &self.session.grants(), &effects) {
            Decision::Allow => return Permitted::Yes { effects: effects.into(), note: None },
            Decision::Deny(why) => return Permitted::No(why),
            Decision::Ask { why, remember } => (why, remember),
        };
        let why = match &effects.runs {
            Some(command) if !command.unconfined => {
                let confined = self.session.workspace.confinement(command).await;
                [Some(why), confined]
                    .into_iter()
                    .flatten()
                    .filter(|w| !w.is_empty())
                    .collect::<Vec<_>>()
                    .join("; ")
            }
            _ => why,
        };
        let hunks = if self.editor.features().hunk_review { hunks::of(&effects) } else { vec![] };
        let question = Question {
            call: self.call.clone(),
            card: self.card.clone(),
            raw_input: self.raw_input.clone(),
            effects: effects.clone(),
            why,
            options: options(remember.as_deref(), effects.runs.as_ref().is_some_and(|c| c.unconfined)),
            hunks,
        };
        let mut note = |answer: &str| {
            *asked = Some(Entry::Asked { call: self.call.clone(), answer: answer.into() });
        };
        note("withdrawn");
        let answer = self.editor.ask(&self.session.id, question).await;
        note(match &answer {
            Answer::Gone => "cancelled",
            Answer::Failed(_) => "failed",
            Answer::No { .. } => "reject_once",
            Answer::Yes { hunks: Some(_), .. } => "allow_some",
            Answer::Yes { scope: Scope::Once, .. } => "allow_once",
            Answer::Yes { scope: Scope::Session, .. } => "allow_session",
            Answer::Yes { scope: Scope::Project, .. } => "allow_project",
        });
        match answer {
            Answer::Gone => Permitted::Gone,
            Answer::Failed(why) => {
                Permitted::No(format!("the question got no valid answer, so it was not done: {why}"))
            }
            Answer::No { comment } => Permitted::No(match comment {
                Some(comment) => format!("the user rejected this and says: {comment}"),
                None => {
                    "the user rejected this: it was not done. Do something else, or ask what they want".into()
                }
            }),
            Answer::Yes { scope, hunks, comment } => {
                self.accepted(effects, scope, remember, hunks, comment).await
            }
        }
    }

    async fn accepted(
        &self,
        effects: Effects,
        scope: Scope,
        remember: Option<Vec<Grant>>,
        accepted: Option<Vec<String>>,
        comment: Option<String>,
    ) -> Permitted {
        for grant in remember.into_iter().flatten().filter(|_| scope != Scope::Once) {
            if scope == Scope::Project
                && let Err(e) = self.session.keep.grant(&self.session.id, grant.clone()).await
            {
                tracing::warn!("a permission for the project could not be kept: {e}");
            }
            self.session.grant(grant);
        }
        let comment = comment.map(|c| format!("\n\n[The user says: {c}]"));
        let Some(accepted) = accepted else {
            return Permitted::Yes { effects: effects.into(), note: comment };
        };
        match hunks::accept(effects, &accepted) {
            hunks::Accepted::All(effects) => Permitted::Yes { effects: effects.into(), note: comment },
            hunks::Accepted::Some { effects, note } => Permitted::Yes {
                effects: effects.into(),
                note: Some(note + comment.as_deref().unwrap_or("")),
            },
            hunks::Accepted::None => Permitted::No(format!(
                "the user accepted no part of this change{}",
                comment.as_deref().unwrap_or("")
            )),
        }
    }
}

/// The options, in the words of what each covers.
fn options(remember: Option<&[Grant]>, unconfined: bool) -> Vec<Choice> {
    let once = if unconfined { "Run without the sandbox, once" } else { "Allow once" };
    let choice = |id, name: String, allow, scope| Choice { id, name, allow, scope };
    let mut all = vec![choice("allow_once", once.into(), true, Scope::Once)];
    if let Some(grants) = remember {
        let what = grants.iter().map(words).collect::<Vec<_>>().join(" and ");
        all.push(choice(
            "allow_session",
            format!("Always allow {what}, in this session"),
            true,
            Scope::Session,
        ));
        all.push(choice(
            "allow_project",
            format!("Always allow {what}, in this project"),
            true,
            Scope::Project,
        ));
    }
    all.push(choice("reject_once", "Reject".into(), false, Scope::Once));
    all
}

/// What a grant covers, in a few words.
pub fn words(grant: &Grant) -> String {
    match grant {
        Grant::Edits => "edits of files in the workspace".into(),
        Grant::Command { prefix } => {
            let line = crate::permit::shell::escape_for_display(&prefix.join(" "));
            let short: String = line.chars().take(60).collect();
            format!("commands that start with `{short}`")
        }
        Grant::Read { folder } => format!("reading in {}", folder.display()),
        Grant::Host { name } => format!("reaching {name}"),
    }
}
