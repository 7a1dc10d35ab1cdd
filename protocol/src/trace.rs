//! `--trace FILE`: everything that passes, redacted, in a form that replays as a transcript.
//!
//! The file holds one JSON object a line, appended, readable by its owner only:
//!
//! ```json
//! {"trace":1,"version":"0.1.0","unix_ms":1796061600000}
//! {"ms":0.412,"dir":">","frame":{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}}
//! {"ms":0.733,"dir":"<","frame":{"jsonrpc":"2.0","id":0,"result":{}}}
//! {"ms":9.120,"dir":">","text":"{not json"}
//! {"ms":9.180,"note":"a line of 67108864 bytes was not read"}
//! ```
//!
//! * A line with `trace` starts a recording (format version, version of this crate, wall clock); `ms` counts from it.
//! * `dir` is `>` from the editor to the agent and `<` back. `frame` is the message, members in their order; `text` is
//!   a line that was no JSON. To replay: send the `frame` (or `text`) of each `>` line, and expect those of `<`.
//! * Frames stand in the order in which each direction moved; a frame is recorded before it is written, so an answer
//!   never stands before its question.
//! * Redacted, as `"[redacted]"`: string values under keys that name a secret, all strings under `headers`, the values
//!   of `env`, and registered secrets wherever they occur.

use serde_json::{Map, Value, json};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

const REDACTED: &str = "[redacted]";
/// Shorter strings are not taken for secrets: replacing them would tear up ordinary text.
const MIN_SECRET: usize = 6;

/// Which way a line went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the editor.
    In,
    /// To the editor.
    Out,
}

/// A recording under way; clones write into the same file.
#[derive(Debug, Clone)]
pub struct Trace(Arc<Recording>);

struct Recording {
    file: Mutex<File>,
    started: Instant,
    secrets: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}

impl Trace {
    /// Opens the file for appending and writes the opening line.
    ///
    /// # Errors
    /// Where the file cannot be opened or written.
    pub fn open(path: &Path) -> io::Result<Trace> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        writeln!(file, "{}", json!({"trace": 1, "version": env!("CARGO_PKG_VERSION"), "unix_ms": unix_ms}))?;
        let recording = Recording { file: file.into(), started: Instant::now(), secrets: Mutex::default() };
        Ok(Trace(Arc::new(recording)))
    }

    /// From now on this text is redacted wherever it occurs.
    pub fn redact(&self, secret: &str) {
        let mut secrets = self.0.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if secret.len() >= MIN_SECRET && !secrets.iter().any(|s| s == secret) {
            secrets.push(secret.to_owned());
            // The longest first: one secret may contain another.
            secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
        }
    }

    /// Records one or more whole lines.
    pub(crate) fn record(&self, direction: Direction, lines: &[u8]) {
        let dir = if direction == Direction::In { ">" } else { "<" };
        for line in lines.split(|&b| b == b'\n').filter(|l| !l.is_empty()) {
            let (key, value) = match serde_json::from_slice(line) {
                Ok(frame) => ("frame", frame),
                Err(_) => ("text", Value::from(String::from_utf8_lossy(line))),
            };
            self.write([("dir", dir.into()), (key, self.redacted(value))]);
        }
    }

    /// Records something that is no frame.
    pub(crate) fn note(&self, note: &str) {
        self.write([("note", note.into())]);
    }

    fn write<const N: usize>(&self, fields: [(&str, Value); N]) {
        let ms = (self.0.started.elapsed().as_micros() as f64) / 1000.0;
        let mut entry = Map::from_iter([("ms".to_owned(), ms.into())]);
        entry.extend(fields.into_iter().map(|(k, v)| (k.to_owned(), v)));
        let line = Value::Object(entry).to_string() + "\n";
        let mut file = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not end the session.
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::warn!(%error, "writing the trace failed");
        }
    }

    fn redacted(&self, mut value: Value) -> Value {
        let secrets = self.0.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        redact(&mut value, false, &secrets);
        value
    }
}

