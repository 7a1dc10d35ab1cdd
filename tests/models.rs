//! Models over the whole server: lists behind `session/new`, what a local server has in force, choices that stay, side work.
use crate::support::{
    client::{Client, Incoming, Profile, text, updates},
    env::World,
    model_server::Reply,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// A server that knows models and answers no prompt: what it says by path, all else is 404.
async fn lists(answers: &'static [(&'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.windows(4).any(|w| w == b"\r\n\r\n")
                && socket.read_buf(&mut head).await.is_ok_and(|n| n > 0)
            {}
            let head = String::from_utf8_lossy(&head);
            let path = head.split(' ').nth(1).unwrap_or_default();
            let found = answers.iter().find(|(p, _)| *p == path);
            let (status, body) = found.map_or(("404 Not Found", "{}"), |(_, body)| ("200 OK", *body));
            let length = body.len();
            let text =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            let _ = socket.write_all(text.as_bytes()).await;
        }
    });
    url
}

/// The values of a config option in a list of them, the current one first.
fn option(options: &Value, id: &str) -> Vec<String> {
    let Some(option) = options.as_array().unwrap().iter().find(|o| o["id"] == id) else { return vec![] };
    let values =
        option["options"].as_array().unwrap().iter().map(|o| o["value"].as_str().unwrap().to_owned());
    std::iter::once(option["currentValue"].as_str().unwrap().to_owned()).chain(values).collect()
}

/// A world whose environment names no model.
async fn unnamed() -> World {
    let mut world = World::new().await;
    world.env.remove("OPENAI_BASE_URL");
    world.env.remove("OPENAI_MODEL");
    world
}

async fn new(client: &mut Client, world: &World) -> Value {
    client.must("initialize", client.profile.initialize(json!(1))).await;
    client.must("session/new", json!({"cwd": world.cwd, "mcpServers": []})).await
}

#[tokio::test]
async fn the_list_of_a_configured_provider_comes_behind_the_session() {
    let url = lists(&[("/v1/models", r#"{"data":[{"id":"a"},{"id":"b"},{"id":"text-embedding-c"}]}"#)]).await;
    let mut world = unnamed().await;
    world.configure(&format!("providers.mine.base_url = \"{url}\""));
    let mut client = Client::start(&world, Profile::of("none"));
    let opened = new(&mut client, &world).await;
    assert_eq!(option(&opened["configOptions"], "model")[0], "none");
    let options = loop {
        if let Some(Incoming::Update { update, .. }) = client.next().await
            && update["sessionUpdate"] == "config_option_update"
        {
            break update["configOptions"].clone();
        }
    };
    assert_eq!(option(&options, "model"), ["mine/a", "mine/a", "mine/b", "demo/scripted"]);
    client.close().await;
}

#[tokio::test]
async fn a_server_that_cuts_prompts_is_told_of_before_it_is_relied_on() {
    let url = lists(&[
        ("/v1/models", r#"{"data":[{"id":"q","owned_by":"library"}]}"#),
        ("/api/ps", r#"{"models":[{"model":"q","context_length":4096}]}"#),
    ])
    .await;
    let mut world = unnamed().await;
    world.configure(&format!("providers.mine.base_url = \"{url}\""));
    world.configure("model = \"mine/q\"");
    let mut client = Client::start(&world, Profile::of("none"));
    let session = client.open(&world).await;
    for told in [1, 0] {
        let (came, _) = client.turn(&session, "Go").await;
        let thoughts = text(&came, "agent_thought_chunk");
        assert_eq!(thoughts.matches("OLLAMA_CONTEXT_LENGTH").count(), told, "{thoughts}");
    }
    client.close().await;
}

#[tokio::test]
async fn what_was_chosen_last_is_what_the_next_session_begins_with() {
    let mut world = unnamed().await;
    world.configure("providers.mine.base_url = \"http://127.0.0.1:9/v1\"");
    world.configure("providers.mine.models = [\"a\", \"b\"]");
    world.configure("providers.mine.efforts = [\"low\", \"high\"]");
    let mut client = Client::start(&world, Profile::of("name=zed"));
    let opened = new(&mut client, &world).await;
    assert_eq!(option(&opened["configOptions"], "model")[0], "mine/a");
    let id = opened["sessionId"].clone();
    for (option, value) in [("model", "mine/b"), ("thought_level", "high"), ("mode", "full")] {
        let params = json!({"sessionId": id, "configId": option, "value": value});
        client.must("session/set_config_option", params).await;
    }
    let next = client.must("session/new", json!({"cwd": world.cwd, "mcpServers": []})).await;
    client.close().await;
    let mut client = Client::start(&world, Profile::of("name=zed"));
    let later = new(&mut client, &world).await;
    for opened in [next, later] {
        let options = &opened["configOptions"];
        let now = ["model", "thought_level", "mode"].map(|id| option(options, id).remove(0));
        // The mode is never taken over.
        assert_eq!(now, ["mine/b", "high", "ask"]);
    }
    // The configuration has the last word.
    client.close().await;
    world.configure("model = \"mine/a\"");
    let mut client = Client::start(&world, Profile::of("name=zed"));
    let named = new(&mut client, &world).await;
    assert_eq!(option(&named["configOptions"], "model")[0], "mine/a");
    client.close().await;
}

#[tokio::test]
async fn a_side_model_names_the_session_and_its_cost_is_told_apart() {
    let mut world = World::new().await;
    world.configure("side_model = \"openai/small\"");
    let usage = |reply: &mut Reply, input: u64| {
        reply.event(&json!({"choices": [], "usage": {"prompt_tokens": input, "completion_tokens": 1,
            "total_tokens": input + 1}}));
    };
    // Which of the two requests comes first is chance: both are answered with what may be either.
    for _ in 0..2 {
        let mut reply = Reply::default().text("Fixing the port");
        usage(&mut reply, 10);
        world.model.push(reply.end("stop"));
    }
    let mut client = Client::start(&world, Profile::of("name=zed"));
    let session = client.open(&world).await;
    let (came, _) = client.turn(&session, "please fix the port").await;
    let titles: Vec<&str> =
        updates(&came, "session_info_update").filter_map(|u| u["title"].as_str()).collect();
    assert_eq!(titles, ["please fix the port", "Fixing the port"]);
    let mut models: Vec<String> =
        world.model.requests().iter().map(|r| r["model"].as_str().unwrap().to_owned()).collect();
    models.sort();
    assert_eq!(models, ["scripted", "small"]);
    let (came, _) = client.turn(&session, "/usage").await;
    let told = text(&came, "agent_message_chunk");
    for part in
        ["This session: 20 tokens in", "in its turns: 10 tokens in", "beside them (titles, summaries): 10"]
    {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    client.close().await;
}

#[tokio::test]
async fn one_model_is_chosen_by_one_word() {
    let world = World::new().await;
    let mut client = Client::start(&world, Profile::of("none"));
    let session = client.open(&world).await;
    for (line, want) in [
        ("/model openai/other extra", "takes one model, not `openai/other extra`"),
        ("/model", "The model is `openai/scripted`"),
        ("/model openai/other", "The model is now `openai/other`"),
    ] {
        let (came, _) = client.turn(&session, line).await;
        let told = text(&came, "agent_message_chunk");
        assert!(told.contains(want), "{line}: {told}");
    }
    client.close().await;
}
