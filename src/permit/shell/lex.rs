//! A bash tokenizer that cooks words as bash does: quotes and escapes removed, tilde and braces expanded.
//!
//! It never fails: what it cannot read is flagged, and the tokens before it stay, so that the rules for
//! destructive commands see every piece of a command that does not parse. Rules: Bash Reference Manual 3.1.2
//! (quoting), 3.5 (expansions), 3.6 (redirections).

use std::collections::HashMap;
use std::ops::Range;

use super::cook::scripts_in;

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
    pub(super) live: Vec<usize>,
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

pub(super) struct Lexer<'a> {
    pub(super) source: &'a str,
    pub(super) at: usize,
    pub(super) home: Option<&'a str>,
    pub(super) out: Lexed,
    pending: Vec<Pending>,
    /// Variables set earlier in the same text, for the rules about destructive commands only.
    pub(super) known: HashMap<String, String>,
}

impl<'a> Lexer<'a> {
    pub(super) fn rest(&self) -> &'a str {
        let source: &'a str = self.source;
        source.get(self.at..).unwrap_or("")
    }
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }
    pub(super) fn starts(&self, s: &str) -> bool {
        self.rest().starts_with(s)
    }
    pub(super) fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }
    pub(super) fn fault(&mut self, why: &'static str) {
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
                '\\' if self.starts("\\\n") => {
                    self.continuation();
                    self.at += 2;
                }
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

    /// Bash removes a backslash and line end before it looks at words, so `$\` and `(` on the next line become `$(`.
    /// Only one after a blank, or after an operator that nothing on the next line can lengthen, joins no tokens.
    pub(super) fn continuation(&mut self) {
        let before = self.source.get(..self.at).and_then(|s| s.chars().next_back());
        let after = self.source.get(self.at + 2..).and_then(|s| s.chars().next());
        let operator = matches!(before, Some('&' | '|' | ';'));
        let blank = matches!(before, None | Some(' ' | '\t' | '\n'));
        if !(blank || operator && !matches!(after, Some('&' | '|' | ';' | '<' | '>' | '(' | '\\'))) {
            self.fault("a line is continued in the middle of a word");
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
}
