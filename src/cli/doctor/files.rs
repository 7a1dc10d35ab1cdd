//! The configuration files and the database.
use super::{Finding, State};
use crate::{
    config::{Config, DataDirs, ProblemKind, Source},
    store::{Filter, Store},
};

pub fn config(dirs: &DataDirs, config: &Config) -> Vec<Finding> {
    let area = "configuration";
    let file = dirs.config_file();
    let mut all = Vec::new();
    let left_out = config.problems.iter().any(|p| {
        matches!(p.kind, ProblemKind::Unreadable(_)) && matches!(&p.source, Source::User(of) if *of == file)
    });
    // One that was left out is a problem, said below.
    if left_out {
    } else if file.is_file() {
        all.push(Finding::new(area, State::Good, format!("{} is read", file.display())));
    } else {
        all.push(Finding::new(area, State::Info, format!("no file at {}: defaults hold", file.display())));
    }
    all.extend(config.problems.iter().map(|p| Finding::new(area, State::Action, p.to_string())));
    all
}

pub fn store(dirs: &DataDirs) -> Vec<Finding> {
    let area = "data";
    let file = dirs.database();
    if !file.exists() {
        let text = format!("no sessions yet; they will be kept in {}", file.display());
        return vec![Finding::new(area, State::Info, text)];
    }
    vec![match sessions(dirs) {
        Ok((count, more)) => {
            let more = if more { "at least " } else { "" };
            let size = std::fs::metadata(&file).map(|m| m.len() / 1024).unwrap_or_default();
            let sessions = if count == 1 { "session" } else { "sessions" };
            let text = format!("{more}{count} {sessions} in {} ({size} KiB)", file.display());
            Finding::new(area, State::Good, text)
        }
        Err(e) => Finding::new(area, State::Action, e.to_string()),
    }]
}

/// Opens the database as a session does, which also checks its version; gives how many sessions one page holds.
fn sessions(dirs: &DataDirs) -> anyhow::Result<(usize, bool)> {
    let store = Store::open(dirs)?;
    super::super::block_on(async {
        store.check().await?;
        let page = store.heads(Filter { limit: 500, all_origins: true, ..Filter::default() }).await?;
        Ok((page.heads.len(), page.next.is_some()))
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_left_out_is_not_called_read() {
        let home = tempfile::tempdir().unwrap();
        let dirs = DataDirs::under(home.path());
        std::fs::create_dir_all(dirs.config_file().parent().unwrap()).unwrap();
        let cases = [
            (&b"model = \"openai/m\""[..], &[State::Good][..]),
            (b"model = 3", &[State::Good, State::Action]),
            (b"model = [", &[State::Action]),
            (b"\xff\xfe\xfd", &[State::Action]),
        ];
        for (text, want) in cases {
            std::fs::write(dirs.config_file(), text).unwrap();
            let found = config(&dirs, &Config::load(&dirs, |_| None));
            assert_eq!(found.iter().map(|f| f.state).collect::<Vec<_>>(), want, "{found:?}");
        }
    }

    #[test]
    fn a_database_that_is_none_needs_action_and_a_missing_one_does_not() {
        let home = tempfile::tempdir().unwrap();
        let dirs = DataDirs::under(home.path());
        assert_eq!(store(&dirs)[0].state, State::Info);
        std::fs::create_dir_all(&dirs.data).unwrap();
        std::fs::write(
            dirs.database(),
            "this is not a database, and it is longer than its header would be".repeat(9),
        )
        .unwrap();
        assert_eq!(store(&dirs)[0].state, State::Action, "{:?}", store(&dirs));
        std::fs::remove_file(dirs.database()).unwrap();
        super::super::super::block_on(async { Store::open(&dirs).unwrap().check().await.unwrap() }).unwrap();
        assert_eq!(store(&dirs)[0].state, State::Good, "{:?}", store(&dirs));
    }

    #[test]
    fn problems_of_the_configuration_need_action() {
        let home = tempfile::tempdir().unwrap();
        let dirs = DataDirs::under(home.path());
        std::fs::create_dir_all(&dirs.config).unwrap();
        std::fs::write(dirs.config_file(), "modle = \"a/b\"\n").unwrap();
        let findings = config(&dirs, &Config::load(&dirs, |_| None));
        assert_eq!(findings.iter().map(|f| f.state).collect::<Vec<_>>(), [State::Good, State::Action]);
    }
}
