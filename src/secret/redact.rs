//! Our own secrets stay out of what the model reads, the editor shows and the store keeps: `[secret:NAME]` stands for them.
use super::Secret;
use std::{borrow::Cow, fmt, sync::Arc};

/// Shorter values are not looked for: replacing them would tear up ordinary text.
const SHORTEST: usize = 8;
/// A shorter value of lower-case words alone (`lm-studio`, `not-needed`) is what servers without keys are given.
const PLAIN: usize = 16;

/// The secrets of this process, by name. A clone is cheap, as is everything where there are none.
#[derive(Clone, Default)]
pub struct Redactor(Arc<[Named]>);

struct Named {
    placeholder: String,
    value: Secret,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|n| &n.placeholder)).finish()
    }
}

impl Redactor {
    /// Of (name, value) pairs. Values that are too short or too plain to be keys are left out; the first name counts.
    pub fn new(secrets: impl IntoIterator<Item = (String, Secret)>) -> Self {
        let mut all: Vec<Named> = Vec::new();
        for (name, value) in secrets {
            let trimmed = value.expose().trim();
            let plain = trimmed.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'-' | b'_'));
            let is_key = trimmed.len() >= SHORTEST && !(plain && trimmed.len() < PLAIN);
            if is_key && !all.iter().any(|n| n.value.expose() == trimmed) {
                all.push(Named { placeholder: format!("[secret:{name}]"), value: Secret::new(trimmed) });
            }
        }
        // The longest first: one may hold another.
        all.sort_by_key(|n| std::cmp::Reverse(n.value.expose().len()));
        Self(all.into())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values themselves: only for what keeps them out of something else.
    pub fn values(&self) -> impl Iterator<Item = &Secret> {
        self.0.iter().map(|n| &n.value)
    }

    /// The text with a placeholder for each secret.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for Named { placeholder, value } in self.0.iter() {
            if text.contains(value.expose()) {
                text = Cow::Owned(text.replace(value.expose(), placeholder));
            }
        }
        text
    }

    /// Whether a secret is in there.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        !self.is_empty() && matches!(self.stream().push(bytes, true), Cow::Owned(_))
    }

    /// A placeholder that `new` has more often than `old`: written to a file, it would not be the secret.
    pub fn added_placeholder(&self, old: &str, new: &str) -> Option<&str> {
        let names = self.0.iter().map(|n| n.placeholder.as_str());
        names.into_iter().find(|p| new.matches(p).count() > old.matches(p).count())
    }

    /// For text that comes in pieces.
    pub fn stream(&self) -> Stream {
        Stream { redactor: self.clone(), held: Vec::new() }
    }
}

/// Redacts what comes in pieces. What may be the beginning of a secret is held back until more comes.
pub struct Stream {
    redactor: Redactor,
    held: Vec<u8>,
}

impl Stream {
    /// What can be passed on; borrowed where it is the input as it was. `last`: nothing more comes.
    pub fn push<'a>(&mut self, bytes: &'a [u8], last: bool) -> Cow<'a, [u8]> {
        if self.redactor.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let joined: Cow<'a, [u8]> = if self.held.is_empty() {
            Cow::Borrowed(bytes)
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(bytes);
            Cow::Owned(held)
        };
        let (mut out, mut from, mut at): (Vec<u8>, usize, usize) = (Vec::new(), 0, 0);
        while at < joined.len() {
            let rest = &joined[at..];
            let found = self.redactor.0.iter().find(|n| {
                let value = n.value.expose().as_bytes();
                rest.starts_with(value) || (!last && value.starts_with(rest))
            });
            match found {
                None => at += 1,
                Some(n) if n.value.expose().len() <= rest.len() => {
                    out.extend_from_slice(&joined[from..at]);
                    out.extend_from_slice(n.placeholder.as_bytes());
                    at += n.value.expose().len();
                    from = at;
                }
                Some(_) => {
                    self.held = rest.to_vec();
                    break;
                }
            }
        }
        match joined {
            Cow::Borrowed(bytes) if from == 0 => Cow::Borrowed(&bytes[..at]),
            joined => {
                out.extend_from_slice(&joined[from..at]);
                Cow::Owned(out)
            }
        }
    }
}

