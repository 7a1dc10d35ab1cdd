use super::*;
use crate::tools::{DynTool, erase, fake::Fake};
use serde_json::{Value, json};
use std::{sync::Arc, time::Instant};

fn tool() -> Arc<dyn DynTool> {
    erase(Grep)
}

async fn grep(ws: &Fake, args: Value) -> String {
    ws.call(&*tool(), args).await.unwrap().text
}

#[tokio::test]
async fn the_editor_s_text_is_searched_not_the_disk_s() {
    let ws = Fake::new();
    ws.file("a.txt", "old word\n");
    ws.buffers.lock().unwrap().insert(ws.root().join("a.txt"), "new word\n".into());
    assert_eq!(grep(&ws, json!({"pattern": "word"})).await, "a.txt\n1:new word\n(1 match in 1 file)");
    assert!(grep(&ws, json!({"pattern": "old"})).await.starts_with("no match in 1 file"));
}

#[tokio::test]
async fn legacy_encodings_are_shown_as_text() {
    let ws = Fake::new();
    ws.file("latin.txt", b"x = 1\n// un caf\xe9 tr\xe8s fort, voil\xe0 d\xe9j\xe0 l'\xe9t\xe9\n");
    ws.file("utf16.txt", [0xff, 0xfe, b'f', 0, b'o', 0, b'r', 0, b't', 0, b'\n', 0]);
    let text = grep(&ws, json!({"pattern": "fort"})).await;
    assert!(
        text.contains("latin.txt\n2:// un café très fort") && text.contains("utf16.txt\n1:fort\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_long_line_is_cut_around_its_match() {
    let ws = Fake::new();
    ws.file("min.js", format!("{}needle{}\n", "é".repeat(50_000), "z".repeat(50_000)));
    let text = grep(&ws, json!({"pattern": "needle"})).await;
    assert!(text.contains("needle") && text.contains("1:…é") && text.len() < 1500, "{text}");
}

#[tokio::test]
async fn the_count_is_capped_in_the_order_of_paths() {
    let ws = Fake::new();
    for n in 0..60 {
        ws.file(&format!("d{n:02}/f.txt"), "hit\n".repeat(7));
    }
    let text = grep(&ws, json!({"pattern": "hit"})).await;
    assert_eq!(text.matches(":hit").count(), search::MATCHES);
    assert!(
        text.contains("d28/f.txt")
            && !text.contains("d29/f.txt")
            && text.contains("(the first 200 matches; there are more")
    );
    for _ in 0..5 {
        assert_eq!(grep(&ws, json!({"pattern": "hit"})).await, text);
    }
    let text = grep(&ws, json!({"pattern": "hit", "files_only": true})).await;
    assert!(text.starts_with("d00/f.txt\nd01/f.txt\n") && text.ends_with("\n(60 files)"), "{text}");
}

#[tokio::test]
async fn links_and_loops_are_not_followed() {
    let ws = Fake::new();
    ws.file("a.txt", "hit\n");
    std::os::unix::fs::symlink(ws.root(), ws.root().join("loop")).unwrap();
    assert_eq!(grep(&ws, json!({"pattern": "hit"})).await, "a.txt\n1:hit\n(1 match in 1 file)");
}

#[tokio::test]
async fn a_cancelled_search_ends() {
    let ws = Fake::new();
    ws.file("a.txt", "hit\n");
    let call = crate::log::CallIdent { session: "s".into(), id: "t".into() };
    let prepared = tool().prepare(json!({"pattern": "hit"})).unwrap();
    let effects = prepared.plan(&ws).await.unwrap();
    let cx = ws.cx(&call);
    cx.cancel.cancel();
    assert!(matches!(prepared.run(effects, cx).await, Err(ToolError::Cancelled)));
}

/// Five thousand files take well under a second here without optimisation; the bound is wide enough for a busy machine.
#[tokio::test]
async fn five_thousand_files_are_searched_at_once() {
    let ws = Fake::new();
    let body = "fn main() { let value = compute(42); }\n".repeat(40);
    for n in 0..5000 {
        ws.file(&format!("d{}/f{n}.rs", n % 50), &body);
    }
    ws.file("d49/zz.rs", "needle\n");
    let began = Instant::now();
    let text = grep(&ws, json!({"pattern": "needle"})).await;
    let took = began.elapsed();
    eprintln!("5,000 files in {took:?}");
    assert_eq!(text, "d49/zz.rs\n1:needle\n(1 match in 1 file)");
    assert!(took.as_secs() < 5, "{took:?}");
}
