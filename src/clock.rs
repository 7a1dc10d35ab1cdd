//! Wall-clock time, in one place so that tests can fix it.
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    pub fn now() -> Self {
        Self(Timestamp::now().as_millisecond())
    }
    /// RFC 3339, as ACP's `updatedAt` wants it.
    pub fn rfc3339(self) -> String {
        Timestamp::from_millisecond(self.0).map(|t| t.to_string()).unwrap_or_default()
    }
}
