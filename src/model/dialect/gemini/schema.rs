//! JSON Schema as Gemini's function declarations take it: a subset of OpenAPI 3.0.
//! <https://ai.google.dev/api/caching#Schema>
use serde_json::{Map, Value, json};

/// Depth at which a schema is cut: references may go round in circles.
const DEEPEST: usize = 16;

/// The schema with what Gemini refuses taken out or said in its words.
pub fn clean(schema: &Value) -> Value {
    let defs = schema.get("$defs").or_else(|| schema.get("definitions"));
    part(schema, defs, 0)
}

fn part(schema: &Value, defs: Option<&Value>, depth: usize) -> Value {
    let Some(fields) = schema.as_object().filter(|_| depth < DEEPEST) else {
        return json!({ "type": "string" });
    };
    if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
        let name = target.rsplit('/').next().unwrap_or_default();
        return defs
            .and_then(|d| d.get(name))
            .map_or_else(|| json!({ "type": "object" }), |d| part(d, defs, depth + 1));
    }
    let mut out = Map::new();
    for (key, value) in fields {
        match key.as_str() {
            "type" => kind(value, &mut out),
            "description" | "title" | "required" | "nullable" | "minimum" | "maximum" | "minItems"
            | "maxItems" | "minLength" | "maxLength" | "pattern" => {
                out.insert(key.clone(), value.clone());
            }
            // Only these two formats are known for strings.
            "format" if value == "enum" || value == "date-time" => {
                out.insert(key.clone(), value.clone());
            }
            "enum" => choices(value.as_array().into_iter().flatten(), &mut out),
            "const" => choices([value].into_iter(), &mut out),
            "items" => {
                out.insert(key.clone(), part(value, defs, depth + 1));
            }
            "properties" => {
                let all = value.as_object().into_iter().flatten();
                out.insert(
                    key.clone(),
                    all.map(|(name, p)| (name.clone(), part(p, defs, depth + 1)))
                        .collect::<Map<_, _>>()
                        .into(),
                );
            }
            "anyOf" | "oneOf" => any_of(value, defs, depth, &mut out),
            "allOf" => {
                for one in value.as_array().into_iter().flatten() {
                    if let Value::Object(one) = part(one, defs, depth + 1) {
                        out.extend(one);
                    }
                }
            }
            _ => {}
        }
    }
    finish(&mut out);
    Value::Object(out)
}

/// `["string", "null"]` is a string that may be null.
fn kind(value: &Value, out: &mut Map<String, Value>) {
    match value {
        Value::Array(all) => {
            if all.iter().any(|t| t == "null") {
                out.insert("nullable".into(), true.into());
            }
            if let Some(first) = all.iter().find(|t| *t != "null") {
                out.insert("type".into(), first.clone());
            }
        }
        one => {
            out.insert("type".into(), one.clone());
        }
    }
}

/// An enumeration has strings only.
fn choices<'a>(values: impl Iterator<Item = &'a Value>, out: &mut Map<String, Value>) {
    let values: Vec<Value> = values.filter(|v| !v.is_null()).cloned().collect();
    if !values.is_empty() && values.iter().all(Value::is_string) {
        out.insert("enum".into(), values.into());
        out.insert("type".into(), "string".into());
    }
}

fn any_of(value: &Value, defs: Option<&Value>, depth: usize, out: &mut Map<String, Value>) {
    let all = value.as_array().into_iter().flatten();
    let null = |v: &&Value| v.get("type").is_some_and(|t| t == "null");
    if all.clone().any(|v| null(&v)) {
        out.insert("nullable".into(), true.into());
    }
    let mut rest: Vec<Value> = all.filter(|v| !null(v)).map(|v| part(v, defs, depth + 1)).collect();
    match rest.len() {
        0 => {}
        1 => {
            if let Some(Value::Object(one)) = rest.pop() {
                for (key, value) in one {
                    out.entry(key).or_insert(value);
                }
            }
        }
        _ => {
            out.insert("anyOf".into(), rest.into());
        }
    }
}

/// A type is asked for; names that are required must be there.
fn finish(out: &mut Map<String, Value>) {
    if !out.contains_key("type") && !out.contains_key("anyOf") {
        let kind = if out.contains_key("properties") {
            "object"
        } else if out.contains_key("items") {
            "array"
        } else {
            "string"
        };
        out.insert("type".into(), kind.into());
    }
    if out.get("type").is_some_and(|t| t == "array") && !out.contains_key("items") {
        out.insert("items".into(), json!({ "type": "string" }));
    }
    let names: Vec<String> = out
        .get("properties")
        .and_then(Value::as_object)
        .map(|p| p.keys().cloned().collect())
        .unwrap_or_default();
    if let Some(Value::Array(required)) = out.get_mut("required") {
        required.retain(|r| r.as_str().is_some_and(|r| names.iter().any(|n| n == r)));
        if required.is_empty() {
            out.remove("required");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gemini_refuses_is_said_in_its_words() {
        for (given, want) in [
            (
                json!({"$schema": "x", "type": "object", "additionalProperties": false, "properties": {"a": {"type": ["string", "null"], "default": "x"}}, "required": ["a", "gone"]}),
                json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}}, "required": ["a"]}),
            ),
            (
                json!({"anyOf": [{"type": "integer", "format": "uint32"}, {"type": "null"}]}),
                json!({"nullable": true, "type": "integer"}),
            ),
            (
                json!({"$ref": "#/$defs/E", "$defs": {"E": {"enum": ["a", "b"]}}}),
                json!({"enum": ["a", "b"], "type": "string"}),
            ),
            (
                json!({"oneOf": [{"const": "a"}, {"const": "b"}]}),
                json!({"anyOf": [{"enum": ["a"], "type": "string"}, {"enum": ["b"], "type": "string"}]}),
            ),
            (json!({"type": "integer", "enum": [1, 2]}), json!({"type": "integer"})),
            (json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}})),
            (json!({"description": "d"}), json!({"description": "d", "type": "string"})),
            (json!(true), json!({"type": "string"})),
        ] {
            assert_eq!(clean(&given), want, "{given}");
        }
    }

    #[test]
    fn a_schema_that_holds_itself_ends() {
        let round = json!({"$ref": "#/$defs/N", "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}});
        assert!(clean(&round).to_string().len() < 2000);
    }
}
