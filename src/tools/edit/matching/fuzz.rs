//! What holds of every edit, for the property tests and the fuzz target `edit`.
use super::{Edited, Replacement, apply};
use crate::workspace::text::Text;

/// # Panics
/// Bytes outside the places of a change are not what they were.
pub(super) fn outside_stays(content: &str, edited: &Edited) {
    // What is left after the places are cut out of the result is what was around them.
    let result = edited.text.content();
    let mut outside = Vec::new();
    let mut from = 0;
    for place in &edited.applied[0].places {
        outside.push(&result[from..place.start]);
        from = place.end;
    }
    outside.push(&result[from..]);
    let (first, last) = (outside[0], outside[outside.len() - 1]);
    assert!(content.starts_with(first) && content.ends_with(last), "{first:?} or {last:?} in {content:?}");
    let mut rest = content;
    for part in outside {
        let at = rest.find(part);
        assert!(at.is_some(), "{part:?} in {rest:?}");
        rest = &rest[at.unwrap_or(0) + part.len()..];
    }
}

/// `bytes`: the file, the old text, the new text, and anything for "replace all", with NULs between.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let all = String::from_utf8_lossy(bytes);
    let mut parts = all.splitn(4, '\0').map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    let (content, old, new, more) = (part(), part(), part(), part());
    let edit = Replacement { old, new, replace_all: !more.is_empty() };
    let text = Text::new_utf8(content.clone());
    match apply(&text, std::slice::from_ref(&edit)) {
        Ok(edited) => {
            outside_stays(&content, &edited);
            assert_eq!(apply(&text, &[edit]).as_ref(), Ok(&edited), "the same again");
        }
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
    }
}
