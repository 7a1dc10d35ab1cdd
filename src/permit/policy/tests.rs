//! The whole table, row by row.
use super::*;
use crate::{
    effects::{Change, Command, Place},
    permit::shell::{ShellContext, assess},
    workspace::text::Text,
};
use std::{path::PathBuf, sync::Arc, time::Duration};

fn path(place: Place, protected: Option<&'static str>, secret: bool) -> WsPath {
    let real = Arc::new(PathBuf::from("/ws/a.txt"));
    WsPath { absolute: real.clone(), real, place, protected, secret }
}
fn reads(place: Place, secret: bool) -> Effects {
    Effects::read(path(place, None, secret))
}
fn writes(place: Place, protected: Option<&'static str>) -> Effects {
    let change = Change::Write { path: path(place, protected, false), old: None, new: Text::new_utf8("x") };
    Effects { writes: vec![change], ..Effects::default() }
}
fn runs(text: &str) -> Effects {
    let context = ShellContext {
        cwd: "/ws".as_ref(),
        roots: &["/ws".into()],
        home: None,
        path: "/usr/bin".as_ref(),
        resolve: &|name| Some(PathBuf::from("/usr/bin").join(name)),
    };
    let found = assess(text, &context);
    let command = Command {
        text: text.into(),
        cwd: path(Place::Root(0), None, false),
        timeout: Duration::from_secs(1),
        verdict: found.verdict,
        why: found.why.clone(),
        assessment: Some(Arc::new(found)),
        background: false,
        unconfined: false,
    };
    Effects { runs: Some(command), ..Effects::default() }
}
fn reaches() -> Effects {
    Effects { reaches: vec!["example.org".into()], ..Effects::default() }
}

/// `a`llow, as`k`, ask and not `r`emembered, `d`eny.
fn letter(decision: &Decision) -> char {
    match decision {
        Decision::Allow => 'a',
        Decision::Ask { remember: Some(_), .. } => 'k',
        Decision::Ask { remember: None, .. } => 'r',
        Decision::Deny(_) => 'd',
    }
}

#[test]
fn the_table() {
    // The modes in their order: ask, accept-edits, plan, full.
    let rows: &[(&str, Effects, &str)] = &[
        ("nothing", Effects::default(), "aaaa"),
        ("read in the roots", reads(Place::Root(0), false), "aaaa"),
        ("read in our session folder", reads(Place::SessionFolder, false), "aaaa"),
        ("read outside", reads(Place::Outside, false), "kkka"),
        ("read of a secret", reads(Place::Root(0), true), "rrrr"),
        ("write in the roots", writes(Place::Root(1), None), "kada"),
        ("write to a protected path", writes(Place::Root(0), Some("hooks run")), "rrdr"),
        ("write outside", writes(Place::Outside, None), "rrdr"),
        ("write to our session folder", writes(Place::SessionFolder, None), "rrdr"),
        ("command proven read-only", runs("git status"), "aaaa"),
        ("other command", runs("cargo test"), "kkda"),
        ("host", reaches(), "kkda"),
        ("destructive command", runs("rm -rf build"), "rrdr"),
        ("command not understood", runs("if then ((("), "rrdr"),
    ];
    for (what, effects, expected) in rows {
        let got: String =
            Mode::ALL.iter().map(|m| letter(&decide(*m, &Grants::default(), effects))).collect();
        assert_eq!(got, *expected, "{what}");
    }
}

#[test]
fn a_grant_covers_what_it_says_and_no_more() {
    let decided =
        |grant: Grant, effects: &Effects| letter(&decide(Mode::Ask, &Grants::new([grant]), effects));
    let cargo_test = || Grant::Command { prefix: vec!["cargo".into(), "test".into()] };
    assert_eq!(decided(cargo_test(), &runs("cargo test --lib")), 'a');
    assert_eq!(decided(cargo_test(), &runs("cd src && cargo test")), 'a');
    for wider in [
        "cargo test > ../x",
        "PATH=. cargo test",
        "cargo test $(touch x)",
        "cargo test && touch x",
        "cargo run",
    ] {
        assert_ne!(decided(cargo_test(), &runs(wider)), 'a', "{wider}");
    }
    assert_eq!(decided(Grant::Edits, &writes(Place::Root(0), None)), 'a');
    assert_eq!(decided(Grant::Edits, &writes(Place::Root(0), Some("hooks run"))), 'r');
    assert_eq!(decided(Grant::Edits, &writes(Place::Outside, None)), 'r');
    assert_eq!(decided(Grant::Edits, &runs("cargo test")), 'k');
    assert_eq!(decided(Grant::Read { folder: "/ws".into() }, &reads(Place::Outside, false)), 'a');
    assert_eq!(decided(Grant::Read { folder: "/ws/b".into() }, &reads(Place::Outside, false)), 'k');
    assert_eq!(decided(Grant::Host { name: "example.org".into() }, &reaches()), 'a');
    assert_eq!(decided(Grant::Host { name: "example.com".into() }, &reaches()), 'k');
}

#[test]
fn the_strictest_effect_decides_and_reasons_join() {
    let both = Effects { reads: vec![path(Place::Outside, None, false)], ..runs("rm -rf build") };
    let Decision::Ask { why, remember: None } = decide(Mode::Ask, &Grants::default(), &both) else {
        panic!()
    };
    assert!(why.contains("outside") && why.contains(';'), "{why}");
    assert!(matches!(decide(Mode::Plan, &Grants::default(), &both), Decision::Deny(_)));
}
