//! Showing a command as it is: nothing that hides, reorders or imitates passes unmarked.
//!
//! Sources: Unicode UAX #9 (bidirectional controls), UTS #39 (confusables), UAX #44 (default ignorable).

/// Most spaces in a row that are shown; more can push the rest of a line out of sight.
const MAX_SPACES: usize = 40;

/// The text with control characters, bidirectional and invisible characters, odd spaces and look-alike letters
/// written as `\u{…}`, and very long runs of spaces counted. Printable ASCII, line ends, tabs and ordinary letters
/// of any script stay as they are; doing it twice changes nothing.
pub fn escape_for_display(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut rest = s;
    while let Some(c) = rest.chars().next() {
        let run = rest.bytes().take_while(|b| *b == b' ').count();
        if run > MAX_SPACES {
            out.push_str(&format!("⟨{run} spaces⟩"));
            rest = &rest[run..];
            continue;
        }
        let len = match c {
            ' ' => run,
            c if c.is_alphabetic() => rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (part, tail) = rest.split_at(len);
        let mixed = mixes(part);
        for c in part.chars() {
            let emoji = c == '\u{fe0f}' && out.chars().next_back().is_some_and(|p| p >= '\u{2190}');
            match !emoji && (concealed(c).is_some() || imitates(c) || mixed && confusable(c)) {
                true => out.extend(c.escape_unicode()),
                false => out.push(c),
            }
        }
        rest = tail;
    }
    out
}

/// Why the text does not show what it is; `None` when it does.
pub(super) fn hidden(s: &str) -> Option<&'static str> {
    let mut previous = ' ';
    for c in s.chars() {
        let emoji = c == '\u{fe0f}' && previous >= '\u{2190}';
        previous = c;
        if let Some(why) = concealed(c).filter(|_| !emoji) {
            return Some(why);
        }
        if imitates(c) {
            return Some("it holds letters that look like others");
        }
    }
    let words = s.split(|c: char| !c.is_alphabetic());
    words.into_iter().any(mixes).then_some("it holds letters that look like others")
}

fn concealed(c: char) -> Option<&'static str> {
    match c {
        '\n' | '\t' => None,
        c if c.is_control() => Some("it holds control characters"),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some("it holds characters that reorder the line")
        }
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffc}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{e0000}'..='\u{e0fff}' => Some("it holds invisible characters"),
        ' ' => None,
        c if c.is_whitespace() => Some("it holds a space that is none for the shell"),
        _ => None,
    }
}

/// Characters that only exist to look like ASCII: full width, mathematical, Roman numerals, operators.
fn imitates(c: char) -> bool {
    matches!(c,
        '\u{ff04}' | '\u{ff06}' | '\u{ff10}'..='\u{ff19}' | '\u{ff1b}' | '\u{ff1c}' | '\u{ff1e}' | '\u{ff21}'..='\u{ff3a}'
        | '\u{ff3c}' | '\u{ff40}'..='\u{ff5a}' | '\u{ff5c}' | '\u{1d400}'..='\u{1d7ff}' | '\u{2160}'..='\u{217f}'
        | '\u{2010}'..='\u{2012}' | '\u{2212}' | '\u{2044}' | '\u{2215}' | '\u{29f8}' | '\u{37e}' | '\u{1c3}'
        | '\u{2024}' | '\u{2223}' | '\u{a789}' | '\u{251}' | '\u{261}')
}

/// Whether a word mixes ASCII letters with letters of another script that look like them.
fn mixes(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_alphabetic()) && word.chars().any(confusable)
}

fn confusable(c: char) -> bool {
    "аеорсухіјѕһԁԛԝАВЕКМНОРСТХУІЈЅԌԐՏոսօզցհքӏ\u{3bf}\u{3bd}\u{3b9}\u{3c1}\u{3c5}\u{3f2}ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
        .contains(c)
}
