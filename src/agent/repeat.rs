//! Repeated calls: a model is never trusted as a state machine.
use std::collections::HashSet;

/// From this many identical calls with nothing between, the result carries a note.
pub const NOTE_AT: u32 = 3;
/// From this many the turn ends, saying why.
pub const STOP_AT: u32 = 8;

/// What a call is, for comparing: its tool and its arguments.
type Signature = (String, String);

/// Counts identical calls in a row and remembers what was refused in this turn.
#[derive(Debug, Default)]
pub struct Repeats {
    last: Option<Signature>,
    count: u32,
    refused: HashSet<Signature>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// Note it in the result.
    Note(u32),
    /// End the turn.
    Stop(u32),
}

impl Repeats {
    /// Counts one more call.
    pub fn count(&mut self, name: &str, args: &str) -> Verdict {
        let signature = (name.to_owned(), args.to_owned());
        if self.last.as_ref() == Some(&signature) {
            self.count += 1;
        } else {
            self.last = Some(signature);
            self.count = 1;
        }
        match self.count {
            n if n >= STOP_AT => Verdict::Stop(n),
            n if n >= NOTE_AT => Verdict::Note(n),
            _ => Verdict::Fine,
        }
    }

    /// The person said no: the same call is not asked again in this turn.
    pub fn refuse(&mut self, name: &str, args: &str) {
        self.refused.insert((name.to_owned(), args.to_owned()));
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
    fn a_refused_call_is_remembered_with_its_arguments() {
        let mut r = Repeats::default();
        r.refuse("terminal", "a");
        assert!(r.was_refused("terminal", "a") && !r.was_refused("terminal", "b"));
    }
}
