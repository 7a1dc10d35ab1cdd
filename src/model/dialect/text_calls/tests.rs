use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn tools() -> Arc<[ToolSpec]> {
    let schema =
        json!({"type": "object", "properties": {"path": {"type": "string"}, "line": {"type": "integer"}}});
    Arc::from([ToolSpec { name: "read_file".into(), description: String::new(), schema }])
}

/// The text, the thinking and the calls of a reply in these pieces.
fn run(pieces: &[&str]) -> (String, String, Vec<Value>) {
    let mut watch = Watch::new(tools());
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for piece in pieces {
        text.push_str(&watch.push((*piece).into()).unwrap_or_default());
    }
    for found in watch.finish() {
        match found {
            Found::Text(t) => text.push_str(&t),
            Found::Thinking(t) => thinking.push_str(&t),
            Found::Call { name, args } => {
                let args: Value = serde_json::from_str(&args).unwrap();
                calls.push(if name == "read_file" { args } else { json!([name, args]) });
            }
        }
    }
    (text, thinking, calls)
}
fn check(reply: &str, text: &str, calls: &[Value]) {
    let want = run(&[reply]);
    assert_eq!((want.0.as_str(), want.2.as_slice()), (text, calls), "{reply}");
    for (at, _) in reply.char_indices() {
        assert_eq!(run(&[&reply[..at], &reply[at..]]), want, "{reply} at {at}");
    }
    let each: Vec<String> = reply.chars().map(String::from).collect();
    let each: Vec<&str> = each.iter().map(String::as_str).collect();
    assert_eq!(run(&each), want, "{reply} by character");
}

