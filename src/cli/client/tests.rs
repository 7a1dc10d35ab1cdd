//! The client against a server that the test plays, line by line.
use super::{person::Strings, *};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

/// The server's end of the pipe.
struct Server {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    out: WriteHalf<DuplexStream>,
}

impl Server {
    async fn read(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }
    async fn write(&mut self, value: Value) {
        self.out.write_all(format!("{value}\n").as_bytes()).await.unwrap();
    }
    /// Reads a request of that method and answers it.
    async fn answer(&mut self, method: &str, result: Value) -> Value {
        let request = self.read().await;
        assert_eq!(request["method"], method);
        self.write(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
        request["params"].clone()
    }
    async fn open(&mut self) {
        let init = self.answer("initialize", json!({"protocolVersion": 1})).await;
        assert_eq!(init["clientCapabilities"]["fs"]["readTextFile"], false);
        self.answer("session/new", json!({"sessionId": "s"})).await;
        assert_eq!(self.read().await["method"], "session/prompt");
    }
    async fn update(&mut self, update: Value) {
        let params = json!({"sessionId": "s", "update": update});
        self.write(json!({"jsonrpc": "2.0", "method": "session/update", "params": params})).await;
    }
    async fn ask(&mut self, id: &str) {
        let options = json!([{"optionId": "o", "name": "Once", "kind": "allow_once"},
                             {"optionId": "n", "name": "No", "kind": "reject_once"}]);
        let params =
            json!({"sessionId": "s", "options": options, "toolCall": {"toolCallId": "c", "title": "do it"}});
        let request =
            json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params});
        self.write(request).await;
    }
    async fn stop(&mut self, reason: &str) {
        self.write(json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": reason}})).await;
    }
}

/// Runs the client beside a scene that plays server and person; gives its result and what was shown.
async fn play<F>(
    answers: Answers,
    task: Task,
    json: bool,
    scene: impl FnOnce(Server, Strings) -> F,
) -> (Result<String, ClientError>, String)
where
    F: Future<Output = ()>,
{
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(ours);
    let (server_in, server_out) = tokio::io::split(theirs);
    let server = Server { lines: BufReader::new(server_in).lines(), out: server_out };
    let (person, strings) = Person::pair(answers);
    let mut seen = Vec::new();
    let result = {
        let mut plain = View::new(&mut seen, Style::default(), Path::new("/w"));
        let mut other = Vec::new();
        let mut lines = JsonLines::new(&mut other, View::new(Vec::new(), Style::default(), Path::new("/w")));
        let show: &mut dyn Show = if json { &mut lines } else { &mut plain };
        let mut client = Client::new(BufReader::new(reader), writer, show, person);
        let (result, ()) = tokio::join!(client.task(&task), scene(server, strings));
        drop(client);
        if json {
            lines.end(&result);
            drop(lines);
            return (result, String::from_utf8(other).unwrap());
        }
        plain.end(&result);
        result
    };
    (result, String::from_utf8(seen).unwrap())
}
fn task() -> Task {
    Task { cwd: "/w".into(), prompt: "go".into(), model: None, mode: None }
}

#[tokio::test]
async fn updates_are_shown_before_the_end() {
    let (result, seen) = play(Answers::Yes, task(), false, |mut server, _strings| async move {
        server.open().await;
        server
            .update(
                json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}),
            )
            .await;
        server.update(json!({"sessionUpdate": "from_the_future", "x": 1})).await;
        server.write(json!({"jsonrpc": "2.0", "id": 7, "method": "fs/read_text_file", "params": {}})).await;
        assert_eq!(server.read().await["error"]["code"], -32601);
        server.stop("end_turn").await;
    })
    .await;
    assert_eq!((result.unwrap().as_str(), seen.as_str()), ("end_turn", "hi\n"));
}

#[tokio::test]
async fn questions_are_answered_by_whoever_is_there() {
    let cases = [
        (Answers::Yes, None, "o", "→ Once (--yes)"),
        (Answers::Nobody, None, "n", "→ No (no terminal to ask; --yes allows)"),
        (Answers::Person, Some("1\n"), "o", "Answer [1-2]:   → Once"),
        (Answers::Person, Some("n\n"), "n", "→ No"),
    ];
    for (answers, typed, option, shown) in cases {
        let (result, seen) = play(answers, task(), false, |mut server, mut strings| async move {
            server.open().await;
            server.ask("q").await;
            if let Some(typed) = typed {
                strings.wanted.recv().await.unwrap();
                strings.lines.send(Some(typed.to_owned())).unwrap();
            }
            let answer = server.read().await;
            assert_eq!(answer["result"]["outcome"], json!({"outcome": "selected", "optionId": option}));
            server.stop("end_turn").await;
        })
        .await;
        assert!(result.is_ok() && seen.contains(shown), "{answers:?}: {seen}");
    }
}

#[tokio::test]
async fn a_wrong_answer_is_asked_again_and_the_end_of_input_is_no() {
    let (_, seen) = play(Answers::Person, task(), false, |mut server, mut strings| async move {
        server.open().await;
        server.ask("q").await;
        tokio::task::yield_now().await;
        for wrong in ["3\n", "0\n", "yes\n", "\n"] {
            strings.wanted.recv().await.unwrap();
            strings.lines.send(Some(wrong.to_owned())).unwrap();
            tokio::task::yield_now().await;
        }
        strings.wanted.recv().await.unwrap();
        strings.lines.send(None).unwrap();
        assert_eq!(server.read().await["result"]["outcome"]["optionId"], "n");
        server.stop("end_turn").await;
    })
    .await;
    assert_eq!(seen.matches("A number from 1 to 2, please:").count(), 4, "{seen}");
}

