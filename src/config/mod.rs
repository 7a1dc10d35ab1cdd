//! Configuration.
pub mod dirs;
pub use dirs::DataDirs;
