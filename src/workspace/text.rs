//! Stub until the real one lands.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    pub content: std::sync::Arc<str>,
}
