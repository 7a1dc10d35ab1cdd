//! The second reading: tree-sitter's bash grammar judges the structure, and must agree with our tokens.
//!
//! Two readers with different blind spots: where they differ on where a word begins or ends, nothing runs unasked.

use std::cell::RefCell;
use std::ops::Range;

use tree_sitter::{Node, Parser};

use super::lex::{Lexed, Token};

/// What the structure allows at best.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Structure {
    /// Only lists, pipelines, groups and plain words.
    Plain,
    /// Known, but not provable from the text: loops, functions, expansions.
    Live(&'static str),
    /// Not bash, or not bash that both readers see alike.
    Unclear(&'static str),
}

thread_local! {
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// Most nodes that are looked at.
const MAX_NODES: usize = 20_000;

pub(super) fn structure(source: &str, lexed: &Lexed) -> Structure {
    PARSER.with_borrow_mut(|slot| {
        if slot.is_none() {
            let mut parser = Parser::new();
            if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_ok() {
                *slot = Some(parser);
            }
        }
        let tree = slot.as_mut().and_then(|p| p.parse(source, None));
        match tree {
            Some(tree) => judge(tree.root_node(), lexed),
            None => Structure::Unclear("it could not be parsed"),
        }
    })
}

fn judge(root: Node<'_>, lexed: &Lexed) -> Structure {
    if root.has_error() {
        return Structure::Unclear("it is not complete bash");
    }
    let (mut live, mut commands, mut terminals, mut count) = (None, vec![], vec![], 0);
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        count += 1;
        if count > MAX_NODES {
            return Structure::Unclear("it is too long to check");
        }
        match kind(&node) {
            Kind::Plain => {}
            Kind::Live(why) => live = live.or(Some(why)),
            Kind::Unknown => return Structure::Unclear("it holds syntax that is not checked"),
        }
        if matches!(node.kind(), "command" | "test_command") {
            commands.push(node);
        }
        if node.child_count() == 0 {
            terminals.push(node);
        }
        let mut cursor = node.walk();
        stack.extend(node.children(&mut cursor));
    }
    if let Some(why) = live {
        return Structure::Live(why);
    }
    match agrees(&commands, &terminals, lexed) {
        true => Structure::Plain,
        false => Structure::Unclear("two readings of its words differ"),
    }
}

enum Kind {
    Plain,
    Live(&'static str),
    Unknown,
}

/// Nodes whose meaning is all in their words.
const PLAIN: &[&str] = &[
    "program",
    "list",
    "pipeline",
    "command",
    "command_name",
    "word",
    "string",
    "string_content",
    "raw_string",
    "ansi_c_string",
    "concatenation",
    "number",
    "redirected_statement",
    "file_redirect",
    "file_descriptor",
    "heredoc_redirect",
    "heredoc_start",
    "heredoc_body",
    "heredoc_content",
    "heredoc_end",
    "herestring_redirect",
    "subshell",
    "negated_command",
    "test_command",
    "unary_expression",
    "binary_expression",
    "test_operator",
    "parenthesized_expression",
    "comment",
    "compound_statement",
    "if_statement",
    "elif_clause",
    "else_clause",
];

fn kind(node: &Node<'_>) -> Kind {
    if !node.is_named() {
        return Kind::Plain;
    }
    match node.kind() {
        known if PLAIN.contains(&known) => Kind::Plain,
        // `$?` is a number; every other name in an expansion is live.
        "simple_expansion" if node.child(1).is_some_and(|n| n.kind() == "special_variable_name") => {
            Kind::Plain
        }
        "special_variable_name" => Kind::Plain,
        "simple_expansion" | "expansion" | "variable_name" | "subscript" | "array" | "string_expansion"
        | "translated_string" => Kind::Live("it uses a variable, whose value is not known here"),
        "variable_assignment" | "variable_assignments" | "declaration_command" | "unset_command" => {
            Kind::Live("it sets a variable")
        }
        "command_substitution" | "process_substitution" => {
            Kind::Live("it runs another command inside, to build its own words")
        }
        "arithmetic_expansion" | "ternary_expression" | "postfix_expression" => {
            Kind::Live("it computes a value")
        }
        "brace_expression" | "extglob_pattern" | "regex" => Kind::Live("it holds a pattern"),
        "for_statement"
        | "c_style_for_statement"
        | "while_statement"
        | "do_group"
        | "case_statement"
        | "case_item" => Kind::Live("it has a loop or a case"),
        "function_definition" => Kind::Live("it defines a function"),
        _ => Kind::Unknown,
    }
}

/// Whether both readings cut the source into the same words.
fn agrees(commands: &[Node<'_>], terminals: &[Node<'_>], lexed: &Lexed) -> bool {
    let mut ours: Vec<Range<usize>> = lexed.heres.iter().map(|h| h.span.clone()).collect();
    ours.extend(lexed.comments.iter().cloned());
    ours.extend(lexed.tokens.iter().map(|t| match t {
        Token::Word(w) => w.span.clone(),
        Token::Op(_, s) | Token::Redirect(_, s) => s.clone(),
    }));
    ours.sort_by_key(|r| (r.start, r.end));
    ours.dedup();
    let holder = |r: &Range<usize>| {
        let after = ours.partition_point(|o| o.start <= r.start);
        after.checked_sub(1).and_then(|i| ours.get(i)).filter(|o| o.end >= r.end)
    };
    let mut covered: Vec<usize> = vec![0; ours.len()];
    for node in terminals {
        let r = node.byte_range();
        if r.is_empty() {
            continue;
        }
        let Some(found) = holder(&r) else { return false };
        let comment = lexed.comments.contains(found);
        if comment != (node.kind() == "comment") {
            return false;
        }
        if let Ok(i) = ours.binary_search_by_key(&(found.start, found.end), |o| (o.start, o.end)) {
            covered[i] += 1;
        }
    }
    words_agree(commands, lexed) && all_seen(&ours, &covered, lexed)
}

/// Every token of ours but line ends was seen by the grammar too.
fn all_seen(ours: &[Range<usize>], covered: &[usize], lexed: &Lexed) -> bool {
    ours.iter().zip(covered).all(|(r, n)| *n > 0 || r.is_empty() || is_line_end(r, lexed))
}

fn is_line_end(r: &Range<usize>, lexed: &Lexed) -> bool {
    let operator = lexed
        .tokens
        .iter()
        .any(|t| matches!(t, Token::Op(super::lex::Op::Semi, s) if s == r && s.len() == 1));
    operator || lexed.heres.iter().any(|h| h.span == *r)
}

/// Each command's children are words of ours, whole, and none of ours between them is missing.
fn words_agree(commands: &[Node<'_>], lexed: &Lexed) -> bool {
    let mut spans: Vec<Range<usize>> = lexed
        .tokens
        .iter()
        .filter_map(|t| match t {
            Token::Word(w) => Some(w.span.clone()),
            _ => None,
        })
        .collect();
    spans.dedup();
    commands.iter().filter(|c| c.kind() == "command").all(|command| {
        let mut cursor = command.walk();
        command.children(&mut cursor).all(|child| match child.kind() {
            "herestring_redirect" | "file_redirect" => true,
            _ => spans
                .binary_search_by_key(&child.byte_range().start, |s| s.start)
                .is_ok_and(|i| spans.get(i).is_some_and(|s| *s == child.byte_range())),
        })
    })
}
