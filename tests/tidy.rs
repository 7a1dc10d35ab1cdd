//! The rules of the tree that no compiler checks (I23–I26).
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Files over 500 lines, each with the reason.
const LONG_FILES: &[(&str, &str)] = &[];
/// Functions over 60 lines, each with the reason.
const LONG_FUNCTIONS: &[(&str, &str)] = &[];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the product, as (path from the root, text).
fn sources() -> Vec<(String, String)> {
    let mut out = Vec::new();
    for folder in ["src", "protocol/src"] {
        walk(&root().join(folder), &mut out);
    }
    assert!(out.len() > 40, "the walk found only {} files", out.len());
    out
}

fn walk(folder: &Path, out: &mut Vec<(String, String)>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let name = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
            out.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

fn is_test(name: &str) -> bool {
    name.contains("tests") || name.ends_with("_test.rs") || name.contains("/fake")
}

/// The text in front of the tests of a file.
fn product(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests {").map_or(text, |at| &text[..at])
}

fn report(what: &str, mut faults: Vec<String>) {
    faults.sort();
    assert!(faults.is_empty(), "{what}:\n  {}", faults.join("\n  "));
}

#[test]
fn i26_files_are_short() {
    let faults = sources()
        .iter()
        .filter(|(name, text)| text.lines().count() > 500 && !LONG_FILES.iter().any(|(f, _)| f == name))
        .map(|(name, text)| format!("{name}: {} lines", text.lines().count()))
        .collect();
    report("files over 500 lines", faults);
}

#[test]
fn i26_functions_are_short() {
    let mut faults = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| !is_test(name)) {
        for (function, lines) in functions(product(text)) {
            let known = LONG_FUNCTIONS.iter().any(|(f, _)| *f == format!("{name}:{function}"));
            if lines > 60 && !known {
                faults.push(format!("{name}: fn {function} has {lines} lines"));
            }
        }
    }
    report("functions over 60 lines", faults);
}

/// (name, lines) of each function, by the indentation that rustfmt gives its closing brace.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words = line.trim_start();
        let Some(at) = words.find("fn ") else { continue };
        // Declared, not defined.
        if words.ends_with(';') {
            continue;
        }
        let head = &words[..at];
        if !head
            .split_whitespace()
            .all(|w| w.starts_with("pub") || ["async", "const", "unsafe", "extern"].contains(&w))
        {
            continue;
        }
        let name: String = words[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let close = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[i..].iter().position(|l| *l == close) {
            out.push((name, length + 1));
        }
    }
    out
}

#[test]
fn i23_acp_types_stay_in_acp() {
    let allowed = ["src/acp/", "src/cli/", "src/main.rs", "src/server.rs", "protocol/"];
    let faults = sources()
        .iter()
        .filter(|(name, _)| !allowed.iter().any(|a| name.starts_with(a)))
        .filter(|(_, text)| text.contains("agent_client_protocol_schema") || text.contains("hermes_protocol"))
        .map(|(name, _)| name.clone())
        .collect();
    report("files outside acp/ that name ACP types", faults);
}

#[test]
fn i24_turns_and_tools_spawn_nothing() {
    let faults = sources()
        .iter()
        .filter(|(name, _)| {
            (name.starts_with("src/agent/") || name.starts_with("src/tools/")) && !is_test(name)
        })
        .filter(|(_, text)| product(text).contains("tokio::spawn") || product(text).contains("task::spawn("))
        .map(|(name, _)| name.clone())
        .collect();
    report("files that spawn", faults);
}

/// Which modules may name which, as ARCHITECTURE.md says. A module that is not listed may name none.
const ARROWS: &[(&str, &[&str])] = &[
    ("id", &[]),
    ("clock", &[]),
    ("secret", &[]),
    ("log", &["clock", "id"]),
    ("effects", &["permit", "workspace"]),
    ("permit", &["effects", "log"]),
    ("store", &["log", "id", "clock", "permit", "config"]),
    ("config", &["log", "secret"]),
    ("model", &["log", "id", "secret", "clock", "config"]),
    ("workspace", &["effects", "log", "permit", "id", "secret"]),
    ("tools", &["workspace", "effects", "permit", "log", "id"]),
    ("agent", &["secret", "log", "effects", "model", "tools", "permit", "store", "workspace", "id", "clock"]),
    ("acp", &["agent", "log", "id", "clock", "permit", "workspace", "model", "store"]),
];

