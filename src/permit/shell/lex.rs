//! A bash tokenizer that cooks words as bash does: quotes and escapes removed, tilde and braces expanded.
//!
//! It never fails: what it cannot read is flagged, and the tokens before it stay, so that the rules for
//! destructive commands see every piece of a command that does not parse. Rules: Bash Reference Manual 3.1.2
//! (quoting), 3.5 (expansions), 3.6 (redirections).

use std::collections::HashMap;
use std::ops::Range;

/// One word after quote removal.
#[derive(Debug, Clone, Default)]
pub(super) struct Word {
    /// Where it stands in the source.
    pub span: Range<usize>,
    /// The word as the program would see it; of an expansion, its source text or its known value.
    pub text: String,
    /// Holds `$…`, a substitution or another thing whose value is not known from the text.
    pub dynamic: bool,
    /// Some of the dynamic part is outside quotes, so that bash splits it into words.
    pub splits: bool,
    /// Holds an unquoted `*`, `?` or `[`.
    pub glob: bool,
    /// The first unquoted wildcard is the first character: a file's name may make it an option.
    pub glob_first: bool,
    /// Any quoting at all.
    pub quoted: bool,
    /// A backslash before a letter, digit or dash, or `$'…'`: written so as to hide what it is.
    pub disguised: bool,
    /// Scripts of substitutions inside the word.
    pub scripts: Vec<String>,
    /// `<(…)` or `>(…)`.
    pub process: bool,
    /// Offsets in `text` of unquoted `{`, `,` and `}`.
    live: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// `;`, `;;`, `;&`, `;;&` or a line's end.
    Semi,
    Amp,
    And,
    Or,
    Pipe,
    Open,
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirect {
    /// `<`
    In,
    /// `<<<`
    String,
    /// `<<`, `<<-`
    Here,
    /// `>`, `>|`, `&>`, and `<>`, which creates too
    Out,
    /// `>>`, `&>>`
    Append,
    /// `>&`, `<&`
    Duplicate,
}

#[derive(Debug, Clone)]
pub(super) enum Token {
    Word(Word),
    Op(Op, Range<usize>),
    /// The redirection's target is the next word.
    Redirect(Redirect, Range<usize>),
}

/// The text below a here-document's line.
#[derive(Debug, Clone, Default)]
pub(super) struct Here {
    pub body: String,
    /// Expansions in it are live: the delimiter was not quoted.
    pub dynamic: bool,
    /// The `<<` it belongs to.
    pub operator: usize,
    pub span: Range<usize>,
    pub scripts: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Lexed {
    pub tokens: Vec<Token>,
    pub heres: Vec<Here>,
    pub comments: Vec<Range<usize>>,
    /// Why the rest could not be read.
    pub fault: Option<&'static str>,
}

/// Most tokens that are looked at; more is not understood.
const MAX_TOKENS: usize = 4000;

pub(super) fn lex(source: &str, home: Option<&str>) -> Lexed {
    let mut lexer =
        Lexer { source, at: 0, home, out: Lexed::default(), pending: vec![], known: HashMap::new() };
    lexer.run();
    lexer.out
}

struct Pending {
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
    operator: usize,
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    home: Option<&'a str>,
    out: Lexed,
    pending: Vec<Pending>,
    /// Variables set earlier in the same text, for the rules about destructive commands only.
    known: HashMap<String, String>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        let source: &'a str = self.source;
        source.get(self.at..).unwrap_or("")
    }
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }
    fn starts(&self, s: &str) -> bool {
        self.rest().starts_with(s)
    }
    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }
    fn fault(&mut self, why: &'static str) {
        self.out.fault.get_or_insert(why);
    }

    fn run(&mut self) {
        while let Some(c) = self.peek() {
            if self.out.tokens.len() > MAX_TOKENS {
                return self.fault("it is too long to check");
            }
            let start = self.at;
            match c {
                ' ' | '\t' => self.at += 1,
                '\\' if self.starts("\\\n") => self.at += 2,
                '\n' => {
                    self.at += 1;
                    self.op(Op::Semi, start);
                    self.here_bodies();
                }
                '#' => {
                    let end = self.rest().find('\n').map_or(self.source.len(), |n| start + n);
                    self.at = end;
                    self.out.comments.push(start..end);
                }
                _ if self.redirect() || self.operator() => {}
                _ => {
                    self.word();
                    if self.at == start {
                        self.bump();
                        self.fault("it holds a character that could not be read");
                    }
                }
            }
        }
        if !self.pending.is_empty() {
            self.fault("a here-document has no end");
        }
    }

    fn op(&mut self, op: Op, start: usize) {
        self.out.tokens.push(Token::Op(op, start..self.at));
    }

    fn operator(&mut self) -> bool {
        const OPS: &[(&str, Op)] = &[
            (";;&", Op::Semi),
            (";;", Op::Semi),
            (";&", Op::Semi),
            (";", Op::Semi),
            ("&&", Op::And),
            ("&", Op::Amp),
            ("||", Op::Or),
            ("|&", Op::Pipe),
            ("|", Op::Pipe),
            ("(", Op::Open),
            (")", Op::Close),
        ];
        let Some((text, op)) = OPS.iter().find(|(t, _)| self.starts(t)) else { return false };
        let start = self.at;
        self.at += text.len();
        self.op(*op, start);
        true
    }

    /// A redirection operator, with the number before it.
    fn redirect(&mut self) -> bool {
        const OPS: &[(&str, Redirect)] = &[
            ("<<<", Redirect::String),
            ("<<-", Redirect::Here),
            ("<<", Redirect::Here),
            ("<>", Redirect::Out),
            ("<&", Redirect::Duplicate),
            ("<", Redirect::In),
            ("&>>", Redirect::Append),
            ("&>", Redirect::Out),
            (">>", Redirect::Append),
            (">|", Redirect::Out),
            (">&", Redirect::Duplicate),
            (">", Redirect::Out),
        ];
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let after = self.rest().get(digits..).unwrap_or("");
        if after.starts_with("<(") || after.starts_with(">(") || digits > 0 && after.starts_with('&') {
            return false;
        }
        let Some((text, kind)) = OPS.iter().find(|(t, _)| after.starts_with(t)) else { return false };
        let start = self.at;
        self.at += digits + text.len();
        self.out.tokens.push(Token::Redirect(*kind, start..self.at));
        if *kind == Redirect::Here {
            self.here_start(start, text.ends_with('-'));
        }
        true
    }

    fn here_start(&mut self, operator: usize, strip_tabs: bool) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        let before = self.out.tokens.len();
        self.word();
        match self.out.tokens.get(before) {
            Some(Token::Word(w)) if !w.dynamic && !w.text.is_empty() => {
                let (delimiter, quoted) = (w.text.clone(), w.quoted || w.disguised);
                self.pending.push(Pending { delimiter, quoted, strip_tabs, operator });
            }
            _ => self.fault("a here-document's delimiter could not be read"),
        }
    }

    fn here_bodies(&mut self) {
        for here in std::mem::take(&mut self.pending) {
            let start = self.at;
            let mut body = String::new();
            let ended = loop {
                let rest = self.source.get(self.at..).unwrap_or("");
                let Some(line) = rest.split_inclusive('\n').next() else { break false };
                self.at += line.len();
                let line = if here.strip_tabs { line.trim_start_matches('\t') } else { line };
                if line.strip_suffix('\n').unwrap_or(line) == here.delimiter {
                    break true;
                }
                body.push_str(line);
            };
            if !ended {
                self.fault("a here-document has no end");
            }
            let dynamic = !here.quoted && body.contains(['$', '`', '\\']);
            let scripts = if dynamic { scripts_in(&body) } else { vec![] };
            let span = start..self.at;
            self.out.heres.push(Here { body, dynamic, operator: here.operator, span, scripts });
        }
    }

    fn word(&mut self) {
        let mut w = Word { span: self.at..self.at, ..Word::default() };
        self.tilde(&mut w);
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' => break,
                '(' if w.text.is_empty() || !w.text.ends_with('=') => break,
                '(' => {
                    // An array assignment: `a=(…)`.
                    self.at += 1;
                    let inner = self.until_close();
                    w.text.push_str(&inner);
                    w.scripts.extend(scripts_in(&inner));
                    w.dynamic = true;
                }
                '<' | '>' if self.rest()[1..].starts_with('(') => {
                    self.at += 2;
                    let script = self.until_close();
                    w.scripts.push(script);
                    (w.dynamic, w.process) = (true, true);
                }
                '<' | '>' => break,
                '\'' => self.single(&mut w),
                '"' => self.double(&mut w),
                '\\' => self.escape(&mut w),
                '$' | '`' => self.dollar(&mut w, false),
                _ => self.plain(c, &mut w),
            }
        }
        w.span.end = self.at;
        if w.span.is_empty() {
            return;
        }
        if w.text == "[" || w.text == "[[" {
            (w.glob, w.glob_first) = (false, false);
        }
        if let Some((name, value)) = assignment(&w.text) {
            self.known.insert(name.to_owned(), value.to_owned());
        }
        let before = self.out.tokens.len();
        expand_braces(w, &mut self.out.tokens, 0);
        if self.out.tokens.len() - before > 64 {
            self.fault("its braces stand for too many words");
        }
    }

    fn plain(&mut self, c: char, w: &mut Word) {
        match c {
            '*' | '?' | '[' => {
                w.glob_first |= w.text.is_empty();
                w.glob = true;
            }
            '{' | ',' | '}' => w.live.push(w.text.len()),
            _ => {}
        }
        w.text.push(c);
        self.at += c.len_utf8();
    }

    fn tilde(&mut self, w: &mut Word) {
        if self.peek() != Some('~') {
            return;
        }
        let name = self.rest()[1..].chars().take_while(|c| !" \t\n;&|()<>/".contains(*c)).count();
        match (name, self.home) {
            (0, Some(home)) => {
                self.at += 1;
                w.text.push_str(home);
            }
            _ => w.dynamic = true,
        }
    }

    fn single(&mut self, w: &mut Word) {
        w.quoted = true;
        self.at += 1;
        match self.rest().find('\'') {
            Some(n) => {
                w.text.push_str(&self.source[self.at..self.at + n]);
                self.at += n + 1;
            }
            None => {
                w.text.push_str(&self.source[self.at..]);
                self.at = self.source.len();
                self.fault("a quote is not closed");
            }
        }
    }

    fn double(&mut self, w: &mut Word) {
        w.quoted = true;
        self.at += 1;
        loop {
            match self.peek() {
                None => return self.fault("a quote is not closed"),
                Some('"') => {
                    self.at += 1;
                    return;
                }
                Some('\\') => {
                    self.at += 1;
                    match self.bump() {
                        Some('\n') | None => {}
                        Some(c @ ('$' | '`' | '"' | '\\')) => w.text.push(c),
                        Some(c) => w.text.extend(['\\', c]),
                    }
                }
                Some('$' | '`') => self.dollar(w, true),
                Some(c) => {
                    w.text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    fn escape(&mut self, w: &mut Word) {
        self.at += 1;
        match self.bump() {
            Some('\n') => {}
            Some(c) => {
                w.quoted = true;
                w.disguised |= c.is_ascii_alphanumeric() || c == '-';
                w.text.push(c);
            }
            None => self.fault("it ends in a backslash"),
        }
    }

    /// What `$` or a back tick begins.
    fn dollar(&mut self, w: &mut Word, in_quotes: bool) {
        let start = self.at;
        let next = self.rest().chars().nth(1);
        match (self.peek(), next) {
            (Some('`'), _) => {
                self.at += 1;
                let script = self.until_back_tick();
                w.scripts.push(script);
            }
            (_, Some('\'')) if !in_quotes => {
                self.at += 2;
                (w.quoted, w.disguised) = (true, true);
                return self.ansi_c(w);
            }
            (_, Some('"')) if !in_quotes => {
                // `$"…"`: translated, so its value is not known.
                self.at += 1;
                w.dynamic = true;
                return self.double(w);
            }
            (_, Some('(')) => {
                self.at += 2;
                let script = self.until_close();
                w.scripts.push(script);
            }
            (_, Some('[')) => {
                self.at += 2;
                let end = self.rest().find(']').map_or(self.source.len(), |n| self.at + n + 1);
                w.scripts.extend(scripts_in(&self.source[self.at..end]));
                self.at = end;
            }
            (_, Some('{')) => return self.parameter(w, in_quotes),
            (_, Some(c)) if c == '_' || c.is_ascii_alphabetic() => {
                let len =
                    self.rest()[1..].bytes().take_while(|b| *b == b'_' || b.is_ascii_alphanumeric()).count();
                let name = self.source[start + 1..start + 1 + len].to_owned();
                self.at += 1 + len;
                return self.variable(&name, start, w, in_quotes);
            }
            // The last exit status is a small number: no words, no wildcards.
            (_, Some('?')) => {
                self.at += 2;
                return w.text.push('0');
            }
            (_, Some(c)) if c.is_ascii_digit() || "!@#*-$".contains(c) => self.at += 2,
            _ => {
                self.at += 1;
                return w.text.push('$');
            }
        }
        self.unknown(start, w, in_quotes);
    }

    fn unknown(&mut self, start: usize, w: &mut Word, in_quotes: bool) {
        w.dynamic = true;
        w.splits |= !in_quotes;
        w.text.push_str(&self.source[start..self.at]);
    }

    fn variable(&mut self, name: &str, start: usize, w: &mut Word, in_quotes: bool) {
        match self.known.get(name) {
            Some(value) => {
                w.dynamic = true;
                w.splits |= !in_quotes;
                w.text.push_str(value);
            }
            None => self.unknown(start, w, in_quotes),
        }
    }

    /// `${…}`; of `${x:-word}` the word is taken for the value.
    fn parameter(&mut self, w: &mut Word, in_quotes: bool) {
        let start = self.at;
        self.at += 2;
        let mut depth = 1;
        while let Some(c) = self.bump() {
            match c {
                '\\' => drop(self.bump()),
                '\'' if !in_quotes => {
                    let n = self.rest().find('\'').map_or(self.rest().len(), |n| n + 1);
                    self.at += n;
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        if depth > 0 {
            self.fault("an expansion is not closed");
        }
        let inner = self.source.get(start + 2..self.at.saturating_sub(1)).unwrap_or("").to_owned();
        w.scripts.extend(scripts_in(&inner));
        let len = inner.bytes().take_while(|b| *b == b'_' || b.is_ascii_alphanumeric()).count();
        let (name, operator) = inner.split_at(len);
        let default = [":-", "-", ":=", "=", ":+", "+"].iter().find_map(|p| operator.strip_prefix(p));
        match default {
            Some(value) if !name.is_empty() => {
                w.dynamic = true;
                w.splits |= !in_quotes;
                w.text.push_str(&value.replace(['"', '\'', '\\'], ""));
            }
            _ if operator.is_empty() => self.variable(name, start, w, in_quotes),
            _ => self.unknown(start, w, in_quotes),
        }
    }

    /// The inside of `$'…'` (Bash Reference Manual 3.1.2.4).
    fn ansi_c(&mut self, w: &mut Word) {
        loop {
            match self.bump() {
                None => return self.fault("a quote is not closed"),
                Some('\'') => return,
                Some('\\') => {
                    let Some(c) = self.bump() else { return self.fault("a quote is not closed") };
                    match c {
                        'n' => w.text.push('\n'),
                        't' => w.text.push('\t'),
                        'r' => w.text.push('\r'),
                        'a' => w.text.push('\u{7}'),
                        'b' => w.text.push('\u{8}'),
                        'e' | 'E' => w.text.push('\u{1b}'),
                        'f' => w.text.push('\u{c}'),
                        'v' => w.text.push('\u{b}'),
                        'x' => self.code(16, 2, w),
                        'u' => self.code(16, 4, w),
                        'U' => self.code(16, 8, w),
                        '0'..='7' => {
                            self.at -= 1;
                            self.code(8, 3, w);
                        }
                        'c' => w.dynamic = true,
                        c => w.text.push(c),
                    }
                }
                Some(c) => w.text.push(c),
            }
        }
    }

    fn code(&mut self, radix: u32, most: usize, w: &mut Word) {
        let len = self.rest().chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let value = u32::from_str_radix(&self.source[self.at..self.at + len], radix).unwrap_or(0);
        self.at += len;
        match char::from_u32(value) {
            Some(c) if value != 0 && (value < 0x80 || most > 3) => w.text.push(c),
            // A NUL ends the word in bash, and a lone byte is not text: not worth following.
            _ => w.dynamic = true,
        }
    }

    /// The script up to the `)` that closes it.
    fn until_close(&mut self) -> String {
        let start = self.at;
        match close(self.rest()) {
            Some(n) => self.at += n + 1,
            None => {
                self.at = self.source.len();
                self.fault("a parenthesis is not closed");
                return self.source[start..].to_owned();
            }
        }
        self.source[start..self.at - 1].to_owned()
    }

    fn until_back_tick(&mut self) -> String {
        let mut script = String::new();
        loop {
            match self.bump() {
                None => {
                    self.fault("a back tick is not closed");
                    return script;
                }
                Some('`') => return script,
                Some('\\') => match self.bump() {
                    Some(c @ ('`' | '\\' | '$')) => script.push(c),
                    Some(c) => script.extend(['\\', c]),
                    None => {}
                },
                Some(c) => script.push(c),
            }
        }
    }
}

/// The offset of the `)` that closes a script, quotes and nested parentheses skipped.
fn close(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut chars) = (0usize, None, text.char_indices());
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(chars.next()),
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Some(at),
            (None, ')') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The scripts of `$(…)` and back ticks in a text that is otherwise not read.
pub(super) fn scripts_in(text: &str) -> Vec<String> {
    let mut found = vec![];
    let mut rest = text;
    while let Some(at) = rest.find(['$', '`']) {
        let (tick, after) = (rest[at..].starts_with('`'), &rest[at + 1..]);
        let end = if tick {
            Some((0, after.find('`').unwrap_or(after.len())))
        } else {
            after.strip_prefix('(').map(|s| (1, close(s).unwrap_or(s.len()) + 1))
        };
        match end {
            Some((from, to)) => {
                found.push(after[from..to].to_owned());
                rest = after.get(to + 1..).unwrap_or("");
            }
            None => rest = after,
        }
    }
    found
}

/// `NAME=value` or `NAME+=value`, if the word is an assignment.
pub(super) fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let bare = name.split_once('[').map_or(name, |(n, _)| n);
    let mut bytes = bare.bytes();
    let first = bytes.next()?;
    let ok = (first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|b| b == b'_' || b.is_ascii_alphanumeric());
    ok.then_some((name, value))
}

/// Bash's brace expansion of comma lists; ranges and nested lists are left dynamic.
fn expand_braces(mut w: Word, out: &mut Vec<Token>, depth: usize) {
    let at = |o: usize| w.text.as_bytes().get(o).copied().unwrap_or(0);
    let is_expansion = |open: usize, next: &[usize]| {
        let end = next.iter().position(|o| at(*o) != b',');
        end.is_some_and(|e| at(next[e]) == b'}' && (e > 0 || w.text[open..next[e]].contains("..")))
            || end.is_some_and(|e| at(next[e]) == b'{')
    };
    let open =
        w.live.iter().enumerate().find(|(i, o)| at(**o) == b'{' && is_expansion(**o, &w.live[i + 1..]));
    let Some((first, _)) = open else { return out.push(Token::Word(w)) };
    let group: Vec<usize> = w.live[first..]
        .iter()
        .copied()
        .scan(false, |done, o| {
            let was = *done;
            *done = at(o) == b'}';
            (!was).then_some(o)
        })
        .collect();
    let nested = group[1..].iter().any(|o| at(*o) == b'{');
    if nested || group.len() < 3 || depth > 4 {
        (w.dynamic, w.splits) = (true, true);
        w.text = w.text.replace(['{', '}', ','], " ");
        return out.push(Token::Word(w));
    }
    let (head, tail) = (group[0], group[group.len() - 1]);
    let rest: Vec<usize> = w.live[first + group.len()..].to_vec();
    for pair in group.windows(2) {
        let middle = &w.text[pair[0] + 1..pair[1]];
        let text = format!("{}{}{}", &w.text[..head], middle, &w.text[tail + 1..]);
        let shift = tail + 1 - head - middle.len();
        let live = rest.iter().map(|o| o - shift).collect();
        let glob_first = w.glob && text.starts_with(['*', '?', '[']);
        expand_braces(Word { text, live, glob_first, ..w.clone() }, out, depth + 1);
    }
}
