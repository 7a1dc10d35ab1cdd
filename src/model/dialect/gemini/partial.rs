//! A call whose arguments come in pieces: each names the place that it belongs to.
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling#streaming-fc>
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest array and the deepest place that pieces may build.
const LONGEST: usize = 10_000;
const DEEPEST: usize = 64;

/// A call that has not ended.
#[derive(Debug, Default)]
pub struct Open {
    pub id: Option<String>,
    pub name: String,
    pub signature: Option<String>,
    /// Arguments that came in one piece, as they were written.
    whole: Option<String>,
    args: Map<String, Value>,
    /// The place whose text goes on with the next piece.
    growing: Option<String>,
}

/// One piece of the arguments.
#[derive(Deserialize)]
pub struct Piece {
    #[serde(rename = "jsonPath", default)]
    path: String,
    #[serde(rename = "stringValue", default)]
    string: Option<String>,
    #[serde(rename = "numberValue", default)]
    number: Option<serde_json::Number>,
    #[serde(rename = "boolValue", default)]
    boolean: Option<bool>,
    #[serde(rename = "willContinue", default)]
    goes_on: Option<bool>,
}

impl Open {
    pub fn new(id: Option<String>, name: String, signature: Option<String>) -> Self {
        Open { id, name, signature, ..Open::default() }
    }
    /// Arguments that came whole.
    pub fn whole(&mut self, args: &str) {
        self.whole = Some(args.to_owned());
    }

    pub fn piece(&mut self, piece: Piece) {
        let grows = self.growing.as_deref() == Some(&piece.path);
        self.growing = piece.goes_on.unwrap_or(false).then(|| piece.path.clone());
        let value = match piece {
            Piece { string: Some(text), .. } => Value::String(text),
            Piece { number: Some(number), .. } => Value::Number(number),
            Piece { boolean: Some(boolean), .. } => Value::Bool(boolean),
            // The end of a text that grew; else a null.
            _ if grows => return,
            _ => Value::Null,
        };
        let Some(steps) = steps(&piece.path) else { return };
        let mut all = Value::Object(std::mem::take(&mut self.args));
        if let Some(place) = place(&mut all, &steps) {
            match (place, value) {
                (Value::String(text), Value::String(more)) if grows => text.push_str(&more),
                (place, value) => *place = value,
            }
        }
        if let Value::Object(all) = all {
            self.args = all;
        }
    }

    pub fn args(&self) -> String {
        if let Some(whole) = self.whole.as_ref().filter(|_| self.args.is_empty()) {
            return whole.clone();
        }
        // A map of JSON values is always JSON.
        serde_json::to_string(&self.args).unwrap_or_default()
    }
}

#[derive(Debug, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

/// `$.a.b[0]` and `$['a']["b"][0]` (RFC 9535, normal names and indexes alone).
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut out = Vec::new();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let quote = inside.chars().next().filter(|c| matches!(c, '\'' | '"'));
            let (step, after) = match quote {
                Some(quote) => {
                    let (name, after) = inside[1..].split_once(quote)?;
                    (Step::Key(name.to_owned()), after.strip_prefix(']')?)
                }
                None => {
                    let (index, after) = inside.split_once(']')?;
                    (Step::Index(index.trim().parse().ok().filter(|i| *i < LONGEST)?), after)
                }
            };
            out.push(step);
            rest = after;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                return None;
            }
            out.push(Step::Key(name[..end].to_owned()));
            rest = &name[end..];
        }
    }
    (matches!(out.first(), Some(Step::Key(_))) && out.len() <= DEEPEST).then_some(out)
}

/// The value at a place, made where it is missing.
fn place<'v>(mut at: &'v mut Value, steps: &[Step]) -> Option<&'v mut Value> {
    for step in steps {
        at = match step {
            Step::Key(name) => {
                if !at.is_object() {
                    *at = Value::Object(Map::new());
                }
                at.as_object_mut()?.entry(name.clone()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if !at.is_array() {
                    *at = Value::Array(Vec::new());
                }
                let all = at.as_array_mut()?;
                if all.len() <= *index {
                    all.resize(index + 1, Value::Null);
                }
                all.get_mut(*index)?
            }
        };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn built(pieces: &[Value]) -> Value {
        let mut open = Open::default();
        for piece in pieces {
            open.piece(serde_json::from_value(piece.clone()).unwrap());
        }
        serde_json::from_str(&open.args()).unwrap()
    }

    #[test]
    fn pieces_find_their_places() {
        let got = built(&[
            json!({"jsonPath": "$.a", "stringValue": "one ", "willContinue": true}),
            json!({"jsonPath": "$.a", "stringValue": "two", "willContinue": true}),
            json!({"jsonPath": "$.a", "stringValue": ""}),
            json!({"jsonPath": "$.list[1].n", "numberValue": 2.5}),
            json!({"jsonPath": "$.list[0].n", "numberValue": 1}),
            json!({"jsonPath": "$['odd name'][\"x\"]", "boolValue": true}),
            json!({"jsonPath": "$.none", "nullValue": null}),
            // Not told to go on: said anew.
            json!({"jsonPath": "$.b", "stringValue": "x"}),
            json!({"jsonPath": "$.b", "stringValue": "y"}),
        ]);
        assert_eq!(
            got,
            json!({"a": "one two", "list": [{"n": 1}, {"n": 2.5}], "odd name": {"x": true}, "none": null, "b": "y"})
        );
    }

    #[test]
    fn what_is_no_place_is_left_out() {
        for path in ["", "$", "$[0]", "$.a[99999999]", "$.a[x]", "$..a", "$.a['b", "$.a["] {
            assert_eq!(built(&[json!({"jsonPath": path, "stringValue": "x"})]), json!({}), "{path}");
        }
        let deep = format!("$.a{}", "[0]".repeat(100));
        assert_eq!(built(&[json!({"jsonPath": deep, "stringValue": "x"})]), json!({}));
    }
}
