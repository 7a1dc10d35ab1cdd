//! The commands for people, as processes: the real binary, the real server behind a real pipe, the scripted model.
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Output, Stdio},
};

/// A home of its own and nothing else of the environment but the path.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for folder in ["tmp", "project"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        // A model that runs on this machine must not be found.
        fs::create_dir_all(home.path().join("hermes/config")).unwrap();
        fs::write(home.path().join("hermes/config/config.toml"), "probe_local = false\n").unwrap();
        Home(home)
    }
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermes-editor"));
        command.args(args).env_clear().stdin(Stdio::null()).current_dir(self.path("project"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.0.path()).env("TMPDIR", self.path("tmp"));
        command.env("HERMES_EDITOR_HOME", self.path("hermes"));
        command
    }
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        told(self.command(args).output().unwrap())
    }
    fn sample(&self) {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/workspaces/demo");
        for name in ["greet.sh", "test.sh"] {
            fs::copy(sample.join(name), self.path("project").join(name)).unwrap();
        }
    }
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// The parts are there, one behind the other.
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} is missing or too early in:\n{text}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn demo_yes_makes_the_test_pass_and_cleans_up() {
    let home = Home::new();
    let (code, out, err) = home.run(&["demo", "--yes"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    in_order(
        &out,
        &[
            "> Make the test pass.",
            "This is a scripted demonstration",
            "Plan",
            "[>] Read the script and its test",
            "Read greet.sh",
            "$ sh test.sh",
            "→ Allow once (--yes)",
            "│ FAIL: expected 'Hello, world!', got 'Hello world'",
            "✗ exit 1",
            "Edit greet.sh",
            "-printf 'Hello %s",
            "+printf 'Hello, %s!",
            "→ Allow once (--yes)",
            "│ pass: Hello, Ada!",
            "✓ exit 0",
            "[x] Run the test again",
            "The test passes.",
            "Checked: `sh test.sh` passes.",
            "agent_servers",
            "The sample project was removed",
        ],
    );
    assert!(!out.contains('\u{1b}'), "no colours without a terminal");
    assert_eq!(fs::read_dir(home.path("tmp")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn demo_without_a_terminal_answers_no_and_the_script_says_so() {
    let home = Home::new();
    let (code, out, err) = home.run(&["demo", "--keep"]);
    assert_eq!(code, 0, "{out}");
    assert!(err.contains("questions will be answered with no"), "{err}");
    in_order(&out, &["→ Reject (no terminal to ask", "The test did not run", "Checked: `sh test.sh` fails."]);
    let kept = out.lines().find_map(|l| l.strip_prefix("The sample project stays in ")).unwrap();
    let script = fs::read_to_string(Path::new(kept.trim_end_matches('.')).join("project/greet.sh")).unwrap();
    assert_eq!(script, include_str!("../fixtures/workspaces/demo/greet.sh"), "nothing was changed");
}

#[test]
fn exec_json_prints_the_updates_and_then_the_end() {
    let home = Home::new();
    home.sample();
    let (code, out, err) = home.run(&["exec", "go", "--yes", "--json", "--model", "demo/scripted"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let lines: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(lines[0]["sessionId"].is_string());
    assert_eq!(lines.last().unwrap()["stopReason"], "end_turn");
    let permissions: Vec<&Value> = lines.iter().filter(|l| l["permission"].is_object()).collect();
    assert_eq!(permissions.len(), 3, "the test twice and the edit");
    assert!(permissions.iter().all(|p| p["permission"]["by"] == "--yes"));
    let fixed = fs::read_to_string(home.path("project/greet.sh")).unwrap();
    assert!(fixed.contains("printf 'Hello, %s!"), "{fixed}");
}

#[test]
fn exec_takes_the_mode_and_the_prompt_from_standard_input() {
    let home = Home::new();
    home.sample();
    let mut command = home.command(&["exec", "-", "--model", "demo/scripted", "--mode", "full"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"go\n").unwrap();
    let (code, out, _) = told(child.wait_with_output().unwrap());
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("The test passes.") && !out.contains("→"), "nothing is asked in `full`: {out}");
}

#[test]
fn what_cannot_be_done_is_told_with_its_exit_code() {
    let home = Home::new();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["exec", "go", "-C", "/no/such/folder"], 2, "is not a folder"),
        (&["exec", " "], 2, "the prompt is empty"),
        (&["exec", "go", "--mode", "frob"], 2, "there is: ask, accept-edits, plan, full"),
        (&["exec", "go"], 1, "doctor"),
        (&["frob"], 2, "unrecognized subcommand"),
    ];
    for (args, code, words) in cases {
        let (got, out, err) = home.run(args);
        assert_eq!((got, err.contains(words)), (*code, true), "{args:?}: {out}{err}");
    }
}

#[test]
fn ctrl_c_cancels_and_leaves_no_process() {
    let home = Home::new();
    let mut command = home.command(&["exec", "go", "--yes", "--model", "demo/scripted"]);
    // A second between two words: the turn cannot end by itself in time.
    command.env("HERMES_EDITOR_DEMO_PACE", "1000").stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = out.fill_buf().unwrap().to_vec();
    assert!(!text.is_empty());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // The pipe ends when nobody holds it any more.
    text.clear();
    out.read_to_end(&mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().ends_with("Cancelled.\n"));
}

#[test]
fn doctor_and_config_report_what_is_there() {
    let home = Home::new();
    // A model without a key, and not none: servers of this machine would be looked for.
    let mut command = home.command(&["doctor", "--json"]);
    let (code, out, _) = told(command.env("HERMES_EDITOR_MODEL", "groq/m").output().unwrap());
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["good"]), (1, &Value::Bool(false)), "no key is there: {out}");
    let areas: Vec<&str> =
        report["findings"].as_array().unwrap().iter().filter_map(|f| f["area"].as_str()).collect();
    for area in ["program", "configuration", "data", "model", "sandbox", "editors"] {
        assert!(areas.contains(&area), "{area}: {areas:?}");
    }
    let mut command = home.command(&["config"]);
    command.env("OPENAI_API_KEY", "sk-never-shown").env("OPENAI_MODEL", "m");
    let (code, out, _) = told(command.output().unwrap());
    assert_eq!(code, 0);
    assert!(
        out.contains("model = \"openai/m\"  # OPENAI_MODEL\n") && !out.contains("sk-never-shown"),
        "{out}"
    );
    let (code, out, _) = home.run(&["config", "grants", "list"]);
    assert_eq!((code, out.as_str()), (0, "No permissions are remembered.\n"));
}

#[test]
fn doctor_tells_what_a_project_may_not_set() {
    let home = Home::new();
    let project = home.path("project");
    fs::create_dir_all(project.join(".hermes-editor")).unwrap();
    let doctor = || {
        let mut command = home.command(&["doctor", "--json"]);
        command.env("HERMES_EDITOR_MODEL", "demo/scripted").current_dir(&project);
        let (code, out, _) = told(command.output().unwrap());
        (code, serde_json::from_str::<Value>(&out).unwrap())
    };
    let refused =
        |report: &Value| report["findings"].to_string().matches("cannot be set by a project").count();
    let (before, report) = doctor();
    assert_eq!(refused(&report), 0);
    let own =
        "mode = \"plan\"\n[providers.x]\napi_key_command = \"evil\"\nbase_url = \"https://x.example\"\n";
    fs::write(project.join(".hermes-editor/config.toml"), own).unwrap();
    let (code, report) = doctor();
    assert_eq!(
        (code, refused(&report), &report["good"]),
        (1, 2, &Value::Bool(false)),
        "{report}, before {before}"
    );
}

#[test]
fn logs_go_to_the_file_that_is_configured() {
    let home = Home::new();
    fs::create_dir_all(home.path("hermes/config")).unwrap();
    let text = "modle = \"a/b\"\n[log]\nfilter = \"info\"\nfile = \"hermes.log\"\n";
    fs::write(home.path("hermes/config/config.toml"), text).unwrap();
    let (_, out, err) = home.run(&["exec", "go", "--json", "--model", "demo/scripted"]);
    assert!(out.lines().all(|l| serde_json::from_str::<Value>(l).is_ok()), "{out}");
    let log = fs::read_to_string(home.path("hermes/config/hermes.log")).unwrap();
    for text in [err, log] {
        in_order(&text, &["starts", "did you mean `model`?"]);
    }
}

#[test]
fn a_model_that_is_not_there_is_a_mistake_of_the_command_line() {
    let home = Home::new();
    let (code, _, err) = home.run(&["exec", "go", "--model", "zz/y"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("model \"zz/y\" is not known; there is:"), "{err}");
}

#[test]
fn a_model_for_one_task_is_not_that_of_the_next() {
    let home = Home::new();
    fs::create_dir_all(home.path("hermes/config")).unwrap();
    let rows = "[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodels = [\"a\", \"b\"]\n";
    fs::write(home.path("hermes/config/config.toml"), rows).unwrap();
    home.run(&["exec", "/mode", "--yes", "--model", "mine/b"]);
    assert!(!home.path("hermes/data/choices.json").exists());
}
