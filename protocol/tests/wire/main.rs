//! The wire, driven as a client drives it: bytes in, lines out.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod garbage;
mod invariants;
mod peer;
mod pipes;
mod requests;
mod support;
