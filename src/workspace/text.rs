//! The text of one file: what it says, and how its bytes say it.
//!
//! A [`Text`] is decoded without loss or not at all: encoding, byte-order mark, line endings and final newline stay as they
//! were, so an edit changes the bytes it means to change and no others (invariant I17).

mod encoding;
mod lines;

use std::borrow::Cow;
use std::sync::Arc;

pub use encoding::Encoding;
pub(crate) use lines::align;
pub use lines::{Line, LineEnding, lines};

/// The largest file, in bytes, that is taken as text.
pub const MAX_BYTES: usize = 32 * 1024 * 1024;

const BOM: char = '\u{feff}';

/// A decoded text file. Cloning is cheap: the content is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    content: Arc<str>,
    encoding: Encoding,
    bom: bool,
    guessed: bool,
}

/// Why bytes are not taken as text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// NUL bytes, or control characters that no text encoding explains.
    #[error("this is a binary file ({why}); it cannot be read or edited as text")]
    Binary {
        /// What gave it away.
        why: String,
    },
    /// More than [`MAX_BYTES`].
    #[error(
        "the file has {bytes} bytes, more than the {limit} that are handled as text; work on a part of it with a command"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Decoding and encoding again would not give the same bytes.
    #[error(
        "the file is not valid {encoding} and cannot be edited without damage; convert it to UTF-8 with a command first"
    )]
    Lossy {
        /// The encoding that fits best.
        encoding: &'static str,
    },
    /// The meaning of a byte depends on those before it.
    #[error(
        "the file is encoded as {encoding}, which is not handled; convert it to UTF-8 with a command first"
    )]
    Shifting {
        /// Its name.
        encoding: &'static str,
    },
}

/// Text that the file's encoding cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the file is encoded as {encoding}, which has no {character:?} (U+{:04X}, line {line}); \
     use other characters, or convert the file to UTF-8 first", u32::from(*character)
)]
pub struct Unencodable {
    /// The WHATWG name of the encoding.
    pub encoding: &'static str,
    /// The first character that does not fit.
    pub character: char,
    /// Its line, from 1.
    pub line: usize,
}

impl Text {
    /// New UTF-8 text without a byte-order mark.
    pub fn new_utf8(content: impl Into<Arc<str>>) -> Self {
        Text { content: content.into(), encoding: Encoding::Utf8, bom: false, guessed: false }
    }

    /// Decodes a file: UTF-8, UTF-16 with a byte-order mark, or else the legacy encoding that fits best, if it gives the same
    /// bytes back.
    ///
    /// # Errors
    /// [`NotText`] for what is binary, too large or cannot be decoded without loss.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotText> {
        if bytes.len() > MAX_BYTES {
            return Err(NotText::TooLarge { bytes: bytes.len(), limit: MAX_BYTES });
        }
        let decoded = encoding::decode(bytes)?;
        Ok(Text {
            content: decoded.content.into(),
            encoding: decoded.encoding,
            bom: decoded.bom,
            guessed: decoded.guessed,
        })
    }

    /// Text as an editor gives it: a leading U+FEFF is the byte-order mark.
    pub fn from_editor(content: impl Into<String>) -> Self {
        let content: String = content.into();
        match content.strip_prefix(BOM) {
            Some(rest) => Text { bom: true, ..Text::new_utf8(rest) },
            None => Text::new_utf8(content),
        }
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// [`Unencodable`] when a legacy encoding has no code for a character of the content.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Unencodable> {
        encoding::encode(&self.content, self.encoding, self.bom)
    }

    /// Other content in the same encoding, with the same byte-order mark. The content is taken as it is, endings included.
    #[must_use]
    pub fn with_content(&self, content: impl Into<Arc<str>>) -> Self {
        Text { content: content.into(), ..self.clone() }
    }

    /// The content, without the byte-order mark, with its own line endings.
    pub fn content(&self) -> &str {
        &self.content
    }

    /// The encoding of the bytes.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Whether the bytes begin with a byte-order mark.
    pub fn bom(&self) -> bool {
        self.bom
    }

    /// Whether the encoding was guessed, not marked or proven.
    pub fn guessed(&self) -> bool {
        self.guessed
    }

    /// What an editor or a diff shows: the byte-order mark, if any, and the content with its own endings.
    pub fn shown(&self) -> Cow<'_, str> {
        if self.bom { Cow::Owned(format!("{BOM}{}", self.content)) } else { Cow::Borrowed(&self.content) }
    }

    /// The content with LF endings and without a byte-order mark: two sides that show the same text are equal in this form.
    pub fn canonical(&self) -> String {
        lines::to_lf(&self.content).into_owned()
    }

    /// The line endings in use.
    pub fn line_ending(&self) -> LineEnding {
        LineEnding::of(&self.content)
    }

    /// What ends a new line: the most frequent ending (the first one of equals), LF where there is none yet.
    pub fn newline(&self) -> &'static str {
        LineEnding::dominant(&self.content).unwrap_or("\n")
    }

    /// Whether the last line is terminated. An empty file counts as terminated.
    pub fn final_newline(&self) -> bool {
        self.content.is_empty() || self.content.ends_with(['\n', '\r'])
    }

    /// The whole file written anew. The text takes this file's encoding, byte-order mark and line endings (in a file with
    /// mixed endings, lines that stay keep theirs and new ones take the dominant one); whether the last line is terminated
    /// is as the text says.
    #[must_use]
    pub fn rewrite(&self, new: &str) -> Self {
        let (marked, new) = match new.strip_prefix(BOM) {
            Some(rest) => (true, rest),
            None => (false, new),
        };
        let content = match LineEnding::of(&self.content) {
            LineEnding::None => Arc::from(new),
            LineEnding::Mixed => lines::rewrite_mixed(&self.content, new, self.newline()).into(),
            _ => lines::with_ending(new, self.newline()).into(),
        };
        Text { content, bom: self.bom || (marked && self.encoding.is_unicode()), ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
