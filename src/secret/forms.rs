//! The forms in which a secret may be met: base64 of it, alone or inside something longer (`Basic` of `user:key`).
use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

/// A shorter piece of base64 could be part of anything.
const SHORTEST: usize = 12;

/// What is sure to occur in any base64 of any text that holds these bytes: by where they begin in a group of three, without
/// the characters that their neighbours have a part in.
pub(super) fn base64(bytes: &[u8]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for offset in 0..3 {
        let padded: Vec<u8> = std::iter::repeat_n(0, offset).chain(bytes.iter().copied()).collect();
        // Characters of six bits: the first that is ours alone, and the end of the last.
        let (from, to) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
        if to.saturating_sub(from) < SHORTEST {
            continue;
        }
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let form = engine.encode(&padded)[from..to].to_owned();
            if !all.contains(&form) {
                all.push(form);
            }
        }
    }
    all
}
