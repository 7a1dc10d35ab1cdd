//! One integration binary: the whole server over its real interfaces.
#![allow(clippy::unwrap_used, clippy::expect_used)]
mod binary;
mod cancel;
mod cli;
mod editors;
mod lifecycle;
mod login;
mod process;
mod providers;
mod reopen;
mod secrets;
mod sign_in;
mod support;
mod terminals;
mod tidy;
mod tools;
mod transcripts;
