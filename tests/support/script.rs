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
//! fs fails                         all fs requests fail from now on; `fs answers`, `fs knows-none`
//! model text Hello                 the model's next answer: think, text, call NAME JSON, gate NAME, reset, length,
//!      + call read {"path":"a"}    usage IN OUT, status CODE BODY, header NAME VALUE, raw LINE
//! start                            initialize and session/new, not shown
//! > session/prompt Hi              a request or notification; params as text or JSON
//! & session/cancel                 another one in the same write
//! answer allow_once                to the question that is open; with JSON behind it as `_meta`
//! open g / reached g               a gate of the model
//! restart / kill                   end of input, or `kill -9`; then a new process
//! saw? / disk? a.txt               shows what the model was sent since the last time, or a file
//! full                             from now on whole results of initialize, session/new and the like
//! commands                         from now on `available_commands_update` is shown
//! no-replay WHY                    the session is not loaded again at the end
//! <      text  M1 "Hello"          what the agent sent
//! ```
//!
//! Before the next thing is done, what stands last of the `<` lines in front of it has come. So a new transcript can be
//! written with these alone; `UPDATE=1` fills in the rest.

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
