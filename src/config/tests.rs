use super::{keys::KEYS, *};
use std::{fs, os::unix::fs::PermissionsExt};

struct Place {
    root: tempfile::TempDir,
    dirs: DataDirs,
}

impl Place {
    fn new(user: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let dirs = DataDirs::under(&root.path().join("home"));
        fs::create_dir_all(&dirs.config).unwrap();
        fs::write(dirs.config_file(), user).unwrap();
        fs::set_permissions(dirs.config_file(), fs::Permissions::from_mode(0o600)).unwrap();
        Self { root, dirs }
    }
    fn load(&self, env: &[(&str, &str)]) -> Config {
        let env: Vec<(String, String)> = env.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        Config::load(&self.dirs, move |name| env.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
    }
    fn project(&self, text: &str) -> PathBuf {
        let folder = self.root.path().join("project");
        fs::create_dir_all(folder.join(".hermes-editor")).unwrap();
        fs::write(folder.join(".hermes-editor/config.toml"), text).unwrap();
        folder
    }
}

/// The problems, without the folders of the test.
fn told(config: &Config) -> Vec<String> {
    config
        .problems
        .iter()
        .map(|p| match &p.source {
            Source::User(f) | Source::Project(f) => {
                p.to_string().replace(&format!("{}/", f.parent().unwrap().display()), "")
            }
            Source::Env(_) => p.to_string(),
        })
        .collect()
}

const FULL: &str = r#"
model = "local/qwen"
fallback = ["work/big", "local/small"]
mode = "accept-edits"
instructions = ["STYLE.md"]
[providers.local]
base_url = "http://127.0.0.1:8080/v1/"
api = "responses"
models = ["qwen", "llama"]
headers = { X-Team = "a" }
connect_timeout_s = 2
first_byte_timeout_s = 30
idle_timeout_s = 0.5
[providers.work]
api_key_env = "WORK_KEY"
[terminal]
backend = "editor"
timeout_s = 60
login_shell = false
[sandbox]
mode = "read-only"
roots = ["/var/tmp"]
network = { unasked = true, approved = false }
[limits]
iterations = 5
tool_result_bytes = 4096
retry_budget_s = 1.5
[log]
filter = "debug"
file = "hermes.log"
"#;

#[test]
fn every_key_arrives_and_remembers_its_file() {
    let place = Place::new(FULL);
    let config = place.load(&[]);
    assert_eq!(told(&config), [""; 0]);
    assert_eq!(config.model.as_deref(), Some("local/qwen"));
    assert_eq!(config.mode, Mode::AcceptEdits);
    assert_eq!(config.fallback, ["work/big", "local/small"]);
    assert_eq!(config.instructions, [PathBuf::from("STYLE.md")]);
    let local = &config.providers["local"];
    assert_eq!(local.base_url.as_deref(), Some("http://127.0.0.1:8080/v1"));
    assert_eq!((local.api, local.models.len()), (Api::Responses, 2));
    assert_eq!((local.headers[0].0.as_str(), local.headers[0].1.expose()), ("X-Team", "a"));
    assert_eq!(local.connect_timeout, Some(Duration::from_secs(2)));
    assert_eq!(local.first_byte_timeout, Some(Duration::from_secs(30)));
    assert_eq!(local.idle_timeout, Some(Duration::from_millis(500)));
    assert!(matches!(&config.providers["work"].keys[..], [KeySource::Env(name)] if name == "WORK_KEY"));
    let terminal =
        Terminal { backend: Backend::Editor, timeout: Duration::from_secs(60), login_shell: false };
    assert_eq!(config.terminal, terminal);
    let roots = vec!["/var/tmp".into()];
    let sandbox =
        Sandbox { mode: SandboxMode::ReadOnly, network_unasked: true, network_approved: false, roots };
    assert_eq!(config.sandbox, sandbox);
    assert_eq!((config.limits.iterations, config.limits.tool_result_bytes), (5, 4096));
    assert_eq!(config.limits.retry_budget, Duration::from_millis(1500));
    assert_eq!(config.log.file, Some(place.dirs.config.join("hermes.log")));
    assert_eq!(config.source("sandbox.network.unasked"), Some(&Source::User(place.dirs.config_file())));
    assert_eq!(config.source("providers.local.api"), Some(&Source::User(place.dirs.config_file())));
    assert_eq!(config.source("providers.work.base_url"), None);
}

#[test]
fn no_file_is_the_defaults_and_makes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dirs = DataDirs::under(&root.path().join("none"));
    let config = Config::load(&dirs, |_| None).for_project(root.path());
    assert_eq!((config.model.clone(), config.mode, config.problems.len()), (None, Mode::Ask, 0));
    assert_eq!((config.limits.iterations, config.sandbox.mode), (90, SandboxMode::WorkspaceWrite));
    assert!(!config.sandbox.network_unasked && config.sandbox.network_approved);
    assert!(!dirs.config.exists());
}

