//! The `.acp` form: what is done, and the lines that must come of it.
//!
//! ```text
//! # a remark
//! client fs=rw notices             what the client advertises (before the first line to the agent)
//! config mode = "plan"             a line of config.toml
//! env OPENAI_API_KEY=x             the agent's environment; `env -NAME` takes one out
//! file a.txt "one\n"               a file in the session's folder
//! buffer a.txt "two\n"             unsaved text of an open file; `buffer -a.txt` closes it
//! link a.txt $BASE/b.txt           a symbolic link
//! gone d                           removes a folder
//! fs fails                         all fs requests fail from now on; `fs answers`, `fs knows-none`
//! model text Hello                 the model's next answer: think, text, call NAME JSON, gate NAME, reset, length,
//!      + call read {"path":"a"}    filter, usage IN OUT, status CODE BODY, header NAME VALUE, raw LINE
//! start                            initialize and session/new, not shown
//! > session/prompt Hi              a request or notification; params as text or JSON
//! & session/cancel                 another one in the same write
//! answer allow_once                to the question that is open; with JSON behind it as `_meta`
//! open g / reached g               a gate of the model
//! restart / kill                   end of input, or `kill -9`; then a new process
//! saw? / disk? a.txt               shows what the model was sent since the last time, or a file
//! full                             from now on whole results of initialize, session/new and the like
//! queue                            from now on the length of the queue is shown
//! commands                         from now on `available_commands_update` is shown
//! no-replay WHY                    the session is not loaded again at the end
//! <      text  M1 "Hello"          what the agent sent
//! ```
//!
//! Before the next thing is done, what stands last of the `<` lines in front of it has come. So a new transcript can be
//! written with these alone; `UPDATE=1` fills in the rest.

use super::model_server::{Piece, Reply};
use serde_json::json;

/// One thing that is done, and what comes of it.
#[derive(Debug, Default)]
pub struct Block {
    /// Remarks and blank lines in front.
    pub lead: Vec<String>,
    pub input: String,
    /// Lines that belong to the input: `     + …` and `& …`.
    pub more: Vec<String>,
    pub expected: Vec<String>,
}

/// The blocks of a file. What stands behind the last is a block without input.
pub fn parse(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lead = Vec::new();
    for line in text.lines() {
        if line.trim().is_empty() || line.starts_with('#') {
            lead.push(line.to_owned());
        } else if is_output(line) {
            match blocks.last_mut() {
                Some(block) => block.expected.push(line.to_owned()),
                None => panic!("a file begins with what is done, not with: {line}"),
            }
        } else if line.starts_with("     +") || line.starts_with('&') {
            blocks.last_mut().expect("something to go on with").more.push(line.to_owned());
        } else {
            let lead = std::mem::take(&mut lead);
            blocks.push(Block { lead, input: line.to_owned(), ..Block::default() });
        }
    }
    if !lead.is_empty() {
        blocks.push(Block { lead, ..Block::default() });
    }
    blocks
}

pub fn is_output(line: &str) -> bool {
    ["<", "saw ", "disk "].iter().any(|start| line.starts_with(start))
}

impl Block {
    /// Whether all that this block waits for has come. `loosely`: by the first words alone, where texts have changed.
    pub fn is_done(&self, came: &[String], loosely: bool) -> bool {
        let sent = |line: &&String| line.starts_with('<');
        let Some(anchor) = self.expected.iter().rfind(sent) else { return true };
        let words = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        let is_it = |l: &&String| {
            if loosely { words(l).starts_with(&words(anchor)) } else { l.starts_with(anchor.as_str()) }
        };
        came.iter().filter(is_it).count() >= self.expected.iter().filter(is_it).count()
    }
}

/// A text of a script: a JSON string, or `WORD*N` for a long one.
pub fn text_of(text: &str) -> String {
    if let Some((word, n)) = text.rsplit_once('*')
        && let (Ok(word), Ok(n)) = (serde_json::from_str::<String>(word), n.parse::<usize>())
    {
        return (0..n).map(|i| word.replace("{i}", &i.to_string())).collect();
    }
    serde_json::from_str(text).unwrap_or_else(|_| panic!("not a JSON string: {text}"))
}

/// An answer of the model from its pieces.
pub fn reply(first: &str, more: &[String]) -> Reply {
    let mut reply = Reply::default();
    let (mut calls, mut end) = (0, Some("stop"));
    for piece in std::iter::once(first).chain(more.iter().map(|l| l.trim_start_matches([' ', '+']))) {
        let (word, rest) = piece.split_once(' ').unwrap_or((piece, ""));
        let text = rest.replace("\\n", "\n");
        match word {
            "text" => reply = reply.text(&text),
            "think" => reply.delta(json!({ "reasoning_content": text })),
            "call" => {
                let (name, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
                reply = reply.call(calls, name, arguments);
                calls += 1;
                end = end.map(|_| "tool_calls");
            }
            "gate" => reply = reply.gate(rest),
            "reset" => (reply, end) = (reply.reset(), None),
            "length" => end = Some("length"),
            "filter" => end = Some("content_filter"),
            "usage" => {
                let (input, output) = rest.split_once(' ').unwrap();
                let (input, output): (u64, u64) = (input.parse().unwrap(), output.parse().unwrap());
                reply.event(&json!({"choices": [], "usage": {"prompt_tokens": input,
                    "completion_tokens": output, "total_tokens": input + output}}));
            }
            "status" => {
                let (status, body) = rest.split_once(' ').unwrap_or((rest, ""));
                reply.status = status.parse().unwrap();
                reply.headers = vec![("content-type".into(), "application/json".into())];
                reply.pieces.push(Piece::Bytes(body.as_bytes().to_vec()));
                end = None;
            }
            "header" => {
                let (name, value) = rest.split_once(' ').unwrap();
                reply.headers.push((name.into(), value.into()));
            }
            "raw" => {
                reply.pieces.push(Piece::Bytes(format!("{text}\n").into_bytes()));
                end = None;
            }
            "empty" => {}
            word => panic!("`{word}` is no piece of a model's answer"),
        }
    }
    match end {
        Some(finish) => reply.end(finish),
        None => reply,
    }
}

#[test]
fn a_file_is_blocks_and_what_they_wait_for() {
    let blocks =
        parse("# title\nmodel text a\n     + text b\n> session/prompt x\n<      text  M1\n<      = end\n");
    assert_eq!(blocks.len(), 2);
    assert_eq!((blocks[0].lead.len(), blocks[0].more.len()), (1, 1));
    let came = |lines: &[&str]| lines.iter().map(|l| l.to_string()).collect::<Vec<_>>();
    assert!(blocks[0].is_done(&[], false));
    assert!(!blocks[1].is_done(&came(&["<      text  M1 \"a\""]), false));
    let all = came(&["<      text  M1 \"a\"", "<      = end_turn"]);
    assert!(blocks[1].is_done(&all, false));
    let changed = parse("> session/prompt x\n<      ask T1 \"old title\"\n").remove(0);
    let ask = came(&["<      ask T1 \"new title\""]);
    assert!(!changed.is_done(&ask, false) && changed.is_done(&ask, true));
}
