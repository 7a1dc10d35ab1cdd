//! From typed tools to what the turn holds.
use super::{Cx, DynTool, Output, Prepared, Tool, ToolError, arguments};
use crate::{
    effects::Effects,
    log::{Location, ToolKind, ToolSpec},
    workspace::Reader,
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;

/// Erases the type of a tool's arguments.
pub fn erase<T: Tool>(tool: T) -> Arc<dyn DynTool> {
    Arc::new(Erased { tool: Arc::new(tool), schema: schema_of::<T::Args>() })
}

struct Erased<T> {
    tool: Arc<T>,
    schema: Value,
}

struct Ready<T: Tool> {
    tool: Arc<T>,
    args: T::Args,
}

impl<T: Tool> DynTool for Erased<T> {
    fn name(&self) -> &str {
        T::NAME
    }
    fn kind(&self) -> ToolKind {
        T::KIND
    }
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: T::NAME.into(), description: T::DOC.trim().into(), schema: self.schema.clone() }
    }
    fn prepare(&self, mut args: Value) -> Result<Box<dyn Prepared>, ToolError> {
        arguments::fit(&mut args, &self.schema);
        let args = serde_path_to_error::deserialize(args).map_err(|e| {
            let path = e.path().to_string();
            let at = if path == "." { String::new() } else { format!("`{path}`: ") };
            ToolError::BadArguments(format!(
                "invalid arguments for {}: {at}{}",
                T::NAME,
                super::display::one_line(&e.inner().to_string(), 300)
            ))
        })?;
        Ok(Box::new(Ready { tool: self.tool.clone(), args }))
    }
}

impl<T: Tool> Prepared for Ready<T> {
    fn title(&self, ws: &dyn Reader) -> String {
        self.tool.title(&self.args, ws)
    }
    fn locations(&self, ws: &dyn Reader) -> Vec<Location> {
        self.tool.locations(&self.args, ws)
    }
    fn plan<'a>(&'a self, ws: &'a dyn Reader) -> BoxFuture<'a, Result<Effects, ToolError>> {
        self.tool.plan(&self.args, ws)
    }
    fn run<'a>(self: Box<Self>, effects: Effects, cx: Cx<'a>) -> BoxFuture<'a, Result<Output, ToolError>>
    where
        Self: 'a,
    {
        Box::pin(async move { self.tool.run(self.args, effects, cx).await })
    }
}

/// The schema of a tool's arguments in the plain form every provider takes: one object, no `$schema`, no titles,
/// no references.
fn schema_of<A: schemars::JsonSchema>() -> Value {
    let mut settings = schemars::generate::SchemaSettings::draft07();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    strip(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.remove("description");
        object.entry("type").or_insert_with(|| "object".into());
        object.entry("properties").or_insert_with(|| Value::Object(Default::default()));
    }
    schema
}

/// Removes `title`, `format` and `$schema` from schemas, never from the names of properties.
fn strip(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for key in ["title", "format", "$schema", "minimum"] {
        object.remove(key);
    }
    // `["string", "null"]` says no more than leaving the property out, and some providers refuse it.
    if let Some(Value::Array(types)) = object.get("type")
        && let Some(kind) = types.iter().find(|t| *t != "null").cloned()
    {
        object.insert("type".into(), kind);
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    for (key, value) in object.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(strip),
            ("items", items) => strip(items),
            ("anyOf" | "oneOf" | "allOf", Value::Array(options)) => options.iter_mut().for_each(strip),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Args {
        /// The file.
        title: String,
        limit: Option<u32>,
        #[serde(default)]
        all: bool,
    }

    #[test]
    fn schemas_are_plain() {
        assert_eq!(
            schema_of::<Args>(),
            json!({
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "The file."},
                    "limit": {"type": "integer"},
                    "all": {"type": "boolean", "default": false},
                },
                "required": ["title"],
            })
        );
    }
}
