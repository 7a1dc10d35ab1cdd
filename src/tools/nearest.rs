//! Which tool a model meant by a name that none has.
use super::{DynTool, ToolError, Tools};
use std::sync::Arc;

/// The tool of that name; else the only one whose name differs in nothing but case, `_`, `-`, spaces or a `functions.` in front.
pub fn nearest<'t>(name: &str, tools: &'t Tools) -> Option<&'t Arc<dyn DynTool>> {
    if let Some(tool) = tools.iter().find(|t| t.name() == name) {
        return Some(tool);
    }
    let wanted = plain(name);
    let mut same = tools.iter().filter(|t| plain(t.name()) == wanted);
    match (same.next(), same.next()) {
        (Some(tool), None) => Some(tool),
        _ => None,
    }
}

/// What a model is told of a tool that does not exist.
pub fn unknown(name: &str, tools: &Tools) -> ToolError {
    let wanted = plain(name);
    let close = tools
        .iter()
        .map(|t| (strsim::normalized_damerau_levenshtein(&wanted, &plain(t.name())), t.name()))
        .filter(|(score, _)| *score >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = close.map(|(_, name)| format!(" Did you mean `{name}`?")).unwrap_or_default();
    let names: Vec<_> = tools.iter().map(|t| t.name()).collect();
    let name = super::display::one_line(name, 80);
    ToolError::BadArguments(format!("there is no tool `{name}`.{hint} The tools are: {}", names.join(", ")))
}

fn plain(name: &str) -> String {
    let name = name.trim();
    let name = name.strip_prefix("functions.").unwrap_or(name);
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::builtin;

    #[test]
    fn only_spelling_is_repaired() {
        let tools = builtin();
        for (name, want) in [
            ("read", Some("read")),
            ("Read", Some("read")),
            ("functions.grep", Some("grep")),
            ("apply-patch", Some("apply_patch")),
            ("ApplyPatch", Some("apply_patch")),
            ("raed", None),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, &tools).map(|t| t.name()), want, "{name}");
        }
        assert!(unknown("raed", &tools).to_string().contains("Did you mean `read`?"));
        let text = unknown("frobnicate", &tools).to_string();
        assert!(text.contains("no tool `frobnicate`") && text.contains("terminal") && !text.contains("mean"));
    }
}
