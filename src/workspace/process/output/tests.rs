use super::*;
use proptest::prelude::*;

fn shown(chunks: &[&[u8]]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut c = Collector::new(dir.path().join("spill.txt"));
    chunks.iter().for_each(|chunk| c.push(chunk));
    c.finish();
    c.render().0
}

#[test]
fn shows_what_a_terminal_would_by_table() {
    let table: &[(&str, &str)] = &[
        ("plain\ntext", "plain\ntext"),
        ("\x1b[31mred\x1b[0m \x1b[1;4mbold\x1b[m", "red bold"),
        ("P 10%\rP 100%\nDone\n", "P 100%\nDone\n"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("longer line\rshort\n", "shortr line\n"),
        ("longer line\r\x1b[Kshort\n", "short\n"),
        ("a\x1b[2Kb\n", "b\n"),
        ("abc\x08\x08X\n", "aXc\n"),
        ("\x1b]0;title\x07x\x1b]8;;http://h\x1b\\link\x1b]8;;\x1b\\", "xlink"),
        ("\x1b(Bx\x1bcy\x07\0z", "xyz"),
        ("\x1b[?25lhidden\x1b[?25h", "hidden"),
        ("tab\there", "tab\there"),
        ("é\rü\n", "ü\n"),
        ("broken \x1b[31\nnext", "broken \nnext"),
        ("1\r2\r3", "3"),
        ("\r\r\nx", "\nx"),
    ];
    for (raw, expected) in table {
        assert_eq!(shown(&[raw.as_bytes()]), *expected, "{raw:?}");
    }
    assert_eq!(shown(&[b"bad \xff\xfe end"]), "bad \u{fffd}\u{fffd} end");
    assert_eq!(shown(&[b"cut \xc3"]), "cut \u{fffd}");
}

proptest! {
    /// Where the bytes are cut makes no difference.
    #[test]
    fn any_split_shows_the_same(
        parts in prop::collection::vec(prop::sample::select(vec![
            "a", "é", "\n", "\r", "\x1b[K", "\x1b[31m", "\x1b]0;t\x07", "\x08", "漢", "\x1b", "[", "\t",
        ]), 0..40),
        at in any::<prop::sample::Index>(),
    ) {
        let text = parts.concat();
        let at = at.index(text.len() + 1);
        let whole = shown(&[text.as_bytes()]);
        prop_assert_eq!(shown(&[&text.as_bytes()[..at], &text.as_bytes()[at..]]), &*whole);
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        prop_assert_eq!(shown(&bytes), whole);
    }
}

#[test]
fn keeps_head_and_tail_and_spills_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spill.txt");
    let mut c = Collector::new(path.clone());
    let mut all = String::new();
    for i in 0..40_000 {
        let line = format!("line {i} é\n");
        c.push(line.as_bytes());
        all.push_str(&line);
    }
    c.finish();
    let (text, spilled) = c.render();
    assert!(text.len() < HEAD + TAIL + 400, "{}", text.len());
    assert!(text.starts_with("line 0 é\nline 1 é\n"));
    assert!(text.ends_with("line 39999 é\n"));
    assert!(text.contains("(40000 lines in all) are left out here; the whole is in "));
    assert_eq!(spilled.as_deref(), Some(&*path));
    assert_eq!(std::fs::read_to_string(path).unwrap(), all);
}

#[test]
fn what_fits_is_not_spilled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spill.txt");
    let mut c = Collector::new(path.clone());
    let text = "x".repeat(HEAD) + &"y".repeat(TAIL);
    c.push(text.as_bytes());
    c.finish();
    assert_eq!(c.render(), (text, None));
    assert!(!path.exists());
}

#[test]
fn one_endless_line_stays_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = Collector::new(dir.path().join("spill.txt"));
    for _ in 0..200 {
        c.push(&[b'x'; 10_000]);
    }
    assert!(c.screen.line.len() <= LINE_LIMIT + 10_000);
    c.finish();
    assert_eq!(c.kept.total, 2_000_000);
}

#[test]
fn since_gives_what_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = Collector::new(dir.path().join("spill.txt"));
    c.push(b"one\ntw");
    let (text, seen) = c.since(0);
    assert_eq!((text.as_str(), seen), ("one\ntw", 4));
    c.push(b"o\n");
    assert_eq!(c.since(seen), ("two\n".to_owned(), 8));
    for i in 0..10_000 {
        c.push(format!("{i}\n").as_bytes());
    }
    let (_, seen) = c.since(8);
    c.push(b"last\n");
    assert_eq!(c.since(seen).0, "last\n");
    assert!(c.since(8).0.starts_with("[… earlier output is left out …]"));
}
