//! What went wrong at a provider: one classifier for every dialect, of statuses, error bodies and errors inside a stream.
//!
//! Codes and types are looked at before words; "per minute" vetoes "too long" (a token rate is not a context).
use super::{ErrorKind, ModelError};
use crate::secret::Secret;
use serde_json::Value;
use std::{fmt::Write, time::Duration};

/// The most characters of a provider's own words that an error carries.
const DETAIL_CHARS: usize = 300;

/// Longer than anybody waits.
const NEVER: Duration = Duration::from_secs(400 * 86_400);
/// A refusal without a word is how some servers (Cerebras) say that a request is too long.
const SILENT: &str = "it gave no reason; some servers refuse without one what is too long for the model";

/// A failure before it is known whose it is: decoders yield it, `http` adds the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub kind: ErrorKind,
    pub status: Option<u16>,
    /// The provider's words, or ours where it has none; cut and cleaned by [`Failure::at`].
    pub detail: String,
    pub retry_after: Option<Duration>,
}

impl Failure {
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Failure { kind, status: None, detail: detail.into(), retry_after: None }
    }
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Malformed, detail)
    }
    /// The stream ended without saying that the reply is complete.
    pub fn early() -> Self {
        Self::malformed("the reply ended early: the stream closed before the model said that it was done")
    }
    /// The reply was cut off because it filled the model's window: shorter messages make room to go on.
    pub fn window_full() -> Self {
        Self::new(ErrorKind::TooLong, "the reply was cut off where the context window was full")
    }
    /// A status other than 200 with this body.
    pub fn of_response(status: u16, body: &str) -> Self {
        let said = Said::of_body(body);
        let (kind, detail) = if said.is_empty() && matches!(status, 400 | 413) {
            (ErrorKind::TooLong, SILENT.into())
        } else {
            (classify(Some(status), &said), said.message.clone())
        };
        let mut retry_after = said.retry_after.or_else(|| wait_in(&said.message));
        // One request above the limit of a minute never fits, however long one waits.
        if kind == ErrorKind::RateLimit && said.message.to_lowercase().contains("request too large") {
            retry_after = Some(NEVER);
        }
        Failure { kind, status: Some(status), detail, retry_after }
    }
    /// An error object inside a stream that began with 200.
    pub fn of_error(error: &Value) -> Self {
        let said = Said::of(error);
        let status = said.code.parse().ok().filter(|s| (400..600).contains(s));
        let kind = classify(status, &said);
        let retry_after = said.retry_after.or_else(|| wait_in(&said.message));
        let detail =
            if said.message.is_empty() { "the provider gave no reason".into() } else { said.message };
        Failure { kind, status, detail, retry_after }
    }
    /// The error as a person reads it: which host, which status, what it said, what to do.
    pub fn at(self, host: &str, key: Option<&Secret>, hint: Option<&str>) -> ModelError {
        let detail = clean(&self.detail, key);
        let status = match self.status {
            Some(status) => format!("{host} answered {status} ({})", words(self.kind)),
            None => format!("{host}: {}", words(self.kind)),
        };
        let mut message = if detail.is_empty() { status } else { format!("{status}: {detail}") };
        if let Some(wait) = self.retry_after.filter(|w| *w > Duration::from_secs(60) && *w < NEVER) {
            let _ = write!(message, "{} It is free again in {}.", full_stop(&message), long(wait));
        }
        if let Some(hint) = hint.or_else(|| what_to_do(self.kind)) {
            let _ = write!(message, "{} {hint}", full_stop(&message));
        }
        ModelError {
            kind: self.kind,
            message,
            host: host.into(),
            status: self.status,
            retry_after: self.retry_after,
        }
    }
}

/// The few fields that say something, from any of the shapes error bodies have.
#[derive(Debug, Default)]
struct Said {
    message: String,
    code: String,
    kind: String,
    retry_after: Option<Duration>,
    /// Names of the quotas that ran out (Google's `QuotaFailure`).
    quotas: String,
}

