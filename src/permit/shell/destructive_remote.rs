//! Destruction through tools that speak to something else: clusters, clouds, databases, registries.

use std::sync::LazyLock;

use regex::Regex;

/// Verbs that destroy, by program. A verb in two words must stand side by side.
const VERBS: &[(&[&str], &[&str])] = &[
    (
        &["docker", "podman", "nerdctl", "docker-compose", "podman-compose"],
        &["rm", "rmi", "prune", "down", "kill", "stop", "remove", "leave", "--privileged", "push"],
    ),
    (
        &["kubectl", "oc", "k", "k3s", "microk8s"],
        &["delete", "drain", "--prune", "replace", "undo", "cordon", "evict", "scale", "patch"],
    ),
    (&["helm", "helmfile"], &["uninstall", "delete", "del", "rollback", "destroy"]),
    (
        &[
            "terraform",
            "tofu",
            "terragrunt",
            "pulumi",
            "cdk",
            "cdktf",
            "sam",
            "serverless",
            "sls",
            "vagrant",
            "nomad",
        ],
        &[
            "destroy",
            "-destroy",
            "--destroy",
            "apply",
            "rm",
            "delete",
            "remove",
            "taint",
            "force-unlock",
            "down",
            "up",
            "deploy",
            "import",
            "stop",
            "cancel",
        ],
    ),
    (
        &["gh", "glab", "hub", "tea"],
        &["delete", "archive", "DELETE", "-XDELETE", "merge", "transfer", "rename"],
    ),
    (
        &["npm", "pnpm", "yarn", "bun", "lerna"],
        &["publish", "unpublish", "deprecate", "owner", "access", "dist-tag"],
    ),
    (&["cargo"], &["publish", "yank", "owner", "login", "logout"]),
    (&["gem"], &["push", "yank", "owner"]),
    (&["twine", "flit", "poetry", "uv", "hatch", "pdm", "maturin"], &["upload", "publish"]),
    (
        &["mvn", "mvnw", "gradle", "gradlew", "sbt"],
        &["deploy", "publish", "release:perform", "uploadArchives"],
    ),
    (&["dotnet", "nuget"], &["push", "delete"]),
    (
        &["vsce", "ovsx", "pub", "dart", "flutter", "mix", "luarocks", "ko", "goreleaser"],
        &["publish", "unpublish", "hex.publish", "upload", "release"],
    ),
    (&["heroku"], &["destroy", "apps:destroy", "pg:reset", "addons:destroy", "ps:stop"]),
    (
        &["fly", "flyctl", "vercel", "netlify", "firebase", "wrangler", "railway", "supabase"],
        &["destroy", "delete", "remove", "rm", "deploy", "reset", "publish", "--prod"],
    ),
    (
        &["redis-cli", "valkey-cli"],
        &["FLUSHALL", "FLUSHDB", "flushall", "flushdb", "SHUTDOWN", "shutdown", "DEL", "del"],
    ),
    (
        &["rails", "rake", "bin/rails"],
        &["db:drop", "db:reset", "db:rollback", "db:schema:load", "db:setup", "db:purge"],
    ),
    (
        &["artisan", "php"],
        &["migrate:fresh", "migrate:reset", "migrate:refresh", "db:wipe", "migrate:rollback"],
    ),
    (&["mix"], &["ecto.drop", "ecto.reset", "ecto.rollback"]),
    (
        &["prisma", "npx", "knex", "sequelize", "typeorm", "drizzle-kit"],
        &["reset", "--force-reset", "db:drop", "schema:drop", "migrate:rollback", "drop"],
    ),
    (
        &["alembic", "flyway", "liquibase", "dbmate", "goose", "migrate", "sqlx", "diesel"],
        &["downgrade", "clean", "drop-all", "dropAll", "drop", "down", "reset", "rollback"],
    ),
    (&["python", "python3", "manage.py", "django-admin"], &["flush", "reset_db", "sqlflush"]),
    (&["restic", "borg", "duplicity"], &["forget", "prune", "delete"]),
    (
        &["s3cmd", "gsutil", "mc", "s5cmd", "azcopy"],
        &["rm", "rb", "del", "delete", "remove", "--delete", "--delete-removed"],
    ),
    (
        &[
            "apt", "apt-get", "dnf", "yum", "zypper", "apk", "brew", "snap", "flatpak", "choco", "winget",
            "scoop",
        ],
        &["remove", "purge", "autoremove", "uninstall", "erase", "del", "clean", "untap"],
    ),
    (&["dpkg", "rpm"], &["-r", "-P", "--remove", "--purge", "-e", "--erase"]),
    (&["pacman", "yay"], &["-R", "-Rs", "-Rns", "-Rsc", "-Scc"]),
    (
        &["virsh", "VBoxManage", "vboxmanage", "multipass", "lxc", "incus", "limactl", "colima", "qm"],
        &["destroy", "undefine", "delete", "unregistervm", "purge", "rm"],
    ),
    (&["vault", "consul", "etcdctl", "doppler", "op"], &["delete", "destroy", "del", "wipe", "purge"]),
    (&["gpg", "gpg2"], &["--delete-keys", "--delete-secret-keys", "--delete-secret-and-public-key"]),
    (&["tmutil", "security"], &["delete", "delete-keychain", "delete-generic-password"]),
    (&["nix-collect-garbage", "nix-store"], &["-d", "--gc", "--delete"]),
    (&["rustup"], &["self", "uninstall"]),
];

