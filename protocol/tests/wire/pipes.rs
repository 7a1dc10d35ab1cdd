//! Real pipes: non-blocking ends, small reads and writes, an end that goes away.

use crate::support::*;
use hermes_protocol::{End, Options, Stdio, Trace, Transport, serve};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::{Errno, read, write},
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread,
};

/// A server on its own thread over two pipes; returns our ends.
fn start(trace: Option<Trace>, nonblocking: bool) -> (File, File, thread::JoinHandle<End>, Arc<App>) {
    let (input, to_server) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (from_server, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    // As small as the system allows: every long line is written in parts.
    _ = fcntl_setpipe_size(&output, 4096);
    if nonblocking {
        for fd in [&input, &output] {
            fcntl_setfl(fd, fcntl_getfl(fd).unwrap() | OFlags::NONBLOCK).unwrap();
        }
    }
    let app = Arc::<App>::default();
    let (methods, admit) = (routes(app.clone()).finish(), Arc::new(Gate(app.clone())));
    let served = thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let transport = Transport::stdio(Stdio::from_fds(input, output), trace).unwrap();
            serve(methods, transport, Options { admit: Some(admit), ..Options::default() }).await
        })
    });
    (to_server.into(), from_server.into(), served, app)
}

fn lines(from: File) -> impl Iterator<Item = Value> {
    BufReader::new(from).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

#[test]
fn non_blocking_pipes_full_and_empty_lose_nothing() {
    for nonblocking in [false, true] {
        let (mut to, from, served, _) = start(None, nonblocking);
        writeln!(to, "{INIT}").unwrap();
        // Byte by byte: the reader finds the pipe empty in the middle of a line, many times.
        for byte in format!("{}\n", prompt_line("1", "stream 500")).bytes() {
            to.write_all(&[byte]).unwrap();
        }
        let mut lines = lines(from);
        assert_eq!(lines.next().unwrap()["id"], 0);
        for i in 0..500 {
            assert_eq!(text(&lines.next().unwrap()), i.to_string());
        }
        assert_eq!(outcome(&lines.next().unwrap()), (1.into(), json!({"stopReason": "end_turn"})));
        drop(to);
        assert_eq!(served.join().unwrap(), End::Eof);
        assert!(lines.next().is_none());
    }
}

#[test]
fn a_client_that_stops_reading_holds_the_turn_but_not_its_cancel() {
    let (mut to, from, served, app) = start(None, true);
    writeln!(to, "{INIT}\n{}", prompt_line("1", "stream 3000")).unwrap();
    let mut lines = lines(from);
    assert_eq!(lines.next().unwrap()["id"], 0);
    assert_eq!(text(&lines.next().unwrap()), "0");
    // The turn streams, and nothing more is read until the cancel has taken effect.
    writeln!(to, "{CANCEL}").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(app.cancelled.notified());
    for i in 1..3000 {
        assert_eq!(text(&lines.next().unwrap()), i.to_string());
    }
    assert_eq!(lines.next().unwrap()["id"], 1);
    drop(to);
    assert_eq!(served.join().unwrap(), End::Eof);
}

#[test]
fn a_client_that_goes_away_ends_the_connection_quietly() {
    let (mut to, from, served, _) = start(None, false);
    writeln!(to, "{INIT}").unwrap();
    let mut first = [0; 16];
    (&from).read_exact(&mut first).unwrap();
    drop(from);
    // Its end for our input stays open: only a write can show that nobody reads.
    writeln!(to, "{}", prompt_line("1", "stream 100000")).unwrap();
    assert_eq!(served.join().unwrap(), End::Gone);
    drop(to);
}

#[test]
fn a_shutdown_does_not_wait_for_input() {
    let (input, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (from, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let options = Options::default();
    options.shutdown.cancel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let transport =
        runtime.block_on(async { Transport::stdio(Stdio::from_fds(input, output), None).unwrap() });
    let end = runtime.block_on(serve(routes(Arc::default()).finish(), transport, options));
    assert_eq!(end, End::Shutdown);
    // Both threads have let go of their ends: reading ends, writing fails.
    assert_eq!(read(&from, &mut [0; 8]), Ok(0));
    assert_eq!(until_closed(&to), Errno::PIPE);
}

/// Writes until the reader is gone; a full pipe would block, so it is non-blocking and polled.
fn until_closed(to: &OwnedFd) -> Errno {
    fcntl_setfl(to, fcntl_getfl(to).unwrap() | OFlags::NONBLOCK).unwrap();
    loop {
        match write(to, b"\n") {
            Ok(_) => thread::yield_now(),
            Err(Errno::AGAIN) => _ = poll(&mut [PollFd::new(&to.as_fd(), PollFlags::OUT)], None).unwrap(),
            Err(error) => return error,
        }
    }
}

#[test]
fn the_trace_replays_what_passed_without_its_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wire.jsonl");
    let (mut to, from, served, _) = start(Some(Trace::open(&path).unwrap()), false);
    let load = r#"{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"mcpServers":[{"name":"a","command":"/a","args":[],"env":[{"name":"K","value":"hush-hush"}]}]}}"#;
    write!(to, "{INIT}\n{load}\n").unwrap();
    drop(to);
    let sent: Vec<Value> = lines(from).collect();
    served.join().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hush-hush"));
    let entries: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let of = |dir: &str| {
        entries.iter().filter(|e| e["dir"] == dir).map(|e| e["frame"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("<"), sent);
    let heard = of(">");
    assert_eq!(heard[0], serde_json::from_str::<Value>(INIT).unwrap());
    assert_eq!(heard[1]["params"]["mcpServers"][0]["env"][0], json!({"name": "K", "value": "[redacted]"}));
    assert_eq!(heard.len(), 2);
}
