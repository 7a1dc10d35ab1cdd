//! What the sandbox stopped is asked about once, inside the same call: to run it again without the sandbox.
use super::{Caller, End, Open};
use crate::{
    agent::{
        ask::{Ask, Permitted},
        journal::{Journal, KeepError},
        port::{CallChanged, CallStatus},
        repeat::Repeats,
    },
    effects::{Command, Effects, Verdict},
    log::Touched,
    permit::{Decision, decide},
    tools::{self, Prepared},
};

impl Caller<'_> {
    /// Where the sandbox seems to have stopped a command, asks the person whether it may run again without it, and runs
    /// it. Asked in every mode but plan, where it is not done; never remembered. `effects`: what was permitted before.
    pub(super) async fn unconfined(
        &self,
        open: &Open,
        mut effects: Effects,
        mut end: End,
        (journal, repeats): (&mut Journal, &mut Repeats),
    ) -> Result<End, KeepError> {
        let (Some(why), Some(command)) = (end.output.denied.take(), &mut effects.runs) else {
            return Ok(end);
        };
        let tool = tools::nearest(&open.call.name, &self.session.tools);
        let prepared = tool.and_then(|tool| tool.prepare(open.raw_input.clone()).ok());
        let Some(prepared) = prepared.filter(|_| !command.unconfined && !self.cancel.is_cancelled()) else {
            return Ok(end);
        };
        if repeats.unconfined_was_refused() {
            end.output.text.push_str(&format!("\n[{}]", super::STAYS_CONFINED));
            return Ok(end);
        }
        let why = self.session.workspace.secrets().text(&why).into_owned();
        without(command, &why);
        let decided = decide(self.session.settings().mode, &self.session.grants(), &effects);
        if !matches!(decided, Decision::Ask { .. }) {
            return Ok(end);
        }
        let mut asked = None;
        let question = Ask {
            session: self.session,
            editor: self.editor,
            call: &open.call.id,
            card: &open.card,
            raw_input: &open.raw_input,
        };
        let permitted = tokio::select! {
            biased;
            _ = self.cancel.cancelled() => None,
            permitted = async {
                let _one_at_a_time = self.asking.lock().await;
                question.permit(effects, &mut asked).await
            } => Some(permitted),
        };
        if let Some(asked) = asked {
            journal.append(vec![asked]).await?;
        }
        match permitted {
            None => Ok(end),
            Some(Permitted::Gone) => Ok(End { gone: true, ..end }),
            Some(Permitted::No(text)) => {
                repeats.refuse_unconfined();
                end.output
                    .text
                    .push_str(&format!("\n[asked whether it may run without the sandbox: {text}]"));
                Ok(end)
            }
            Some(Permitted::Yes { effects, note }) => {
                Ok(self.again(open, prepared, *effects, note, end.touched).await)
            }
        }
    }

    /// The second run; its result is the call's. `touched`: what the first did to files.
    async fn again(
        &self,
        open: &Open,
        prepared: Box<dyn Prepared>,
        effects: Effects,
        note: Option<String>,
        touched: Vec<Touched>,
    ) -> End {
        let id = open.call.id.clone();
        self.update(CallChanged { id, status: Some(CallStatus::InProgress), ..CallChanged::default() }).await;
        let mut second = self.effect(open, prepared, effects).await;
        second.touched.splice(..0, touched);
        let first = "[the sandbox stopped its first run; the user let it run again without it]\n";
        second.output.text = format!("{first}{}{}", second.output.text, note.unwrap_or_default());
        second
    }
}

/// Makes it a command outside the sandbox: a question of its own in every mode, never remembered.
fn without(command: &mut Command, why: &str) {
    command.unconfined = true;
    command.assessment = None;
    if command.verdict != Verdict::Destructive {
        command.verdict = Verdict::NotUnderstood;
    }
    command.why = format!("it ran in the sandbox, which seems to have stopped it: {why}");
}
