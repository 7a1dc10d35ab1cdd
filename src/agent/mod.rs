//! The agent: sessions, their turns, and the projections of their logs.
pub mod call;
pub mod compact;
pub mod context;
pub mod effort;
pub mod fork;
pub mod hermes;
pub mod journal;
pub mod line;
pub mod port;
pub mod session;
pub mod side;
pub mod slot;
pub mod steer;
pub mod turn;
pub mod undo;
pub mod usage;
pub mod view;

mod ask;
mod asking;
mod bound;
mod coalesce;
mod hunks;
pub mod images;
mod live;
mod preview;
pub mod prompt;
mod record;
mod recover;
pub mod redact;
mod repeat;
mod reply;
mod search;

pub use live::terminal_id;
pub use preview::fence;

#[cfg(test)]
mod tests;
