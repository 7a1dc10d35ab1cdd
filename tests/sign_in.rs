//! Signing in, refreshing, signing out and in again: the real binary against an issuer on the loopback.
use crate::support::{
    PATIENCE,
    client::{Client, Incoming, Profile, prompt, text},
    env::World,
    model_server::Reply,
    oauth_server::{ACCOUNT, CODE, OAuthServer, access},
};
use serde_json::{Value, json};
use std::{os::unix::fs::PermissionsExt, path::PathBuf, process::Stdio};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// A world whose default model is reached with a ChatGPT login.
async fn world() -> (World, OAuthServer) {
    let (mut world, issuer) = (World::new().await, OAuthServer::start().await);
    world.env.remove("OPENAI_MODEL");
    world.env.remove("OPENAI_BASE_URL");
    for (name, value) in [
        ("HERMES_EDITOR_MODEL", "codex/test-model".to_owned()),
        ("HERMES_EDITOR_CODEX_BASE_URL", world.model.url()),
        ("HERMES_EDITOR_CODEX_AUTH_URL", issuer.url()),
        ("HERMES_EDITOR_CODEX_CLIENT_ID", "app-test".to_owned()),
    ] {
        world.env.insert(name.into(), value);
    }
    (world, issuer)
}

fn stored(world: &World) -> PathBuf {
    world.home.join("own/data/credentials.json")
}

/// Runs a command to its end with this on its standard input: its exit code and all that it said.
async fn command(world: &World, args: &[&str], input: &str) -> (i32, String) {
    let mut child = world
        .command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let out =
        tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it does not end").unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    (out.status.code().unwrap_or(-1), said)
}