#[test]
fn each_bad_value_is_named_and_the_others_hold() {
    let cases = [
        (
            "mode = \"yolo\"",
            "config.toml:1: `mode`: expected \"ask\", \"accept-edits\", \"plan\" or \"full\"",
        ),
        ("\nmodel = \"gpt\"", "config.toml:2: `model`: expected a model as \"provider/model\""),
        ("modle = \"a/b\"", "config.toml:1: `modle` is not a known key; did you mean `model`?"),
        ("zebra = 1", "config.toml:1: `zebra` is not a known key"),
        (
            "[providers.x]\nbaseurl = \"http://h\"",
            "config.toml:2: `providers.x.baseurl` is not a known key; did you mean `providers.x.base_url`?",
        ),
        ("providers = 3", "config.toml:1: `providers` is not a known key"),
        ("[terminal.backend]\nx = 1", "config.toml:1: `terminal.backend`: expected \"agent\" or \"editor\""),
        (
            "[providers.x]\nbase_url = \"ftp://h\"",
            "config.toml:2: `providers.x.base_url`: expected an address that starts with http:// or https://",
        ),
        (
            "[limits]\niterations = 0",
            "config.toml:2: `limits.iterations`: expected a whole number from 1 to 10000",
        ),
        (
            "[terminal]\ntimeout_s = -1",
            "config.toml:2: `terminal.timeout_s`: expected a number of seconds above 0, at most 86400",
        ),
        ("[sandbox]\nroots = [\"x\"]", "config.toml:2: `sandbox.roots`: expected a list of absolute folders"),
        (
            "[sandbox.network]\nunasked = \"yes\"",
            "config.toml:2: `sandbox.network.unasked`: expected true or false",
        ),
        (
            "[providers.x]\nkey_policy = \"random\"",
            "config.toml:2: `providers.x.key_policy`: expected \"fill-first\" or \"round-robin\"",
        ),
        ("[providers.x]\napi_keys = []", "config.toml:2: `providers.x.api_keys`: expected a list of texts"),
        (
            "[providers.x]\napi_key_command = \" \"",
            "config.toml:2: `providers.x.api_key_command`: expected a command, as a text for the shell or as a list of its words",
        ),
    ];
    for (text, expected) in cases {
        let config = Place::new(&format!("{text}\n[log]\nfilter = \"info\"\n")).load(&[]);
        assert_eq!(told(&config), [expected], "{text}");
        assert_eq!(config.log.filter.as_deref(), Some("info"), "{text}");
    }
}

#[test]
fn a_broken_file_is_left_out_and_its_text_is_not_told() {
    let config = Place::new("mode = \"full\"\napi_key = \"sk-verysecret\n").load(&[("OPENAI_MODEL", "gpt")]);
    assert_eq!(config.mode, Mode::Ask);
    assert_eq!(config.model.as_deref(), Some("openai/gpt"));
    let [problem] = &told(&config)[..] else { panic!("{:?}", config.problems) };
    assert!(problem.starts_with("config.toml:2: not valid TOML: "), "{problem}");
    assert!(!problem.contains("verysecret"), "{problem}");
    let place = Place::new("");
    fs::write(place.dirs.config_file(), b"mode = \"\xff\"").unwrap();
    assert_eq!(told(&place.load(&[])), ["config.toml: not UTF-8; the file was left out"]);
    fs::remove_file(place.dirs.config_file()).unwrap();
    fs::create_dir(place.dirs.config_file()).unwrap();
    assert_eq!(told(&place.load(&[])), ["config.toml: not a regular file; the file was left out"]);
}

