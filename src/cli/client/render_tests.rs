//! Golden views: a list of updates and what a person then sees.
use super::*;
use serde_json::json;

fn view(updates: &[Value]) -> String {
    let mut view = View::new(Vec::new(), Style::default(), Path::new("/w"));
    for raw in updates {
        let update: SessionUpdate = serde_json::from_value(raw.clone()).unwrap();
        view.update(raw, Some(&update));
    }
    view.end(&Ok("end_turn".to_owned()));
    String::from_utf8(view.out).unwrap()
}
fn text(kind: &str, id: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "messageId": id, "content": {"type": "text", "text": text}})
}
fn call(id: &str, title: &str, kind: &str) -> Value {
    json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": "pending"})
}
fn change(id: &str, mut fields: Value) -> Value {
    fields["sessionUpdate"] = json!("tool_call_update");
    fields["toolCallId"] = json!(id);
    fields
}
fn diff(new: &str) -> Value {
    json!([{"type": "diff", "path": "/w/a.txt", "oldText": "one\n", "newText": new}])
}

#[test]
fn text_and_thoughts_stream_in_blocks() {
    let seen = view(&[
        text("agent_thought_chunk", "t", "first\nsec"),
        text("agent_thought_chunk", "t", "ond"),
        text("agent_message_chunk", "m", "Hello, "),
        text("agent_message_chunk", "m", "world\u{1b}[2J."),
        text("agent_message_chunk", "n", "Another."),
    ]);
    assert_eq!(seen, "  ~ first\n  ~ second\n\nHello, world\\u{1b}[2J.\n\nAnother.\n");
}

#[test]
fn cards_of_reads_take_one_line() {
    let seen = view(&[
        call("1", "Read a.txt", "read"),
        change("1", json!({"status": "in_progress"})),
        change(
            "1",
            json!({"status": "completed", "content": [{"type": "content", "content": {"type": "text", "text": "long"}}]}),
        ),
        call("2", "Read b.txt", "read"),
        call("3", "Read c.txt", "read"),
        change("2", json!({"status": "completed"})),
        change(
            "3",
            json!({"status": "failed", "content": [{"type": "content", "content": {"type": "text", "text": "no such file"}}]}),
        ),
    ]);
    assert_eq!(
        seen,
        "▸ Read a.txt ✓\n▸ Read b.txt\n▸ Read c.txt\n✓ Read b.txt\n✗ Read c.txt\n  │ no such file\n"
    );
}

#[test]
fn a_diff_is_shown_once_and_again_when_it_changed() {
    let seen = view(&[
        call("1", "Edit a.txt", "edit"),
        change("1", json!({"content": diff("two\n")})),
        change("1", json!({"status": "in_progress", "content": diff("two\n")})),
        change("1", json!({"status": "completed", "content": diff("2\n")})),
    ]);
    let hunk = |new: &str| format!("  --- a.txt\n  +++ a.txt\n  @@ -1 +1 @@\n  -one\n  +{new}\n");
    assert_eq!(seen, format!("▸ Edit a.txt\n{}{}  ✓\n", hunk("two"), hunk("2")));
}

#[test]
fn output_of_commands_comes_live() {
    let out =
        |data: &str| change("1", json!({"_meta": {"terminal_output": {"terminal_id": "1", "data": data}}}));
    let seen = view(&[
        call("1", "sh test.sh", "execute"),
        out("one\ntw"),
        out("o\u{1b}[3"),
        out("1m!\r\n"),
        text("agent_message_chunk", "m", "beside"),
        out("three"),
        change(
            "1",
            json!({"status": "failed", "_meta": {"terminal_exit": {"terminal_id": "1", "exit_code": 3}}}),
        ),
    ]);
    assert_eq!(seen, "▸ sh test.sh\n  │ one\n  │ two!\n\nbeside\n\n▸ sh test.sh\n  │ three\n  ✗ exit 3\n");
}

