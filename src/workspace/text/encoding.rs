//! Bytes to text and back, without loss.

use super::{BOM, NotText, Unencodable};
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::EncoderResult;

/// Bytes that are looked at to guess a legacy encoding, from the first that is not ASCII.
const SAMPLE: usize = 1024 * 1024;

/// How a file's characters are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-16, low byte first; always with a byte-order mark.
    Utf16Le,
    /// UTF-16, high byte first; always with a byte-order mark.
    Utf16Be,
    /// A single- or multi-byte encoding of the WHATWG Encoding Standard.
    Legacy(&'static encoding_rs::Encoding),
}

impl Encoding {
    /// The name in the WHATWG Encoding Standard.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF-8",
            Encoding::Utf16Le => "UTF-16LE",
            Encoding::Utf16Be => "UTF-16BE",
            Encoding::Legacy(e) => e.name(),
        }
    }

    /// Whether every character can be stored.
    pub fn is_unicode(self) -> bool {
        match self {
            Encoding::Utf8 | Encoding::Utf16Le | Encoding::Utf16Be => true,
            Encoding::Legacy(e) => e == encoding_rs::GB18030,
        }
    }
}

pub(super) struct Decoded {
    pub content: String,
    pub encoding: Encoding,
    pub bom: bool,
    pub guessed: bool,
}

pub(super) fn decode(bytes: &[u8]) -> Result<Decoded, NotText> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, Encoding::Utf16Le, bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, Encoding::Utf16Be, bytes),
        _ if bytes.contains(&0) => Err(binary(bytes, "it has NUL bytes")),
        [0xef, 0xbb, 0xbf, rest @ ..] => match std::str::from_utf8(rest) {
            Ok(s) => {
                Ok(Decoded { content: s.to_owned(), encoding: Encoding::Utf8, bom: true, guessed: false })
            }
            Err(_) => Err(NotText::Lossy { encoding: "UTF-8" }),
        },
        _ => match std::str::from_utf8(bytes) {
            // ASCII to look at; what is added must not be UTF-8.
            Ok(s) if ["\u{1b}$B", "\u{1b}$@", "\u{1b}$(D"].iter().any(|shift| s.contains(shift)) => {
                Err(NotText::Shifting { encoding: encoding_rs::ISO_2022_JP.name() })
            }
            Ok(s) => {
                Ok(Decoded { content: s.to_owned(), encoding: Encoding::Utf8, bom: false, guessed: false })
            }
            Err(e) => legacy(bytes, e.valid_up_to()),
        },
    }
}

fn utf16(units: &[u8], encoding: Encoding, all: &[u8]) -> Result<Decoded, NotText> {
    let (pairs, odd) = units.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(NotText::Lossy { encoding: encoding.name() });
    }
    let read = |b: &[u8; 2]| {
        if encoding == Encoding::Utf16Be { u16::from_be_bytes(*b) } else { u16::from_le_bytes(*b) }
    };
    let mut content = String::with_capacity(units.len());
    for c in char::decode_utf16(pairs.iter().map(read)) {
        match c {
            Ok('\0') => return Err(binary(all, "it has NUL characters")),
            Ok(c) => content.push(c),
            Err(_) => return Err(NotText::Lossy { encoding: encoding.name() }),
        }
    }
    Ok(Decoded { content, encoding, bom: true, guessed: false })
}

fn legacy(bytes: &[u8], ascii_or_utf8: usize) -> Result<Decoded, NotText> {
    if bytes.iter().any(|b| matches!(b, 0x01..=0x07 | 0x0b | 0x0e..=0x19 | 0x1c..=0x1f)) {
        return Err(binary(bytes, "it has control characters and is not UTF-8"));
    }
    if mostly_utf8(bytes) {
        return Err(NotText::Lossy { encoding: "UTF-8" });
    }
    let first = bytes.iter().position(|b| *b >= 0x80).unwrap_or(ascii_or_utf8);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(&bytes[first..bytes.len().min(first + SAMPLE)], true);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    let content = encoding
        .decode_without_bom_handling_and_without_replacement(bytes)
        .map(std::borrow::Cow::into_owned)
        .ok_or(NotText::Lossy { encoding: encoding.name() })?;
    match encode_legacy(&content, encoding) {
        Ok(again) if again == bytes => {
            Ok(Decoded { content, encoding: Encoding::Legacy(encoding), bom: false, guessed: true })
        }
        _ => Err(NotText::Lossy { encoding: encoding.name() }),
    }
}

/// Whether bytes that are not UTF-8 look like damaged UTF-8: there are as many characters of several bytes as broken places. A
/// legacy encoding would show such text as gibberish, and write new text in another encoding than the rest.
fn mostly_utf8(bytes: &[u8]) -> bool {
    let (mut whole, mut broken) = (0usize, 0usize);
    for chunk in bytes.utf8_chunks() {
        whole += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    whole > 0 && whole >= broken
}

fn binary(bytes: &[u8], why: &str) -> NotText {
    let why = match infer::get(bytes) {
        Some(kind) => format!("{}: {why}", kind.mime_type()),
        None => why.to_owned(),
    };
    NotText::Binary { why }
}

pub(super) fn encode(content: &str, encoding: Encoding, bom: bool) -> Result<Vec<u8>, Unencodable> {
    match encoding {
        Encoding::Utf8 => {
            let mut out = Vec::with_capacity(content.len() + 3);
            if bom {
                out.extend_from_slice(BOM.encode_utf8(&mut [0; 3]).as_bytes());
            }
            out.extend_from_slice(content.as_bytes());
            Ok(out)
        }
        Encoding::Utf16Le | Encoding::Utf16Be => {
            let mark = bom.then_some(0xfeff_u16);
            let units = mark.into_iter().chain(content.encode_utf16());
            Ok(if encoding == Encoding::Utf16Be {
                units.flat_map(u16::to_be_bytes).collect()
            } else {
                units.flat_map(u16::to_le_bytes).collect()
            })
        }
        Encoding::Legacy(legacy) => encode_legacy(content, legacy).map_err(|(at, character)| Unencodable {
            encoding: legacy.name(),
            character,
            line: super::lines(&content[..at]).filter(|l| !l.ending.is_empty()).count() + 1,
        }),
    }
}

/// The bytes, or where the first character is that has no code.
fn encode_legacy(content: &str, encoding: &'static encoding_rs::Encoding) -> Result<Vec<u8>, (usize, char)> {
    let mut encoder = encoding.new_encoder();
    let mut out = Vec::with_capacity(content.len() + 16);
    let mut at = 0;
    loop {
        let (result, read) =
            encoder.encode_from_utf8_to_vec_without_replacement(&content[at..], &mut out, true);
        at += read;
        match result {
            EncoderResult::InputEmpty => return Ok(out),
            EncoderResult::OutputFull => out.reserve(content.len() - at + 16),
            EncoderResult::Unmappable(c) => return Err((at - c.len_utf8(), c)),
        }
    }
}
