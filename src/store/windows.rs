//! What refusals taught of how much each model takes: for all sessions, and for a while.
use super::{Cx, StoreError};
use crate::clock::Millis;
use rusqlite::params;

/// Providers widen their windows, and a local server is started with another one: so long it is believed.
const BELIEVED: i64 = 7 * 24 * 3_600 * 1_000;

impl Cx<'_> {
    pub(super) fn windows(&self, now: Millis) -> Result<Vec<(String, u64)>, StoreError> {
        let sql = "SELECT model, tokens FROM model_window WHERE at > ?1 ORDER BY model";
        self.all(sql, [now.0 - BELIEVED], |r| {
            Ok((r.get(0)?, u64::try_from(r.get::<_, i64>(1)?).unwrap_or(0)))
        })
    }

    pub(super) fn set_window(&self, model: &str, tokens: u64, now: Millis) -> Result<(), StoreError> {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        let sql = "INSERT OR REPLACE INTO model_window (model, tokens, at) VALUES (?1, ?2, ?3)";
        self.run(sql, params![model, tokens, now.0]).map(drop)
    }
}
