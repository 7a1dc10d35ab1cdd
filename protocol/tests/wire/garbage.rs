//! Arbitrary bytes: no panic, at most one response a line, the connection goes on.

use crate::support::*;
use hermes_protocol::{Options, Transport, frame, serve};
use proptest::prelude::*;
use serde_json::Value;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};

/// Bytes that look like messages, cut and bent.
fn bent() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop::sample::select(vec![
        prompt_line("1", "end"),
        prompt_line("\"x\"", "stream 3"),
        list_line("-1"),
        list_line("null"),
        CANCEL.to_owned(),
        r#"{"jsonrpc":"2.0","id":0,"result":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#.to_owned(),
        r#"[{"id":1},[]]"#.to_owned(),
        "\u{feff}\"\\ud800\"".to_owned(),
    ]);
    let bent = (whole, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)).prop_map(
        |(line, edits)| {
            let mut bytes = line.into_bytes();
            for (at, byte) in edits {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        },
    );
    prop_oneof![
        bent,
        prop::collection::vec(any::<u8>(), 0..80),
        "[\\[{\"id:,0-9}\\]\\\\]{0,40}".prop_map(String::into_bytes)
    ]
}

proptest! {
    #[test]
    fn the_parser_takes_any_bytes(line in bent()) {
        frame::parse(&line);
    }

    #[test]
    fn garbage_is_survived_with_at_most_one_response_a_line(lines in prop::collection::vec(bent(), 0..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (near, far) = duplex(1 << 20);
            let (r, w) = split(far);
            let served = tokio::spawn(serve(routes(Arc::default()).finish(), Transport::over(r, w, None), Options::default()));
            let (mut r, mut w) = split(near);
            let input = [INIT.as_bytes().to_vec()].into_iter().chain(lines).chain([list_line("\"end\"").into_bytes()]);
            let input = input.collect::<Vec<_>>().join(&b'\n');
            w.write_all(&input).await.unwrap();
            w.shutdown().await.unwrap();
            let mut text = String::new();
            r.read_to_string(&mut text).await.unwrap();
            let answers: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
            let responses = answers.iter().filter(|v| v.get("method").is_none()).count();
            assert!(responses <= input.split(|&b| b == b'\n').count(), "{text}");
            assert!(answers.iter().any(|v| v["id"] == "end"), "{text}");
            served.await.unwrap();
        });
    }
}