/// `hidden`: every string from here on is secret.
fn redact(value: &mut Value, hidden: bool, secrets: &[String]) {
    match value {
        Value::String(text) if hidden => REDACTED.clone_into(text),
        Value::String(text) => {
            for secret in secrets {
                if text.contains(secret.as_str()) {
                    *text = text.replace(secret.as_str(), REDACTED);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, hidden, secrets)),
        Value::Object(members) => {
            // `[{name, value}]` is how ACP writes an environment and headers: the names stay readable.
            let pair = hidden && members.contains_key("name") && members.contains_key("value");
            for (key, member) in members {
                redact(member, hidden && !(pair && key == "name") || names_secret(key), secrets);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether what stands under this key is a secret.
fn names_secret(key: &str) -> bool {
    const WHOLE: [&str; 6] = ["env", "headers", "httpheaders", "authorization", "cookie", "setcookie"];
    const END: [&str; 7] =
        ["token", "apikey", "secret", "password", "passphrase", "privatekey", "credentials"];
    let key: String =
        key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    WHOLE.contains(&key.as_str()) || END.iter().any(|end| key.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(record: impl Fn(&Trace)) -> Vec<Value> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.jsonl");
        let trace = Trace::open(&path).unwrap();
        record(&trace);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        let first = lines.next().unwrap();
        assert_eq!(first["trace"], 1);
        lines.collect()
    }

    #[test]
    fn both_directions_are_recorded_in_order_with_time() {
        let lines = recorded(|t| {
            t.record(Direction::In, br#"{"id":0,"method":"a"}"#);
            t.record(Direction::Out, b"{\"id\":0,\"result\":{}}\n{\"method\":\"b\"}\n");
            t.record(Direction::In, b"{not json \xff");
            t.note("x");
        });
        let get = |i: usize| (&lines[i]["dir"], &lines[i]["frame"]);
        assert_eq!(get(0), (&json!(">"), &json!({"id":0,"method":"a"})));
        assert_eq!(get(1), (&json!("<"), &json!({"id":0,"result":{}})));
        assert_eq!(get(2), (&json!("<"), &json!({"method":"b"})));
        assert_eq!(lines[3]["text"], "{not json \u{fffd}");
        assert_eq!(lines[4]["note"], "x");
        let times: Vec<f64> = lines.iter().map(|l| l["ms"].as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] >= 0.0);
    }

    #[test]
    fn secrets_are_redacted_and_the_rest_is_not() {
        let frame = json!({"method":"session/new","params":{"cwd":"/w","mcpServers":[
            {"name":"a","command":"/bin/a","args":["--x"],"env":[{"name":"KEY","value":"s3"}]},
            {"type":"http","name":"b","url":"http://h","headers":[{"name":"Authorization","value":"Bearer s3"}]}],
            "_meta":{"api_key":"s3","access-token":"s3","nested":{"Authorization":{"deep":["s3"]}},"inputTokens":12,"maxTokens":"12",
            "env":{"HOME":"s3"},"text":"before sk-registered-secret after"}}});
        let lines = recorded(|t| {
            t.redact("short");
            t.redact("sk-registered-secret");
            t.record(Direction::In, frame.to_string().as_bytes());
            t.record(Direction::In, b"sk-registered-secret short");
        });
        let params = &lines[0]["frame"]["params"];
        let r = REDACTED;
        assert_eq!(params["mcpServers"][0]["env"], json!([{"name":"KEY","value":r}]));
        assert_eq!(params["mcpServers"][0]["args"], json!(["--x"]));
        assert_eq!(params["mcpServers"][1]["headers"], json!([{"name":"Authorization","value":r}]));
        let meta = json!({"api_key":r,"access-token":r,"nested":{"Authorization":{"deep":[r]}},"inputTokens":12,"maxTokens":"12",
            "env":{"HOME":r},"text":"before [redacted] after"});
        assert_eq!(params["_meta"], meta);
        assert_eq!(lines[1]["text"], "[redacted] short");
        assert!(!lines[0].to_string().contains("s3"));
    }
}
