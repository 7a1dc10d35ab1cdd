//! Lone UTF-16 surrogates in JSON escapes: no text has them, strict servers refuse them, serde_json cannot read them.
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// The JSON text with each `\uXXXX` escape that is half a surrogate pair turned into U+FFFD.
pub fn mend(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let (mut out, mut kept, mut at): (Option<String>, usize, usize) = (None, 0, 0);
    while let Some(step) = bytes[at..].iter().position(|b| *b == b'\\') {
        at += step;
        let Some(unit) = unit_at(bytes, at) else {
            // Any other escape is two bytes; an escaped backslash must not be taken for the start of one.
            at = (at + 2).min(bytes.len());
            continue;
        };
        let lone = match unit {
            0xD800..=0xDBFF => match unit_at(bytes, at + 6) {
                Some(0xDC00..=0xDFFF) => {
                    at += 12;
                    continue;
                }
                _ => true,
            },
            0xDC00..=0xDFFF => true,
            _ => false,
        };
        if lone {
            let out = out.get_or_insert_with(String::new);
            out.push_str(&json[kept..at]);
            out.push_str("\\ufffd");
            kept = at + 6;
        }
        at += 6;
    }
    match out {
        None => Cow::Borrowed(json),
        Some(mut out) => {
            out.push_str(&json[kept..]);
            Cow::Owned(out)
        }
    }
}

/// The JSON as a value; half surrogate pairs in it are replaced, and what cannot be read is nothing.
pub fn read<T: DeserializeOwned + Default>(json: &str) -> T {
    serde_json::from_str(json).or_else(|_| serde_json::from_str(&mend(json))).unwrap_or_default()
}

/// The code unit of the escape `\uXXXX` that begins at `at`.
fn unit_at(bytes: &[u8], at: usize) -> Option<u16> {
    let hex = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    hex.iter().try_fold(0u16, |n, b| Some(n << 4 | (*b as char).to_digit(16)? as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lone_halves_become_replacement_characters() {
        for (input, want) in [
            (r#""a😀b""#, r#""a😀b""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ude00x""#, r#""\ufffdx""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd😀""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\n\ud83d\"""#, r#""\n\ufffd\"""#),
            (r#""\ud83"#, r#""\ud83"#),
            ("\"日\\", "\"日\\"),
        ] {
            let want: String = want.replace("😀", "\\ud83d\\ude00");
            assert_eq!(mend(&input.replace("😀", "\\ud83d\\ude00")), want);
        }
    }

    proptest! {
        #[test]
        fn what_was_a_json_string_but_for_surrogates_parses(units in proptest::collection::vec(prop_oneof![0xD7F0u16..0xE010, 0x20u16..0x7f], 0..20)) {
            let json = format!("\"{}\"", units.iter().map(|u| format!("\\u{u:04x}")).collect::<String>());
            prop_assert_eq!(serde_json::from_str::<String>(&mend(&json)).unwrap(), String::from_utf16_lossy(&units));
        }
    }
}
