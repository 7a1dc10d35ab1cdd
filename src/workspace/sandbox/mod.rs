//! Sandbox for commands.
