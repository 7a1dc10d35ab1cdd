//! Permission: one gate, keyed by effects (what *happens*), not by which tool does it.
pub mod grants;
pub mod policy;
pub mod shell;

pub use grants::{Grant, Grants, Scope};
pub use policy::{Decision, decide};
