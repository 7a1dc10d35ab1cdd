use super::*;
use proptest::prelude::*;
use std::os::unix::fs::symlink;

#[test]
fn names_that_windows_takes_for_others_are_known() {
    for (name, second) in [
        ("config", false),
        ("config::$DATA", true),
        ("a:b", true),
        ("config.", true),
        ("hooks ", true),
        (".git", false),
    ] {
        assert_eq!(has_second_name(OsStr::new(name)), second, "{name}");
    }
}

struct Tree {
    _dir: tempfile::TempDir,
    base: PathBuf,
    guard: Guard,
}

/// `ws` (root, reached as `link`), `more` (second root), `outside`, `home`, `own` (session folder).
fn place() -> Tree {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    for d in ["ws/src/deep", "ws/.git/hooks", "more", "outside/sub", "home", "own"] {
        std::fs::create_dir_all(base.join(d)).unwrap();
    }
    for f in ["ws/a.txt", "ws/src/b.rs", "ws/it's here.txt", "outside/victim.txt", "own/spill.txt"] {
        std::fs::write(base.join(f), "x").unwrap();
    }
    symlink(base.join("ws"), base.join("link")).unwrap();
    symlink("a.txt", base.join("ws/in.txt")).unwrap();
    symlink("src/deep", base.join("ws/deep")).unwrap();
    symlink(base.join("outside/victim.txt"), base.join("ws/notes.md")).unwrap();
    symlink(base.join("outside/new.txt"), base.join("ws/draft.txt")).unwrap();
    symlink("src/new.rs", base.join("ws/dangling-in")).unwrap();
    symlink(base.join("outside"), base.join("ws/outbox")).unwrap();
    symlink("loop2", base.join("ws/loop1")).unwrap();
    symlink("loop1", base.join("ws/loop2")).unwrap();
    symlink(".git/hooks", base.join("ws/hk")).unwrap();
    symlink(".", base.join("ws/self")).unwrap();
    let roots = [base.join("link"), base.join("more")];
    let guard = Guard::new(&roots, &base.join("own"), Some(base.join("home"))).unwrap();
    Tree { _dir: dir, base, guard }
}