impl Said {
    fn is_empty(&self) -> bool {
        self.message.is_empty() && self.code.is_empty() && self.kind.is_empty()
    }
    fn of_body(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::of(&value),
            // A page is not quoted; a line of plain text is the server's message.
            Err(_) if body.trim_start().starts_with('<') => {
                Said { message: "(a web page)".into(), ..Said::default() }
            }
            Err(_) => Said { message: body.trim().into(), ..Said::default() },
        }
    }
    fn of(value: &Value) -> Self {
        let value = match value {
            Value::Array(all) => all.first().unwrap_or(&Value::Null),
            other => other,
        };
        if let Some(error) = value.get("error").filter(|e| e.is_object()) {
            return Self::of_object(error);
        }
        if let Some(response) = value.get("response").and_then(|r| r.get("error")).filter(|e| e.is_object()) {
            return Self::of_object(response);
        }
        Self::of_object(value)
    }
    fn of_object(error: &Value) -> Self {
        let text = |key: &str| match error.get(key) {
            Some(Value::String(s)) => s.clone(),
            Some(Value::Number(n)) => n.to_string(),
            _ => String::new(),
        };
        let mut said =
            Said { message: text("message"), code: text("code"), kind: text("type"), ..Said::default() };
        if said.kind.is_empty() {
            said.kind = text("status");
        }
        if said.message.is_empty() {
            said.message = match error {
                Value::String(s) => s.clone(),
                _ => [text("error"), text("detail"), text("msg"), first_detail(error)]
                    .into_iter()
                    .find(|s| !s.is_empty())
                    .unwrap_or_default(),
            };
        }
        // OpenRouter wraps the words of the provider behind it.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            let inner = Self::of_body(raw).message;
            if !inner.is_empty() && inner != said.message {
                said.message = format!("{}: {inner}", said.message);
            }
        }
        if let Some(param) = error.get("param").and_then(Value::as_str).filter(|p| !said.message.contains(p))
        {
            said.message = format!("{} ({param})", said.message);
        }
        if let Some(seconds) = error.get("resets_in_seconds").and_then(Value::as_f64) {
            said.retry_after = duration(seconds);
        }
        for detail in error.get("details").and_then(Value::as_array).into_iter().flatten() {
            if let Some(delay) = detail.get("retryDelay").and_then(Value::as_str) {
                said.retry_after = delay.strip_suffix('s').and_then(|s| s.parse().ok()).and_then(duration);
            }
            for violation in detail.get("violations").and_then(Value::as_array).into_iter().flatten() {
                said.quotas.push_str(violation.get("quotaId").and_then(Value::as_str).unwrap_or_default());
            }
        }
        said
    }
}

/// FastAPI's `detail: [{loc, msg, input}]`: the place and the words, never the input.
fn first_detail(error: &Value) -> String {
    let Some(first) = error.get("detail").and_then(Value::as_array).and_then(|d| d.first()) else {
        return String::new();
    };
    let place: Vec<String> = first
        .get("loc")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|p| p.as_str().map_or_else(|| p.to_string(), str::to_owned))
        .collect();
    format!("{}: {}", place.join("."), first.get("msg").and_then(Value::as_str).unwrap_or_default())
}

