//! The agent: sessions, their turns, and the projections of their logs.
pub mod hermes;
pub mod port;
pub mod line;
pub mod journal;
pub mod session;
pub mod slot;
pub mod turn;
pub mod call;
pub mod context;
pub mod view;

mod ask;
mod bound;
mod coalesce;
mod hunks;
mod live;
mod preview;
mod recover;
pub mod prompt;
mod repeat;
mod reply;

pub use preview::fence;

#[cfg(test)]
mod tests;