/// What was written, the place, the canonical path and the client's spelling, both below the base.
#[test]
fn i15_resolves_by_table() {
    use Place::{Outside, Root, SessionFolder};
    let p = place();
    let b = p.base.display();
    let table: &[(String, Place, &str, &str)] = &[
        ("a.txt".into(), Root(0), "ws/a.txt", "link/a.txt"),
        ("./src//b.rs".into(), Root(0), "ws/src/b.rs", "link/src/b.rs"),
        ("src/".into(), Root(0), "ws/src", "link/src"),
        (".".into(), Root(0), "ws", "link"),
        ("src/../a.txt".into(), Root(0), "ws/a.txt", "link/a.txt"),
        (format!("{b}/link/a.txt"), Root(0), "ws/a.txt", "link/a.txt"),
        (format!("{b}/ws/a.txt"), Root(0), "ws/a.txt", "link/a.txt"),
        (format!("file://{b}/ws/a.txt"), Root(0), "ws/a.txt", "link/a.txt"),
        (
            format!("file://localhost{b}/ws/it%27s%20here.txt"),
            Root(0),
            "ws/it's here.txt",
            "link/it's here.txt",
        ),
        (format!("{b}/more/x"), Root(1), "more/x", "more/x"),
        ("../more/x".into(), Root(1), "more/x", "more/x"),
        ("new/folder/x.rs".into(), Root(0), "ws/new/folder/x.rs", "link/new/folder/x.rs"),
        // Links, the last component's too.
        ("in.txt".into(), Root(0), "ws/a.txt", "link/in.txt"),
        ("deep/x".into(), Root(0), "ws/src/deep/x", "link/deep/x"),
        ("deep/../b.rs".into(), Root(0), "ws/src/b.rs", "link/src/b.rs"),
        ("dangling-in".into(), Root(0), "ws/src/new.rs", "link/dangling-in"),
        ("self/self/a.txt".into(), Root(0), "ws/a.txt", "link/self/self/a.txt"),
        ("notes.md".into(), Outside, "outside/victim.txt", "outside/victim.txt"),
        ("draft.txt".into(), Outside, "outside/new.txt", "outside/new.txt"),
        ("outbox/x".into(), Outside, "outside/x", "outside/x"),
        ("outbox/../x".into(), Outside, "x", "x"),
        ("../outside/victim.txt".into(), Outside, "outside/victim.txt", "outside/victim.txt"),
        ("nothing/../../outside/x".into(), Outside, "outside/x", "outside/x"),
        // A name that only begins like a root.
        (format!("{b}/ws2/a"), Outside, "ws2/a", "ws2/a"),
        ("~/x".into(), Outside, "home/x", "home/x"),
        ("~".into(), Outside, "home", "home"),
        ("~user/x".into(), Root(0), "ws/~user/x", "link/~user/x"),
        (format!("{b}/own/spill.txt"), SessionFolder, "own/spill.txt", "own/spill.txt"),
        // Odd forms, where only the tidied path exists.
        (" a.txt\n".into(), Root(0), "ws/a.txt", "link/a.txt"),
        ("`a.txt`".into(), Root(0), "ws/a.txt", "link/a.txt"),
        ("src/b.rs:12:3".into(), Root(0), "ws/src/b.rs", "link/src/b.rs"),
        ("src/b.rs:12".into(), Root(0), "ws/src/b.rs", "link/src/b.rs"),
        ("none.rs:12".into(), Root(0), "ws/none.rs:12", "link/none.rs:12"),
        ("it's here.txt".into(), Root(0), "ws/it's here.txt", "link/it's here.txt"),
    ];
    for (written, place, real, shown) in table {
        let got = p.guard.resolve(written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
        assert_eq!(got.place(), *place, "place of {written:?}");
        assert_eq!(got.real(), p.base.join(real), "real path of {written:?}");
        assert_eq!(got.as_path(), p.base.join(shown), "shown path of {written:?}");
    }
}

#[test]
fn refuses_what_is_no_path() {
    let p = place();
    for bad in ["", "  ", "a\0b", "file://host/x", "file:///a%00b", "file:///a%zz", "loop1", "loop1/x"] {
        assert!(p.guard.resolve(bad).is_err(), "{bad:?}");
    }
    // A file is no folder: what lies "below" it does not exist, and is no error of the guard.
    assert!(p.guard.resolve("a.txt/x").is_ok());
}

#[test]
fn a_root_must_be_an_absolute_folder() {
    let p = place();
    for bad in ["relative".into(), p.base.join("none"), p.base.join("ws/a.txt")] {
        assert!(Guard::new(&[bad], &p.base.join("own"), None).is_err());
    }
    assert!(Guard::new(&[], &p.base.join("own"), None).is_err());
    let slash = PathBuf::from(format!("{}/link/./", p.base.display()));
    let guard = Guard::new(&[slash], &p.base.join("own"), None).unwrap();
    assert_eq!(guard.resolve("a.txt").unwrap().as_path(), p.base.join("link/a.txt"));
}

#[test]
fn the_deepest_root_holds_a_file() {
    let p = place();
    let guard = Guard::new(&[p.base.join("ws"), p.base.join("ws/src")], &p.base.join("own"), None).unwrap();
    assert_eq!(guard.resolve("src/b.rs").unwrap().place(), Place::Root(1));
    assert_eq!(guard.resolve("a.txt").unwrap().place(), Place::Root(0));
}

#[test]
fn two_spellings_of_one_file_are_equal() {
    let p = place();
    assert_eq!(p.guard.resolve("in.txt").unwrap(), p.guard.resolve("a.txt").unwrap());
}

#[test]
fn protected_and_secret_by_table() {
    let p = place();
    let protected = [
        ".git/hooks/pre-commit",
        ".GIT/Hooks/x",
        ".git/config",
        "sub/.git/config",
        "hk/post-commit",
        ".git",
        "GIT~1/config",
        ".g\u{200c}it/config",
        ".git/config.",
        ".vscode/tasks.json",
        ".vscode/settings.json",
        ".vscode/launch.json",
        ".idea/workspace.xml",
        ".zed/tasks.json",
        ".hermes-editor/config.toml",
        ".bashrc",
        "~/.zshrc",
        "~/.ssh/config",
        ".envrc",
        ".mcp.json",
        ".gitmodules",
        ".cargo/config.toml",
    ];
    for path in protected {
        assert!(p.guard.resolve(path).unwrap().protected().is_some(), "{path}");
    }
    let free = [
        "a.txt",
        ".git/HEAD",
        ".gitignore",
        ".github/workflows/ci.yml",
        ".vscode/snippets.json",
        "bashrc",
        "src/config",
        "hooks/x",
        "Cargo.toml",
    ];
    for path in free {
        assert_eq!(p.guard.resolve(path).unwrap().protected(), None, "{path}");
    }
    let secret = [
        ".env",
        ".env~",
        "#.env#",
        ".env_old",
        "key.pem.bak",
        ".env.local",
        ".ENV",
        "prod.env",
        "key.pem",
        "id_rsa",
        "id_ed25519_work",
        "server.key",
        ".npmrc",
        ".netrc",
        "~/.aws/credentials",
        "~/.ssh/config",
        "credentials.json",
        "app.p12",
        "/proc/self/environ",
    ];
    for path in secret {
        assert!(p.guard.resolve(path).unwrap().is_secret(), "{path}");
    }
    let open = [
        ".env.example",
        ".env.sample",
        "id_rsa.pub",
        "environment.ts",
        "keyboard.rs",
        "a.txt",
        "key",
        ".key",
        "env",
        "~/.ssh/id_rsa.pub",
    ];
    for path in open {
        assert!(!p.guard.resolve(path).unwrap().is_secret(), "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    /// Whatever is written: the kernel, following the same path, ends where the guard says, and a path that is said to be
    /// in a root is below that root.
    #[test]
    fn path_never_escapes(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "..", ".", "", "a.txt", "src", "deep", "outbox", "self", "in.txt", "notes.md", "draft.txt", "sub", "new", "ws",
                "link", "more", "outside", "hk", "~", "b.rs:3", " ",
            ]),
            1..9,
        ),
        absolute in any::<bool>(),
    ) {
        static PLACE: std::sync::LazyLock<Tree> = std::sync::LazyLock::new(place);
        let p = &*PLACE;
        let mut written = parts.join("/");
        if absolute {
            written = format!("{}/{written}", p.base.display());
        }
        if let Ok(path) = p.guard.resolve(&written) {
            let real = path.real();
            prop_assert!(real.is_absolute());
            prop_assert!(real.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_))));
            match path.place() {
                Place::Root(i) => prop_assert!(real.starts_with(&p.guard.roots()[i])),
                Place::SessionFolder => prop_assert!(real.starts_with(p.base.join("own"))),
                Place::Outside => prop_assert!(p.guard.roots().iter().all(|r| !real.starts_with(r))),
            }
            // Nothing on the way is a link any more, so the kernel agrees.
            if let Ok(kernel) = std::fs::canonicalize(real) {
                prop_assert_eq!(&kernel, real);
            }
            // What the client is told leads to the same file.
            if let Ok(kernel) = std::fs::canonicalize(path.as_path()) {
                prop_assert_eq!(&kernel, real);
            }
        }
    }
}
