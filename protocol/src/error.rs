//! Errors at the boundary: ACP's on the wire, jsonrpsee's in the method table, and params that do not fit.

use crate::acp;
use jsonrpsee::types::ErrorObjectOwned;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::time::Duration;

/// The connection has ended; nothing can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection to the editor is closed")]
pub struct Closed;

/// Why a message to the client, or its answer, failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// No answer within the deadline. The request was withdrawn; what the client did with it is unknown if it was
    /// `sent`, and if not, it never saw it.
    #[error("the editor did not answer {method} within {} s", .after.as_secs_f32())]
    Timeout {
        /// The method asked.
        method: String,
        /// The deadline.
        after: Duration,
        /// Whether the request had been queued for the client when the time was up.
        sent: bool,
    },
    /// The connection ended first.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The client answered with an error.
    #[error("the editor refused: {} ({})", .0.message, i32::from(.0.code))]
    Rpc(acp::Error),
    /// The client answered with something else than the method's result. Names the field, never its value.
    #[error("the editor's answer to {method} is malformed: {why}")]
    Malformed {
        /// The method asked.
        method: String,
        /// What is wrong.
        why: String,
    },
    /// Our message would be longer than [`MAX_OUTPUT`](crate::frame::MAX_OUTPUT): shorten its content first.
    #[error("a {method} message of {bytes} bytes is over the limit of 1 MiB")]
    TooLarge {
        /// The method.
        method: String,
        /// Bytes of the whole line.
        bytes: usize,
    },
    /// The client did not advertise this (I8); nothing was sent.
    #[error("the editor does not offer {0}")]
    NotOffered(String),
    /// Our params could not be written as a JSON object: a fault of ours.
    #[error("{0} cannot be written as JSON")]
    Unserialisable(String),
}

/// An ACP error on its way through jsonrpsee's method table.
///
/// `?` turns an [`acp::Error`] into it, and jsonrpsee takes it as a handler's error.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct RpcError(pub acp::Error);

impl From<acp::Error> for RpcError {
    fn from(error: acp::Error) -> Self {
        RpcError(error)
    }
}

impl From<RpcError> for ErrorObjectOwned {
    fn from(RpcError(error): RpcError) -> Self {
        to_jsonrpsee(&error)
    }
}

/// ACP → jsonrpsee. Code, message and data are kept.
pub fn to_jsonrpsee(error: &acp::Error) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(error.code.into(), error.message.clone(), error.data.as_ref())
}

/// jsonrpsee → ACP. Code, message and data are kept.
pub fn from_jsonrpsee(error: &ErrorObjectOwned) -> acp::Error {
    let data = error.data().and_then(|raw| serde_json::from_str::<serde_json::Value>(raw.get()).ok());
    acp::Error::new(error.code(), error.message()).data(data)
}

/// -32602 that names the field (a path as `mcpServers[0].command`) and what is wrong with it, never its value.
pub fn invalid_params(field: &str, what: &str) -> acp::Error {
    let mut error = acp::Error::invalid_params();
    error.message = format!("Invalid params: `{field}`: {what}");
    error.data(json!({ "field": field, "reason": what }))
}

/// The params of a call as `T`; absent params count as `{}`.
///
/// # Errors
/// -32602 that names the field. An array is refused: serde would take it for the fields of a struct in order, and ACP
/// params are by name.
pub fn parse_params<T: DeserializeOwned>(params: Option<&str>) -> Result<T, acp::Error> {
    let text = params.unwrap_or("{}");
    parse_object(text).map_err(|(field, what)| invalid_params(&field, &what))
}

/// Parses a JSON object; the error is (path of the field, what is wrong with it).
pub(crate) fn parse_object<T: DeserializeOwned>(text: &str) -> Result<T, (String, String)> {
    if !text.trim_start().starts_with('{') {
        return Err(("params".into(), "must be an object".into()));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, why) = (error.path().to_string(), error.inner().to_string());
        let (field, what) = explain(&why);
        let field = match (path.as_str(), field) {
            (".", Some(field)) => field.to_owned(),
            (".", None) => "params".to_owned(),
            (_, Some(field)) => format!("{path}.{field}"),
            (_, None) => path,
        };
        (shorten(field), what)
    })
}

/// serde's message without the value in it: (the missing or unknown field, the reason).
fn explain(why: &str) -> (Option<&str>, String) {
    let quoted = |prefix: &str| why.strip_prefix(prefix).and_then(|rest| rest.split('`').next());
    if let Some(field) = quoted("missing field `") {
        return (Some(field), "is missing".into());
    }
    if let Some(field) = quoted("duplicate field `") {
        return (Some(field), "is given twice".into());
    }
    if quoted("unknown field `").is_some() {
        return (None, "has a field that does not belong there".into());
    }
    let wrong = ["invalid type: ", "invalid value: ", "invalid length ", "unknown variant `"];
    if wrong.iter().any(|w| why.starts_with(w))
        && let Some((_, expected)) = why.rsplit_once(", expected ")
    {
        let expected = expected.rsplit_once(" at line ").map_or(expected, |(e, _)| e);
        return (None, format!("expected {expected}"));
    }
    if why.starts_with("data did not match any variant") {
        return (None, "is of no known form".into());
    }
    (None, "is invalid".into())
}

/// A path may hold the client's own keys: kept, but short.
fn shorten(mut field: String) -> String {
    if let Some((at, _)) = field.char_indices().nth(200) {
        field.truncate(at);
        field.push('…');
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_params_name_the_field_and_never_its_value() {
        let new = |params| parse_params::<acp::NewSessionRequest>(Some(params)).unwrap_err();
        let table = [
            (new(r#"{"mcpServers":[]}"#), "cwd", "is missing"),
            (new(r#"{"cwd":7,"mcpServers":[]}"#), "cwd", "expected path string"),
            (new(r#"{"cwd":"/SECRET"}"#), "mcpServers", "is missing"),
            (new(r#"["/SECRET",[]]"#), "params", "must be an object"),
            (new(r#"null"#), "params", "must be an object"),
        ];
        for (error, field, what) in table {
            assert_eq!(i32::from(error.code), -32602);
            assert_eq!(error.data, Some(json!({"field": field, "reason": what})), "{}", error.message);
            assert!(!error.to_string().contains("SECRET"), "{error}");
        }
        let init =
            parse_params::<acp::InitializeRequest>(Some(r#"{"protocolVersion":"SECRET, expected x"}"#));
        let error = init.unwrap_err();
        assert!(
            error.message.starts_with("Invalid params: `protocolVersion`: expected "),
            "{}",
            error.message
        );
        assert!(!error.to_string().contains("SECRET"));
        let prompt = r#"{"sessionId":"s","prompt":[{"type":"text","text":"SECRET"},{"type":"SECRET"}]}"#;
        let error = parse_params::<acp::PromptRequest>(Some(prompt)).unwrap_err();
        assert!(error.message.contains("prompt[1]"), "{}", error.message);
        assert!(!error.to_string().contains("SECRET"), "{error}");
    }

    #[test]
    fn absent_params_are_an_empty_object() {
        assert!(parse_params::<acp::ListSessionsRequest>(None).is_ok());
        let error = parse_params::<acp::NewSessionRequest>(None).unwrap_err();
        assert!(error.message.contains("cwd"));
    }

    #[test]
    fn errors_survive_the_method_table_both_ways() {
        for error in
            [acp::Error::session_not_found("s"), acp::Error::auth_required(), acp::Error::new(7, "x")]
        {
            assert_eq!(from_jsonrpsee(&to_jsonrpsee(&error)), error);
        }
    }
}
