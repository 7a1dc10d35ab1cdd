//! Hermes for editors. Modules in reading order; the whole is told in `ARCHITECTURE.md`.
pub mod acp;
pub mod agent;
pub mod cli;
pub mod clock;
pub mod config;
pub mod effects;
pub mod id;
pub mod log;
pub mod logs;
pub mod model;
pub mod permit;
pub mod secret;
pub mod server;
pub mod setup;
pub mod store;
pub mod tools;
pub mod workspace;
