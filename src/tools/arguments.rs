//! The arguments of a call as models send them, made the JSON object that was meant.
//!
//! Only what can be meant in one way is repaired. Arguments that were cut off are never run.
use super::ToolError;
use serde_json::{Map, Value};

/// Reads the arguments of a call: always a JSON object.
///
/// Repaired: nothing at all (`{}`), an object inside a string, a code fence or words around one object, the same object twice,
/// trailing commas, Python's `True`, `False` and `None`, raw line breaks in strings.
///
/// # Errors
/// [`ToolError::BadArguments`] when the text was cut off, or is not one object. It never repeats the text.
pub fn parse(raw: &str) -> Result<Value, ToolError> {
    parse_nested(raw, true)
}

fn parse_nested(raw: &str, strings: bool) -> Result<Value, ToolError> {
    let text = raw.trim();
    if text.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(Value::Null) => return Ok(Value::Object(Map::new())),
        Ok(Value::String(inner)) if strings => return parse_nested(&inner, false),
        Ok(object @ Value::Object(_)) => return Ok(object),
        Ok(other) => return Err(not_an_object(&other)),
        Err(_) => {}
    }
    let Some(start) = text.find('{') else {
        return Err(bad("they are not a JSON object"));
    };
    if text[..start].trim_end().ends_with('[') {
        return Err(bad("they are a list, not one JSON object"));
    }
    let (first, end) = object(&text[start..])?;
    let mut rest = &text[start + end..];
    while let Some(next) = rest.find('{') {
        let (again, end) = object(&rest[next..])?;
        if again != first {
            return Err(bad("there is more than one JSON object; make one call for each"));
        }
        rest = &rest[next + end..];
    }
    Ok(first)
}

fn not_an_object(value: &Value) -> ToolError {
    bad(match value {
        Value::Array(_) => "they are a list, not one JSON object",
        Value::String(_) => "they are text, not a JSON object",
        _ => "they are a plain value, not a JSON object",
    })
}

fn bad(what: &str) -> ToolError {
    ToolError::BadArguments(format!("the arguments of this call could not be read: {what}. Nothing was run"))
}

/// The object at the start of `text`, and where it ends.
fn object(text: &str) -> Result<(Value, usize), ToolError> {
    let Some((repaired, end)) = repair(text) else {
        return Err(bad(
            "they were cut off before their end (too long for one reply?). Send the call again, in smaller parts if it is long",
        ));
    };
    let value =
        serde_json::from_str(&repaired).map_err(|e| bad(&format!("they are not valid JSON ({e})")))?;
    Ok((value, end))
}

/// Copies one object, repairing on the way; `None` when the text ends inside it.
fn repair(text: &str) -> Option<(String, usize)> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.char_indices().peekable();
    let mut depth = 0usize;
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                out.push('"');
                string(&mut chars, &mut out)?;
            }
            '{' | '[' => {
                depth += 1;
                out.push(c);
            }
            '}' | ']' => {
                depth -= 1;
                out.push(c);
                if depth == 0 {
                    return Some((out, at + 1));
                }
            }
            ',' => {
                let next = text[at + 1..].trim_start().chars().next();
                if !matches!(next, Some('}' | ']')) {
                    out.push(',');
                }
            }
            c if c.is_alphabetic() => {
                let word = &text
                    [at..at + text[at..].find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len() - at)];
                out.push_str(match word {
                    "True" => "true",
                    "False" => "false",
                    "None" => "null",
                    other => other,
                });
                while chars.next_if(|(i, _)| *i < at + word.len()).is_some() {}
            }
            c => out.push(c),
        }
    }
    None
}

