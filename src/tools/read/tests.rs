use super::*;
use crate::tools::{DynTool, erase, fake::Fake};
use serde_json::json;
use std::sync::Arc;

fn tool() -> Arc<dyn DynTool> {
    erase(Read)
}

/// A PNG of 1×1 pixels.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn png() -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(PNG).unwrap()
}

#[tokio::test]
async fn unsaved_text_is_what_is_read_and_seen() {
    let ws = Fake::new();
    ws.file("a.txt", "disk\n");
    ws.buffers.lock().unwrap().insert(ws.root().join("a.txt"), "unsaved\n".into());
    let output = ws.call(&*tool(), json!({"path": "a.txt"})).await.unwrap();
    assert_eq!(output.text, "1\tunsaved\n(end of file, 1 line)");
    assert_eq!(output.locations, [Location { path: ws.root().join("a.txt"), line: Some(1) }]);
    let path = ws.resolve("a.txt").unwrap();
    assert_eq!(ws.freshness(&path).await, crate::workspace::Freshness::Unchanged);
}

#[tokio::test]
async fn an_image_is_shown_where_the_model_takes_images() {
    let ws = Fake::new();
    ws.file("a.png", png()).file("odd.txt", png()).file("text.png", "no image\n");
    for path in ["a.png", "odd.txt"] {
        let output = ws.call(&*tool(), json!({ "path": path })).await.unwrap();
        assert_eq!((output.images.len(), output.images[0].mime.as_str()), (1, "image/png"));
        assert_eq!(output.text, format!("{path}: image/png, 1×1, {} B", png().len()));
    }
    let call = crate::log::CallIdent { session: "s".into(), id: "t".into() };
    let prepared = tool().prepare(json!({"path": "a.png"})).unwrap();
    let effects = prepared.plan(&ws).await.unwrap();
    let error = prepared.run(effects, Cx { images: false, ..ws.cx(&call) }).await.unwrap_err();
    assert!(error.to_string().contains("takes no images"), "{error}");
    let text = ws.call(&*tool(), json!({"path": "text.png"})).await.unwrap().text;
    assert!(text.starts_with("1\tno image\n"));
}

#[tokio::test]
async fn one_enormous_line_is_clipped_and_can_be_paged() {
    let ws = Fake::new();
    let line: String = (0..100_000).map(|n| format!("<{n}>")).collect();
    ws.file("min.js", &line);
    let text = ws.call(&*tool(), json!({"path": "min.js"})).await.unwrap().text;
    assert!(text.len() < 64_000 && text.contains("more characters") && text.contains("`column`"), "{text}");
    let column = line.find("<99990>").unwrap() + 1;
    let text = ws.call(&*tool(), json!({"path": "min.js", "limit": 1, "column": column})).await.unwrap().text;
    assert!(text.starts_with("1\t<99990>") && text.contains("<99999>\n"), "{text}");
    assert!(!text.contains("more characters"));
}

#[tokio::test]
async fn much_text_comes_in_parts() {
    let ws = Fake::new();
    let lines: String = (1..=5000).map(|n| format!("{n:060}\n")).collect();
    ws.file("big.txt", &lines);
    let mut next = 1;
    let mut seen = 0;
    loop {
        let text = ws.call(&*tool(), json!({"path": "big.txt", "offset": next})).await.unwrap().text;
        assert!(text.len() <= 64_000);
        seen += text.lines().filter(|l| l.contains('\t')).count();
        let Some(at) = text.find("go on with offset ") else { break };
        next = text[at + 18..].trim_end_matches(')').parse().unwrap();
        assert_eq!(next, seen + 1);
    }
    assert_eq!(seen, 5000);
}

#[tokio::test]
async fn a_file_beyond_the_limit_is_streamed() {
    let ws = Fake::new();
    let line = format!("{}\r\n", "x".repeat(99));
    let count = MAX_BYTES / 101 + 10;
    let mut content = line.repeat(count);
    content.push_str(&"y".repeat(5000));
    ws.file("huge.log", &content);
    let read = |args| {
        let ws = &ws;
        async move { ws.call(&*tool(), args).await.map(|o| o.text).map_err(|e| e.to_string()) }
    };
    let text = read(json!({"path": "huge.log", "offset": 7, "limit": 2})).await.unwrap();
    let x = "x".repeat(99);
    assert!(text.starts_with(&format!("7\t{x}\n8\t{x}\n(lines 7–8 of a file of 33.")), "{text}");
    assert!(text.ends_with("go on with offset 9)"));
    let text = read(json!({"path": "huge.log", "offset": count})).await.unwrap();
    assert!(text.contains(&format!("\n{}\tyyyy", count + 1)) && text.contains("(end of file, "), "{text}");
    assert!(text.contains("`column`"), "{text}");
    assert!(read(json!({"path": "huge.log", "offset": -5})).await.unwrap_err().contains("tail -n 5"));
    assert!(
        read(json!({"path": "huge.log", "offset": 99_999_999})).await.unwrap_err().contains("past the end")
    );
}

#[tokio::test]
async fn a_long_result_that_was_spilled_is_read() {
    use crate::workspace::Workspace;
    let ws = Fake::new();
    let path = ws.spill("t_1.txt", "whole\n").await.unwrap();
    let output = ws.call(&*tool(), json!({ "path": path })).await.unwrap();
    assert_eq!(output.text, "1\twhole\n(end of file, 1 line)");
}