#[test]
fn i25_arrows_run_one_way() {
    let mut faults = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| name.starts_with("src/") && !is_test(name)) {
        let module = name["src/".len()..].split(['/', '.']).next().unwrap();
        let Some((_, allowed)) = ARROWS.iter().find(|(m, _)| *m == module) else { continue };
        for named in named_modules(product(text)) {
            if named != module && !allowed.contains(&named.as_str()) {
                faults.push(format!("{name} names crate::{named}"));
            }
        }
    }
    faults.dedup();
    report("arrows that ARCHITECTURE.md does not have", faults);
}

/// The modules of this crate that a text names, in `crate::x` and in `use crate::{x, y::{a, b}}`.
fn named_modules(text: &str) -> Vec<String> {
    let ident =
        |s: &str| s.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut out = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => out.extend(items(group).into_iter().map(ident)),
            None => out.push(ident(rest)),
        }
    }
    out.retain(|m| ARROWS.iter().any(|(known, _)| known == m));
    out
}

/// The items of a `{a, b::{c, d}}` group, its opening brace already taken.
fn items(group: &str) -> Vec<&str> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                out.push(&group[start..i]);
                start = i + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    out
}

#[test]
fn named_modules_are_found_in_groups() {
    let text = "use crate::{\n    id::{A, B},\n    log::*,\n};\nlet x = crate::store::open();";
    assert_eq!(named_modules(text), ["id", "log", "store"]);
}

#[test]
fn nothing_is_left_undone() {
    let marks =
        [concat!("to", "do!"), concat!("unimpl", "emented!"), concat!("#[ig", "nore"), concat!("db", "g!(")];
    let mut faults = Vec::new();
    for (name, text) in sources() {
        faults.extend(marks.iter().filter(|m| text.contains(**m)).map(|m| format!("{name}: {m}")));
    }
    report("marks of unfinished work", faults);
}

#[test]
fn every_dependency_has_a_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let mut section = String::new();
    let mut faults = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.to_owned();
        } else if section.contains("dependencies")
            && line.contains('=')
            && !line.contains(" # ")
            && !line.contains("workspace = true")
        {
            faults.push(line.to_owned());
        }
    }
    report("dependencies without a reason", faults);
}

#[test]
fn every_dependency_is_used() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let all: String = sources().into_iter().filter(|(n, _)| n.starts_with("src/")).map(|(_, t)| t).collect();
    let mut section = String::new();
    let mut faults = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.to_owned();
        } else if let Some((name, _)) = line.split_once(" = ")
            && (section == "[dependencies]" || section.starts_with("[target"))
        {
            let ident = name.trim().replace('-', "_");
            if !all.contains(&format!("{ident}::")) && !all.contains(&format!("use {ident}")) {
                faults.push(name.to_owned());
            }
        }
    }
    report("dependencies that nothing uses", faults);
}

/// A tool has the text that the model reads, and cases.
#[test]
fn every_tool_is_documented_and_tested() {
    let mut faults = Vec::new();
    for tool in hermes::tools::builtin() {
        let name = tool.name().to_owned();
        if tool.spec().description.len() < 40 {
            faults.push(format!("{name}: no description"));
        }
        if !root().join("fixtures/tools").join(&name).is_dir() {
            faults.push(format!("{name}: no cases in fixtures/tools/{name}"));
        }
        let readme = fs::read_to_string(root().join("README.md")).unwrap_or_default();
        if !readme.contains(&format!("`{name}`")) {
            faults.push(format!("{name}: not in README.md"));
        }
    }
    report("tools", faults);
}

/// Every stable method of the schema is served, or `protocol/README.md` says why not.
#[test]
fn every_method_is_in_the_table() {
    let readme = fs::read_to_string(root().join("protocol/README.md")).unwrap();
    let names = serde_json::to_value(agent_client_protocol_schema::v1::AGENT_METHOD_NAMES).unwrap();
    let methods: Vec<&str> = names.as_object().unwrap().values().filter_map(|v| v.as_str()).collect();
    assert!(methods.len() >= 12, "{methods:?}");
    let faults =
        methods.iter().filter(|m| !readme.contains(&format!("`{m}`"))).map(|m| m.to_string()).collect();
    report("methods that protocol/README.md does not have", faults);
}

/// No path of a machine, and no word about how the project was made.
#[test]
fn nothing_speaks_of_a_machine() {
    let marks = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("../sha", "red")];
    let mut faults = Vec::new();
    for (name, text) in sources() {
        faults.extend(marks.iter().filter(|m| text.contains(**m)).map(|m| format!("{name}: {m}")));
    }
    report("paths of a machine", faults);
}
