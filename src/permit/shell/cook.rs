//! Word cooking: what bash makes of one word, and where it is not known.

use super::lex::{Lexer, Token, Word};

impl Lexer<'_> {
    pub(super) fn word(&mut self) {
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
        if matches!(self.out.tokens.last(), Some(Token::Redirect(..))) {
            // Bash expands the target of a redirection by rules of its own, and refuses several words.
            w.dynamic |= !w.live.is_empty();
            return self.out.tokens.push(Token::Word(w));
        }
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
            // In what looks like an assignment, a tilde after `=` or `:` is expanded too.
            '~' if w.text.ends_with(['=', ':']) => w.dynamic = true,
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
                    if self.starts("\\\n") {
                        self.continuation();
                    }
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
        if self.starts("\\\n") {
            self.continuation();
        }
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
        // What `$(echo rm)` stands for is plain to see.
        let said = w
            .scripts
            .last()
            .and_then(|s| s.trim().strip_prefix("echo ").or_else(|| s.trim().strip_prefix("printf ")));
        match said.filter(|s| !s.contains(['$', '`', '|', ';', '&', '<', '>', '('])) {
            Some(said) => w.text.push_str(&said.replace(['"', '\'', '\\'], "")),
            None => w.text.push_str(&self.source[start..self.at]),
        }
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
