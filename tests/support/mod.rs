//! What the tests of the whole server share: a world of its own per test, a scripted model, a scripted client, and the
//! transcripts that tie them together.
pub mod client;
pub mod env;
pub mod model_server;
pub mod oauth_server;
pub mod render;
pub mod replay;
pub mod schema;
pub mod script;
pub mod transcript;

use std::time::Duration;

/// The longest that anything is waited for. Reached only where a test fails.
pub const PATIENCE: Duration = Duration::from_secs(10);
