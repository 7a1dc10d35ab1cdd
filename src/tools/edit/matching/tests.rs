use super::*;
use crate::tools::cases::{Case, cases};
use proptest::prelude::*;

fn edits(case: &Case) -> Vec<Replacement> {
    let pick = |kind: &str| case.sections.iter().filter(|s| s.kind == kind).collect::<Vec<_>>();
    let (olds, news) = (pick("old"), pick("new"));
    assert_eq!(olds.len(), news.len(), "{}", case.name);
    let edit = |(old, new): (&&crate::tools::cases::Section, &&crate::tools::cases::Section)| Replacement {
        old: old.text.clone(),
        new: new.text.clone(),
        replace_all: new.words.iter().any(|w| w == "all"),
    };
    olds.iter().zip(&news).map(edit).collect()
}

fn check(case: &Case) {
    let name = &case.name;
    let text = Text::from_editor(case.get("file").unwrap().text.as_str());
    let got = apply(&text, &edits(case));
    match (&got, case.get("gives"), case.get("refused")) {
        (Ok(edited), Some(gives), None) => {
            assert_eq!(edited.text.shown(), gives.text, "{name}");
            let rung = format!("{:?}", edited.applied.last().unwrap().rung);
            let expected = case.get("rung").map_or("Exact", |s| s.words[0].as_str());
            assert!(rung.starts_with(expected), "{name}: found by {rung}");
        }
        (Err(refusal), None, Some(refused)) => {
            let said = refusal.to_string();
            for line in refused.text.lines() {
                assert!(said.contains(line), "{name}: {line:?} is not in\n{said}");
            }
        }
        _ => panic!("{name}: {got:#?}"),
    }
}

#[test]
fn the_table_holds() {
    let cases = cases("edit");
    assert!(cases.len() > 50, "{} cases", cases.len());
    cases.iter().for_each(check);
}

fn replace(old: &str, new: &str) -> Replacement {
    Replacement { old: old.into(), new: new.into(), replace_all: false }
}

#[test]
fn places_are_told_in_the_lines_of_the_result() {
    let text = Text::new_utf8("a\nb\nc\nd\n");
    let edited =
        apply(&text, &[replace("c", "c1\nc2"), replace("a\n", "a1\na2\na3\n"), replace("d\n", "")]).unwrap();
    assert_eq!(edited.text.content(), "a1\na2\na3\nb\nc1\nc2\n");
    let lines: Vec<_> = edited.applied.iter().map(|a| a.lines(&edited.text)).collect();
    assert_eq!(lines, [vec![(5, 6)], vec![(1, 3)], vec![(6, 6)]]);
}

#[test]
fn a_megabyte_is_edited_quickly() {
    let mut content: String =
        (0..20_000).map(|i| format!("    let value_{i} = compute(\u{201c}{i}\u{201d}, {i});\r\n")).collect();
    content.push_str("end\r\n");
    let text = Text::new_utf8(content);
    assert!(text.content().len() > 1_000_000);
    // Each of these goes down the whole ladder. The limit is for a debug build on a busy machine; it catches what is
    // quadratic.
    let start = std::time::Instant::now();
    let found = apply(&text, &[replace("let value_9999 = compute(\"9999\", 9999);", "x")]).unwrap();
    assert_eq!(found.applied[0].rung, Rung::Unicode);
    assert!(apply(&text, &[replace("let value_9999 = compute(\"9998\", 9999);\nnot there", "x")]).is_err());
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn a_text_that_repeats_itself_is_not_quadratic() {
    let text = Text::new_utf8("a".repeat(200_000));
    let start = std::time::Instant::now();
    let refusal = apply(&text, &[replace(&"a".repeat(1000), "b")]).unwrap_err();
    assert!(matches!(refusal.why, Why::Ambiguous { places, .. } if places > 1000));
    assert!(start.elapsed().as_secs() < 10);
}

fn file() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "",
        "a",
        "b",
        "  a",
        "    a",
        "\ta",
        "\t\tb",
        "a ",
        "b\t",
        "foo(\u{201c}x\u{201d})",
        "foo(\"x\")",
        "é",
        "}",
        "x\\n",
        "1|a",
    ]);
    let ending = prop::sample::select(vec!["\n", "\n", "\n", "\r\n", "\r"]);
    let lines = prop::collection::vec((line, ending), 0..12);
    (lines, any::<bool>()).prop_map(|(lines, closed)| {
        let mut text: String = lines.iter().flat_map(|(l, e)| [*l, *e]).collect();
        if !closed {
            text.truncate(text.trim_end_matches(['\n', '\r']).len());
        }
        text
    })
}

