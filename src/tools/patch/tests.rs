use super::*;
use crate::tools::cases::{Case, cases};
use crate::workspace::text::Text;
use fuzz::{Tree, run, written};
use proptest::prelude::*;

fn summary(change: &VirtualChange) -> String {
    match change {
        VirtualChange::Write { path, .. } => format!("write {path}\n"),
        VirtualChange::Delete { path, .. } => format!("delete {path}\n"),
        VirtualChange::Move { from, to, .. } => format!("move {from} {to}\n"),
    }
}

fn check(case: &Case) {
    let name = &case.name;
    let of = |kind: &'static str| case.sections.iter().filter(move |s| s.kind == kind);
    let files: Tree = of("file").map(|s| (s.words[0].clone(), Text::from_editor(s.text.as_str()))).collect();
    match (run(&case.get("patch").unwrap().text, &files), case.get("refused")) {
        (Ok(changes), None) => {
            let tree = written(&changes, &files);
            for gives in of("gives") {
                let text = tree
                    .get(&gives.words[0])
                    .unwrap_or_else(|| panic!("{name}: {} is missing", gives.words[0]));
                assert_eq!(text.shown(), gives.text, "{name}: {}", gives.words[0]);
            }
            of("gone")
                .for_each(|s| assert!(!tree.contains_key(&s.words[0]), "{name}: {} is there", s.words[0]));
            if let Some(expected) = case.get("changes") {
                assert_eq!(changes.iter().map(summary).collect::<String>(), expected.text, "{name}");
            }
        }
        (Err(error), Some(refused)) => {
            for line in refused.text.lines() {
                assert!(error.to_string().contains(line), "{name}: {line:?} is not in\n{error}");
            }
        }
        (got, _) => panic!("{name}: {got:#?}"),
    }
}

#[test]
fn the_table_holds() {
    let cases = cases("apply_patch");
    assert!(cases.len() > 70, "{} cases", cases.len());
    cases.iter().for_each(check);
}

#[test]
fn what_cannot_be_read_is_told() {
    let ops = parse("*** Begin Patch\n*** Delete File: dir\n*** End Patch").unwrap();
    let error = simulate(&ops, &|_: &str| Err::<Option<Text>, _>("is a folder")).unwrap_err();
    assert_eq!(error.to_string(), "dir: is a folder");
}

#[test]
fn paths_can_be_resolved_before() {
    let mut ops = parse("*** Update File: a\n*** Move to: b\n*** Add File: c\n+c\n").unwrap();
    ops.iter_mut().flat_map(FileOp::paths_mut).for_each(|p| *p = format!("/w/{p}"));
    assert_eq!(touched(&ops), ["/w/a", "/w/b", "/w/c"]);
}

#[test]
fn a_legacy_file_keeps_its_encoding() {
    let files = Tree::from([("a".to_owned(), Text::from_bytes(b"caf\xe9\r\nna\xefve\r\n").unwrap())]);
    let changes = run("*** Update File: a\n@@\n café\n-naïve\n+naïf\n", &files).unwrap();
    assert_eq!(written(&changes, &files)["a"].to_bytes().unwrap(), b"caf\xe9\r\nna\xeff\r\n");
}

fn block() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(vec!["", "a", "b", "c", "  a", "\tb", "}", "é “x”"]), 0..8)
}

proptest! {
    #[test]
    fn a_diff_written_as_a_patch_gives_the_new_text(old in block(), new in block(), closed in any::<bool>(), crlf in any::<bool>()) {
        if old == new || old.is_empty() || new.is_empty() {
            return Ok(());
        }
        // A whole-file hunk fits one place; its lines come from a diff.
        let mut body = String::new();
        for op in similar::capture_diff_slices(similar::Algorithm::Myers, &old, &new) {
            let (tag, from, to) = op.as_tag_tuple();
            if tag == similar::DiffTag::Equal {
                old[from].iter().for_each(|l| body += &format!(" {l}\n"));
            } else {
                old[from].iter().for_each(|l| body += &format!("-{l}\n"));
                new[to].iter().for_each(|l| body += &format!("+{l}\n"));
            }
        }
        // An empty last line without a newline is no line; a file without a line ending gets LF.
        let closed = closed || old.last() == Some(&"") || new.last() == Some(&"");
        let ending = if crlf && (closed || old.len() > 1) { "\r\n" } else { "\n" };
        let close = |lines: &[&str], closed: bool| lines.join(ending) + if closed { ending } else { "" };
        let files = Tree::from([("f".to_owned(), Text::new_utf8(close(&old, closed)))]);
        let patch = format!("*** Begin Patch\n*** Update File: f\n@@\n{body}*** End Patch\n");
        let changes = run(&patch, &files).unwrap();
        prop_assert_eq!(&changes, &run(&patch, &files).unwrap());
        let kept = body.lines().any(|l| l.starts_with(' '));
        let expected = close(&new, closed || !kept);
        let tree = written(&changes, &files);
        prop_assert_eq!(tree["f"].content(), expected);
    }

    #[test]
    fn nothing_panics(parts in prop::collection::vec(prop::sample::select(vec![
        "*** Begin Patch", "*** End Patch", "*** Update File: a", "*** Update File: b", "*** Add File: a", "*** Add File: c",
        "*** Delete File: a", "*** Move to: b", "*** Move to: a", "*** End of File", "@@", "@@ x", "@@ -1,2 +1 @@", " x", "-x", "+y",
        "x", "", " ", "-", "+", "\\ No newline at end of file", "```", "*** X", " *** End Patch", "\u{e9}", "EOF", "cat <<EOF",
    ]), 0..16), a in "[xy\n\r ]{0,12}", b in prop::option::of("[xy\n]{0,6}")) {
        let mut files = Tree::from([("a".to_owned(), Text::new_utf8(a))]);
        files.extend(b.map(|b| ("b".to_owned(), Text::new_utf8(b))));
        match run(&parts.join("\n"), &files) {
            Ok(changes) => prop_assert!(!changes.is_empty()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_bytes_are_a_patch_or_a_refusal(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        fuzz(&bytes);
    }

    #[test]
    fn any_text_is_read_or_refused(patch in "\\PC{0,80}|([*@+\\- ]{0,4}\\PC{0,6}\n){0,8}") {
        let _ = parse(&patch);
        let _ = parse(&format!("*** Begin Patch\n*** Update File: a\n{patch}"));
    }
}