#[tokio::test]
async fn a_question_withdrawn_gets_one_answer_and_its_line_goes_to_the_next() {
    let (result, _) = play(Answers::Person, task(), false, |mut server, mut strings| async move {
        server.open().await;
        server.ask("q").await;
        server.ask("r").await;
        let withdraw = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "q"}});
        server.write(withdraw.clone()).await;
        let answer = server.read().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("q"), &json!(-32800)));
        server.write(withdraw).await;
        strings.lines.send(Some("1\n".to_owned())).unwrap();
        let answer = server.read().await;
        assert_eq!((&answer["id"], &answer["result"]["outcome"]["optionId"]), (&json!("r"), &json!("o")));
        assert!(strings.wanted.try_recv().is_ok(), "one line was wanted,");
        assert!(strings.wanted.try_recv().is_err(), "and one was typed");
        server.stop("end_turn").await;
    })
    .await;
    assert_eq!(result.unwrap(), "end_turn");
}

#[tokio::test]
async fn ctrl_c_cancels_the_turn_and_its_question() {
    let (result, seen) = play(Answers::Person, task(), false, |mut server, mut strings| async move {
        server.open().await;
        server.ask("q").await;
        strings.wanted.recv().await.unwrap();
        strings.interrupts.send(()).unwrap();
        assert_eq!(server.read().await["method"], "session/cancel");
        assert_eq!(server.read().await["result"]["outcome"], json!({"outcome": "cancelled"}));
        server.ask("late").await;
        assert_eq!(server.read().await["result"]["outcome"], json!({"outcome": "cancelled"}));
        server.stop("cancelled").await;
    })
    .await;
    assert_eq!(result.unwrap(), "cancelled");
    assert!(seen.ends_with("Cancelled.\n"), "{seen}");
}

#[tokio::test]
async fn a_second_ctrl_c_leaves() {
    let (result, _) = play(Answers::Nobody, task(), false, |mut server, strings| async move {
        server.open().await;
        strings.interrupts.send(()).unwrap();
        assert_eq!(server.read().await["method"], "session/cancel");
        strings.interrupts.send(()).unwrap();
    })
    .await;
    assert!(matches!(result, Err(ClientError::Interrupted)));
}

#[tokio::test]
async fn model_and_mode_are_chosen_before_the_prompt() {
    let options = json!([
        {"id": "model", "category": "model", "type": "select", "options": [{"group": "g", "name": "G", "options": [{"value": "a/b"}]}]},
        {"id": "mode", "category": "mode", "type": "select", "options": [{"value": "ask"}, {"value": "plan"}]}]);
    let chosen = Task { model: Some("a/b".into()), mode: Some("frob".into()), ..task() };
    let (result, _) = play(Answers::Yes, chosen, false, |mut server, _strings| async move {
        server.answer("initialize", json!({"protocolVersion": 1})).await;
        server.answer("session/new", json!({"sessionId": "s", "configOptions": options})).await;
        let params = server.answer("session/set_config_option", json!({"configOptions": []})).await;
        assert_eq!(params, json!({"sessionId": "s", "configId": "model", "value": "a/b"}));
        let request = server.read().await;
        let error = json!({"code": -32602, "message": "unknown"});
        server.write(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    })
    .await;
    assert_eq!(result.unwrap_err().to_string(), "mode \"frob\" is not known; there is: ask, plan");
}

#[tokio::test]
async fn errors_keep_their_hint_and_a_dead_server_is_named() {
    let (result, seen) = play(Answers::Yes, task(), true, |mut server, _strings| async move {
        server.open().await;
        let error = json!({"code": -32000, "message": "no key", "data": {"hint": "set OPENAI_API_KEY"}});
        server.write(json!({"jsonrpc": "2.0", "id": 2, "error": error})).await;
    })
    .await;
    let error = result.unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.hint()),
        ("session/prompt: no key", Some("set OPENAI_API_KEY"))
    );
    assert!(seen.ends_with(
        "{\"error\":{\"code\":-32000,\"message\":\"no key\",\"data\":{\"hint\":\"set OPENAI_API_KEY\"}}}\n"
    ));

    let (result, _) = play(Answers::Yes, task(), true, |server, _strings| async move { drop(server) }).await;
    assert!(matches!(result, Err(ClientError::Closed(_) | ClientError::Pipe(_))));
    let (result, _) = play(Answers::Yes, task(), true, |mut server, _strings| async move {
        server.read().await;
        server.out.write_all(b"Hello from a stray print\n").await.unwrap();
    })
    .await;
    assert!(matches!(result, Err(ClientError::Protocol(_))));
}

#[tokio::test]
async fn json_lines_are_the_updates_themselves() {
    let update = json!({"sessionUpdate": "from_the_future", "x": 1});
    let sent = update.clone();
    let (_, seen) = play(Answers::Yes, task(), true, |mut server, _strings| async move {
        server.open().await;
        server.update(sent).await;
        server.ask("q").await;
        server.read().await;
        server.stop("end_turn").await;
    })
    .await;
    let lines: Vec<Value> = seen.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let permission = json!({"toolCallId": "c", "title": "do it", "answer": "o", "by": "--yes"});
    let expected = [
        json!({"sessionId": "s"}),
        update,
        json!({"permission": permission}),
        json!({"stopReason": "end_turn"}),
    ];
    assert_eq!(lines, expected);
}
