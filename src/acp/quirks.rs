//! What single clients need, by their `clientInfo`: a closed set of switches, as data in `editors/quirks.toml`.
use serde::Deserialize;
use std::collections::HashMap;

/// The switches of one client. All are off for a client without a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quirks {
    /// Takes `usage_update` (a v1 client on an older schema fails on an update that it does not know).
    #[serde(default)]
    pub usage_update: bool,
    /// What it chooses of models is for that session alone, and not what the next one begins with.
    #[serde(default)]
    pub chooses_once: bool,
}

const TABLE: &str = include_str!("../../editors/quirks.toml");

impl Quirks {
    /// The row of a client, by the name it gives itself.
    pub fn of(client: &str) -> Quirks {
        let client = client.to_lowercase();
        toml::from_str::<HashMap<String, Quirks>>(TABLE)
            .ok()
            .and_then(|table| table.get(&client).copied())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_valid_and_unknown_clients_get_nothing() {
        toml::from_str::<HashMap<String, Quirks>>(TABLE).unwrap();
        assert!(Quirks::of("Zed").usage_update);
        assert_eq!(Quirks::of("yopo"), Quirks::default());
        assert_eq!(Quirks::of(""), Quirks::default());
    }
}
