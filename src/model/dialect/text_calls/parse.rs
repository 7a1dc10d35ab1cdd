//! The formats themselves.
use super::Found;
use crate::{log::ToolSpec, model::dialect::calls::unwrapped};
use serde_json::{Map, Value};

/// A reply that is nothing but calls as JSON, in a fence or not.
pub fn whole(text: &str, tools: &[ToolSpec]) -> Option<Vec<Found>> {
    let mut text = text.trim();
    if let Some(fenced) = text.strip_prefix("```") {
        text = fenced.strip_suffix("```").unwrap_or(fenced);
        text = super::LABELS.iter().find_map(|l| text.strip_prefix(l)).unwrap_or(text).trim_start();
        if text.starts_with('<') {
            return in_tags(text, tools);
        }
    }
    // The end of a fence that never began.
    let text = text.strip_suffix("```").unwrap_or(text);
    if text.starts_with('<') { in_tags(text, tools) } else { calls(text, tools, false) }
}

/// Whether a call has the arguments that its tool asks for.
pub fn is_complete(name: &str, args: &str, tools: &[ToolSpec]) -> bool {
    let Some(tool) = tools.iter().find(|t| t.name == name) else { return false };
    let args: Value = serde_json::from_str(args).unwrap_or_default();
    let required = tool.schema.get("required").and_then(Value::as_array).into_iter().flatten();
    required.filter_map(Value::as_str).all(|key| args.get(key).is_some())
}

/// The call that text begins with, whatever follows.
pub fn leading(text: &str, tools: &[ToolSpec]) -> Option<Found> {
    let value = serde_json::Deserializer::from_str(text).into_iter::<Value>().next()?.ok()?;
    object(&value, tools, false)
}

/// Nothing but calls in tags.
fn in_tags(text: &str, tools: &[ToolSpec]) -> Option<Vec<Found>> {
    marked(text.trim_end(), tools).filter(|found| !found.iter().any(is_text))
}

fn is_text(found: &Found) -> bool {
    matches!(found, Found::Text(_))
}

/// Text from a mark on: calls, and what stands between them.
pub fn marked(text: &str, tools: &[ToolSpec]) -> Option<Vec<Found>> {
    if text.starts_with("<|channel|>") || text.starts_with("<|start|>") {
        return harmony(text, tools);
    }
    let (mut out, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let (found, after) = one(rest, tools)?;
        out.extend(found);
        rest = after;
        // Words behind the calls are text, up to the next mark.
        let next = super::MARKS.iter().filter_map(|m| rest.find(m)).min().unwrap_or(rest.len());
        let words = rest[..next].trim();
        if !words.is_empty() && !words.starts_with("</") {
            out.push(Found::Text(rest[..next].to_owned()));
        }
        rest = &rest[next..];
    }
    out.iter().any(|f| matches!(f, Found::Call { .. })).then_some(out)
}

/// The calls that a mark begins, and what follows them.
fn one<'a>(text: &'a str, tools: &[ToolSpec]) -> Option<(Vec<Found>, &'a str)> {
    if let Some(inner) = text.strip_prefix("<tool_call>") {
        let (inner, after) = inner.split_once("</tool_call>").unwrap_or((inner, ""));
        let found = if inner.contains("<function=") {
            vec![function(inner.trim(), tools)?]
        } else if inner.contains("<arg_key>") {
            vec![arg_keys(inner, tools)?]
        } else {
            // In these tags nothing else can be meant: a name that no tool has is answered with those that there are.
            calls(inner, tools, true)?
        };
        return Some((found, after));
    }
    if let Some(inner) = text.strip_prefix("<|tool_call|>").or_else(|| text.strip_prefix("<|python_tag|>")) {
        let at = inner.find("<|").unwrap_or(inner.len());
        return Some((calls(&inner[..at], tools, false)?, unended(&inner[at..])));
    }
    if text.starts_with("<function=") {
        let at = text.find("</function>").map_or(text.len(), |at| at + "</function>".len());
        return Some((
            vec![function(&text[..at], tools)?],
            text[at..].trim_start().strip_prefix("</tool_call>").unwrap_or(&text[at..]),
        ));
    }
    invokes(text, tools)
        .or_else(|| mistral(text, tools))
        .or_else(|| deepseek(text, tools))
        .or_else(|| kimi(text, tools))
}

/// `<invoke name=…>` in the tags of the models that write it.
fn invokes<'a>(text: &'a str, tools: &[ToolSpec]) -> Option<(Vec<Found>, &'a str)> {
    for (begin, end, invoke, parameter) in [
        ("<minimax:tool_call>", "</minimax:tool_call>", "<invoke name=", "<parameter name="),
        ("<function_calls>", "</function_calls>", "<invoke name=", "<parameter name="),
        (
            "<｜DSML｜function_calls>",
            "</｜DSML｜function_calls>",
            "<｜DSML｜invoke name=",
            "<｜DSML｜parameter name=",
        ),
    ] {
        if let Some(inner) = text.strip_prefix(begin) {
            let (inner, after) = inner.split_once(end).unwrap_or((inner, ""));
            let found = inner.split(invoke).skip(1).map(|one| self::invoke(one, parameter, tools));
            return Some((found.collect::<Option<Vec<_>>>().filter(|f| !f.is_empty())?, after));
        }
    }
    None
}

