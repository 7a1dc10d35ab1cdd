//! What is known of models beforehand: `models.toml`.
use super::row::ModelRow;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

const TABLE: &str = include_str!("../models.toml");

type Section = BTreeMap<String, ModelRow>;

/// The models of a provider, read when they are first needed and not the others': a session opens fast. The table is
/// compiled in and tested; without it nothing is known.
fn section(provider: &str) -> &'static Section {
    static READ: Mutex<BTreeMap<String, &'static Section>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = read.get(provider) {
        return known;
    }
    let section = text(provider).and_then(|text| toml::from_str(text).ok()).unwrap_or_default();
    // Asked for by the names of our own rows alone, so these are few.
    let section: &'static Section = Box::leak(Box::new(section));
    read.insert(provider.to_owned(), section);
    section
}

/// What stands under a section's head.
fn text(provider: &str) -> Option<&'static str> {
    let head = format!("\n[{provider}]\n");
    let at = TABLE.find(&head)? + head.len();
    let rest = &TABLE[at..];
    Some(rest.find("\n[").map_or(rest, |end| &rest[..end]))
}

/// What is known of a model of a provider: by its name, or its name without a date or `-latest` at the end. No other
/// name will do: a family's next model has other prices.
pub fn of(provider: &str, id: &str) -> Option<ModelRow> {
    let section = section(provider);
    let found = section.get(id).or_else(|| section.get(undated(id)?))?;
    Some(ModelRow { id: id.to_owned(), tools: Some(true), ..found.clone() })
}

/// The names of the models of a provider.
pub fn ids(provider: &str) -> impl Iterator<Item = &'static str> {
    section(provider).keys().map(String::as_str)
}

/// `gpt-5-2025-08-07`, `claude-sonnet-4-5-20250929`, `x-latest`: what stands before.
fn undated(id: &str) -> Option<&str> {
    let dated = |shape: &str| {
        let (short, date) = id.split_at_checked(id.len().checked_sub(shape.len())?)?;
        let fits = |(b, s): (u8, u8)| if s == b'0' { b.is_ascii_digit() } else { b == s };
        (!short.is_empty() && date.bytes().zip(shape.bytes()).all(fits)).then_some(short)
    };
    id.strip_suffix("-latest").or_else(|| dated("-0000-00-00")).or_else(|| dated("-00000000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        let table: BTreeMap<String, Section> = toml::from_str(TABLE).unwrap();
        let rows: BTreeMap<String, super::super::row::ProviderRow> =
            toml::from_str(super::super::ROWS).unwrap();
        let mut count = 0;
        for (provider, section) in &table {
            let row = rows.get(provider).unwrap_or_else(|| panic!("{provider} has no row"));
            if let Some(model) = &row.model {
                assert!(of(provider, model).is_some(), "{provider}/{model} is not known");
            }
            assert_eq!(super::section(provider), section);
            for (id, model) in section {
                count += 1;
                assert!(model.context.is_some_and(|c| c >= 8_000), "{provider}/{id}");
                assert!(model.images.is_some() && model.id.is_empty(), "{provider}/{id}");
                if let Some(price) = model.price {
                    assert!(price.input <= price.output && price.output < 1_000.0, "{provider}/{id}");
                    assert!(price.cached.is_none_or(|c| c <= price.input), "{provider}/{id}");
                }
            }
        }
        assert!(count > 100, "{count}");
    }

    #[test]
    fn a_name_is_found_with_its_date_and_no_other() {
        for (id, short) in [
            ("gpt-5-2025-08-07", Some("gpt-5")),
            ("claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5")),
            ("m-latest", Some("m")),
            ("gpt-5", None),
            ("2025-08-07", None),
            ("x", None),
            ("é-20250929", Some("é")),
            ("aé025-08-07", None),
        ] {
            assert_eq!(undated(id), short, "{id}");
        }
        assert_eq!(of("openai", "gpt-5-2025-08-07").unwrap().context, of("openai", "gpt-5").unwrap().context);
        assert!(of("openai", "gpt-5-turbo-9000").is_none());
        assert!(of("nobody", "gpt-5").is_none());
    }
}