#[test]
fn the_environment_wins_and_is_named() {
    let place = Place::new("model = \"a/b\"\n[providers.openai]\napi_key_env = \"OTHER\"\n");
    let env = [
        ("OPENAI_BASE_URL", "http://localhost:1/v1"),
        ("OPENAI_API_KEY", " sk-1 "),
        ("OPENAI_API", "responses"),
        ("OPENAI_MODEL", "org/model"),
    ];
    let config = place.load(&env);
    assert_eq!(told(&config), [""; 0]);
    assert_eq!(config.model.as_deref(), Some("openai/org/model"));
    let openai = &config.providers["openai"];
    assert_eq!((openai.api, openai.base_url.as_deref()), (Api::Responses, Some("http://localhost:1/v1")));
    assert_eq!(openai.keys[0].read(|_| None).unwrap().unwrap().expose(), "sk-1");
    assert_eq!(config.source("model"), Some(&Source::Env("OPENAI_MODEL")));
    let config =
        place.load(&[("OPENAI_MODEL", "x"), ("HERMES_EDITOR_MODEL", "demo/demo"), ("OPENAI_BASE_URL", "")]);
    assert_eq!(config.model.as_deref(), Some("demo/demo"));
    assert_eq!(config.providers["openai"].base_url, None);
    let config = place.load(&[("OPENAI_API", "soap")]);
    assert!(told(&config)[0].starts_with("OPENAI_API: expected \"chat\""), "{:?}", told(&config));
}

#[test]
fn a_project_chooses_and_restricts_but_never_widens() {
    let place = Place::new("model = \"openai/a\"\n[providers.openai]\nmodels = [\"a\", \"b\"]\n");
    let user = place.load(&[]);
    let config = user.for_project(
        &place.project("model = \"openai/b\"\nmode = \"plan\"\ninstructions = [\"docs/AI.md\"]"),
    );
    assert_eq!(told(&config), [""; 0]);
    assert_eq!((config.model.as_deref(), config.mode), (Some("openai/b"), Mode::Plan));
    assert_eq!(config.instructions, [PathBuf::from("docs/AI.md")]);
    // The environment was given by the user just now.
    let config = place
        .load(&[("HERMES_EDITOR_MODEL", "openai/a")])
        .for_project(&place.project("model = \"openai/b\""));
    assert_eq!(config.model.as_deref(), Some("openai/a"));
    let refused = [
        "model = \"evil/x\"",
        "model = \"openai/c\"",
        "mode = \"full\"",
        "mode = \"accept-edits\"",
        "instructions = [\"../x\"]",
        "instructions = [\"/etc/passwd\"]",
        "instructions = [\"~/x\"]",
        "[sandbox]\nmode = \"off\"",
        "[sandbox]\nroots = [\"/\"]",
        "[sandbox.network]\nunasked = true",
        "[providers.openai]\nbase_url = \"http://evil\"",
        "[providers.openai]\napi_key_file = \"/etc/passwd\"",
        "[providers.openai.headers]\nx = \"y\"",
        "[terminal]\nbackend = \"editor\"",
        "[limits]\niterations = 10000",
        "[log]\nfile = \"/etc/cron.d/x\"",
    ];
    for text in refused {
        let config = user.for_project(&place.project(text));
        let problems = told(&config);
        assert!(
            problems.len() == 1 && problems[0].contains("cannot be set by a project"),
            "{text}: {problems:?}"
        );
        let mut same = config.clone();
        same.problems.clear();
        assert_eq!(format!("{same:?}"), format!("{user:?}"), "{text}");
    }
    let config = user.for_project(&place.project("mod = \"plan\""));
    assert_eq!(told(&config), ["config.toml:1: `mod` is not a known key; did you mean `mode`?"]);
}

/// What a project may set is a closed list: a new key is refused until someone decides otherwise.
#[test]
fn every_key_but_three_is_refused_to_projects() {
    let place = Place::new("");
    let user = place.load(&[]);
    for key in KEYS.iter().filter(|k| !["model", "mode", "instructions"].contains(k)) {
        let config = user.for_project(&place.project(&format!("{} = 1", key.replace('*', "x"))));
        assert!(matches!(config.problems[..], [Problem { kind: ProblemKind::Refused(_), .. }]), "{key}");
    }
}

/// `KEYS` and `set` know the same keys.
#[test]
fn every_listed_key_is_known() {
    for key in KEYS {
        let config = Place::new(&format!("{} = 1979-05-27", key.replace('*', "x"))).load(&[]);
        assert!(matches!(config.problems[..], [Problem { kind: ProblemKind::Expected(_), .. }]), "{key}");
    }
}

