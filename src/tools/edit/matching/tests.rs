use super::*;

fn one(file: &str, old: &str, new: &str) -> Result<String, Why> {
    many(file, &[(old, new)])
}

fn many(file: &str, edits: &[(&str, &str)]) -> Result<String, Why> {
    let edits: Vec<_> = edits
        .iter()
        .map(|(o, n)| Replacement { old: (*o).into(), new: (*n).into(), replace_all: false })
        .collect();
    apply(&Text::from_editor(file), &edits).map(|e| e.text.shown().into_owned()).map_err(|r| r.why)
}

#[test]
fn smoke() {
    assert_eq!(one("a\nb\n", "a", "c").unwrap(), "c\nb\n");
}
