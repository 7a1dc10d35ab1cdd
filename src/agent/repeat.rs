//! Repeated calls: a model is never trusted as a state machine.
use std::collections::{HashSet, VecDeque};

/// From this many identical calls with nothing between, or rounds of the same few calls, the result carries a note.
pub const NOTE_AT: u32 = 3;
/// From this many the turn ends, saying why.
pub const STOP_AT: u32 = 8;
/// The longest round that is recognised: so many calls, again and again.
const ROUND: usize = 3;
/// From this many replies in a row whose calls all failed with the same words, whatever they were, the model is told.
const FAILED_NOTE_AT: u32 = 3;

/// What a call is, for comparing: its tool and its arguments.
type Signature = (String, String);

/// Counts identical calls in a row and remembers what was refused in this turn.
#[derive(Debug, Default)]
pub struct Repeats {
    /// The last calls, the newest last.
    last: VecDeque<Signature>,
    /// How many in a row are what stood one, two, three calls before them.
    runs: [u32; ROUND],
    /// The words that all calls of the last replies failed with, and of how many.
    failing: (String, u32),
    refused: HashSet<Signature>,
    confined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// Note it in the result.
    Note(u32),
    /// End the turn.
    Stop(u32),
}

fn verdict(count: u32, note: u32) -> Verdict {
    match count {
        n if n >= STOP_AT => Verdict::Stop(n),
        n if n >= note => Verdict::Note(n),
        _ => Verdict::Fine,
    }
}

impl Repeats {
    /// Counts one more call.
    pub fn count(&mut self, name: &str, args: &str) -> Verdict {
        let signature = (name.to_owned(), args.to_owned());
        let mut rounds = 1;
        for (at, run) in self.runs.iter_mut().enumerate() {
            let period = at + 1;
            let before = self.last.len().checked_sub(period).and_then(|i| self.last.get(i));
            *run = if before == Some(&signature) { *run + 1 } else { 0 };
            // A round counts once it is whole.
            rounds = rounds.max(*run / u32::try_from(period).unwrap_or(1) + 1);
        }
        self.last.push_back(signature);
        if self.last.len() > ROUND {
            self.last.pop_front();
        }
        verdict(rounds, NOTE_AT)
    }

    /// Counts one more reply by how its calls ended: `None`, where one did not fail, or they failed in different ways.
    pub fn failed(&mut self, words: Option<&str>) -> Verdict {
        match words {
            Some(words) if self.failing.0 == words => self.failing.1 += 1,
            Some(words) => self.failing = (words.to_owned(), 1),
            None => self.failing = Default::default(),
        }
        verdict(self.failing.1, FAILED_NOTE_AT)
    }

    /// Whether the calls of the last reply that had any all failed alike.
    pub fn is_failing(&self) -> bool {
        self.failing.1 > 0
    }

    /// The person said no: the same call is not asked again in this turn.
    pub fn refuse(&mut self, name: &str, args: &str) {
        self.refused.insert((name.to_owned(), args.to_owned()));
    }

    /// The person said no to a run outside the sandbox: nothing more of the kind is asked in this turn.
    pub fn refuse_unconfined(&mut self) {
        self.confined = true;
    }

    pub fn unconfined_was_refused(&self) -> bool {
        self.confined
    }

    pub fn was_refused(&self, name: &str, args: &str) -> bool {
        self.refused.contains(&(name.to_owned(), args.to_owned()))
    }
}

/// The note in a result.
pub fn note(count: u32) -> String {
    format!(
        "\n\n[This is the same call with the same arguments {count} times in a row. It will not give anything new: \
         change what you do, or tell the user what stops you. The turn ends at {STOP_AT}.]"
    )
}

/// What the model is told behind failures that are all the same.
pub fn failing(count: u32) -> String {
    format!(
        "[The calls of your last {count} replies all failed with the same words. Another call of that kind will fail \
         too: find out why first, go another way, or tell the user what stops you. The turn ends at {STOP_AT}.]"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_calls_in_a_row_are_noted_then_stopped() {
        let mut r = Repeats::default();
        let verdicts: Vec<_> = (0..8).map(|_| r.count("read", "{}")).collect();
        assert_eq!(verdicts[..2], [Verdict::Fine, Verdict::Fine]);
        assert_eq!(verdicts[2], Verdict::Note(3));
        assert_eq!(verdicts[7], Verdict::Stop(8));
        assert_eq!(r.count("read", r#"{"a":1}"#), Verdict::Fine);
        assert_eq!(r.count("read", "{}"), Verdict::Fine);
    }

    #[test]
    fn rounds_of_two_and_three_are_seen() {
        for round in [&["a", "b"][..], &["a", "b", "c"]] {
            let mut r = Repeats::default();
            let verdicts: Vec<_> =
                (0..8 * round.len()).map(|i| r.count("read", round[i % round.len()])).collect();
            assert_eq!(verdicts[2 * round.len() - 1], Verdict::Fine, "{round:?}");
            assert_eq!(verdicts[3 * round.len() - 1], Verdict::Note(3), "{round:?}");
            assert_eq!(verdicts[8 * round.len() - 1], Verdict::Stop(8), "{round:?}");
        }
        let mut r = Repeats::default();
        for i in 0..50 {
            let args = if i % 2 == 0 { "test".to_owned() } else { format!("edit {i}") };
            assert_eq!(r.count("terminal", &args), Verdict::Fine, "a test after each edit is work");
        }
    }

    #[test]
    fn different_calls_that_fail_alike_are_noted_then_stopped() {
        let mut r = Repeats::default();
        let verdicts: Vec<_> = (0..8).map(|_| r.failed(Some("no such tool"))).collect();
        assert_eq!(verdicts[..2], [Verdict::Fine, Verdict::Fine]);
        assert_eq!((verdicts[2], verdicts[7]), (Verdict::Note(3), Verdict::Stop(8)));
        assert_eq!(r.failed(None), Verdict::Fine);
        assert_eq!(r.failed(Some("no such tool")), Verdict::Fine);
        assert_eq!(r.failed(Some("another")), Verdict::Fine);
    }

    #[test]
    fn a_refused_call_is_remembered_with_its_arguments() {
        let mut r = Repeats::default();
        r.refuse("terminal", "a");
        assert!(r.was_refused("terminal", "a") && !r.was_refused("terminal", "b"));
    }
}
