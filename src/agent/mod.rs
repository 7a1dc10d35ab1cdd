//! The agent: sessions, their turns, and the projections of their logs.
pub mod port;