const TOO_LONG_CODES: [&str; 5] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "request_too_large",
    "string_above_max_length",
];
const TOO_LONG_WORDS: [&str; 25] = [
    "`inputs` tokens",
    "larger than the model's context",
    "context length",
    "context window",
    "context size",
    "context limit",
    "maximum context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "exceeds the maximum number of tokens",
    "maximum prompt length",
    "reduce the length",
    "model token limit",
    "token limit reached",
    "token limit exceeded",
    "prompt token count",
    "more than max tokens",
    "range of input length",
    "exceeds the maximum size",
    "too many tokens",
    "input token count",
    "max_model_len",
    "maximum allowed input length",
    "tokens exceeds the model",
];
const QUOTA: [&str; 12] = [
    "insufficient_quota",
    "billing_hard_limit",
    "usage_limit_reached",
    "usage_not_included",
    "insufficient balance",
    "insufficient_balance",
    "insufficient credits",
    "credit balance is too low",
    "out of credits",
    "exceeded your current quota",
    "exceeded_current_quota",
    "payment required",
];
const STALE: [&str; 11] = [
    "corrupted thought signature",
    "invalid thought signature",
    "thought signature is not valid",
    "invalid_encrypted_content",
    "encrypted content",
    "without its required 'reasoning' item",
    "required following item",
    "items are not persisted",
    "signature in thinking",
    "`signature` in `thinking`",
    "blocks in the latest assistant message cannot be modified",
];
const AUTH: [&str; 8] = [
    "invalid_api_key",
    "authentication_error",
    "api key not valid",
    "api_key_invalid",
    "incorrect api key",
    "invalid api key",
    "unauthenticated",
    "token_expired",
];
const OVERLOADED: [&str; 9] = [
    "overloaded",
    "server_is_overloaded",
    "slow_down",
    "unavailable_error",
    "service_unavailable",
    "server_error",
    "api_error",
    "internal_error",
    "insufficient_system_resource",
];
/// llama.cpp, Hugging Face.
const LOADING: [&str; 4] =
    ["loading model", "model is loading", "is currently loading", "model is still loading"];
const NO_MODEL: [&str; 8] = [
    "no endpoints found",
    "decommissioned",
    "model_not_found",
    "not a valid model id",
    "no such model",
    "unknown model",
    "model not found",
    "model_not_available",
];
const REFUSED: [&str; 8] = [
    "was flagged",
    "prompt_blocked",
    "content_filter",
    "content_policy",
    "content management policy",
    "usage policy",
    "responsibleaipolicy",
    "data_inspection_failed",
];

/// Which kind of failure this is; see the table in the tests.
fn classify(status: Option<u16>, said: &Said) -> ErrorKind {
    let message = said.message.to_lowercase();
    let names = format!("{} {}", said.code, said.kind).to_lowercase();
    let any = |list: &[&str]| list.iter().any(|w| names.contains(w) || message.contains(w));
    let rate = status == Some(429)
        || ["per min", "per second", "(tpm)", "(rpm)", "please wait before"]
            .iter()
            .any(|w| message.contains(w))
        || ["rate_limit", "resource_exhausted", "throttl"].iter().any(|w| names.contains(w));
    let per_day = said.quotas.to_lowercase().contains("perday") || message.contains("per day");
    if status == Some(402)
        || (any(&QUOTA)
            && !(rate && said.retry_after.is_some() && !per_day && names.contains("resource_exhausted")))
    {
        return ErrorKind::Quota;
    }
    if rate {
        return if per_day && names.contains("resource_exhausted") {
            ErrorKind::Quota
        } else {
            ErrorKind::RateLimit
        };
    }
    if TOO_LONG_CODES.iter().any(|c| names.contains(c))
        || (TOO_LONG_WORDS.iter().any(|w| message.contains(w)) && !message.contains("unsupported parameter"))
        || (message.contains("tokens to keep from the initial prompt") && message.contains("context"))
    {
        return ErrorKind::TooLong;
    }
    if any(&STALE) || (message.contains("'rs_") && message.contains("not found")) {
        return ErrorKind::StaleReasoning;
    }
    if any(&AUTH) {
        return ErrorKind::Auth;
    }
    if any(&NO_MODEL)
        || (message.contains("model")
            && (status == Some(404) || message.contains("does not exist") || message.contains("not found"))
            && !message.contains("max_tokens"))
    {
        return ErrorKind::ModelNotFound;
    }
    if any(&REFUSED) {
        return ErrorKind::Refused;
    }
    if any(&LOADING) {
        return ErrorKind::Loading;
    }
    match status {
        Some(401 | 403) => ErrorKind::Auth,
        Some(408 | 504 | 524) => ErrorKind::Timeout,
        Some(413) => ErrorKind::TooLong,
        Some(425 | 500..) => ErrorKind::Overloaded,
        Some(300..=399) => ErrorKind::BadRequest,
        _ if any(&OVERLOADED) || names.contains("unavailable") => ErrorKind::Overloaded,
        Some(400..=499) => ErrorKind::BadRequest,
        _ if names.contains("invalid_request") || names.contains("invalid_argument") => ErrorKind::BadRequest,
        _ => ErrorKind::Overloaded,
    }
}

