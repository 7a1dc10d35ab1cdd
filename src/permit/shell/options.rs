//! Argument allow-lists: a program's options are named, everything else is refused.

use super::lex::Word;

/// What the words that are not options mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// There must be none.
    None,
    /// Any text: nothing is opened by that name.
    Text,
    /// Files and folders that are read.
    Paths,
    /// At most one: a second would be written to.
    OnePath,
    /// A pattern, then paths; only paths once the option in `Spec::pattern` was given.
    PatternPaths,
    /// Revisions and paths, told apart by nobody: all are checked as paths.
    Revisions,
}

/// What one program, or one subcommand, may be given.
///
/// The options are words in a string: `-abc` are flags, `-n=` takes a value, `-f@` a file to read, `-c?` an attached
/// value or none, `-#` is any `-<number>`; `--all`, `--color?`, `--lines=` and `--file@` likewise.
/// An abbreviated long option is not in the list, and so refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    pub name: &'static str,
    pub operands: Operands,
    pub options: &'static str,
    /// Options that take the pattern's place (`-e`, `-f`).
    pub pattern: &'static str,
    /// No option in the program's whole manual writes or runs anything, so an unknown file name may become one.
    pub harmless: bool,
}

pub(super) const fn spec(name: &'static str, operands: Operands, options: &'static str) -> Spec {
    Spec { name, operands, options, pattern: "", harmless: false }
}

impl Spec {
    pub const fn pattern(mut self, options: &'static str) -> Self {
        self.pattern = options;
        self
    }
    pub const fn harmless(mut self) -> Self {
        self.harmless = true;
        self
    }
}

/// A word that names something to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operand {
    pub text: String,
    pub glob: bool,
}

/// What an accepted argument list reads and says.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub reads: Vec<Operand>,
    pub texts: Vec<String>,
    /// The operands that are not read.
    pub operands: Vec<String>,
    /// The options given, without values.
    pub seen: Vec<String>,
}

/// How an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    No,
    Optional,
    Text,
    Path,
}

fn long(spec: &Spec, name: &str) -> Option<Value> {
    spec.options.split_ascii_whitespace().find_map(|o| {
        let rest = o.strip_prefix("--")?.strip_prefix(name)?;
        suffix(rest)
    })
}

fn short(spec: &Spec, c: char) -> Option<Value> {
    spec.options.split_ascii_whitespace().find_map(|o| {
        let group = o.strip_prefix('-').filter(|g| !g.starts_with('-'))?;
        let (name, mark) = group.split_at(group.len().min(1));
        match suffix(mark) {
            Some(value) if value != Value::No => name.starts_with(c).then_some(value),
            _ if group == "#" => c.is_ascii_digit().then_some(Value::No),
            _ => group.contains(c).then_some(Value::No),
        }
    })
}

fn suffix(mark: &str) -> Option<Value> {
    match mark {
        "" => Some(Value::No),
        "?" => Some(Value::Optional),
        "=" => Some(Value::Text),
        "@" => Some(Value::Path),
        _ => None,
    }
}

/// Checks an argument list; `Err` names what is not in the list.
pub(super) fn check(spec: &Spec, args: &[Word]) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let (mut operands, mut words, mut over) = (vec![], args.iter(), false);
    while let Some(w) = words.next() {
        let text = w.text.as_str();
        if over || text == "-" || !text.starts_with('-') || text.is_empty() {
            if w.glob_first && !over && !spec.harmless {
                return Err(format!(
                    "`{text}` may stand for a file whose name `{}` takes for an option",
                    spec.name
                ));
            }
            operands.push(w);
            continue;
        }
        if w.disguised {
            return Err(format!("its option `{text}` is written so as to hide what it is"));
        }
        if text == "--" {
            over = true;
            continue;
        }
        let refused = || format!("`{} {text}` is not known to be read-only", spec.name);
        let value = match text.strip_prefix("--") {
            Some(body) => {
                let (name, value) =
                    body.split_once('=').map_or((body, None), |(n, v)| (n, Some(v.to_owned())));
                parsed.seen.push(format!("--{name}"));
                let taken = match long(spec, name).ok_or_else(refused)? {
                    Value::No if value.is_some() => return Err(refused()),
                    Value::No | Value::Optional => continue,
                    taken => taken,
                };
                (taken, value)
            }
            None => match cluster(spec, text, &mut parsed.seen).ok_or_else(refused)? {
                None => continue,
                Some(found) => found,
            },
        };
        let value = match value.1 {
            Some(text) => Operand { text, glob: w.glob },
            None => {
                let next = words.next().ok_or_else(refused)?;
                Operand { text: next.text.clone(), glob: next.glob }
            }
        };
        // `--include=*.rs` may become several words, each of them this option.
        let named = text.split_once('=').is_some_and(|(name, _)| !name.contains(['*', '?', '[']));
        match w.glob && !(named && value.glob && !taken_path(spec, text)) {
            true => return Err(format!("its option `{text}` holds a wildcard")),
            false if taken_path(spec, text) => parsed.reads.push(value),
            false => parsed.texts.push(value.text),
        }
    }
    settle(spec, &operands, parsed)
}

/// Reads `-abc`; the value is of the last letter, attached or still to come.
fn cluster(spec: &Spec, text: &str, seen: &mut Vec<String>) -> Option<Option<(Value, Option<String>)>> {
    for (at, c) in text[1..].char_indices() {
        seen.push(format!("-{c}"));
        match short(spec, c)? {
            Value::No => {}
            Value::Optional => return Some(None),
            taken => {
                let rest = &text[1 + at + c.len_utf8()..];
                return Some(Some((taken, (!rest.is_empty()).then(|| rest.to_owned()))));
            }
        }
    }
    Some(None)
}

fn taken_path(spec: &Spec, text: &str) -> bool {
    match text.strip_prefix("--") {
        Some(body) => long(spec, body.split('=').next().unwrap_or(body)) == Some(Value::Path),
        None => {
            text[1..].chars().find_map(|c| short(spec, c).filter(|v| *v != Value::No)) == Some(Value::Path)
        }
    }
}

fn settle(spec: &Spec, operands: &[&Word], mut parsed: Parsed) -> Result<Parsed, String> {
    let read = |w: &&Word| Operand { text: w.text.clone(), glob: w.glob };
    match spec.operands {
        Operands::None if operands.is_empty() => {}
        Operands::None => {
            return Err(format!("`{}` with an argument is not known to be read-only", spec.name));
        }
        Operands::Text => parsed.operands.extend(operands.iter().map(|w| w.text.clone())),
        Operands::OnePath if operands.len() > 1 || operands.iter().any(|w| w.glob) => {
            return Err(format!("the second file of `{}` is written to", spec.name));
        }
        Operands::Paths | Operands::OnePath | Operands::Revisions => {
            parsed.reads.extend(operands.iter().map(read))
        }
        Operands::PatternPaths => {
            let given = spec.pattern.split_ascii_whitespace().any(|p| parsed.seen.iter().any(|s| s == p));
            let skip = usize::from(!given);
            parsed.operands.extend(operands.iter().take(skip).map(|w| w.text.clone()));
            parsed.reads.extend(operands.iter().skip(skip).map(read));
        }
    }
    Ok(parsed)
}