/// How keys of known services begin.
const STARTS: &[&str] =
    &["sk-", "gsk_", "xai-", "AIza", "pplx-", "hf_", "eyJ", "ghp_", "github_pat_", "xoxb-"];

/// A line for a log: what is shaped like a key is `[key]`.
pub fn mask(text: &str) -> Cow<'_, str> {
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*');
    if !STARTS.iter().any(|s| text.contains(s)) && !text.contains("Bearer ") {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let end = if part_of_word(first) {
            rest.find(|c| !part_of_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(end);
        let long = word.len() >= 12 && word.bytes().any(|b| b.is_ascii_digit() || b == b'*');
        let is_key = long && (STARTS.iter().any(|s| word.starts_with(s)) || out.ends_with("Bearer "));
        out.push_str(if is_key { "[key]" } else { word });
        rest = after;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        let pair = |n: &str, v: &str| (n.to_owned(), Secret::new(v));
        Redactor::new([
            pair("A", "sk-abcabd1"),
            pair("LONGER", "sk-abcabd1-more\n"),
            pair("AGAIN", "sk-abcabd1"),
            pair("SHORT", "short1"),
            pair("DUMMY", "lm-studio"),
        ])
    }

    #[test]
    fn a_secret_is_replaced_and_what_is_none_stays() {
        let r = redactor();
        assert_eq!(r.text("x=sk-abcabd1; y=sk-abcabd1-more"), "x=[secret:A]; y=[secret:LONGER]");
        assert_eq!(r.text("short1 lm-studio sk-abcabd"), "short1 lm-studio sk-abcabd");
        assert!(matches!(r.text("nothing"), Cow::Borrowed(_)));
        assert!(r.is_in(b"\xff sk-abcabd1") && !r.is_in(b"sk-abcabd") && !Redactor::default().is_in(b"x"));
        assert!(!format!("{r:?}").contains("abcabd"));
    }

    #[test]
    fn however_it_is_cut_the_stream_gives_what_the_whole_gives() {
        let r = redactor();
        let text = "s sk-sk-abcabd1 sk-abcsk-abcabd1-more sk-abcabd1-mor sk-";
        let whole = r.text(text).into_owned();
        for a in 0..=text.len() {
            for b in a..=text.len() {
                let (mut stream, mut out) = (r.stream(), Vec::new());
                for piece in [&text[..a], &text[a..b], &text[b..]] {
                    out.extend_from_slice(&stream.push(piece.as_bytes(), false));
                }
                out.extend_from_slice(&stream.push(b"", true));
                assert_eq!(String::from_utf8(out).unwrap(), whole, "cut at {a} and {b}");
            }
        }
    }

    #[test]
    fn only_what_is_added_is_told() {
        let r = redactor();
        assert_eq!(r.added_placeholder("", "k=[secret:A]"), Some("[secret:A]"));
        assert_eq!(r.added_placeholder("# [secret:A]", "# [secret:A]."), None);
        assert_eq!(r.added_placeholder("", "[secret:OTHER]"), None);
    }

    #[test]
    fn logs_show_no_keys() {
        for (given, shown) in [
            ("key sk-proj-0123456789abc.", "key [key]"),
            ("{\"k\":\"AIzaSy0123456789\"}", "{\"k\":\"[key]\"}"),
            ("Authorization: Bearer 0123456789abcdef;", "Authorization: Bearer [key];"),
            (
                "sk-learn is not installed, ask-me-about-0123456789",
                "sk-learn is not installed, ask-me-about-0123456789",
            ),
            ("é plain", "é plain"),
        ] {
            assert_eq!(mask(given), shown);
        }
    }
}
