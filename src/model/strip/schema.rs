//! A JSON Schema in the few words that every server knows.
use crate::model::dialect::gemini;
use serde_json::{Map, Value};

const KNOWN: [&str; 6] = ["type", "description", "properties", "required", "items", "enum"];

/// Types, descriptions, properties, items and enumerations: nothing else. Where one of several may be meant, the first is.
pub fn plain(schema: &Value) -> Value {
    bare(&gemini::clean_schema(schema))
}

fn bare(schema: &Value) -> Value {
    let Some(fields) = schema.as_object() else { return schema.clone() };
    let mut out = Map::new();
    if let Some(Value::Object(first)) = fields.get("anyOf").and_then(|any| any.get(0)).map(bare) {
        out.extend(first);
    }
    for (key, value) in fields.iter().filter(|(key, _)| KNOWN.contains(&key.as_str())) {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(all)) => {
                all.iter().map(|(name, p)| (name.clone(), bare(p))).collect::<Map<_, _>>().into()
            }
            ("items", items) => bare(items),
            (_, other) => other.clone(),
        };
        out.insert(key.clone(), value);
    }
    Value::Object(out)
}