/// The wait that the words of an error name: "try again in 11.054s", "in 6m0s", "in 20ms", "retry after 5 seconds".
fn wait_in(message: &str) -> Option<Duration> {
    let message = message.to_lowercase();
    let after = ["try again in ", "retry in ", "retry after ", "retry_after: ", "wait "]
        .iter()
        .find_map(|w| message.find(w).map(|at| &message[at + w.len()..]))?;
    let (mut total, mut rest, mut found) = (0.0, after, false);
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let Ok(number) = rest[..digits].trim_end_matches('.').parse::<f64>() else { break };
        let tail = rest[digits..].trim_start();
        let unit = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let scale = match &tail[..unit] {
            "ms" | "milliseconds" => 0.001,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "" | "s" | "sec" | "second" | "seconds" => 1.0,
            _ => break,
        };
        total += number * scale;
        found = true;
        rest = &tail[unit..];
    }
    found.then(|| duration(total)).flatten()
}

fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|d| *d < Duration::from_secs(366 * 86_400))
}

fn words(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Auth => "the credentials were refused",
        ErrorKind::Quota => "the quota is used up",
        ErrorKind::RateLimit => "rate limited",
        ErrorKind::Overloaded => "the service is unavailable",
        ErrorKind::Loading => "the model is being loaded",
        ErrorKind::Rotated => "the key was refused",
        ErrorKind::TooLong => "the conversation is too long for the model",
        ErrorKind::Refused => "the provider refused the content",
        ErrorKind::StaleReasoning => "earlier reasoning is no longer accepted",
        ErrorKind::BadRequest => "the request was refused",
        ErrorKind::ModelNotFound => "no such model",
        ErrorKind::Network => "the connection failed",
        ErrorKind::Timeout => "timed out",
        ErrorKind::Tls => "no trusted connection",
        ErrorKind::Malformed => "not a valid reply",
    }
}

fn what_to_do(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Quota => "Check the plan and billing of the account, or choose another model.",
        ErrorKind::RateLimit | ErrorKind::Overloaded => "Try again in a while, or choose another model.",
        ErrorKind::TooLong => "Start a new session or shorten the conversation.",
        ErrorKind::ModelNotFound => "Choose another model.",
        ErrorKind::Malformed => "Check that the base URL is that of the model API; else try again.",
        _ => return None,
    })
}

/// What ends a sentence that has no end.
fn full_stop(text: &str) -> &'static str {
    if text.ends_with(['.', '!', '?']) { "" } else { "." }
}

/// A long time, as a person says it.
fn long(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60);
    match (minutes / (24 * 60), minutes / 60 % 24, minutes % 60) {
        (0, 0, m) => format!("{m} min"),
        (0, h, m) => format!("{h} h {m} min"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}

/// The provider's words on one line, bounded, without keys.
pub fn clean(text: &str, key: Option<&Secret>) -> String {
    let key = key.map(Secret::expose).filter(|k| k.len() >= 4);
    let text = key.map_or_else(|| text.to_owned(), |k| text.replace(k, "[key]"));
    let mut out = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        if looks_secret(word) { out.push_str("[key]") } else { out.push_str(word) }
    }
    if out.chars().count() > DETAIL_CHARS {
        out = out.chars().take(DETAIL_CHARS - 1).chain(['…']).collect();
    }
    out
}

/// Providers quote the key that they refuse, in part or whole.
fn looks_secret(word: &str) -> bool {
    let starts = ["sk-", "gsk_", "xai-", "AIza", "pplx-", "hf_", "eyJ", "Bearer"];
    let at = starts.iter().filter_map(|s| word.find(s)).min();
    at.is_some_and(|at| {
        word[at..].chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '*' | '-' | '_')).count() >= 10
    })
}

#[cfg(test)]
mod tests;