#[test]
fn several_keys_are_a_pool_in_the_order_in_which_they_stand() {
    let place = Place::new(
        "[providers.x]\napi_key_envs = [\"A\", \"B\"]\napi_key_command = \"pass show x\"\napi_key = \"k-1\"\n\
         api_keys = [\"k-2\"]\nkey_policy = \"round-robin\"\n[providers.y]\napi_key_command = [\"op\", \"read\"]\n",
    );
    let config = place.load(&[]);
    let x = &config.providers["x"];
    let [
        KeySource::Env(a),
        KeySource::Env(b),
        KeySource::Command(words),
        KeySource::Value(k1),
        KeySource::Value(k2),
    ] = &x.keys[..]
    else {
        panic!("{:?}", x.keys)
    };
    assert_eq!((a.as_str(), b.as_str()), ("A", "B"));
    assert_eq!(words.join(" "), "sh -c pass show x");
    assert_eq!((k1.expose(), k2.expose(), x.key_policy), ("k-1", "k-2", KeyPolicy::RoundRobin));
    assert!(matches!(&config.providers["y"].keys[..], [KeySource::Command(w)] if w.join(" ") == "op read"));
    assert!(config.providers["y"].keys[0].read(|_| None).unwrap().is_none());
}

#[test]
fn an_address_without_a_scheme_is_one_where_nothing_else_can_be_meant() {
    for (given, taken) in [
        ("localhost:8080/v1/", Some("http://localhost:8080/v1")),
        ("localhost", Some("http://localhost")),
        ("box.local:1", Some("http://box.local:1")),
        ("192.168.0.1", Some("http://192.168.0.1")),
        ("foo", None),
        ("foo/v1", None),
        ("ftp://x", None),
        (":80", None),
        ("a b:80", None),
    ] {
        let config = Place::new("").load(&[("OPENAI_BASE_URL", given)]);
        let url = config.providers.get("openai").and_then(|p| p.base_url.as_deref());
        assert_eq!(url, taken, "{given}");
        assert_eq!(config.problems.is_empty(), taken.is_some(), "{given}");
    }
}

#[test]
fn keys_are_read_late_and_never_shown() {
    let place = Place::new("[providers.f]\napi_key_file = \"key\"\n[providers.e]\napi_key_env = \"K\"\n");
    fs::write(place.dirs.config.join("key"), "sk-file\n").unwrap();
    fs::set_permissions(place.dirs.config.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let config = place.load(&[]);
    assert_eq!(told(&config), [""; 0]);
    assert_eq!(config.providers["f"].keys[0].read(|_| None).unwrap().unwrap().expose(), "sk-file");
    let key = config.providers["e"].keys[0].read(|n| (n == "K").then(|| "sk-env".into())).unwrap();
    assert_eq!(key.unwrap().expose(), "sk-env");
    assert!(config.providers["e"].keys[0].read(|_| None).unwrap_err().to_string().contains("K is not set"));
    fs::write(place.dirs.config.join("key"), " \n").unwrap();
    assert!(config.providers["f"].keys[0].read(|_| None).is_err());

    let place = Place::new("[providers.v]\napi_key = \"sk-value\"\n");
    fs::set_permissions(place.dirs.config_file(), fs::Permissions::from_mode(0o644)).unwrap();
    let config = place.load(&[]);
    assert_eq!(
        told(&config),
        [
            "config.toml: `providers.v.api_key` holds a key that other users can read; run `chmod 600` on the file"
        ]
    );
    assert!(!format!("{config:?}").contains("sk-value"));
}

#[test]
fn one_variable_moves_all_folders() {
    let dirs = DataDirs::under(Path::new("/h"));
    assert_eq!(dirs.config_file(), Path::new("/h/config/config.toml"));
    assert_eq!(dirs.database(), Path::new("/h/data/sessions.db"));
    assert_eq!(dirs.locks(), Path::new("/h/data/locks"));
    assert_eq!(dirs.logs(), Path::new("/h/state/logs"));
}

#[test]
fn a_temperature_is_of_zero_to_two() {
    for (written, taken) in
        [("0", Some(0.0)), ("0.2", Some(0.2)), ("2.5", None), ("-1", None), ("\"low\"", None)]
    {
        let config = Place::new(&format!("[providers.x]\ntemperature = {written}\n")).load(&[]);
        let got = config.providers.get("x").and_then(|x| x.temperature);
        assert_eq!((got, config.problems.len()), (taken, usize::from(taken.is_none())), "{written}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_where_a_file_belongs_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("key");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(read_regular(&pipe, 10).unwrap_err().to_string(), "not a regular file");
    assert!(KeySource::File(pipe).read(|_| None).is_err());
    let file = dir.path().join("file");
    std::fs::write(&file, "0123456789").unwrap();
    assert_eq!(read_regular(&file, 10).unwrap(), b"0123456789");
    assert_eq!(read_regular(&file, 9).unwrap_err().to_string(), "longer than 9 bytes");
}
