//! Files that change while a question about them is open: what was allowed is not what would be written now.
use super::{Caller, End, Open};
use crate::{
    agent::{
        journal::{Journal, KeepError},
        repeat::Repeats,
    },
    log::Outcome,
    tools,
};

/// How often a change is asked about again in one call; a person who types on and on is left alone then.
const TIMES: usize = 3;
const ASKED_AGAIN: &str = "\n[the file changed at these lines while the user was asked: this is the change as it was \
     planned, shown and allowed again]";

impl Caller<'_> {
    /// Plans a change anew after the lines that it was to change became others, and asks with the diff that it would
    /// be now. Where it does not fit any more, or the model has to read again first, it ends as it did.
    pub(super) async fn replan(
        &self,
        open: &mut Open,
        mut end: End,
        (journal, repeats): (&mut Journal, &mut Repeats),
    ) -> Result<End, KeepError> {
        for _ in 0..TIMES {
            if !end.outdated || !end.touched.is_empty() || self.cancel.is_cancelled() {
                break;
            }
            let Some(tool) = tools::nearest(&open.call.name, &self.session.tools) else { break };
            open.prepared = tool.prepare(open.raw_input.clone());
            match self.permit(open, repeats).await {
                Ok(permitted) => {
                    end = self.begin(open, permitted, (journal, repeats)).await?;
                    if end.outcome == Outcome::Ok {
                        end.output.text.push_str(ASKED_AGAIN);
                    }
                }
                // What does not fit any more was said better by the write that was refused.
                Err(again) if again.outcome == Outcome::Failed => break,
                Err(again) => return Ok(again),
            }
        }
        Ok(end)
    }
}
