use super::*;

fn show(line: &str) -> String {
    match parse(line.as_bytes()) {
        Incoming::Request { id, method, params } => {
            format!("request {} {method} {}", id.raw(), params.map_or("-", RawValue::get))
        }
        Incoming::Notification { method, params } => {
            format!("notification {method} {}", params.map_or("-", RawValue::get))
        }
        Incoming::Response { id, outcome } => match outcome {
            Outcome::Result(r) => format!("result {} {}", id.raw(), r.get()),
            Outcome::Error(e) => format!("error {} {}", id.raw(), e.get()),
            Outcome::Neither => format!("neither {}", id.raw()),
        },
        Incoming::Malformed { id, error } => format!("malformed {} {}", id.raw(), i32::from(error.code)),
        Incoming::Ignored(_) => "ignored".into(),
    }
}

#[test]
fn lines_are_classified() {
    let table = [
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}"#, r#"request 1 m {"a":1}"#),
        (r#"{"id":1,"method":"m"}"#, "request 1 m -"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"m","params":null}"#, "request null m -"),
        (r#"{"jsonrpc":"2.0","id":-0,"method":"m"}"#, "malformed null -32600"),
        (r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#, "malformed null -32600"),
        (r#"{"jsonrpc":"2.0","id":false,"method":"m"}"#, "malformed null -32600"),
        (r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"m"}"#, "malformed null -32600"),
        (r#"{"jsonrpc":"2.0","id":"\ud800","method":"m"}"#, "malformed null -32600"),
        (r#"{"jsonrpc":"2.0","id":"\ud83e\udd80","method":"m"}"#, r#"request "\ud83e\udd80" m -"#),
        (r#"{"method":"m\u0041","id":3}"#, "request 3 mA -"),
        (r#"{"method":"a","id":3,"method":"b","id":4}"#, "request 4 b -"),
        (r#"{"method":"m","params":{}}"#, "notification m {}"),
        (r#"{"method":"m","params":[]}"#, "ignored"),
        (r#"{"method":"m","id":2,"params":[]}"#, "malformed 2 -32602"),
        (r#"{"method":["m"],"id":2}"#, "malformed 2 -32600"),
        (r#"{"method":null,"id":2}"#, "malformed 2 -32600"),
        (r#"{"method":"m","id":2,"result":{}}"#, "request 2 m -"),
        (r#"{"jsonrpc":2.0,"method":"m","id":2}"#, "malformed 2 -32600"),
        (r#"{"id":2,"result":null}"#, "result 2 null"),
        (r#"{"id":2,"result":{"a":[]},"error":null}"#, r#"result 2 {"a":[]}"#),
        (r#"{"id":2,"error":{"code":1}}"#, r#"error 2 {"code":1}"#),
        (r#"{"id":"2","error":{}}"#, r#"error "2" {}"#),
        (r#"{"id":2}"#, "neither 2"),
        (r#"{"id":2,"error":null}"#, "neither 2"),
        (r#"{"id":null,"error":{}}"#, "ignored"),
        (r#"{"error":{}}"#, "ignored"),
        (r#"{"id":[],"result":{}}"#, "ignored"),
        (r#"{"id":[]}"#, "malformed null -32600"),
        ("{}", "malformed null -32600"),
        ("[{}]", "malformed null -32600"),
        (" [ ] ", "malformed null -32600"),
        (r#"["2.0",5,"session/list",{}]"#, "malformed null -32600"),
        ("1", "malformed null -32600"),
        ("{", "malformed null -32700"),
        ("[", "malformed null -32700"),
        (r#"{"method":"m",}"#, "malformed null -32700"),
        (r#"{"method":"m"} {"method":"m"}"#, "malformed null -32700"),
        (r#"{"method":"m","params":{"a":nope}}"#, "malformed null -32700"),
    ];
    for (line, expected) in table {
        assert_eq!(show(line), expected, "{line}");
    }
}

#[test]
fn nesting_does_not_use_the_stack() {
    let deep = "[".repeat(200_000);
    assert_eq!(show(&deep), "malformed null -32700");
    assert_eq!(show(&format!("{{\"id\":1,\"method\":\"m\",\"x\":{deep}")), "malformed null -32700");
    let closed = format!("{{\"id\":1,\"method\":\"m\",\"params\":{{\"x\":{deep}{}}}}}", "]".repeat(200_000));
    assert!(show(&closed).starts_with("request 1 m {"));
    assert_eq!(show(&format!("{deep}{}", "]".repeat(200_000))), "malformed null -32600");
}

#[test]
fn an_id_that_could_not_be_echoed_is_refused() {
    let id = |len: usize| format!(r#"{{"method":"m","id":"{}"}}"#, "x".repeat(len));
    assert!(show(&id(MAX_ID - 2)).starts_with("request"));
    assert_eq!(show(&id(MAX_ID - 1)), "malformed null -32600");
}

#[test]
fn ids_are_compared_by_value() {
    let key = |raw| Id::parse(raw).unwrap().key().clone();
    assert_eq!(key(r#""a""#), key(r#""\u0061""#));
    assert_ne!(key("1"), key(r#""1""#));
}