#[test]
fn plans_notices_and_usage() {
    let plan = |status: &str| {
        json!({"sessionUpdate": "plan", "entries": [
            {"content": "look", "priority": "medium", "status": "completed"},
            {"content": "fix", "priority": "high", "status": status},
            {"content": "test", "priority": "low", "status": "pending"}]})
    };
    let seen = view(&[
        plan("in_progress"),
        plan("completed"),
        json!({"sessionUpdate": "notice", "severity": "warning", "title": "Retrying", "description": "in 2 s"}),
        json!({"sessionUpdate": "usage_update", "used": 10, "size": 100}),
    ]);
    assert_eq!(
        seen,
        "Plan\n  [x] look\n  [>] fix\n  [ ] test\n\nPlan\n  [x] look\n  [x] fix\n  [ ] test\n\n\
         warning: Retrying\n  in 2 s\ncontext: 10 of 100 tokens\n"
    );
}

#[test]
fn long_texts_of_cards_are_counted() {
    let text = (1..=30).map(|n| format!("l{n}")).collect::<Vec<_>>().join("\n");
    let content =
        json!([{"type": "content", "content": {"type": "text", "text": format!("```\n{text}\n```")}}]);
    let seen =
        view(&[call("1", "x", "other"), change("1", json!({"status": "completed", "content": content}))]);
    assert!(seen.starts_with("▸ x ✓\n  │ l1\n"), "{seen}");
    assert!(seen.ends_with("  │ l20\n  │ … 10 more lines\n"), "{seen}");
}

fn question(tool_call: Value) -> RequestPermissionRequest {
    serde_json::from_value(json!({"sessionId": "s", "toolCall": tool_call, "options": [
        {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"}]}))
    .unwrap()
}
const OPTIONS: &str = "  1  Allow once\n  2  Reject\n";

#[test]
fn a_question_shows_what_it_is_about_first() {
    let ask = |before: &[Value], tool_call: Value| {
        let mut view = View::new(Vec::new(), Style::default(), Path::new("/w"));
        for raw in before {
            view.update(raw, Some(&serde_json::from_value(raw.clone()).unwrap()));
        }
        let request = question(tool_call);
        view.question(&request);
        view.options(&request);
        String::from_utf8(view.out).unwrap()
    };
    let hunk = "  --- a.txt\n  +++ a.txt\n  @@ -1 +1 @@\n  -one\n  +two\n";
    let edit = json!({"toolCallId": "1", "title": "Edit a.txt", "kind": "edit", "content": diff("two\n")});
    // Directly below its card: not repeated. After other things: whole again.
    let card = [call("1", "Edit a.txt", "edit"), change("1", json!({"content": diff("two\n")}))];
    assert_eq!(ask(&card, edit.clone()), format!("▸ Edit a.txt\n{hunk}{OPTIONS}"));
    let apart = [&card[..], &[text("agent_message_chunk", "m", "x")]].concat();
    assert_eq!(ask(&apart, edit), format!("▸ Edit a.txt\n{hunk}\nx\n\n▸ Edit a.txt\n{hunk}{OPTIONS}"));
    // A command is whole, and what cannot be seen is written out.
    let command = json!({"toolCallId": "2", "title": "rm", "kind": "execute", "rawInput": {"command": "rm -rf\n\u{202e}x"}});
    assert_eq!(ask(&[], command), format!("▸ rm\n  $ rm -rf\n  $ \\u{{202e}}x\n{OPTIONS}"));
    // The card may repeat it in a fence: once is enough.
    let content =
        json!([{"type": "content", "content": {"type": "text", "text": "```sh\nls x\n```\nnot known"}}]);
    let command =
        json!({"toolCallId": "2", "title": "Run", "rawInput": {"command": "ls x"}, "content": content});
    assert_eq!(ask(&[], command), format!("▸ Run\n  $ ls x\n  not known\n{OPTIONS}"));
    // Anything else: its arguments.
    let other = json!({"toolCallId": "3", "title": "call", "rawInput": {"a": 1}});
    assert_eq!(ask(&[], other), format!("▸ call\n  {{\n    \"a\": 1\n  }}\n{OPTIONS}"));
}
