//! What to prune and where to cut: decided by token budgets, never between a call and its result.
use super::measure::{self, Measure, Window};
use crate::{
    agent::context::{self, View},
    id::CallId,
    log::{Block, Entry, PromptState, Stored},
};
use std::collections::HashMap;

/// Results below this many tokens are not worth pruning.
const SMALL: u64 = 120;
/// What stands for a pruned result, about.
const MARK: u64 = 40;

/// How hard is compacted. Each level comes in when the one before does not make enough room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Only old results of tools go.
    Prune,
    /// The middle becomes a summary; the last part stays.
    Summary,
    /// Nearly everything becomes a summary, and what is large in the last part goes.
    Hard,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::Prune, Level::Summary, Level::Hard];
}

/// Budgets in tokens of our estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budgets {
    /// The newest results that are not pruned.
    pub results: u64,
    /// The last part that stays as it is.
    pub tail: u64,
    /// The same, for a last part that is one piece.
    pub piece: u64,
    /// The facts that we keep ourselves.
    pub ledger: u64,
    /// The model's summary.
    pub summary: u64,
}

impl Budgets {
    pub fn of(level: Level, window: Window, measure: &Measure) -> Budgets {
        let room = window.room(measure);
        match level {
            Level::Prune | Level::Summary => Budgets {
                results: room / 6,
                tail: room / 5,
                piece: room / 2,
                ledger: (room / 10).min(20_000),
                summary: (room / 12).clamp(200, 8_000),
            },
            Level::Hard => Budgets {
                results: room / 20,
                tail: room / 20,
                piece: room / 10,
                ledger: (room / 12).min(8_000),
                summary: (room / 16).clamp(150, 4_000),
            },
        }
    }

    /// For a compaction that a person asked for: what is small by the window is still to become smaller.
    pub fn within(self, messages: u64) -> Budgets {
        let third = messages / 3;
        Budgets {
            tail: self.tail.min(third),
            piece: self.piece.min(third),
            ledger: self.ledger.min(third),
            ..self
        }
    }
}

/// What a compaction does to the log's projection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cut {
    /// Entries below become the summary.
    pub covers: Option<u64>,
    /// Results that stay, and are shown as pruned.
    pub prune: Vec<CallId>,
    /// What stays, in our estimate, with the results already pruned; without a new summary.
    pub kept: u64,
    /// What the summary stands for, in our estimate.
    pub covered: u64,
}

/// A message with what cannot be parted from it: a reply with the results of its calls.
#[derive(Debug, Default)]
struct Unit {
    first: u64,
    /// The last entry that belongs to it.
    last: u64,
    tokens: u64,
    results: Vec<(CallId, u64)>,
}

/// What to do at a level.
pub fn cut(entries: &[Stored], level: Level, budgets: &Budgets) -> Cut {
    let view = View::of(entries);
    let mut units = units(entries, &view);
    let pruned = prune(&mut units, &view, level, budgets.results);
    let total: u64 = units.iter().map(|u| u.tokens).sum();
    let summary = view.summary.map_or(0, |s| measure::of_bytes(s.len() + context::SUMMARY.len()));
    if level == Level::Prune {
        return Cut { covers: None, prune: pruned, kept: total + summary, covered: 0 };
    }
    let (mut kept, mut start) = (0, units.len());
    for (i, unit) in units.iter().enumerate().rev() {
        let allowed = if start == units.len() { budgets.piece } else { budgets.tail };
        if kept + unit.tokens > allowed {
            break;
        }
        (kept, start) = (kept + unit.tokens, i);
    }
    if start == 0 {
        return Cut { covers: None, prune: pruned, kept: total + summary, covered: 0 };
    }
    let covers = units.get(start).map_or_else(|| entries.last().map_or(0, |s| s.seq + 1), |u| u.first);
    let stays: Vec<CallId> =
        units[start..].iter().flat_map(|u| &u.results).map(|(id, _)| id.clone()).collect();
    let prune = pruned.into_iter().filter(|id| stays.contains(id)).collect();
    Cut { covers: Some(covers), prune, kept, covered: total - kept + summary }
}

fn units(entries: &[Stored], view: &View<'_>) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut of_call: HashMap<&str, usize> = HashMap::new();
    for stored in entries.iter().filter(|s| !view.is_hidden(s.seq)) {
        let starts = match &stored.entry {
            Entry::User { state: PromptState::Sent, .. } | Entry::Steer { .. } | Entry::Nudge { .. } => true,
            Entry::Assistant { blocks, interrupted, .. } => {
                let calls = blocks.iter().filter_map(|b| match b {
                    Block::Call(call) if !interrupted => Some(call.id.as_str()),
                    _ => None,
                });
                of_call.extend(calls.map(|id| (id, units.len())));
                true
            }
            Entry::Result { call, text, .. } => {
                if let Some(unit) = of_call.get(call.as_str()).and_then(|i| units.get_mut(*i)) {
                    let size =
                        if view.is_pruned(call.as_str()) { MARK } else { measure::of_bytes(text.len()) };
                    unit.results.push((call.clone(), size));
                    unit.last = stored.seq;
                }
                false
            }
            _ => false,
        };
        if starts {
            units.push(Unit { first: stored.seq, last: stored.seq, ..Unit::default() });
        }
    }
    weigh(&mut units, entries);
    joined(units)
}

/// The weight of each unit is that of its messages.
fn weigh(units: &mut [Unit], entries: &[Stored]) {
    for unit in units {
        let Ok(at) = entries.binary_search_by_key(&unit.first, |s| s.seq) else { continue };
        let own: u64 = context::messages(&entries[at..=at])
            .iter()
            .filter(|m| !matches!(m, crate::model::Message::Result { .. }))
            .map(measure::message)
            .sum();
        unit.tokens = own + unit.results.iter().map(|(_, size)| size + 8).sum::<u64>();
    }
}

/// A unit that begins before the results of another are all there is one with it (a steer between two results).
fn joined(units: Vec<Unit>) -> Vec<Unit> {
    let mut out: Vec<Unit> = Vec::with_capacity(units.len());
    for unit in units {
        match out.last_mut() {
            Some(before) if before.last > unit.first => {
                before.last = before.last.max(unit.last);
                before.tokens += unit.tokens;
                before.results.extend(unit.results);
            }
            _ => out.push(unit),
        }
    }
    out
}

/// The newest results stay by budget, and those of the last reply unless it has to be hard; the others are pruned.
fn prune(units: &mut [Unit], view: &View<'_>, level: Level, budget: u64) -> Vec<CallId> {
    let mut out = Vec::new();
    let (mut seen, last) = (0, units.iter().rposition(|u| !u.results.is_empty()));
    for (i, unit) in units.iter_mut().enumerate().rev() {
        let safe = level != Level::Hard && Some(i) == last;
        for (id, size) in unit.results.iter_mut().rev() {
            seen += *size;
            if seen > budget && !safe && *size >= SMALL && !view.is_pruned(id.as_str()) {
                unit.tokens -= *size - MARK;
                seen -= *size - MARK;
                *size = MARK;
                out.push(id.clone());
            }
        }
    }
    out
}
