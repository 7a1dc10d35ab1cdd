//! Asking the model until there is a reply that the turn can follow: with room for it, from another model where the
//! chosen one cannot, and to its end where it was cut off.
//!
//! What a person has seen is never said twice: a reply that broke off is kept, and the model is asked to go on.
use super::{
    compact::Compaction,
    context, effort, images,
    reply::{self, Ending, Reply, Tail},
    turn::{Turn, TurnError},
};
use crate::{
    log::{Block, Entry, Severity},
    model::{
        ModelError, Provider, Request,
        dialect::text_calls,
        policy,
        retry::{Budget, Retrying},
    },
};
use std::sync::Arc;

/// How often in a row a reply that broke off, or was cut by the output limit, is gone on with.
const RESUMED: u32 = 4;
const CONTINUED: u32 = 3;
/// Tokens that a reply may have which was cut off before: at least, and at most.
const MORE: u32 = 8_192;
const MOST: u32 = 65_536;

const NUDGE_BROKEN: &str = "[Your reply broke off there: the connection was lost. Go on exactly where it ends, without \
     repeating anything. A tool call in it was not run: make it again.]";
const NUDGE_ANNOUNCED: &str = "[You said what you will do, but called no tool. Do it now with a call, or say to the user \
     that you are done, and with what.]";
const NUDGE_LENGTH: &str = "[Your reply was cut off there by the output limit. Go on exactly where it ends, without \
     repeating anything.]";

/// What one turn knows about the replies that did not come whole.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// The model that stands in, and the choice that it stands in for.
    stand_in: Option<(Option<String>, String)>,
    tried: Vec<String>,
    resumed: u32,
    continued: u32,
    quoted: u32,
    announced: u32,
    /// Tokens; set once a reply was too long for the provider's default.
    max_output: Option<u32>,
    /// The end of the text that the next reply goes on with.
    tail: Option<Tail>,
    /// What the pieces of a reply that is gone on with have said.
    said: String,
}

/// How often in a turn a call that was written among words is answered with how to make it, and a reply that only
/// announces something with that it be done.
const QUOTED: u32 = 3;
const ANNOUNCED: u32 = 2;

/// What to do about a reply that the output limit cut off.
pub(super) enum Cut {
    GoOn,
    GiveUp,
}

