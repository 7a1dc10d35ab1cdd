//! I20: our own key is nowhere but in the header that carries it.
use crate::support::{
    client::{Client, Profile},
    env::World,
    model_server::Reply,
};
use std::path::{Path, PathBuf};

const KEY: &str = "sk-own-3f9d2c71aa";

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path(), all),
            false => all.push(entry.path()),
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn i20_the_key_is_not_on_the_wire_in_the_store_or_at_the_model() {
    let mut world = World::new().await;
    world.env.insert("OPENAI_API_KEY".into(), KEY.into());
    world.write("conf.txt", &format!("key={KEY}\nport=1\n"));
    world.write("two.sh", &format!("printf %s {}; printf '%s\\n' {}\n", &KEY[..7], &KEY[7..]));
    // More than is kept in memory, so that it is spilled.
    world.write("long.txt", &format!("{KEY} and more words\n").repeat(4000));
    let command =
        r#"{"command":"env; cat conf.txt; sh two.sh; tr '\\0' '\\n' < /proc/$PPID/environ; cat long.txt"}"#;
    let edit = r#"{"path":"conf.txt","old_string":"port=1","new_string":"port=2"}"#;
    world.model.push(Reply::default().call(0, "terminal", command).end("tool_calls"));
    world.model.push(Reply::default().call(0, "read", r#"{"path":"conf.txt"}"#).end("tool_calls"));
    world.model.push(Reply::default().call(0, "edit", edit).end("tool_calls"));
    world.model.push(Reply::default().text("Done.").end("stop"));
    let trace = world.base.join("trace");
    let mut client = Client::with(&world, Profile::of("none"), &["--trace", trace.to_str().unwrap()]);
    let session = client.open(&world).await;
    let (came, ended) = client.turn(&session, "Go").await;
    assert_eq!(ended.unwrap()["stopReason"], "end_turn");
    let wire = format!("{came:?}");
    assert!(wire.contains("[secret:OPENAI_API_KEY]"));
    assert!(!wire.contains(KEY), "on the wire");
    client.close().await;
    let sent = world.model.requests();
    assert!(sent.iter().all(|body| body["auth"] == format!("Bearer {KEY}")), "the header carries it");
    let sent: Vec<_> = sent.iter().map(|body| &body["messages"]).collect();
    let sent = serde_json::to_string(&sent).unwrap();
    let near = sent.find(KEY).map(|at| &sent[sent.floor_char_boundary(at.saturating_sub(200))..at]);
    assert_eq!(near, None, "in a request's body");
    assert_eq!(world.read("conf.txt").unwrap(), format!("key={KEY}\nport=2\n"), "the file stays true");
    let mut own = vec![trace];
    files(&world.home, &mut own);
    assert!(own.len() > 2, "{own:?}");
    for file in own {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(KEY.len()).any(|w| w == KEY.as_bytes()), "in {}", file.display());
    }
}
