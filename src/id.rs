//! Identifiers. All are ours: neither an editor's nor a provider's id is ever used as a key.
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// A new id: a prefix that tells the kind, then a version 7 UUID, so that ids sort by time.
            pub fn new() -> Self {
                Self(format!(concat!($prefix, "{}"), uuid::Uuid::now_v7().simple()).into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
        impl From<&str> for $name {
            fn from(s: &str) -> Self {
                Self(s.into())
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// One conversation: what ACP calls `sessionId`.
    SessionId, "s_"
);
id!(
    /// One message of a person or a model: what ACP calls `messageId`.
    MessageId, "m_"
);
id!(
    /// One tool call: what ACP calls `toolCallId`. The provider's own id is kept beside it.
    CallId, "t_"
);
