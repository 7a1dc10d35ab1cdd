//! Stub until the real one lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    ReadOnly,
    Ask,
    Destructive,
    NotUnderstood,
}
