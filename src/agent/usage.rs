//! What a session used and cost: a pure function of its log.
use super::{compact, port::Update, reply::Reply, session::Session, turn::Turn};
use crate::{
    log::{Cost, Entry, Stored, Usage},
    model::{Provider, price::priced},
};

/// What the requests of a session used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// In its turns.
    pub turns: Usage,
    /// Beside them: titles and summaries.
    pub side: Usage,
}

impl Spent {
    /// Of these entries. A turn that has not ended, or never did, counts by its replies.
    pub fn of(entries: &[Stored]) -> Spent {
        let (mut spent, mut open) = (Spent::default(), Usage::default());
        for stored in entries {
            match &stored.entry {
                Entry::Assistant { usage: Some(usage), .. } => open += *usage,
                Entry::Ended { usage, .. } => {
                    spent.turns += if *usage == Usage::default() { open } else { *usage };
                    open = Usage::default();
                }
                Entry::Side { usage, .. } => spent.side += *usage,
                _ => {}
            }
        }
        spent.turns += open;
        spent
    }

    pub fn total(&self) -> Usage {
        let mut total = self.turns;
        total += self.side;
        total
    }
}

/// What the last turn used, if it has ended.
pub fn of_last_turn(entries: &[Stored]) -> Option<Usage> {
    entries.iter().rev().find_map(|s| match &s.entry {
        Entry::Ended { usage, .. } => Some(*usage),
        _ => None,
    })
}

impl Turn<'_> {
    /// Counts what a reply used, at its price, and shows it.
    pub(super) async fn count(&mut self, reply: &mut Reply, provider: &dyn Provider) {
        let Some(usage) = reply.usage else { return };
        let usage = priced(usage, provider.info().price.as_ref());
        reply.usage = Some(usage);
        self.usage += usage;
        if !self.editor.features().usage {
            return;
        }
        if let Some(size) = compact::known_window(self.session, provider) {
            let used = (usage.input + usage.output).min(size);
            let mut total = Spent::of(self.journal.entries()).total();
            total += usage;
            self.editor
                .update(&self.session.id, Update::Usage { used, size, cost: whole(&total.cost) })
                .await;
        }
    }
}

/// What the meter shows of a session in which no turn runs; `None`: there is nothing to show, or no known size.
pub fn at_rest(session: &Session, entries: &[Stored]) -> Option<Update> {
    let provider = session.models.provider(session.settings().model.as_deref()).ok()?;
    let size = compact::known_window(session, &*provider)?;
    of_last_turn(entries)?;
    let used = compact::used(entries).min(size);
    Some(Update::Usage { used, size, cost: whole(&Spent::of(entries).total().cost) })
}

/// US dollars, where they are known to be all.
pub fn whole(cost: &Cost) -> Option<f64> {
    cost.dollars().filter(|_| cost.is_whole())
}

/// Tokens and cost in words.
pub fn words(usage: &Usage) -> String {
    let mut out = format!("{} tokens in ({} cached), {} out", usage.input, usage.cached, usage.output);
    if usage.reasoning > 0 {
        out.push_str(&format!(" ({} for thinking)", usage.reasoning));
    }
    if !usage.cost.is_none() {
        out.push_str(&format!(", {}", cost(&usage.cost)));
    }
    out
}

fn cost(cost: &Cost) -> String {
    match cost.dollars() {
        None => "cost not known".into(),
        Some(dollars) if cost.is_whole() => money(dollars),
        Some(dollars) => {
            format!("at least {} ({} request(s) without a known price)", money(dollars), cost.unpriced)
        }
    }
}

/// Small amounts with as many digits as say something.
pub fn money(dollars: f64) -> String {
    match dollars {
        d if d >= 1.0 => format!("${d:.2}"),
        d if d >= 0.01 => format!("${d:.3}"),
        0.0 => "$0".into(),
        d => format!("${d:.6}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Millis, id::MessageId};

    fn log(entries: Vec<Entry>) -> Vec<Stored> {
        let stored = |(seq, entry)| Stored { seq: seq as u64, at: Millis(0), entry };
        entries.into_iter().enumerate().map(stored).collect()
    }
    fn used(input: u64) -> Usage {
        Usage { input, ..Usage::default() }
    }
    fn reply(input: u64) -> Entry {
        let usage = Some(used(input));
        Entry::Assistant {
            id: MessageId::new(),
            blocks: vec![],
            interrupted: false,
            model: "p/m".into(),
            usage,
        }
    }
    fn ended(input: u64) -> Entry {
        let tools = Default::default();
        Entry::Ended { stop: "end_turn".into(), requests: 1, usage: used(input), detail: None, tools }
    }
    fn side(input: u64) -> Entry {
        Entry::Side { task: "title".into(), model: "p/s".into(), usage: used(input) }
    }

    #[test]
    fn every_request_counts_once() {
        // Requests whose replies were not kept are in the turn's sum alone; a turn cut short has only its replies.
        let entries = log(vec![reply(10), reply(20), ended(35), side(3), reply(5), ended(0), reply(7)]);
        let spent = Spent::of(&entries);
        assert_eq!((spent.turns.input, spent.side.input, spent.total().input), (47, 3, 50));
        assert_eq!(of_last_turn(&entries).unwrap().input, 0);
        assert_eq!(of_last_turn(&log(vec![reply(1)])), None);
    }

    #[test]
    fn an_unknown_price_is_said_to_be_unknown() {
        let mut usage = Usage { input: 5, cached: 2, output: 1, ..Usage::default() };
        assert_eq!(words(&usage), "5 tokens in (2 cached), 1 out");
        usage.cost = Cost { nanos: 0, priced: 0, unpriced: 1 };
        assert!(words(&usage).ends_with(", cost not known") && whole(&usage.cost).is_none());
        usage.cost = Cost { nanos: 12_345_678, priced: 2, unpriced: 0 };
        assert!(words(&usage).ends_with(", $0.012") && whole(&usage.cost).is_some());
        usage.cost.unpriced = 1;
        assert!(words(&usage).ends_with("at least $0.012 (1 request(s) without a known price)"));
        assert!(whole(&usage.cost).is_none());
        for (dollars, text) in [(0.0, "$0"), (0.000_12, "$0.000120"), (12.5, "$12.50")] {
            assert_eq!(money(dollars), text);
        }
    }
}