fn mistral<'a>(text: &'a str, tools: &[ToolSpec]) -> Option<(Vec<Found>, &'a str)> {
    let inner = text.strip_prefix("[TOOL_CALLS]")?;
    let (inner, after) = inner.find("[TOOL_CALLS]").map_or((inner, ""), |at| inner.split_at(at));
    let found = match inner.split_once("[ARGS]") {
        Some((name, args)) => {
            vec![call(name.split("[CALL_ID]").next().unwrap_or(name), args, tools, false)?]
        }
        None => calls(inner, tools, false).or_else(|| {
            inner.find('{').and_then(|at| Some(vec![call(&inner[..at], &inner[at..], tools, false)?]))
        })?,
    };
    Some((found, after))
}

fn deepseek<'a>(text: &'a str, tools: &[ToolSpec]) -> Option<(Vec<Found>, &'a str)> {
    if !text.starts_with("<｜tool") {
        return None;
    }
    let end = "<｜tool▁calls▁end｜>";
    let at = text.find(end).unwrap_or(text.len());
    let mut found = Vec::new();
    for piece in text[..at].split("<｜tool▁call▁begin｜>").skip(1) {
        let piece = piece.split("<｜tool▁call▁end｜>").next()?;
        let (left, right) = piece.split_once("<｜tool▁sep｜>")?;
        // Before version 3.1: function, separator, name, fenced arguments.
        found.push(match right.split_once("```json") {
            Some((name, args)) if left.trim() == "function" => {
                call(name, args.trim_end().trim_end_matches("```"), tools, false)?
            }
            _ => call(left, right, tools, false)?,
        });
    }
    Some((found, text[at..].strip_prefix(end).unwrap_or("")))
}

fn kimi<'a>(text: &'a str, tools: &[ToolSpec]) -> Option<(Vec<Found>, &'a str)> {
    let inner = text.strip_prefix("<|tool_calls_section_begin|>")?;
    let (inner, after) = inner.split_once("<|tool_calls_section_end|>").unwrap_or((inner, ""));
    let mut found = Vec::new();
    for piece in inner.split("<|tool_call_begin|>").skip(1) {
        let piece = piece.split("<|tool_call_end|>").next()?;
        let (id, args) = piece.split_once("<|tool_call_argument_begin|>")?;
        // The id is `functions.<name>:<number>`.
        found.push(call(id.trim().split(':').next()?, args, tools, false)?);
    }
    Some((found, after))
}

/// gpt-oss: channels for thinking, for calls and for the answer.
/// <https://cookbook.openai.com/articles/openai-harmony>
fn harmony(text: &str, tools: &[ToolSpec]) -> Option<Vec<Found>> {
    let mut out = Vec::new();
    let pieces: Vec<&str> = text.split("<|channel|>").collect();
    for (piece, before) in pieces.iter().skip(1).zip(&pieces) {
        // Who is called stands in the head, or in front of the channel.
        let lead = before.rsplit_once("<|start|>").map_or("", |(_, lead)| lead);
        let (head, body) = piece.split_once("<|message|>")?;
        let body = ["<|end|>", "<|call|>", "<|return|>", "<|start|>"]
            .iter()
            .fold(body, |b, end| b.split(end).next().unwrap_or(b));
        if let Some(to) = [head, lead].iter().find_map(|h| h.split_once("to=").map(|(_, to)| to)) {
            let name = to.split([' ', '<']).next()?;
            out.push(call(name, body, tools, false)?);
        } else if head.trim().starts_with("analysis") {
            out.push(Found::Thinking(body.to_owned()));
        } else {
            out.push(Found::Text(body.to_owned()));
        }
    }
    (!out.is_empty()).then_some(out)
}

/// What follows, without marks of an end.
fn unended(text: &str) -> &str {
    ["<|eom_id|>", "<|eot_id|>", "<|end_of_text|>", "<|/tool_call|>"]
        .iter()
        .find_map(|end| text.strip_prefix(end))
        .unwrap_or(text)
}

/// `"name"><parameter name="key" …>value</parameter>…`, what stands behind `<invoke name=`.
fn invoke(text: &str, parameter: &str, tools: &[ToolSpec]) -> Option<Found> {
    let (name, rest) = text.split_once('>')?;
    let tool = tool(name, tools)?;
    let mut args = Map::new();
    for one in rest.split(parameter).skip(1) {
        let (head, value) = one.split_once('>')?;
        let key = head.trim().trim_start_matches('"').split('"').next()?;
        let value = &value[..value.find("</")?];
        args.insert(key.to_owned(), typed(tool, key, value));
    }
    Some(Found::Call { name: tool.name.clone(), args: Value::Object(args).to_string() })
}