impl Turn<'_> {
    /// The model in force: the chosen one, or the one that stands in for it in this turn.
    fn model(&self) -> Option<String> {
        let chosen = self.session.settings().model;
        match &self.asking.stand_in {
            // Whoever chooses another model meanwhile gets that.
            Some((instead, model)) if *instead == chosen => Some(model.clone()),
            _ => chosen,
        }
    }

    fn model_id(&self) -> String {
        self.model().or_else(|| self.session.models.default_id()).unwrap_or_default()
    }

    /// The model in force, or the first that stands in for one that cannot be had.
    async fn provider(&mut self) -> Result<Arc<dyn Provider>, TurnError> {
        loop {
            match self.session.models.provider(self.model().as_deref()) {
                Ok(provider) => return Ok(provider),
                Err(e) if self.fall_back(&e).await? => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Asks, with a conversation that fits: compacted before, and again if the model refuses it as too long.
    pub(super) async fn ask_model(&mut self, with_tools: bool) -> Result<Reply, TurnError> {
        self.make_room(None).await?;
        loop {
            let reply = self.send(with_tools).await?;
            let Ending::Failed(error) = &reply.ending else {
                self.tally.answered();
                return Ok(reply);
            };
            let error = error.clone();
            let policy = policy::of(error.kind);
            let again = if policy.compact {
                self.make_room(Some(&error)).await?
            } else if policy.retry && !reply.blocks.is_empty() && self.asking.resumed < RESUMED {
                self.asking.resumed += 1;
                self.pause_before_more().await
            } else {
                policy.fall_back && self.fall_back(&error).await?
            };
            if !again {
                return Ok(reply);
            }
            self.keep(&reply).await?;
            if reply.has_text() {
                self.go_on(&reply, NUDGE_BROKEN).await?;
            }
        }
    }

    /// The next reply goes on with this one.
    /// A connection that breaks again and again gets time to come back; false: cancelled meanwhile.
    async fn pause_before_more(&self) -> bool {
        const FIRST: std::time::Duration = std::time::Duration::from_millis(250);
        let pause = match self.asking.resumed {
            0 | 1 => return true,
            again => FIRST * 2u32.saturating_pow(again - 1),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = self.cancel.cancelled() => false,
        }
    }

    async fn go_on(&mut self, reply: &Reply, nudge: &str) -> Result<(), TurnError> {
        let tail = reply.tail().map(|tail| tail.behind(&self.asking.said));
        if let Some(tail) = &tail {
            self.asking.said = tail.text().to_owned();
        }
        self.asking.tail = tail;
        self.journal.append(vec![Entry::Nudge { text: nudge.into() }]).await?;
        Ok(())
    }

    /// Whether the request is worth sending (again).
    async fn make_room(&mut self, refused: Option<&ModelError>) -> Result<bool, TurnError> {
        let provider = self.provider().await?;
        let compaction = Compaction {
            session: self.session,
            journal: self.journal,
            editor: self.editor,
            cancel: &self.cancel,
            provider,
        };
        Ok(compaction.make_room(&mut self.tally, self.requests, refused).await?)
    }

    /// One request: streamed to the editor, gathered, not yet kept.
    async fn send(&mut self, with_tools: bool) -> Result<Reply, TurnError> {
        let provider = self.provider().await?;
        let request = self.request(&*provider, with_tools);
        self.requests += 1;
        let (tell, told) = tokio::sync::mpsc::unbounded_channel();
        let total = self.session.limits.retry_budget;
        let mut budget = Budget { total, ..Budget::default() };
        if self.stand_ins().next().is_some() {
            // Another model answers sooner than this one asks to be waited for.
            budget.asked = total;
        }
        let retrying = Retrying::new(provider.clone(), budget, move |notice| _ = tell.send(notice.clone()));
        let hearing = reply::Hearing {
            session: &self.session.id,
            editor: self.editor,
            journal: self.journal,
            cancel: &self.cancel,
            after: self.asking.tail.take(),
        };
        let mut reply = hearing.gather(retrying.stream(&request), told).await;
        self.count(&mut reply, &*provider).await;
        Ok(reply)
    }

    fn request(&self, provider: &dyn Provider, with_tools: bool) -> Request {
        let (entries, info) = (self.journal.entries(), provider.info());
        let (system, tools) = context::frame(entries).unwrap_or_default();
        Request {
            model: info.id.clone(),
            system,
            tools: if with_tools { tools.into() } else { Arc::from([]) },
            messages: images::fitting(context::messages(entries), &info),
            effort: effort::fitting(self.session.settings().effort.as_deref(), &info),
            max_output: self.asking.max_output,
            cache_key: self.session.id.to_string(),
        }
    }

    pub(super) async fn keep(&mut self, reply: &Reply) -> Result<(), TurnError> {
        if let Some(entry) = reply.entry(&self.model_id()) {
            self.journal.append(vec![entry]).await?;
        }
        Ok(())
    }

    /// The models that were not yet tried in this turn.
    fn stand_ins(&self) -> impl Iterator<Item = String> {
        let current = self.model_id();
        let tried = self.asking.tried.clone();
        self.session.models.fallback().into_iter().filter(move |id| *id != current && !tried.contains(id))
    }

    /// Takes the next configured model for the rest of the turn, and says so; false: there is none.
    pub(super) async fn fall_back(&mut self, error: &ModelError) -> Result<bool, TurnError> {
        if self.cancel.is_cancelled() {
            return Ok(false);
        }
        let from = self.model_id();
        let next = self.stand_ins().find(|id| self.session.models.provider(Some(id)).is_ok());
        self.asking.tried.push(from.clone());
        let Some(next) = next else { return Ok(false) };
        self.asking.stand_in = Some((self.session.settings().model, next.clone()));
        let back = if from.is_empty() { "your choice".to_owned() } else { from };
        let text = format!(
            "{} This turn goes on with {next}; the next one begins with {back} again.",
            error.message
        );
        self.notice(Severity::Warning, &format!("Going on with {next}"), &text).await?;
        Ok(true)
    }

    /// Whether a reply is no end, though no call is in it: it has a call among words, or only says what will be done.
    pub(super) async fn is_unfinished(&mut self, reply: &Reply) -> Result<bool, TurnError> {
        if self.nudge_quoted(reply).await? {
            return Ok(true);
        }
        let last = reply.blocks.iter().rev().find_map(|b| match b {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        // Behind a failure alone: elsewhere such words may be all that was asked for.
        let stuck = self.repeats.is_failing() && self.asking.announced < ANNOUNCED;
        if !stuck || !last.is_some_and(announces) {
            return Ok(false);
        }
        self.asking.announced += 1;
        self.journal.append(vec![Entry::Nudge { text: NUDGE_ANNOUNCED.into() }]).await?;
        Ok(true)
    }

    /// Whether the model wrote a call among words, where it is no call, and is told how to make one.
    async fn nudge_quoted(&mut self, reply: &Reply) -> Result<bool, TurnError> {
        let (_, tools) = context::frame(self.journal.entries()).unwrap_or_default();
        let texts = reply.blocks.iter().filter_map(|b| match b {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        let Some(name) = texts.filter_map(|text| text_calls::quoted(text, tools)).next() else {
            return Ok(false);
        };
        self.asking.quoted += 1;
        if self.asking.quoted > QUOTED {
            return Ok(false);
        }
        let text = format!(
            "[You wrote a call of `{name}` as text: nothing was run, and there is no output yet. To run it, reply with \
             the call alone, nothing before and nothing behind it, and wait for its result. If it was only an example, \
             say so in words.]"
        );
        self.journal.append(vec![Entry::Nudge { text }]).await?;
        Ok(true)
    }

    /// Whether a reply goes on with the text of the one before it: then having nothing to add is no fault.
    pub(super) fn was_cut(&self) -> bool {
        self.asking.continued > 0 || self.asking.resumed > 0
    }

    /// The reply was not cut off.
    pub(super) fn came_whole(&mut self) {
        (self.asking.continued, self.asking.resumed) = (0, 0);
        self.asking.said.clear();
    }

    /// The output limit cut the reply off: text is gone on with, anything else is asked for again with more room.
    pub(super) async fn cut_off(&mut self, reply: &Reply, calls: bool) -> Result<Cut, TurnError> {
        self.asking.continued += 1;
        if self.asking.continued > CONTINUED {
            // An empty reply, or one whose words had all been said before, did not think either.
            let thought = reply.blocks.iter().any(|b| matches!(b, Block::Thinking { .. }));
            let (title, text) = if reply.has_text() || calls || !thought {
                (
                    "Cut off by the output limit",
                    "The model reached its output limit again and again. Send \"go on\" for more, or ask for smaller steps.",
                )
            } else {
                (
                    "The model only thought",
                    "It used up its whole output limit for thinking. Choose a lower effort of thinking, or ask for \
                     smaller steps.",
                )
            };
            self.notice(Severity::Warning, title, text).await?;
            return Ok(Cut::GiveUp);
        }
        if calls || !reply.has_text() {
            let wrote = reply.usage.map_or(0, |u| u32::try_from(u.output).unwrap_or(MOST));
            let before = self.asking.max_output.unwrap_or(0).max(wrote);
            self.asking.max_output = Some(before.saturating_mul(2).clamp(MORE, MOST));
        } else {
            self.go_on(reply, NUDGE_LENGTH).await?;
        }
        Ok(Cut::GoOn)
    }
}

/// Whether a short reply ends with what its writer is about to do, as small models do instead of doing it.
fn announces(text: &str) -> bool {
    let text = text.trim();
    if text.len() > 400 || text.contains("```") {
        return false;
    }
    let last =
        text.split_inclusive(['.', '!', '?', ':', '\n']).rfind(|s| !s.trim().is_empty()).unwrap_or(text);
    let last = last.trim().trim_start_matches(['-', '*', ' ']).replace('\u{2019}', "'").to_lowercase();
    let begins = [
        "i will ",
        "i'll ",
        "let me ",
        "let's ",
        "next, i",
        "now i will",
        "now i'll",
        "now, i",
        "i am going to",
        "i'm going to",
        "first, i",
    ];
    begins.iter().any(|b| last.starts_with(b))
        && !last.contains(" if you")
        && !last.ends_with('?')
        && !last.starts_with("let me know")
}

#[cfg(test)]
mod tests {
    use super::announces;

    #[test]
    fn what_is_about_to_be_done_is_told_from_what_was() {
        for text in [
            "I will use `glob` to find the `src` folder.",
            "The file is not there. Let me look for it:",
            "Now I'll run the tests.",
            "I\u{2019}ll fix it.",
        ] {
            assert!(announces(text), "{text}");
        }
        for text in [
            "I fixed it.",
            "Let me know if you want more.",
            "I will go on if you say so.",
            "I'll be glad to help. What should I do?",
            "Done. The tests pass.",
            "",
        ] {
            assert!(!announces(text), "{text}");
        }
    }
}