#[test]
fn calls_in_every_form_at_every_split() {
    let a = json!({"path": "a.txt"});
    let both = [a.clone(), json!({"path": "b.txt"})];
    for (reply, text, calls) in [
        (r#"<tool_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</tool_call>"#, "", &both[..1]),
        (
            "Let me look.\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"b.txt\"}}\n</tool_call>",
            "Let me look.\n",
            &both[..],
        ),
        (
            "<tool_call>\n<function=read_file>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>",
            "",
            &both[..1],
        ),
        ("<function=read_file><parameter=path>a.txt</parameter></function>", "", &both[..1]),
        (
            "```json\n{\n  \"name\": \"read_file\",\n  \"arguments\": {\n    \"path\": \"a.txt\"\n  }\n}\n```",
            "",
            &both[..1],
        ),
        ("{\"name\": \"read_file\", \"parameters\": {\"path\": \"a.txt\"}}", "", &both[..1]),
        ("{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n```", "", &both[..1]),
        (
            "[{\"name\":\"read_file\",\"arguments\":{\"path\":\"a.txt\"}},{\"name\":\"read_file\",\"arguments\":\"{\\\"path\\\":\\\"b.txt\\\"}\"}]",
            "",
            &both[..],
        ),
        ("[TOOL_CALLS][{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}]", "", &both[..1]),
        (
            "[TOOL_CALLS]read_file[ARGS]{\"path\": \"a.txt\"}[TOOL_CALLS]read_file[ARGS]{\"path\": \"b.txt\"}",
            "",
            &both[..],
        ),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{\"path\":\"a.txt\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "",
            &both[..1],
        ),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{\"path\":\"a.txt\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{\"path\":\"b.txt\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "",
            &both[..],
        ),
        (
            "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n</tool_call>",
            "",
            &both[..1],
        ),
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{\"path\":\"a.txt\"}<|tool_call_end|><|tool_calls_section_end|>",
            "",
            &both[..1],
        ),
        (
            "<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{\"path\":\"a.txt\"}<|call|>",
            "",
            &both[..1],
        ),
        (
            "<|start|>assistant to=functions.read_file<|channel|>commentary json<|message|>{\"path\":\"a.txt\"}<|call|>",
            "",
            &both[..1],
        ),
        ("<function=read_file>{\"path\": \"a.txt\"}</function>", "", &both[..1]),
        (
            "<|python_tag|>{\"name\": \"read_file\", \"parameters\": {\"path\": \"a.txt\"}}<|eom_id|>",
            "",
            &both[..1],
        ),
        ("<|tool_call|>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}]", "", &both[..1]),
        (
            "<minimax:tool_call>\n<invoke name=\"read_file\">\n<parameter name=\"path\">a.txt</parameter>\n</invoke>\n<invoke name=\"read_file\">\n<parameter name=\"path\">b.txt</parameter>\n</invoke>\n</minimax:tool_call>",
            "",
            &both[..],
        ),
        (
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read_file\">\n<｜DSML｜parameter name=\"path\" string=\"true\">a.txt</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            "",
            &both[..1],
        ),
        (
            "```xml\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n</tool_call>\n```",
            "",
            &both[..1],
        ),
        (
            "{\"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"read_file\", \"arguments\": \"{\\\"path\\\": \\\"a.txt\\\"}\"}}]}",
            "",
            &both[..1],
        ),
        // A name that can mean but one tool.
        (
            "<tool_call>{\"name\": \"ReadFile\", \"arguments\": {\"path\": \"a.txt\"}}</tool_call>",
            "",
            &both[..1],
        ),
        (
            "<tool_call>{\"name\": \"nobody\", \"arguments\": {\"x\": 1}}</tool_call>",
            "",
            &[json!(["nobody", {"x": 1}])],
        ),
    ] {
        check(reply, text, calls);
    }
    check(
        "<function=read_file><parameter=path>a\nb</parameter><parameter=line>3</parameter></function>",
        "",
        &[json!({"path": "a\nb", "line": 3})],
    );
}

#[test]
fn what_is_no_call_stays_the_text_it_is() {
    for reply in [
        "plain words, 1 < 2 and [a] list",
        "{\"name\": \"nobody\", \"arguments\": {}}",
        "{\"name\": \"read_file\"}",
        "{\"other\": 1}",
        "```json\n{\"name\": \"x\", \"version\": 1}\n```",
        "```json\n{\"name\": \"read_file\", \"arguments\": {}}\n```\nThat is how a call looks.",
        "```rust\nfn main() {}\n```",
        "<tool_call>{\"name\": \"not a name!\", \"arguments\": {}}</tool_call>",
        "<function=nobody><parameter=path>a.txt</parameter></function>",
        "```xml\n<project>\n</project>\n```",
        "<tool_call>{\"name\": \"read_file\", \"argu",
        "In code:\n```\n<tool_call>{\"name\": \"read_file\", \"arguments\": {}}</tool_call>\n```",
        "the tag `<tool_call>` is special",
        "<tool",
        "[TOOL_CALLS] nothing",
        "<|channel|>odd",
        "```",
        "`x`",
        "",
    ] {
        check(reply, reply, &[]);
    }
}

#[test]
fn a_call_in_a_fence_among_words_is_seen() {
    let tools = tools();
    let call = "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n```";
    for text in [
        format!("I will read it:\n{call}"),
        "{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\tb\"}}\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}".into(),
        "{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\nThis reads it.".into(),
        format!("{call}\n\n**Output**:\n```\nHello\n```"),
        "First:\n```\nx\n```\nthen\n```xml\n<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>\n```".into(),
    ] {
        assert_eq!(quoted(&text, &tools).as_deref(), Some("read_file"), "{text}");
    }
    for text in [
        "no fence",
        "```json\n{\"name\": \"nobody\", \"arguments\": {}}\n```",
        "```rust\nfn main() {}\n```",
        "```",
    ] {
        assert_eq!(quoted(text, &tools), None, "{text}");
    }
}

#[test]
fn channels_are_told_apart() {
    let (text, thinking, calls) = run(&[
        "<|channel|>analysis<|message|>hmm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>",
    ]);
    assert_eq!((text.as_str(), thinking.as_str(), calls.len()), ("yes", "hmm", 0));
}

#[test]
fn without_tools_nothing_is_held() {
    let mut watch = Watch::new(Arc::from([]));
    assert_eq!(watch.push("<tool_call>".into()).as_deref(), Some("<tool_call>"));
    assert!(watch.finish().is_empty());
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nothing_panics(pieces in proptest::collection::vec(prop_oneof![
        proptest::sample::select(MARKS.to_vec()).prop_map(String::from),
        proptest::sample::select(vec!["</tool_call>", "```", "```json", "{\"name\":", "[ARGS]", "<arg_key>", "</arg_key>", "<|message|>", "to=", "<｜tool▁sep｜>", "read_file", ">", "{}"]).prop_map(String::from),
        ".{0,6}",
    ], 0..12)) {
        let whole = pieces.concat();
        let parts: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let got = run(&parts);
        prop_assert_eq!(&got, &run(&[&whole]));
        if got.2.is_empty() && got.1.is_empty() && !whole.contains("<|channel|>") {
            prop_assert_eq!(got.0, whole);
        }
    }
}
