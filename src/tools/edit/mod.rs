//! `edit`: replaces text in one file.

pub mod matching;
