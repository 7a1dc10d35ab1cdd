//! JSON-RPC lines to a server: requests out; updates, questions and responses in.
use super::ClientError;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, Lines};

/// One side of the pipe. Dropping the writer is how the server is told to end.
pub struct Connection<R, W> {
    lines: Lines<R>,
    writer: W,
    next_id: u64,
}

/// What a line of the server is.
#[derive(Debug)]
pub enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    Response {
        id: Value,
        result: Result<Value, RpcError>,
    },
    /// The server closed its output.
    Closed,
}

/// The error of a response.
#[derive(Clone, Debug, Deserialize)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    #[serde(default)]
    pub data: Option<Value>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<String>,
    params: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<RpcError>,
}

/// `null` is a value here, not an absence.
fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(d).map(Some)
}

impl<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub fn new(reader: R, writer: W) -> Self {
        Connection { lines: reader.lines(), writer, next_id: 0 }
    }

    /// The next message. Safe to drop while it waits: nothing is lost.
    pub async fn next(&mut self) -> Result<Incoming, ClientError> {
        let Some(line) = self.lines.next_line().await.map_err(ClientError::Pipe)? else {
            return Ok(Incoming::Closed);
        };
        let not_rpc = || ClientError::Protocol("the server wrote a line that is not JSON-RPC".to_owned());
        let line: Line = serde_json::from_str(&line).map_err(|_| not_rpc())?;
        let params = line.params.unwrap_or_default();
        match (line.id, line.method) {
            (Some(id), Some(method)) => Ok(Incoming::Request { id, method, params }),
            (None, Some(method)) => Ok(Incoming::Notification { method, params }),
            (Some(id), None) => match (line.error, line.result) {
                (Some(error), _) => Ok(Incoming::Response { id, result: Err(error) }),
                (None, Some(result)) => Ok(Incoming::Response { id, result: Ok(result) }),
                (None, None) => Err(not_rpc()),
            },
            (None, None) => Err(not_rpc()),
        }
    }

    /// Sends a request and gives its id.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        let id = Value::from(self.next_id);
        self.next_id += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        Ok(id)
    }
    pub async fn notify(&mut self, method: &str, params: Value) -> Result<(), ClientError> {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }
    pub async fn respond(&mut self, id: &Value, result: Value) -> Result<(), ClientError> {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await
    }
    pub async fn refuse(&mut self, id: &Value, code: i64, message: &str) -> Result<(), ClientError> {
        let error = json!({ "code": code, "message": message });
        self.send(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await
    }

    async fn send(&mut self, message: Value) -> Result<(), ClientError> {
        let mut line = message.to_string();
        line.push('\n');
        self.writer.write_all(line.as_bytes()).await.map_err(ClientError::Pipe)?;
        self.writer.flush().await.map_err(ClientError::Pipe)
    }
}