/// `login codex`, with a person who enters the code once it is shown.
async fn login(world: &World, issuer: &OAuthServer) -> String {
    let mut child =
        world.command(&["login", "codex"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = String::new();
    loop {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("nothing is said").unwrap();
        let Some(line) = line else { break };
        if line.contains(CODE) {
            assert!(said.contains(&format!("{}/codex/device", issuer.url())), "{said}");
            issuer.state().entered = true;
        }
        said.push_str(&line);
        said.push('\n');
    }
    assert!(child.wait().await.unwrap().success(), "{said}");
    issuer.state().entered = false;
    said
}

/// The token of the last request that the model got.
fn used(world: &World) -> String {
    let last = world.model.requests().pop().expect("no request");
    last["auth"].as_str().unwrap().trim_start_matches("Bearer ").to_owned()
}

async fn ask(client: &mut Client, session: &str) -> Result<String, Value> {
    let (came, ended) = client.turn(session, "Go").await;
    ended.map(|_| text(&came, "agent_message_chunk"))
}

fn needs_sign_in(error: &Value) {
    assert_eq!(error["code"], -32000, "{error}");
    let methods = error["data"]["authMethods"].as_array().unwrap();
    assert!(methods.iter().any(|m| m["id"] == "chatgpt"), "{error}");
    assert!(error["message"].as_str().unwrap().contains("hermes-editor login codex"), "{error}");
}

#[tokio::test]
async fn login_prompt_refresh_logout_and_login_again() {
    let (world, issuer) = world().await;
    // Ends within two minutes, so that the first prompt refreshes it.
    issuer.state().lifetime = 60;
    let said = login(&world, &issuer).await;
    assert!(said.contains("Signed in to codex as person@example.org"), "{said}");
    assert_eq!(std::fs::metadata(stored(&world)).unwrap().permissions().mode() & 0o777, 0o600);
    issuer.state().lifetime = 86_400;
    let mut client = Client::start(&world, Profile::of("none"));
    let session = client.open(&world).await;
    world.model.push(Reply::responses("one"));
    assert_eq!(ask(&mut client, &session).await.unwrap(), "one");
    assert_eq!((used(&world), issuer.state().refreshes), (access(2, 86_400), 1));
    let first = world.model.requests().pop().unwrap();
    assert_eq!((&first["account"], &first["store"]), (&json!(ACCOUNT), &json!(false)), "{first}");
    assert_eq!(first["path"], "/v1/responses");
    // A token that is not taken is exchanged, once, and nobody notices.
    world.model.push(Reply::status(401, &json!({"error": {"message": "token expired"}})));
    world.model.push(Reply::responses("two"));
    assert_eq!(ask(&mut client, &session).await.unwrap(), "two");
    assert_eq!((used(&world), issuer.state().refreshes), (access(3, 86_400), 2));
    // Signed out: the login is gone, here and at its issuer.
    let done = client.must("logout", json!({})).await;
    assert_eq!(done["_meta"]["hermes-editor"]["removed"], json!(["codex"]), "{done}");
    assert_eq!(issuer.state().revoked, ["refresh-token-3"]);
    assert!(!std::fs::read_to_string(stored(&world)).unwrap().contains("refresh-token"));
    needs_sign_in(&ask(&mut client, &session).await.unwrap_err());
    let refused = client.call("authenticate", json!({"methodId": "chatgpt"})).await.1.unwrap_err();
    needs_sign_in(&refused);
    // The same session goes on after signing in.
    login(&world, &issuer).await;
    client.must("authenticate", json!({"methodId": "chatgpt"})).await;
    world.model.push(Reply::responses("three"));
    assert_eq!(ask(&mut client, &session).await.unwrap(), "three");
    assert_eq!(used(&world), access(4, 86_400));
    assert_eq!((issuer.state().reused, world.model.left()), (0, 0));
    client.close().await;
}

#[tokio::test]
async fn an_editor_that_can_shows_the_page_and_the_code() {
    let (world, issuer) = world().await;
    for words in ["elicit-url", "elicit-form"] {
        let mut client = Client::start(&world, Profile::of(words));
        let session = client.open(&world).await;
        needs_sign_in(&ask(&mut client, &session).await.unwrap_err());
        let sign_in = client.send("authenticate", json!({"methodId": "chatgpt"})).await;
        let (question, shown) = question(&mut client).await;
        assert_eq!(shown["requestId"], sign_in);
        assert!(shown["message"].as_str().unwrap().contains(CODE), "{shown}");
        let page = format!("{}/codex/device", issuer.url());
        match words {
            "elicit-url" => assert_eq!((&shown["mode"], &shown["url"]), (&json!("url"), &json!(page))),
            _ => assert!(shown["message"].as_str().unwrap().contains(&page), "{shown}"),
        }
        client.answer(&question, json!({"action": "accept"})).await;
        issuer.state().entered = true;
        let (came, done) = client.until(&sign_in).await;
        done.unwrap();
        let completed = came
            .iter()
            .any(|i| matches!(i, Incoming::Notification { method, .. } if method == "elicitation/complete"));
        assert_eq!(completed, words == "elicit-url");
        world.model.push(Reply::responses("hello"));
        assert_eq!(ask(&mut client, &session).await.unwrap(), "hello");
        issuer.state().entered = false;
        client.must("logout", json!({})).await;
        client.close().await;
    }
}

async fn question(client: &mut Client) -> (Value, Value) {
    loop {
        match client.next().await.expect("the agent ended") {
            Incoming::Request { id, method, params } if method == "elicitation/create" => {
                return (id, params);
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_sign_in_can_be_given_up_in_every_way() {
    let (world, issuer) = world().await;
    let mut client = Client::start(&world, Profile::of("elicit-url"));
    let session = client.open(&world).await;
    for answer in [json!({"action": "decline"}), json!({"action": "cancel"})] {
        let sign_in = client.send("authenticate", json!({"methodId": "chatgpt"})).await;
        let (question, _) = question(&mut client).await;
        client.answer(&question, answer).await;
        assert_eq!(client.until(&sign_in).await.1.unwrap_err()["code"], -32000);
    }
    // Withdrawn by the client, before and after the person accepted.
    for accepts in [false, true] {
        let sign_in = client.send("authenticate", json!({"methodId": "chatgpt"})).await;
        let (question, _) = question(&mut client).await;
        if accepts {
            client.answer(&question, json!({"action": "accept"})).await;
        }
        client.notify("$/cancel_request", json!({"requestId": sign_in})).await;
        assert_eq!(client.until(&sign_in).await.1.unwrap_err()["code"], -32800);
    }
    needs_sign_in(&ask(&mut client, &session).await.unwrap_err());
    let unknown = client.call("authenticate", json!({"methodId": "fax"})).await.1.unwrap_err();
    assert_eq!(unknown["code"], -32602);
    assert!(!stored(&world).exists() && issuer.state().refreshes == 0);
    // The end of the connection ends a sign-in that waits.
    client.send("authenticate", json!({"methodId": "chatgpt"})).await;
    question(&mut client).await;
    assert!(client.close().await.1.success());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn two_processes_never_refresh_one_token_twice() {
    let (world, issuer) = world().await;
    issuer.state().lifetime = 60;
    login(&world, &issuer).await;
    issuer.state().lifetime = 86_400;
    let gate = issuer.hold();
    let (mut one, mut two) =
        (Client::start(&world, Profile::of("none")), Client::start(&world, Profile::of("none")));
    let (first, second) = (one.open(&world).await, two.open(&world).await);
    world.model.push(Reply::responses("a"));
    world.model.push(Reply::responses("a"));
    let a = one.send("session/prompt", prompt(&first, "Go")).await;
    tokio::time::timeout(PATIENCE, gate.reached.cancelled()).await.expect("nobody refreshes");
    let b = two.send("session/prompt", prompt(&second, "Go")).await;
    // The second is at the lock when it has the file open.
    tokio::time::timeout(PATIENCE, async {
        while !has_open(two.pid(), "credentials.lock") {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the second process does not wait for the lock");
    gate.open.cancel();
    for (client, id) in [(&mut one, a), (&mut two, b)] {
        assert_eq!(client.until(&id).await.1.unwrap()["stopReason"], "end_turn");
        client.close().await;
    }
    let state = issuer.state();
    assert_eq!((state.refreshes, state.reused), (1, 0));
    let used: Vec<_> = world.model.requests().iter().map(|r| r["auth"].clone()).collect();
    assert_eq!(used, vec![json!(format!("Bearer {}", access(2, 86_400))); 2]);
}

fn has_open(pid: i32, name: &str) -> bool {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files.flatten().any(|f| std::fs::read_link(f.path()).is_ok_and(|to| to.ends_with(name)))
}

/// A refresh token that was exchanged is worth nothing any more: the answer must not be lost with who asked.
#[tokio::test]
async fn a_refresh_goes_on_when_its_request_is_dropped() {
    let (world, issuer) = world().await;
    for leaves in [false, true] {
        issuer.state().lifetime = 60;
        login(&world, &issuer).await;
        issuer.state().lifetime = 86_400;
        let (gate, before) = (issuer.hold(), issuer.state().refreshes);
        let mut client = Client::start(&world, Profile::of("none"));
        let session = client.open(&world).await;
        let id = client.send("session/prompt", prompt(&session, "Go")).await;
        tokio::time::timeout(PATIENCE, gate.reached.cancelled()).await.expect("nobody refreshes");
        if leaves {
            tokio::join!(client.close(), async { gate.open.cancel() });
            client = Client::start(&world, Profile::of("none"));
        } else {
            client.notify("session/cancel", json!({"sessionId": session})).await;
            assert_eq!(client.until(&id).await.1.unwrap()["stopReason"], "cancelled");
            gate.open.cancel();
        }
        let session = if leaves { client.open(&world).await } else { client.new_session(&world).await };
        world.model.push(Reply::responses("on"));
        assert_eq!(ask(&mut client, &session).await.unwrap(), "on");
        let counts = {
            let state = issuer.state();
            (state.refreshes - before, state.reused)
        };
        assert_eq!(counts, (1, 0));
        client.close().await;
    }
}

#[tokio::test]
async fn a_refresh_token_that_was_used_elsewhere_ends_the_login_and_says_so_once() {
    let (world, issuer) = world().await;
    issuer.state().lifetime = 60;
    login(&world, &issuer).await;
    // Another program refreshes with the same token.
    let refusal = json!({"error": {"code": "refresh_token_reused", "message": "again"}});
    issuer.state().refusals.push_back((401, refusal));
    let mut client = Client::start(&world, Profile::of("none"));
    let session = client.open(&world).await;
    for _ in 0..2 {
        let error = ask(&mut client, &session).await.unwrap_err();
        needs_sign_in(&error);
        assert!(error["message"].as_str().unwrap().contains("refresh_token_reused"), "{error}");
    }
    // The second time nobody was asked: a refresh would have succeeded.
    assert_eq!((issuer.state().refreshes, world.model.requests().len()), (0, 0));
    let (_, doctor) = command(&world, &["doctor"], "").await;
    assert!(doctor.contains("is over (refresh_token_reused)"), "{doctor}");
    let (_, list) = command(&world, &["login"], "").await;
    assert!(list.contains("sign in again (refresh_token_reused)"), "{list}");
    issuer.state().lifetime = 86_400;
    login(&world, &issuer).await;
    client.must("authenticate", json!({"methodId": "chatgpt"})).await;
    world.model.push(Reply::responses("back"));
    assert_eq!(ask(&mut client, &session).await.unwrap(), "back");
    client.close().await;
}

#[tokio::test]
async fn what_only_hinders_a_refresh_signs_nobody_out() {
    let (world, issuer) = world().await;
    issuer.state().lifetime = 100;
    login(&world, &issuer).await;
    let mut client = Client::start(&world, Profile::of("none"));
    let session = client.open(&world).await;
    // The token is still valid: it is used.
    for refusal in [(500, json!({})), (429, json!({"error": "slow_down"})), (400, json!({"error": "odd"}))] {
        issuer.state().refusals.push_back(refusal);
        world.model.push(Reply::responses("still"));
        assert_eq!(ask(&mut client, &session).await.unwrap(), "still");
        assert_eq!(used(&world), access(1, 100));
    }
    // It is not taken any more, and the issuer has had enough of us: that is no reason to sign in again.
    issuer.state().refusals.extend([(500, json!({})), (429, json!({"error": "slow_down"}))]);
    world.model.push(Reply::status(401, &json!({})));
    let error = ask(&mut client, &session).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32603), &json!("quota")), "{error}");
    issuer.state().lifetime = 86_400;
    world.model.push(Reply::responses("again"));
    assert_eq!(ask(&mut client, &session).await.unwrap(), "again");
    client.close().await;
}

#[tokio::test]
async fn the_login_of_codex_is_read_on_request_and_never_revoked() {
    let (mut world, issuer) = world().await;
    let folder = world.base.join("codex");
    world.env.insert("CODEX_HOME".into(), folder.display().to_string());
    let (code, said) = command(&world, &["login", "codex", "--import"], "").await;
    assert!(code == 1 && said.contains("auth.json"), "{said}");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("auth.json");
    let half = json!({"tokens": {"access_token": access(0, 9)}}).to_string();
    std::fs::write(&file, half).unwrap();
    let (code, said) = command(&world, &["login", "codex", "--import"], "").await;
    assert!(code == 1 && said.contains("both tokens") && !stored(&world).exists(), "{said}");
    let whole = json!({"tokens": {"access_token": access(0, 86_400), "refresh_token": "refresh-token-0",
        "account_id": "acc-9"}});
    std::fs::write(&file, whole.to_string()).unwrap();
    let (code, said) = command(&world, &["login", "codex", "--import"], "").await;
    assert!(code == 0 && said.contains("share one refresh token"), "{said}");
    let mut client = Client::start(&world, Profile::of("none"));
    let session = client.open(&world).await;
    world.model.push(Reply::responses("one"));
    assert_eq!(ask(&mut client, &session).await.unwrap(), "one");
    let sent = world.model.requests().pop().unwrap();
    assert_eq!((&sent["account"], used(&world)), (&json!("acc-9"), access(0, 86_400)));
    client.close().await;
    let (code, said) = command(&world, &["logout", "codex"], "").await;
    assert!(code == 0 && said.contains("Codex stays signed in"), "{said}");
    assert!(issuer.state().revoked.is_empty());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), whole.to_string());
}

#[tokio::test]
async fn openrouter_makes_a_key_by_way_of_the_browser() {
    let (mut world, issuer) = (World::new().await, OAuthServer::start().await);
    world.env.insert("HERMES_EDITOR_OPENROUTER_AUTH_URL".into(), issuer.url());
    world.env.insert("HERMES_EDITOR_OPENROUTER_BASE_URL".into(), world.model.url());
    world.env.insert("HERMES_EDITOR_MODEL".into(), "openrouter/some/model".into());
    world.env.remove("OPENAI_MODEL");
    // No browser of this machine is opened.
    world.env.insert("PATH".into(), world.base.display().to_string());
    for pastes in [false, true] {
        let mut child = world
            .command(&["login", "openrouter", "--browser"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let page = loop {
            let line = lines.next_line().await.unwrap().expect("no page is shown");
            if let Some(page) = line.trim().strip_prefix(&format!("{}/auth?", issuer.url())) {
                break reqwest::Url::parse(&format!("http://x/?{page}")).unwrap();
            }
        };
        let value = |key: &str| page.query_pairs().find(|(k, _)| k == key).unwrap().1.into_owned();
        issuer.state().challenge = value("code_challenge");
        let back = format!("{}?code=or-code", value("callback_url"));
        if pastes {
            child.stdin.as_mut().unwrap().write_all(format!("{back}\n").as_bytes()).await.unwrap();
        } else {
            let url = reqwest::Url::parse(&back).unwrap();
            let address = ("127.0.0.1", url.port().unwrap());
            let mut browser = tokio::net::TcpStream::connect(address).await.unwrap();
            let get = format!("GET {}?code=or-code HTTP/1.1\r\n\r\n", url.path());
            browser.write_all(get.as_bytes()).await.unwrap();
            let mut shown = String::new();
            browser.read_to_string(&mut shown).await.unwrap();
            assert!(shown.contains("You are signed in"), "{shown}");
        }
        let rest = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                assert!(!line.contains("sk-or-made"), "{line}");
            }
        };
        tokio::time::timeout(PATIENCE, rest).await.expect("it does not end");
        assert!(child.wait().await.unwrap().success());
        let mut client = Client::start(&world, Profile::of("none"));
        let session = client.open(&world).await;
        world.model.push(Reply::default().text("hi").end("stop"));
        assert_eq!(ask(&mut client, &session).await.unwrap(), "hi");
        assert_eq!(used(&world), "sk-or-made-1");
        client.close().await;
        assert_eq!(command(&world, &["logout"], "").await.0, 0);
    }
}

#[tokio::test]
async fn a_key_is_piped_in_listed_used_and_forgotten() {
    let world = World::new().await;
    let key = "gsk-piped-0123456789";
    let (code, said) = command(&world, &["login", "groq"], &format!("{key}\n")).await;
    assert!(code == 0 && said.contains("The key for groq is stored") && !said.contains(key), "{said}");
    let (code, said) = command(&world, &["login"], "").await;
    let line = said.lines().find(|l| l.starts_with("groq")).unwrap();
    assert!(code == 0 && line.ends_with("a stored key") && !said.contains(key), "{said}");
    let (code, doctor) = command(&world, &["doctor"], "").await;
    assert!(doctor.contains("groq: a stored key") && !doctor.contains(key) && code >= 0, "{doctor}");
    for (input, told) in [("", "Nothing was stored"), ("\n", "empty"), ("two words\n", "no blanks")] {
        let (code, said) = command(&world, &["login", "xai"], input).await;
        assert!(code != 0 && said.contains(told), "{said}");
    }
    let (code, said) = command(&world, &["login", "nobody"], "x\n").await;
    assert!(code == 2 && said.contains("there is no provider `nobody`"), "{said}");
    let (code, said) = command(&world, &["logout", "groq"], "").await;
    assert!(code == 0 && said.contains("is forgotten here"), "{said}");
    assert!(!std::fs::read_to_string(stored(&world)).unwrap().contains(key));
    // A file that is not understood is told before anybody types anything, and stays.
    std::fs::write(stored(&world), "{\"version\":1,").unwrap();
    let (code, said) = command(&world, &["login", "groq"], "gsk-x-0123456789\n").await;
    assert!(code == 1 && said.contains("left as it is"), "{said}");
    assert_eq!(std::fs::read_to_string(stored(&world)).unwrap(), "{\"version\":1,");
}

/// I20 for what is learnt late: tokens that were refreshed, keys that were read again.
#[tokio::test]
async fn tokens_that_were_refreshed_are_redacted_too() {
    let (world, issuer) = world().await;
    issuer.state().lifetime = 60;
    login(&world, &issuer).await;
    issuer.state().lifetime = 86_400;
    let (new, refresh) = (access(2, 86_400), "refresh-token-2");
    world.write("seen.txt", &format!("token {new}\nrefresh {refresh}\n"));
    let trace = world.base.join("trace");
    let mut client = Client::with(&world, Profile::of("none"), &["--trace", trace.to_str().unwrap()]);
    let session = client.open(&world).await;
    let mut call = Reply::default();
    call.event(
        &json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "function_call",
        "id": "f", "call_id": "c", "name": "read", "arguments": "{\"path\":\"seen.txt\"}"}}),
    );
    call.event(
        &json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}),
    );
    world.model.push(call);
    world.model.push(Reply::responses("done"));
    let (came, ended) = client.turn(&session, "Read it").await;
    ended.unwrap();
    client.close().await;
    let sent = serde_json::to_string(&world.model.requests()[1]["input"]).unwrap();
    assert!(sent.contains("[secret:codex.key]"), "{sent}");
    let recorded = std::fs::read_to_string(&trace).unwrap();
    for text in [&sent, &format!("{came:?}"), &recorded] {
        assert!(!text.contains(&new) && !text.contains(refresh));
    }
}