/// Programs that hand text to a database.
const SQL: &[&str] = &[
    "psql",
    "pgcli",
    "mysql",
    "mariadb",
    "sqlite3",
    "sqlite",
    "mongosh",
    "mongo",
    "duckdb",
    "sqlcmd",
    "clickhouse-client",
    "clickhouse",
    "bq",
    "cqlsh",
    "sqlplus",
    "usql",
    "litecli",
    "mycli",
    "snowsql",
    "influx",
    "cockroach",
    "presto",
    "trino",
];

pub(super) fn remote(name: &str, args: &[String]) -> Option<String> {
    if SQL.contains(&name) {
        return args.iter().find_map(|a| sql(name, a));
    }
    if let Some(why) = cloud(name, args).or_else(|| http(name, args)).or_else(|| mounts(name, args)) {
        return Some(why);
    }
    let (_, verbs) = VERBS
        .iter()
        .find(|(names, verbs)| names.contains(&name) && args.iter().any(|a| verbs.contains(&a.as_str())))?;
    let verb = args.iter().find(|a| verbs.contains(&a.as_str()))?;
    // Asking what would be done does nothing.
    if args.iter().any(|a| ["--dry-run", "--dry-run=client", "--dry-run=server"].contains(&a.as_str())) {
        return None;
    }
    Some(format!("`{name} {verb}` removes or publishes, without a way back"))
}

/// Why a text for a database destroys.
pub(super) fn sql(client: &str, text: &str) -> Option<String> {
    static DESTROYS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?i)\b(drop\s+(table|database|schema|view|index|user|role|column|collection|keyspace|owned|extension|type|function|materialized)|truncate\b|delete\s+from|alter\s+table\s+\S+\s+drop|update\s+\S+\s+set\b|grant\s|revoke\s|\.drop\s*\(|dropDatabase|deleteMany|remove\s*\(\s*\{\s*\}|flushall|flushdb|vacuum\s+full|copy\s+\S+\s+to\s+program)|\\!|^\.shell|^\.system",
        )
        .ok()
    });
    DESTROYS
        .as_ref()?
        .find(text)
        .map(|m| format!("`{client}` is told to `{}`", m.as_str().trim().to_uppercase()))
}

pub(super) fn is_sql_client(name: &str) -> bool {
    SQL.contains(&name)
}

/// Clouds name their verbs alike: `delete-bucket`, `instances delete`, `s3 rm`.
fn cloud(name: &str, args: &[String]) -> Option<String> {
    if ![
        "aws",
        "gcloud",
        "az",
        "doctl",
        "oci",
        "ibmcloud",
        "linode-cli",
        "hcloud",
        "scw",
        "exo",
        "aliyun",
        "eksctl",
    ]
    .contains(&name)
    {
        return None;
    }
    const HEADS: &[&str] = &[
        "delete",
        "terminate",
        "remove",
        "deregister",
        "purge",
        "destroy",
        "rm",
        "rb",
        "stop",
        "revoke",
        "disable",
        "detach",
        "reset",
        "--delete",
    ];
    let verb = args.iter().find(|a| HEADS.iter().any(|h| *a == h || a.starts_with(&format!("{h}-"))))?;
    Some(format!("`{name} {verb}` removes something in the cloud"))
}

fn http(name: &str, args: &[String]) -> Option<String> {
    if !["curl", "http", "https", "xh", "wget", "httpie"].contains(&name) {
        return None;
    }
    let joined = args.join(" ");
    let verb = args
        .iter()
        .any(|a| ["DELETE", "-XDELETE", "--request=DELETE", "--method=DELETE"].contains(&a.as_str()));
    (verb || joined.contains("-X DELETE")).then(|| format!("`{name}` asks a server to delete"))
}

/// A container that is handed the host's files.
fn mounts(name: &str, args: &[String]) -> Option<String> {
    if !["docker", "podman", "nerdctl"].contains(&name) {
        return None;
    }
    let host = |a: &String| {
        let spec = a.strip_prefix("--volume=").or_else(|| a.strip_prefix("-v")).unwrap_or(a);
        spec.starts_with("/:") || spec.contains("docker.sock") || a.contains("source=/,") || a == "--pid=host"
    };
    args.iter().any(host).then(|| format!("`{name}` hands the whole machine to a container"))
}