/// Copies the rest of a string with its closing quote; `None` when the text ends inside it.
fn string(chars: &mut impl Iterator<Item = (usize, char)>, out: &mut String) -> Option<()> {
    loop {
        match chars.next()?.1 {
            '"' => {
                out.push('"');
                return Some(());
            }
            '\\' => match chars.next()?.1 {
                '\'' => out.push('\''),
                c => out.extend(['\\', c]),
            },
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

/// Fits values to the types that the schema asks for where a model wrote the right thing in the wrong type: `"10"` for 10, `"true"`
/// for true, a list as JSON text, one item for a list of one, `null` for nothing, `In Progress` for `in_progress`.
pub(super) fn fit(value: &mut Value, schema: &Value) {
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    match (kind, &mut *value) {
        ("integer", Value::String(s)) => {
            if let Ok(n) = s.trim().parse::<i64>() {
                *value = n.into();
            }
        }
        ("integer", Value::Number(n)) => {
            if let Some(f) = n.as_f64().filter(|f| n.is_f64() && f.fract() == 0.0 && f.abs() < 1e15) {
                *value = (f as i64).into();
            }
        }
        ("number", Value::String(s)) => {
            if let Some(n) = s.trim().parse().ok().and_then(serde_json::Number::from_f64) {
                *value = Value::Number(n);
            }
        }
        ("boolean", Value::String(s)) => match s.trim().to_ascii_lowercase().as_str() {
            "true" => *value = true.into(),
            "false" => *value = false.into(),
            _ => {}
        },
        ("array" | "object", Value::String(s)) => {
            let inner: Option<Value> = serde_json::from_str(s).ok();
            if let Some(inner) = inner.filter(|v| if kind == "array" { v.is_array() } else { v.is_object() })
            {
                *value = inner;
            }
        }
        ("string", Value::String(s)) => {
            if let Some(one) = choice(s, schema) {
                *value = one.into();
            }
        }
        _ => {}
    }
    inside(value, schema, kind);
}

/// The only allowed value that `written` differs from in nothing but case and separators.
fn choice(written: &str, schema: &Value) -> Option<String> {
    let plain = |s: &str| -> String {
        s.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let allowed: Vec<_> = schema.get("enum")?.as_array()?.iter().filter_map(Value::as_str).collect();
    if allowed.contains(&written) {
        return None;
    }
    let mut same = allowed.into_iter().filter(|a| plain(a) == plain(written));
    same.next().filter(|_| same.next().is_none()).map(str::to_owned)
}

fn inside(value: &mut Value, schema: &Value, kind: &str) {
    if kind == "array"
        && let Some(items) = schema.get("items")
    {
        if value.is_object() && items.get("type").is_some_and(|t| t == "object") {
            *value = Value::Array(vec![value.take()]);
        }
        if let Value::Array(values) = value {
            values.iter_mut().for_each(|v| fit(v, items));
        }
    }
    let required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|r| r.iter().any(|n| n == name))
    };
    if let (Value::Object(fields), Some(properties)) =
        (value, schema.get("properties").and_then(Value::as_object))
    {
        fields.retain(|name, v| !v.is_null() || required(name));
        for (name, property) in properties {
            if let Some(field) = fields.get_mut(name) {
                fit(field, property);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_can_be_meant_in_one_way_is_read() {
        let want = json!({"path": "a.txt", "all": true});
        for raw in [
            r#"{"path":"a.txt","all":true}"#,
            r#""{\"path\":\"a.txt\",\"all\":true}""#,
            "```json\n{\"path\":\"a.txt\",\"all\":true}\n```",
            r#"Here it is: {"path":"a.txt","all":true} as you asked"#,
            r#"{"path":"a.txt","all":true,}"#,
            r#"{"path":"a.txt","all":True}"#,
            r#"{"path":"a.txt","all":true}{"path":"a.txt","all":true}"#,
            r#"{"path":"a.txt","all":true}}"#,
        ] {
            assert_eq!(parse(raw).unwrap(), want, "{raw}");
        }
        for (raw, want) in [
            ("", json!({})),
            ("null", json!({})),
            ("{\"a\":\"x\ny\"}", json!({"a": "x\ny"})),
            (r#"{"a":"it\'s, True }",}"#, json!({"a": "it's, True }"})),
            (r#"{"a":[1,2,],"b":None}"#, json!({"a": [1, 2], "b": null})),
        ] {
            assert_eq!(parse(raw).unwrap(), want, "{raw}");
        }
    }

    #[test]
    fn what_was_cut_or_is_not_clear_is_refused() {
        for (raw, why) in [
            (r#"{"path": "a.txt", "limit":"#, "cut off"),
            (r#"{"path": "a.t"#, "cut off"),
            (r#"{"path": "a.txt\"#, "cut off"),
            ("{", "cut off"),
            (r#""{\"path\": \"a.t""#, "cut off"),
            (r#"{"a":1}{"a":2}"#, "more than one"),
            (r#"[{"a":1}]"#, "a list"),
            (r#"[{"a":1,}]"#, "a list"),
            ("42", "plain value"),
            ("read the file", "not a JSON object"),
            (r#"{"a" 1}"#, "not valid JSON"),
            (r#"{'a': 1}"#, "not valid JSON"),
        ] {
            let error = parse(raw).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("Nothing was run"), "{raw}: {error}");
        }
    }

    #[test]
    fn values_fit_the_schema() {
        let schema = json!({"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string"}, "limit": {"type": "integer"}, "timeout": {"type": "number"}, "all": {"type": "boolean"},
            "todos": {"type": "array", "items": {"type": "object", "properties": {
                "status": {"type": "string", "enum": ["pending", "in_progress"]}}}},
        }});
        for (given, want) in [
            (json!({"path": "7", "limit": "10"}), json!({"path": "7", "limit": 10})),
            (json!({"path": "x", "limit": 10.0}), json!({"path": "x", "limit": 10})),
            (json!({"path": "x", "limit": null, "all": "True"}), json!({"path": "x", "all": true})),
            (json!({"path": null}), json!({"path": null})),
            (
                json!({"path": 42, "limit": "ten", "timeout": "1.5"}),
                json!({"path": 42, "limit": "ten", "timeout": 1.5}),
            ),
            (
                json!({"path": "x", "todos": "[{\"status\": \"In Progress\"}]"}),
                json!({"path": "x", "todos": [{"status": "in_progress"}]}),
            ),
            (
                json!({"path": "x", "todos": {"status": "odd"}}),
                json!({"path": "x", "todos": [{"status": "odd"}]}),
            ),
        ] {
            let mut value = given;
            fit(&mut value, &schema);
            assert_eq!(value, want);
        }
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics_and_keeps_valid_objects(key in ".*", text in ".*", cut in 0usize..64) {
            let object = json!({ key: text });
            let raw = object.to_string();
            assert_eq!(parse(&raw).unwrap(), object);
            let cut: String = raw.chars().take(cut.min(raw.chars().count() - 1)).collect();
            if let Ok(value) = parse(&cut) {
                assert_eq!(value, json!({}), "cut text was read: {cut}");
            }
        }
    }
}
