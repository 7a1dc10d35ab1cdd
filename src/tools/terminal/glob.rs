//! What a wildcard in a command stands for, as bash expands it without options; where that is not certain, more.
use std::path::{Path, PathBuf};

/// The files that `pattern` may stand for in `folder`. `left`: so many entries of folders may be looked at; `None`: they
/// were more.
pub(super) fn expand(folder: &Path, pattern: &str, left: &mut usize) -> Option<Vec<PathBuf>> {
    let start = if pattern.starts_with('/') { Path::new("/") } else { folder };
    let mut found = vec![start.to_path_buf()];
    for part in pattern.split('/').filter(|p| !p.is_empty() && *p != ".") {
        if !part.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let mut next = Vec::new();
        for entry in found.iter().filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten() {
            *left = left.checked_sub(1).filter(|l| *l > 0)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // A leading dot is matched by a dot alone.
            if name.starts_with('.') == part.starts_with('.') && matches(&lenient(part), &name) {
                next.push(entry.path());
            }
        }
        found = next;
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    Some(found)
}

/// Brackets may be quoted in part, or name a class: from the first on, anything goes.
fn lenient(part: &str) -> Vec<char> {
    match part.find('[') {
        Some(at) => part[..at].chars().chain(['*']).collect(),
        None => part.chars().collect(),
    }
}

/// `*` and `?`, everything else by the letter.
fn matches(pattern: &[char], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_as_by_bash() {
        let of = |pattern: &str, name: &str| matches(&lenient(pattern), name);
        for (pattern, name) in
            [("*", "a"), ("a*c", "abbc"), ("a*c", "ac"), ("?*", "x"), ("*.r?", "a.b.rs"), ("[ab]c", "bc")]
        {
            assert!(of(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "b"), ("a?", "a"), ("*.rs", "a.rsx"), ("a*b*c", "acb")] {
            assert!(!of(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_stands_for_what_bash_finds() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/x.rs", "a/.y.rs", "b/z.rs", "b/c/x.rs", "n.txt"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        for pattern in
            ["*", "*/*.rs", "a/*", "a/.*", "./b/../b/*", "*/c/*", "nothing*", "**/x.rs", "b/*/x.rs", ".*"]
        {
            let script = format!("shopt -s nullglob; printf '%s\\n' {pattern}");
            let out =
                std::process::Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output();
            let Ok(out) = out else { return };
            let text = String::from_utf8(out.stdout).unwrap();
            let of = |p: &Path| p.canonicalize().unwrap();
            let mut bash: Vec<_> = text
                .lines()
                .filter(|l| !l.is_empty() && !l.ends_with('.'))
                .map(|l| of(&folder.path().join(l)))
                .collect();
            let mut ours: Vec<_> =
                expand(folder.path(), pattern, &mut 1000).unwrap().iter().map(|p| of(p)).collect();
            bash.sort();
            ours.sort();
            assert_eq!(ours, bash, "{pattern}");
        }
        assert_eq!(expand(folder.path(), "*/*", &mut 3), None);
    }
}
