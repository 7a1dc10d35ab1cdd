//! The README's table of providers is that of `providers.toml`.
use std::{collections::BTreeSet, fs, path::PathBuf};

fn read(path: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn every_provider_says_how_it_was_tested() {
    let rows: toml::Table = read("src/model/providers.toml").parse().unwrap();
    let rows: BTreeSet<String> = rows.keys().filter(|name| *name != "generic").cloned().collect();
    let readme = read("README.md");
    let table = readme.split("### Models: what was tested how").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(lines.iter().all(|cells| cells.len() == 6 && cells.iter().all(|c| !c.is_empty())), "{lines:?}");
    let named: BTreeSet<String> =
        lines.iter().filter_map(|cells| cells[0].split('`').nth(1)).map(str::to_owned).collect();
    assert_eq!(named, rows, "README.md and src/model/providers.toml name different providers");
}
