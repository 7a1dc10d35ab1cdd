//! I1: whatever else the process does, its stdout carries nothing but JSON-RPC.
//!
//! The test starts itself as the agent, so that the agent's stdout is a pipe nothing has written to.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test; the prints are what it is about"
)]

use hermes_protocol::{Options, Routes, Stdio, Transport, acp, serve};
use serde_json::{Value, json};
use std::{
    env,
    io::{Read, Write},
    process::{Command, ExitCode, Stdio as Pipe},
    sync::Arc,
};

fn main() -> ExitCode {
    if env::var_os("HERMES_TEST_AGENT").is_some() { agent() } else { i1_only_the_writer_touches_stdout() }
}

/// An agent full of code that prints.
fn agent() -> ExitCode {
    let stdio = Stdio::take().unwrap();
    println!("a stray print at the start");
    let mut routes = Routes::new(Arc::new(()));
    routes.in_order("initialize", |(), _: Value, _| Ok(json!({"protocolVersion": 1}))).unwrap();
    let noisy = |_, _: Value, _| async {
        println!("a stray print in a handler");
        std::io::stdout().write_all(b"raw bytes\n").unwrap();
        let child = Command::new("sh").args(["-c", "echo a child; cat; echo a child >&2"]).status();
        assert!(child.unwrap().success(), "a child finds an empty stdin");
        Ok::<_, acp::Error>(json!({}))
    };
    routes.request("session/list", noisy).unwrap();
    let panics = |_, _: Value, _| async { panic!("to the default hook") };
    routes.request::<Value, Value, _, _>("session/close", panics).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        serve(routes.finish(), Transport::stdio(stdio, None).unwrap(), Options::default()).await;
    });
    println!("a stray print at the end");
    ExitCode::SUCCESS
}

fn i1_only_the_writer_touches_stdout() -> ExitCode {
    let mut child = Command::new(env::current_exe().unwrap())
        .env("HERMES_TEST_AGENT", "1")
        .stdin(Pipe::piped())
        .stdout(Pipe::piped())
        .stderr(Pipe::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(
            b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{}}\n{nonsense\n\
              {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\",\"params\":{}}\n\
              {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/close\",\"params\":{}}\n",
        )
        .unwrap();
    drop(stdin);
    let mut out = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(child.wait().unwrap().success(), "{err}");
    let out = String::from_utf8(out).expect("stdout is UTF-8");
    let lines: Vec<Value> =
        out.lines().map(|l| serde_json::from_str(l).expect("each line is JSON")).collect();
    assert!(out.ends_with('\n') && lines.iter().all(|v| v["jsonrpc"] == "2.0"), "{out}");
    let mut codes: Vec<i64> = lines.iter().map(|v| v["error"]["code"].as_i64().unwrap_or(0)).collect();
    codes.sort_unstable();
    assert_eq!(codes, [-32700, -32603, 0, 0], "{out}");
    for stray in ["at the start", "in a handler", "raw bytes", "a child", "at the end"] {
        assert!(err.contains(stray), "{stray:?} went nowhere: {err}");
    }
    println!("i1_only_the_writer_touches_stdout ... ok");
    ExitCode::SUCCESS
}
