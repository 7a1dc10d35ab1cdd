//! `apply_patch`: several changes to several files in one text, the "V4A" envelope that models are trained on.
//!
//! [`parse`] reads the text, [`simulate`] plays it on a virtual tree. What comes out is, byte for byte, what will be written;
//! nothing comes out unless every part of the patch applies without guessing.
//!
//! Decisions where the format leaves room:
//! - `Add File` over an existing file replaces its text; encoding, byte-order mark and line endings stay. Whether the model
//!   has seen the file that it replaces is for the caller to check.
//! - `Move to` an existing file replaces it, as a delete and a write that both show what goes.
//! - A hunk that fits several places is refused unless an `@@` line leaves one; hunks apply in order, each after the last.
//! - Numbers in `@@ -1,3 +1,4 @@` are ignored: models get them wrong.
//! - Hunks without context append to the file, or insert after the line that their `@@` names.
//! - An unterminated last line stays unterminated, unless the patch keeps no line of the file: then it is written as a new
//!   file would be.

mod apply;
mod fuzz;
mod hunks;
mod parse;
mod tool;

pub use apply::{VirtualChange, simulate, touched};
#[doc(hidden)]
pub use fuzz::fuzz;
pub use hunks::{HunkError, HunkWhy};
pub use parse::{FileOp, Hunk, HunkLine, Kind, parse};
pub use tool::ApplyPatch;

/// Why a patch is refused. Nothing of it is applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// There is no patch in the text.
    #[error(
        "this is no patch: it must begin with the line `*** Begin Patch`, followed by `*** Add File: path`, \
         `*** Update File: path` or `*** Delete File: path`, and end with `*** End Patch`"
    )]
    NoPatch,
    /// An envelope without a file in it.
    #[error(
        "the patch is empty: put `*** Add File: path`, `*** Update File: path` or `*** Delete File: path` in it"
    )]
    Empty,
    /// A `***` line that means nothing.
    #[error(
        "line {line} of the patch is no valid header. Valid are `*** Add File: path`, `*** Update File: path`, `*** Move to: \
         path` (right after Update File), `*** Delete File: path`, `*** End of File`, `*** End Patch`"
    )]
    BadHeader {
        /// The line of the patch, from 1.
        line: usize,
    },
    /// A line that does not belong where it is.
    #[error("line {line} of the patch {what}")]
    BadLine {
        /// The line of the patch, from 1.
        line: usize,
        /// What is wrong and what would be right.
        what: &'static str,
    },
    /// An update that changes nothing and moves nothing.
    #[error(
        "the update of {path} has no hunks: after `*** Update File: {path}` put `@@` and lines that begin with ' ', '-' or '+'"
    )]
    EmptyUpdate {
        /// The file.
        path: String,
    },
    /// The file to change is not there.
    #[error(
        "cannot {what} {path}: there is no such file. Check the path; to create it use `*** Add File: {path}`"
    )]
    Missing {
        /// `update`, `move` or `delete`.
        what: &'static str,
        /// The file.
        path: String,
    },
    /// The file cannot be read.
    #[error("{path}: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// A hunk does not apply.
    #[error(transparent)]
    Hunk(#[from] HunkError),
    /// Every file stays as it is.
    #[error("the patch changes nothing: the files already say what it would make them say")]
    NoChange,
}

#[cfg(test)]
mod tests;