/// `<function=name><parameter=key>value</parameter>…</function>`, or the arguments as JSON (Llama 3).
fn function(text: &str, tools: &[ToolSpec]) -> Option<Found> {
    let (name, mut rest) = text.strip_prefix("<function=")?.split_once('>')?;
    let tool = tool(name, tools)?;
    if rest.trim_start().starts_with('{') {
        return call(name, rest.split("</function>").next()?, tools, false);
    }
    let mut args = Map::new();
    while let Some(at) = rest.find("<parameter=") {
        let (key, value) = rest[at + "<parameter=".len()..].split_once('>')?;
        let (value, after) = value.split_once("</parameter>")?;
        args.insert(key.trim().to_owned(), typed(tool, key.trim(), value));
        rest = after;
    }
    Some(Found::Call { name: tool.name.clone(), args: Value::Object(args).to_string() })
}

/// `name` and then `<arg_key>key</arg_key><arg_value>value</arg_value>` (GLM).
fn arg_keys(text: &str, tools: &[ToolSpec]) -> Option<Found> {
    let (name, mut rest) = text.split_at(text.find("<arg_key>")?);
    let tool = tool(name, tools)?;
    let mut args = Map::new();
    while let Some((_, pair)) = rest.split_once("<arg_key>") {
        let (key, after) = pair.split_once("</arg_key>")?;
        let (value, after) = after.split_once("<arg_value>")?.1.split_once("</arg_value>")?;
        args.insert(key.trim().to_owned(), typed(tool, key.trim(), value));
        rest = after;
    }
    Some(Found::Call { name: tool.name.clone(), args: Value::Object(args).to_string() })
}

/// A value in markup: text where the tool wants text, else JSON if it is that.
fn typed(tool: &ToolSpec, key: &str, value: &str) -> Value {
    // The markup puts values on lines of their own.
    let value = value.strip_prefix('\n').unwrap_or(value);
    let value = value.strip_suffix('\n').unwrap_or(value);
    let kind = tool.schema.pointer("/properties").and_then(|p| p.get(key)?.get("type"));
    if kind.is_some_and(|k| k != "string") {
        return serde_json::from_str(value.trim()).unwrap_or_else(|_| value.into());
    }
    value.into()
}

/// One call or several as JSON: `{"name": …, "arguments": …}`, one after the other or in an array.
fn calls(text: &str, tools: &[ToolSpec], any: bool) -> Option<Vec<Found>> {
    let mut out = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value.ok()? {
            Value::Array(all) => {
                for one in &all {
                    out.push(object(one, tools, any)?);
                }
            }
            one => match one.get("tool_calls").and_then(Value::as_array) {
                Some(all) => {
                    for one in all {
                        out.push(object(one, tools, any)?);
                    }
                }
                None => out.push(object(&one, tools, any)?),
            },
        }
    }
    (!out.is_empty()).then_some(out)
}

fn object(value: &Value, tools: &[ToolSpec], any: bool) -> Option<Found> {
    // OpenAI's own form nests both under `function`.
    let value = value.get("function").filter(|f| f.is_object()).unwrap_or(value);
    let name = ["name", "function", "tool"].iter().find_map(|k| value.get(k)?.as_str())?;
    let args = ["arguments", "parameters", "args", "input"].iter().find_map(|k| value.get(k));
    match args {
        Some(Value::String(text)) => call(name, text, tools, any),
        Some(args) => call(name, &args.to_string(), tools, any),
        None => None,
    }
}

/// `any`: a name that no tool has will do, if it is one.
fn call(name: &str, args: &str, tools: &[ToolSpec], any: bool) -> Option<Found> {
    let name = match tool(name, tools) {
        Some(tool) => tool.name.clone(),
        None if any && is_name(name) => name.to_owned(),
        None => return None,
    };
    let args = unwrapped(args.trim().to_owned());
    crate::model::dialect::calls::is_object(&args).then_some(Found::Call { name, args })
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

/// The tool that a name means, where that is beyond doubt: only case, `_` and `-` may differ, and only one may fit.
fn tool<'a>(name: &str, tools: &'a [ToolSpec]) -> Option<&'a ToolSpec> {
    let name = name.trim().trim_matches('"');
    let name = ["functions.", "functions:", "default_api."]
        .iter()
        .find_map(|p| name.strip_prefix(p))
        .unwrap_or(name);
    if let Some(tool) = tools.iter().find(|t| t.name == name) {
        return Some(tool);
    }
    let plain = |name: &str| {
        name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect::<String>()
    };
    let wanted = plain(name);
    let mut fitting = tools.iter().filter(|t| !wanted.is_empty() && plain(&t.name) == wanted);
    fitting.next().filter(|_| fitting.next().is_none())
}
