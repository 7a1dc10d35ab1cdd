//! What `editors/` offers to paste is well formed, and the registry's rules hold for our entry.
use serde_json::Value;
use std::{fs, path::PathBuf};

fn editors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("editors")
}
fn json(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(editors().join(file)).unwrap()).unwrap()
}

#[test]
fn settings_to_paste_name_the_program_without_arguments() {
    for file in ["zed/settings.json", "jetbrains/acp.json"] {
        let hermes = &json(file)["agent_servers"]["Hermes"];
        assert!(hermes["command"].as_str().unwrap().ends_with("/hermes-editor"), "{file}");
        assert_eq!(hermes["args"], Value::Array(vec![]), "{file}");
    }
    for file in ["neovim/codecompanion.lua", "neovim/avante.lua", "emacs/hermes.el"] {
        assert!(
            fs::read_to_string(editors().join(file)).unwrap().contains("\"/path/to/hermes-editor\""),
            "{file}"
        );
    }
}

/// The names of an ACP adapter's functions: `lua/codecompanion/adapters/acp/` of CodeCompanion 19.
#[test]
fn code_companion_finds_the_functions_that_it_calls() {
    let adapter = fs::read_to_string(editors().join("neovim/codecompanion.lua")).unwrap();
    for name in
        ["setup = function", "auth = function", "form_messages = helpers.form_messages", "on_exit = function"]
    {
        assert!(adapter.contains(&format!("            {name}")), "{name}");
    }
}

/// <https://github.com/agentclientprotocol/registry>, FORMAT.md and agent.schema.json.
#[test]
fn the_registry_entry_keeps_the_rules() {
    let agent = json("registry/agent.json");
    let keys = ["id", "name", "version", "description", "repository", "license", "distribution"];
    assert!(
        agent.as_object().unwrap().keys().all(|k| keys.contains(&k.as_str())),
        "unknown keys are refused"
    );
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(agent["version"], version);
    for (system, row) in agent["distribution"]["binary"].as_object().unwrap() {
        let (os, processor) = system.split_once('-').unwrap();
        assert!(["darwin", "linux", "windows"].contains(&os) && ["aarch64", "x86_64"].contains(&processor));
        let archive = row["archive"].as_str().unwrap();
        assert!(
            archive.contains(&format!("/v{version}/")) && archive.contains(&format!("-{version}-{system}."))
        );
        assert!(archive.ends_with(".tar.gz") || archive.ends_with(".zip"), "{archive}");
    }
    let icon = fs::read_to_string(editors().join("registry/icon.svg")).unwrap();
    assert!(
        icon.contains("viewBox=\"0 0 16 16\"") && icon.contains("currentColor") && !icon.contains("<!--")
    );
    for attribute in ["fill=\"", "stroke=\""] {
        for value in icon.split(attribute).skip(1) {
            let value = value.split('"').next().unwrap();
            assert!(["none", "currentColor", "inherit"].contains(&value), "{attribute}{value}");
        }
    }
}
