//! What one frame costs: `cargo bench -p hermes-protocol`.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::{Bencher, counter::ItemsCount};
use hermes_protocol::{Options, Peer, Routes, Stdio, Transport, acp, frame, serve};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    sync::Arc,
    thread,
};
use tokio::runtime::Runtime;

const FRAMES: usize = 10_000;

fn main() {
    divan::main();
}

fn chunk() -> acp::SessionNotification {
    let content = acp::ContentChunk::new(acp::ContentBlock::from("a dozen or so characters"));
    let content = content.message_id(acp::MessageId::new("019a0000-0000-7000-8000-000000000001"));
    let session = "019a0000-0000-7000-8000-000000000000".to_owned();
    acp::SessionNotification::new(session, acp::SessionUpdate::AgentMessageChunk(content))
}

/// A server over real pipes; returns our ends and its peer.
fn start(runtime: &Runtime) -> (File, File, Peer) {
    let (input, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (from, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut routes = Routes::new(Arc::new(()));
    routes.in_order("initialize", |(), _: Value, _| Ok(json!({}))).unwrap();
    routes
        .request("session/list", |_, _: acp::ListSessionsRequest, _| async { Ok(json!({"sessions": []})) })
        .unwrap();
    let transport =
        runtime.block_on(async { Transport::stdio(Stdio::from_fds(input, output), None).unwrap() });
    let peer = transport.peer();
    runtime.spawn(serve(routes.finish(), transport, Options::default()));
    (to.into(), from.into(), peer)
}

/// One `agent_message_chunk`: serialised, queued, and written into a pipe that somebody empties.
#[divan::bench]
fn updates_through_a_pipe(bencher: Bencher<'_, '_>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_to, mut from, peer) = start(&runtime);
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while from.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    bencher.counter(ItemsCount::new(FRAMES)).bench_local(|| {
        runtime.block_on(async {
            for _ in 0..FRAMES {
                peer.update(&chunk()).await.unwrap();
            }
        });
    });
}

#[divan::bench]
fn serialise_one_update() -> String {
    serde_json::to_string(&chunk()).unwrap()
}

/// Parsing one small request's line.
#[divan::bench]
fn parse_one_line(bencher: Bencher<'_, '_>) {
    let line = br#"{"jsonrpc":"2.0","id":12,"method":"session/list","params":{}}"#;
    bencher.bench_local(|| {
        assert!(matches!(frame::parse(divan::black_box(line)), frame::Incoming::Request { .. }))
    });
}

/// A request and its answer, one at a time, over real pipes.
#[divan::bench]
fn round_trip(bencher: Bencher<'_, '_>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (mut to, from, _peer) = start(&runtime);
    let (mut from, mut line) = (BufReader::new(from), String::new());
    let mut ask = |request: &[u8]| {
        to.write_all(request).unwrap();
        line.clear();
        from.read_line(&mut line).unwrap();
    };
    ask(b"{\"id\":0,\"method\":\"initialize\"}\n");
    bencher
        .bench_local(|| ask(b"{\"jsonrpc\":\"2.0\",\"id\":12,\"method\":\"session/list\",\"params\":{}}\n"));
}
