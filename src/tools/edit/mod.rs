//! `edit`: replaces text in one file.

pub mod matching;
mod tool;

pub use tool::Edit;
