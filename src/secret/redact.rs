//! Our own secrets stay out of what the model reads, the editor shows and the store keeps: `[secret:NAME]` stands for them.
use super::{Secret, forms};
use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

/// Shorter values are not looked for: replacing them would tear up ordinary text.
const SHORTEST: usize = 8;
/// A shorter value of lower-case words alone (`lm-studio`, `not-needed`) is what servers without keys are given.
const PLAIN: usize = 16;

/// The secrets of this process, by name. Clones are the same set: what one learns, all of them keep out. A clone is cheap,
/// as is everything where there are none.
#[derive(Clone, Default)]
pub struct Redactor(Arc<Shared>);

#[derive(Default)]
struct Shared {
    table: RwLock<Arc<Table>>,
    told: Mutex<Vec<Told>>,
}

type Told = Box<dyn Fn(&str) + Send + Sync>;

/// What is looked for: each secret as it is and in base64.
#[derive(Default)]
struct Table {
    secrets: Vec<(String, Secret)>,
    /// The longest first: one may hold another.
    forms: Vec<Form>,
    /// The forms that begin with a byte, by that byte; empty where there are none at all.
    starts: Vec<Vec<usize>>,
}

#[derive(Clone)]
struct Form {
    placeholder: String,
    value: Secret,
}

impl Table {
    fn new(secrets: Vec<(String, Secret)>) -> Self {
        let mut forms: Vec<Form> = Vec::new();
        for (name, secret) in &secrets {
            let encoded = forms::base64(secret.expose().as_bytes()).into_iter().map(Secret::new);
            for value in std::iter::once(secret.clone()).chain(encoded) {
                if !forms.iter().any(|f| f.value.expose() == value.expose()) {
                    forms.push(Form { placeholder: format!("[secret:{name}]"), value });
                }
            }
        }
        forms.sort_by_key(|f| std::cmp::Reverse(f.value.expose().len()));
        let mut starts = vec![Vec::new(); if forms.is_empty() { 0 } else { 256 }];
        for (at, form) in forms.iter().enumerate() {
            if let Some(first) = form.value.expose().bytes().next() {
                starts[usize::from(first)].push(at);
            }
        }
        Table { secrets, forms, starts }
    }

    /// The longest form that begins here, whole or (`cut`) as far as there is text.
    fn found(&self, rest: &[u8], cut: bool) -> Option<&Form> {
        let at = self.starts.get(usize::from(*rest.first()?))?;
        at.iter().map(|at| &self.forms[*at]).find(|f| {
            let value = f.value.expose().as_bytes();
            rest.starts_with(value) || (cut && value.starts_with(rest))
        })
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.table().secrets.iter().map(|(name, _)| name)).finish()
    }
}

impl Redactor {
    /// Of (name, value) pairs. Values that are too short or too plain to be keys are left out; the first name counts.
    pub fn new(secrets: impl IntoIterator<Item = (String, Secret)>) -> Self {
        let redactor = Self::default();
        redactor.add(secrets);
        redactor
    }

    /// Adds what became known later: a key that was read again, a token that was refreshed.
    pub fn add(&self, secrets: impl IntoIterator<Item = (String, Secret)>) {
        let mut table = self.0.table.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = table.secrets.clone();
        let before = all.len();
        for (name, value) in secrets {
            let trimmed = value.expose().trim();
            let plain = trimmed.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'-' | b'_'));
            let is_key = trimmed.len() >= SHORTEST && !(plain && trimmed.len() < PLAIN);
            if is_key && !all.iter().any(|(_, known)| known.expose() == trimmed) {
                all.push((name, Secret::new(trimmed)));
            }
        }
        if all.len() == before {
            return;
        }
        let known = std::mem::replace(&mut *table, Arc::new(Table::new(all)));
        let now = table.clone();
        drop(table);
        let told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        for form in
            now.forms.iter().filter(|f| !known.forms.iter().any(|k| k.value.expose() == f.value.expose()))
        {
            told.iter().for_each(|tell| tell(form.value.expose()));
        }
    }

    /// Tells every form of every secret, now and when one is added: only to what keeps them out of something else.
    pub fn tell(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        self.table().forms.iter().for_each(|f| tell(f.value.expose()));
        told.push(Box::new(tell));
    }

    fn table(&self) -> Arc<Table> {
        self.0.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn is_empty(&self) -> bool {
        self.table().forms.is_empty()
    }

    /// The text with a placeholder for each secret.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for Form { placeholder, value } in &self.table().forms {
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
    pub fn added_placeholder(&self, old: &str, new: &str) -> Option<String> {
        let table = self.table();
        let mut names = table.forms.iter().map(|f| f.placeholder.as_str());
        names.find(|p| new.matches(p).count() > old.matches(p).count()).map(str::to_owned)
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
        let table = self.redactor.table();
        if table.forms.is_empty() {
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
            match table.found(rest, !last) {
                None => at += 1,
                Some(form) if form.value.expose().len() <= rest.len() => {
                    out.extend_from_slice(&joined[from..at]);
                    out.extend_from_slice(form.placeholder.as_bytes());
                    at += form.value.expose().len();
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
    fn what_is_learnt_later_is_kept_out_by_every_clone() {
        let r = Redactor::default();
        let (clone, mut stream) = (r.clone(), r.stream());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        r.tell(move |value| told.lock().unwrap().push(value.to_owned()));
        assert_eq!(stream.push(b"tok-0123456789", false), &b"tok-0123456789"[..]);
        r.add([("T".to_owned(), Secret::new("tok-0123456789"))]);
        r.add([("AGAIN".to_owned(), Secret::new("tok-0123456789"))]);
        assert_eq!(clone.text("a tok-0123456789"), "a [secret:T]");
        assert_eq!(stream.push(b"tok-0123456789", true), &b"[secret:T]"[..]);
        let seen = seen.lock().unwrap();
        assert!(seen.contains(&"tok-0123456789".to_owned()) && seen.len() > 3, "{seen:?}");
    }

    #[test]
    fn a_secret_in_base64_is_one_too() {
        use base64::{Engine, engine::general_purpose::*};
        let key = "sk-own?~3f9d2c71aa~?";
        let r = Redactor::new([("K".to_owned(), Secret::new(key))]);
        for around in ["", "u:", "me:", "user:", "x", "xy", "\u{fffd}:"] {
            for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
                for behind in ["", "\n", "more"] {
                    let header = format!("Basic {}", engine.encode(format!("{around}{key}{behind}")));
                    let shown = r.text(&header).into_owned();
                    assert!(shown.contains("[secret:K]"), "{header}");
                    let streamed = r.stream().push(header.as_bytes(), true).into_owned();
                    assert_eq!(String::from_utf8(streamed).unwrap(), shown);
                }
            }
        }
    }

    #[test]
    fn only_what_is_added_is_told() {
        let r = redactor();
        assert_eq!(r.added_placeholder("", "k=[secret:A]").as_deref(), Some("[secret:A]"));
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