#[test]
fn what_fuzzing_found_stays_found() {
    // A blank last line, sent where the file ends without a line ending.
    fuzz(b"a xxx\0xxx\n   \0");
    fuzz(b"i\xff\xfff x\xff\xff\xff\xff\0\xff\x95\xff\n    ");
    // Replaced everywhere, where the last place without its line ending overlaps the one before.
    fuzz(b"\n}\n}\0\n}\n\0x\0all");
    let all = Replacement { old: "\n}\n".into(), new: "\n".into(), replace_all: true };
    let done = apply(&Text::new_utf8("\n}\n}"), &[all]).unwrap();
    assert_eq!(done.text.content(), "\n}");
}

proptest! {
    #[test]
    fn an_edit_and_its_inverse_change_nothing(content in file(), from in 0..80usize, len in 1..40usize, new in "[xyz\n]{1,12}") {
        let content = content.replace('\r', "");
        let chars: Vec<char> = content.chars().collect();
        prop_assume!(!chars.is_empty());
        let from = from % chars.len();
        let old: String = chars[from..chars.len().min(from + len)].iter().collect();
        let text = Text::new_utf8(content.clone());
        // Text that occurs nowhere else can be found again.
        let new = format!("\u{1}{new}\u{2}");
        let Ok(done) = apply(&text, &[replace(&old, &new)]) else { return Ok(()) };
        prop_assert_eq!(&done.applied[0].rung, &Rung::Exact);
        match apply(&done.text, &[replace(&new, &old)]) {
            Ok(undone) => prop_assert_eq!(undone.text.content(), content),
            Err(refusal) => prop_assert!(matches!(refusal.why, Why::Outdented { .. }), "{}", refusal),
        }
    }

    #[test]
    fn bytes_outside_the_edit_stay(content in file(), sent in file(), new in file(), all in any::<bool>()) {
        let text = Text::new_utf8(content.clone());
        let edit = Replacement { old: sent, new, replace_all: all };
        if let Ok(done) = apply(&text, std::slice::from_ref(&edit)) {
            super::fuzz::outside_stays(&content, &done);
            prop_assert_eq!(apply(&text, std::slice::from_ref(&edit)), Ok(done.clone()));
        }
    }

    #[test]
    fn any_bytes_are_an_edit_or_a_refusal(bytes in prop::collection::vec(prop_oneof![Just(0), Just(b'\n'), any::<u8>()], 0..200)) {
        fuzz(&bytes);
    }

    #[test]
    fn an_exact_unique_text_is_replaced_literally(content in file(), new in "[a-z$\\\\&1 ]{0,9}") {
        let text = Text::new_utf8(format!("{content}UNIQUE{content}"));
        prop_assume!(new != "UNIQUE");
        let done = apply(&text, &[replace("UNIQUE", &new)]).unwrap();
        prop_assert_eq!(done.text.content(), format!("{content}{new}{content}"));
    }

    #[test]
    fn lf_and_crlf_files_are_edited_alike(content in file(), sent in file(), new in file()) {
        let lf = content.replace("\r\n", "\n").replace('\r', "\n");
        let edit = [replace(&sent.replace('\r', ""), &new.replace('\r', ""))];
        let plain = apply(&Text::new_utf8(lf.clone()), &edit).map(|e| e.text.content().to_owned()).map_err(|r| r.why);
        let crlf = Text::new_utf8(lf.replace('\n', "\r\n"));
        let other = apply(&crlf, &edit).map(|e| e.text.canonical()).map_err(|r| r.why);
        if lf.contains('\n') {
            prop_assert_eq!(plain, other);
        }
    }

    #[test]
    fn nothing_panics(content in "\\PC{0,40}|[ab\n\r\t\\\\\"|0-9 ]{0,40}", old in "\\PC{0,20}|[ab\n\r\t\\\\\"|0-9 ]{0,20}", new in "[ab\n\r\t\\\\ ]{0,20}") {
        for replace_all in [false, true] {
            let edit = Replacement { old: old.clone(), new: new.clone(), replace_all };
            match apply(&Text::from_editor(content.as_str()), &[edit.clone(), edit]) {
                Ok(done) => drop(done.applied.iter().map(|a| a.lines(&done.text)).collect::<Vec<_>>()),
                Err(refusal) => prop_assert!(!refusal.to_string().is_empty()),
            }
        }
    }
}
