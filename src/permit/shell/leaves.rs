//! The simple commands in a command line, found from its tokens alone.
//!
//! Structure does not matter here: every operator and every reserved word begins a new simple command, so what a
//! loop, a function or a broken line holds is seen too.

use super::cook::assignment;
use super::lex::{Here, Lexed, Op, Redirect, Token, Word};

/// A redirection of one simple command.
#[derive(Debug, Clone)]
pub(super) struct Redirection {
    pub kind: Redirect,
    pub target: Word,
}

/// One simple command.
#[derive(Debug, Clone, Default)]
pub(super) struct Leaf {
    pub words: Vec<Word>,
    pub assigns: Vec<(String, Word)>,
    pub redirects: Vec<Redirection>,
    pub heres: Vec<Here>,
    /// A pipe feeds it.
    pub piped: bool,
    /// It feeds a pipe.
    pub pipes: bool,
    /// It runs in the background.
    pub background: bool,
    /// A `!` stands before it.
    pub negated: bool,
    /// `&&` or a pipe joins it to what stands before.
    pub joined: bool,
    /// `&&` joins what follows to it.
    pub guards: bool,
}

impl Leaf {
    /// The arguments as the program would see them.
    pub fn argv(&self) -> Vec<String> {
        self.words.iter().map(|w| w.text.clone()).collect()
    }
    /// The arguments, with unquoted expansions split as bash would split them.
    pub fn fields(&self) -> Vec<String> {
        let mut all = vec![];
        for w in &self.words {
            if w.splits {
                all.extend(w.text.split_whitespace().map(str::to_owned));
            } else {
                all.push(w.text.clone());
            }
        }
        all
    }
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.assigns.is_empty() && self.redirects.is_empty()
    }
}

/// The simple commands, and the names of functions defined.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    pub leaves: Vec<Leaf>,
    pub functions: Vec<String>,
}

/// Reserved words after which a command begins.
const OPENERS: &[&str] =
    &["if", "then", "elif", "else", "while", "until", "do", "{", "!", "fi", "done", "}", "esac"];

pub(super) fn leaves(lexed: &Lexed) -> Leaves {
    let mut all = Leaves::default();
    let mut leaf = Leaf::default();
    let mut header = false;
    let mut tokens = lexed.tokens.iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            Token::Op(op, _) => {
                if *op == Op::Open && leaf.words.len() == 1 && leaf.assigns.is_empty() {
                    all.functions.push(leaf.words.remove(0).text);
                }
                let piped = *op == Op::Pipe;
                leaf.pipes = piped;
                leaf.background = *op == Op::Amp;
                leaf.guards = *op == Op::And;
                if !leaf.is_empty() && !header {
                    all.leaves.push(std::mem::take(&mut leaf));
                }
                header = false;
                leaf = Leaf { piped, joined: piped || *op == Op::And, ..Leaf::default() };
            }
            Token::Redirect(kind, span) => {
                if let Some(Token::Word(target)) = tokens.next_if(|t| matches!(t, Token::Word(_))) {
                    leaf.redirects.push(Redirection { kind: *kind, target: target.clone() });
                }
                leaf.heres.extend(lexed.heres.iter().filter(|h| h.operator == span.start).cloned());
            }
            Token::Word(word) => push_word(word, &mut leaf, &mut header, &mut all.functions),
        }
    }
    if !leaf.is_empty() && !header {
        all.leaves.push(leaf);
    }
    all
}

fn push_word(word: &Word, leaf: &mut Leaf, header: &mut bool, functions: &mut Vec<String>) {
    if leaf.words.is_empty() && !word.quoted && !word.dynamic {
        match word.text.as_str() {
            "for" | "select" | "case" => {
                *header = true;
                return;
            }
            "function" => {
                leaf.words.push(word.clone());
                return;
            }
            text if leaf.assigns.is_empty() && OPENERS.contains(&text) => {
                leaf.negated |= text == "!";
                return;
            }
            _ => {}
        }
    }
    if let [first] = leaf.words.as_slice()
        && first.text == "function"
    {
        functions.push(word.text.clone());
        leaf.words.clear();
        return;
    }
    if leaf.words.is_empty()
        && let Some((name, _)) = assignment(&word.text)
    {
        leaf.assigns.push((name.to_owned(), word.clone()));
        return;
    }
    leaf.words.push(word.clone());
}
