use super::*;

/// Later mounts lie over earlier ones: what is protected comes after what it lies in.
#[test]
fn bubblewrap_protects_inside_what_is_writable() {
    let dir = tempfile::tempdir().unwrap();
    let hooks = dir.path().join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    let mut policy = Policy {
        backend: Backend::Bubblewrap("bwrap".into()),
        writable: vec![dir.path().into()],
        protected: vec![hooks.clone(), dir.path().join("missing")],
        network: false,
    };
    let line = |policy: &Policy| {
        let words = bubblewrap::arguments(policy, vec!["sh".into(), "-c".into(), "--ro-bind".into()]);
        words.iter().map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let words = line(&policy);
    let at = |text: &Path| words.iter().position(|w| Path::new(w) == text).unwrap();
    assert!(at(dir.path()) < at(&hooks));
    assert!(!words.iter().any(|w| w.ends_with("missing")), "an empty file would be left in the project");
    assert!(words.contains(&"--unshare-net".to_owned()));
    assert_eq!(words[words.len() - 4..], ["--", "sh", "-c", "--ro-bind"]);
    policy.network = true;
    assert!(!line(&policy).contains(&"--unshare-net".to_owned()));
}

#[test]
fn what_cannot_confine_is_an_error_and_no_plain_run() {
    let policy = Policy {
        backend: Backend::Seatbelt("x".into()),
        writable: vec![],
        protected: vec![],
        network: false,
    };
    assert_eq!(wrap(Some(&policy), vec!["sh".into()]).is_err(), cfg!(not(target_os = "macos")));
    assert!(!works(&Backend::Bubblewrap("/no/such/bwrap".into()), Path::new("/no/such/helper")));
    assert!(!works(&Backend::Landlock, Path::new("/no/such/helper")));
}
