//! What `hermes-editor login` stored, and whether it still works as far as it is known here. Nobody is asked.
use super::{Finding, State};
use crate::{
    config::Config,
    model::auth::{
        Vault,
        store::{Login, Stored},
    },
};

const AREA: &str = "logins";

pub fn check(config: &Config, vault: &Vault) -> Vec<Finding> {
    let Some(store) = &vault.store else { return Vec::new() };
    let stored = match store.all() {
        Ok(stored) if stored.is_empty() => return Vec::new(),
        Ok(stored) => stored,
        Err(e) => return vec![Finding::new(AREA, State::Action, e.to_string())],
    };
    let mut all: Vec<Finding> = Vec::new();
    for (provider, stored) in &stored {
        let shadowed = config.providers.get(provider).is_some_and(|p| !p.keys.is_empty());
        all.push(match stored {
            Stored::Key { .. } if shadowed => {
                let text = format!("{provider}: a stored key, used only if the configured one is refused");
                Finding::new(AREA, State::Info, text)
            }
            Stored::Key { origin: Some(origin), .. } => {
                let text = format!("{provider}: a stored key for {origin} (not shown)");
                Finding::new(AREA, State::Good, text)
            }
            Stored::Key { .. } => {
                Finding::new(AREA, State::Good, format!("{provider}: a stored key (not shown)"))
            }
            Stored::Login(login) => of(provider, login),
        });
    }
    if store.is_exposed() {
        let file = store.file();
        let text = format!("{} can be read by other users", file.display());
        all.push(Finding::new(AREA, State::Action, text).next(format!("chmod 600 {}", file.display())));
    }
    all
}

fn of(provider: &str, login: &Login) -> Finding {
    let who = login.email.as_deref().map(|e| format!(" as {e}")).unwrap_or_default();
    if let Some(why) = &login.dead {
        let text = format!("{provider}: the login{who} is over ({why})");
        return Finding::new(AREA, State::Action, text).next(format!("hermes-editor login {provider}"));
    }
    let shared = if login.imported { ", shared with Codex" } else { "" };
    Finding::new(AREA, State::Good, format!("{provider}: signed in{who}{shared}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::DataDirs,
        model::auth::{save, store::CredentialStore},
        secret::Secret,
    };

    #[test]
    fn logins_are_listed_without_their_secrets_and_a_dead_one_needs_action() {
        let home = tempfile::tempdir().unwrap();
        let store = CredentialStore::new(&DataDirs::under(home.path()));
        let vault = Vault { store: Some(store.clone()), ..Vault::default() };
        let config = Config::default();
        assert_eq!(check(&config, &vault), []);
        let login = Login {
            access: Secret::new("acc-secret"),
            refresh: Secret::new("ref-secret"),
            account: None,
            email: Some("a@b.example".into()),
            issuer: "http://127.0.0.1:1".into(),
            client_id: "c".into(),
            expires: None,
            imported: false,
            dead: Some("refresh_token_reused".into()),
        };
        super::super::super::block_on(async {
            save(&store, "groq", Stored::Key { key: Secret::new("key-secret"), origin: None }).await.unwrap();
            save(&store, "codex", Stored::Login(login)).await.unwrap();
        })
        .unwrap();
        let found = check(&config, &vault);
        assert_eq!(found.iter().map(|f| f.state).collect::<Vec<_>>(), [State::Action, State::Good]);
        let text = format!("{found:?}");
        assert!(
            text.contains("refresh_token_reused") && text.contains("hermes-editor login codex"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
        std::fs::write(store.file(), "{").unwrap();
        assert_eq!(check(&config, &vault)[0].state, State::Action);
    }
}
