use super::*;
use crate::workspace::fake::{Editor, Fixture};
use proptest::prelude::*;

fn change(f: &Fixture, old: &str, new: &str) -> Change {
    Change::Write { path: f.path("a"), old: Some(Text::new_utf8(old)), new: Text::new_utf8(new) }
}

/// Replaces, deletes or inserts at a line.
fn edited(lines: &[String], at: usize, with: &str) -> Vec<String> {
    let mut out = lines.to_vec();
    match with {
        "" => drop(out.remove(at)),
        "+" => out.insert(at, "inserted\n".into()),
        text => out[at] = format!("{text}\n"),
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// Far apart: the result is both changes. Near: refused. Never a third thing.
    #[test]
    fn a_rebase_is_both_changes_or_none(
        a in 0usize..60, b in 0usize..60,
        ours in prop::sample::select(vec!["", "+", "OURS"]), theirs in prop::sample::select(vec!["", "+", "THEIRS"]),
    ) {
        static PLACE: LazyLock<Fixture> = LazyLock::new(|| Fixture::new(Editor::new(false, false)));
        let lines: Vec<String> = (0..60).map(|i| format!("line {i}\n")).collect();
        let now = edited(&lines, b, theirs);
        let planned = change(&PLACE, &lines.concat(), &edited(&lines, a, ours).concat());
        let got = rebase(&planned, &Text::new_utf8(now.concat()));
        if a.abs_diff(b) < CONTEXT {
            prop_assert!(got.is_none());
        }
        if a.abs_diff(b) > CONTEXT + 1 {
            // The later one first, so that the earlier one's place holds.
            let both = if a < b {
                edited(&edited(&lines, b, theirs), a, ours)
            } else {
                edited(&edited(&lines, a, ours), b, theirs)
            };
            let Some(Change::Write { old: Some(old), new, .. }) = got else { panic!("refused") };
            prop_assert_eq!(new.content(), both.concat());
            prop_assert_eq!(old.content(), now.concat());
        }
    }
}

#[test]
fn only_a_write_over_a_text_is_rebased() {
    let f = Fixture::new(Editor::new(false, false));
    let text = Text::new_utf8("a\n");
    assert!(rebase(&Change::Delete { path: f.path("a"), old: text.clone() }, &text).is_none());
    assert!(rebase(&Change::Write { path: f.path("a"), old: None, new: text.clone() }, &text).is_none());
}

#[tokio::test]
async fn locks_are_taken_in_one_order_and_freed() {
    let (a, b) = (Path::new("/lock-test/a"), Path::new("/lock-test/b"));
    let held = lock_paths(&[b, a, b]).await;
    assert_eq!(held.len(), 2);
    let wanted = [a];
    let other = lock_paths(&wanted);
    tokio::pin!(other);
    assert!(futures_util::poll!(&mut other).is_pending());
    drop(held);
    assert_eq!(other.await.len(), 1);
}
