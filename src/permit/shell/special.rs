//! Read-only rules of programs whose arguments are a language of their own: find, sed, awk, test, date, tar.

use super::lex::Word;
use super::options::Operands::{Paths, Text};
use super::options::{Operand, Parsed, check, spec};

type Checked = Result<Parsed, String>;

fn operand(w: &Word) -> Operand {
    Operand { text: w.text.clone(), glob: w.glob }
}

const BARE: &[&str] = &[
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-quit",
    "-depth",
    "-d",
    "-mount",
    "-xdev",
    "-follow",
    "-daystart",
    "-noleaf",
    "-empty",
    "-executable",
    "-readable",
    "-writable",
    "-nouser",
    "-nogroup",
    "-true",
    "-false",
    "-not",
    "-and",
    "-or",
    "-a",
    "-o",
    "!",
    "(",
    ")",
    ",",
    "-warn",
    "-nowarn",
    "-ignore_readdir_race",
];

const VALUED: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-regextype",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-atime",
    "-ctime",
    "-mmin",
    "-amin",
    "-cmin",
    "-maxdepth",
    "-mindepth",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-inum",
    "-links",
    "-fstype",
    "-lname",
    "-ilname",
    "-used",
    "-printf",
    "-context",
];

const PATH: &[&str] = &["-newer", "-anewer", "-cnewer", "-samefile"];

/// `find`: start points, then tests only. Actions that write, delete or run are in no list (GNU findutils 4.9).
pub(super) fn find(args: &[Word]) -> Checked {
    let mut parsed = Parsed::default();
    let mut words = args.iter().peekable();
    while let Some(w) = words.next_if(|w| ["-H", "-L", "-P"].contains(&w.text.as_str())) {
        parsed.seen.push(w.text.clone());
    }
    while let Some(w) = words.next_if(|w| !w.text.starts_with(['-', '(', ')', '!', ','])) {
        if w.glob_first {
            return Err(format!("`{}` may stand for a file that is named like an option of `find`", w.text));
        }
        parsed.reads.push(operand(w));
    }
    while let Some(w) = words.next() {
        let text = w.text.as_str();
        if w.disguised || w.glob {
            return Err(format!("`{text}` may stand for another option of `find`"));
        }
        let value = if BARE.contains(&text) {
            None
        } else if VALUED.contains(&text)
            || PATH.contains(&text)
            || text.starts_with("-newer") && text.len() == 8
        {
            Some(words.next().ok_or_else(|| format!("`find {text}` lacks a value"))?)
        } else {
            return Err(format!("`find {text}` is not known to be read-only"));
        };
        match value {
            Some(v) if v.glob && (PATH.contains(&text) || text.starts_with("-newer")) => {
                return Err(format!("the unquoted pattern `{}` may become other words of `find`", v.text));
            }
            Some(v) if PATH.contains(&text) || text.starts_with("-newer") => parsed.reads.push(operand(v)),
            // Names that end in `.rs` are no options of `find`.
            Some(v)
                if v.glob && !v.text.rsplit(['*', '?', ']']).next().is_some_and(|end| end.contains('.')) =>
            {
                return Err(format!("the unquoted pattern `{}` may become other words of `find`", v.text));
            }
            _ => {}
        }
    }
    Ok(parsed)
}

/// `sed`, with scripts of print, delete, quit and substitute only.
pub(super) fn sed(args: &[Word]) -> Checked {
    const SED: super::options::Spec = spec(
        "sed",
        Paths,
        "-nErsuz -e= -l= --quiet --silent --regexp-extended --separate --unbuffered --null-data --expression= --posix",
    );
    let mut parsed = check(&SED, args)?;
    let scripts = match parsed.texts.is_empty() {
        true if !parsed.reads.is_empty() => {
            let script = parsed.reads.remove(0);
            if script.glob {
                return Err("the script of `sed` holds an unquoted wildcard".into());
            }
            vec![script.text]
        }
        true => return Err("`sed` without a script".into()),
        false => std::mem::take(&mut parsed.texts),
    };
    // `-l` takes a number, which is a harmless script too.
    match scripts.iter().all(|s| s.bytes().all(|b| b.is_ascii_digit()) || sed_script(s)) {
        true => Ok(parsed),
        false => Err("the script of `sed` may do more than print, delete or replace".into()),
    }
}

/// Whether a script has only the commands p, P, d, D, q, Q, =, l, n, N, h, H, g, G, x, s and y, none with a file or
/// a program. Writing (w, W), reading (r, R), running (e) and s///e, s///w are the reason for the list.
pub(super) fn sed_script(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';', '\n', '}', '{']);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = sed_address(rest) else { return false };
        let after = after.trim_start_matches([' ', '!', '{']);
        let Some(command) = after.chars().next() else { return false };
        let Some(tail) = after.get(command.len_utf8()..) else { return false };
        let tail = match command {
            'p' | 'P' | 'd' | 'D' | '=' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' => Some(tail),
            'q' | 'Q' | 'l' => Some(tail.trim_start_matches(|c: char| c.is_ascii_digit())),
            's' => parts(tail, 2)
                .map(|t| t.trim_start_matches(|c: char| "gpiI".contains(c) || c.is_ascii_digit())),
            'y' => parts(tail, 2),
            _ => None,
        };
        let Some(tail) = tail else { return false };
        let tail = tail.trim_start_matches([' ', '\t']);
        if !(tail.is_empty() || tail.starts_with([';', '\n', '}'])) {
            return false;
        }
        rest = tail;
    }
}

fn sed_address(mut rest: &str) -> Option<&str> {
    for turn in 0..2 {
        if turn == 1 {
            match rest.trim_start_matches(' ').strip_prefix(',') {
                Some(after) => rest = after.trim_start_matches([' ', '+', '~']),
                None => return Some(rest),
            }
        }
        rest = match rest.chars().next()? {
            '/' => parts(rest, 1)?.trim_start_matches('I'),
            '$' => rest.get(1..)?,
            c if c.is_ascii_digit() => rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '~'),
            _ => return Some(rest),
        };
    }
    Some(rest)
}

/// Skips a delimiter and `count` texts that end in it. A delimiter inside brackets is refused: seds differ on it.
fn parts(text: &str, count: usize) -> Option<&str> {
    let delimiter = text.chars().next().filter(|c| c.is_ascii_punctuation() && *c != '\\')?;
    let (mut left, mut bracket, mut chars) = (count, false, text.char_indices().skip(1));
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next()?;
            }
            '\n' => return None,
            c if c == delimiter && bracket => return None,
            c if c == delimiter => {
                left -= 1;
                if left == 0 {
                    return text.get(at + 1..);
                }
            }
            '[' if text.get(at + 1..).is_some_and(|t| t.starts_with([']', '^'])) => return None,
            '[' => bracket = true,
            ']' => bracket = false,
            _ => {}
        }
    }
    None
}

/// `awk` with a program that only selects and prints: no redirection, no pipe, no call but of string functions.
pub(super) fn awk(args: &[Word]) -> Checked {
    const AWK: super::options::Spec = spec("awk", Paths, "-F= -v= --field-separator= --assign=");
    let mut parsed = check(&AWK, args)?;
    if parsed.reads.is_empty() {
        return Err("`awk` without a program".into());
    }
    let program = parsed.reads.remove(0);
    match !program.glob && awk_program(&program.text) {
        true => Ok(parsed),
        false => Err("the program of `awk` may do more than select and print".into()),
    }
}

/// Strings and patterns are not told apart from code, so nothing can hide in them.
fn awk_program(text: &str) -> bool {
    const BANNED: &[&str] = &[
        "system",
        "getline",
        "environ",
        "procinfo",
        "symtab",
        "functab",
        "close",
        "fflush",
        "include",
        "load",
        "extension",
        "argv",
        "argc",
    ];
    let lower = text.to_lowercase();
    let quiet = text.replace("||", "  ").replace(">=", "  ");
    let quiet = if compares(&quiet) { quiet.replace('>', " ") } else { quiet };
    text.bytes().all(|b| (0x20..0x7f).contains(&b) || b == b'\n' || b == b'\t')
        && !quiet.contains(['|', '>', '@', '`'])
        && !text.contains("\\\n")
        && !BANNED.iter().any(|b| lower.contains(b))
}

/// Whether each `>` can only be a comparison: outside of braces, or inside parentheses. Told only where neither
/// strings nor patterns nor comments can mislead the count.
fn compares(text: &str) -> bool {
    let (mut braces, mut parentheses) = (0i32, 0i32);
    !text.contains(['"', '/', '\\', '#'])
        && text.chars().all(|c| {
            match c {
                '{' => braces += 1,
                '}' => braces -= 1,
                '(' => parentheses += 1,
                ')' => parentheses -= 1,
                _ => {}
            }
            c != '>' || braces == 0 || parentheses > 0
        })
}

/// `test` and `[`: file and string questions. `-v` and `-R` evaluate subscripts, which can run commands. Whether a
/// file is there is no secret, so nothing counts as read.
pub(super) fn test(args: &[Word], bracket: bool) -> Checked {
    let args = match (bracket, args.split_last()) {
        (true, Some((last, rest))) if last.text == "]" && !last.quoted => rest,
        (true, _) => return Err("`[` without its `]`".into()),
        (false, _) => args,
    };
    match args.iter().find(|w| w.disguised || matches!(w.text.as_str(), "-v" | "-R")) {
        Some(w) => Err(format!("`test {}` is not known to be read-only", w.text)),
        None => Ok(Parsed::default()),
    }
}

/// `date`: shows the time, sets it never.
pub(super) fn date(args: &[Word]) -> Checked {
    const DATE: super::options::Spec = spec(
        "date",
        Text,
        "-Ru -d= -r@ -I? --date= --reference@ --iso-8601? --rfc-email --rfc-3339= --utc --universal",
    );
    let parsed = check(&DATE, args)?;
    match parsed.operands.iter().all(|o| o.starts_with('+')) {
        true => Ok(parsed),
        false => Err("`date` with a bare argument sets the clock".into()),
    }
}

/// `tar`: lists an archive.
pub(super) fn tar(args: &[Word]) -> Checked {
    let tar = spec("tar", Text, "-tvzjJ -f@ --list --verbose --gzip --bzip2 --xz --file@ --exclude=");
    let old = args.first().filter(|w| !w.text.starts_with('-') && !w.quoted);
    let parsed = match old {
        Some(first) => {
            let mut dashed = first.clone();
            dashed.text.insert(0, '-');
            let mut rewritten = vec![dashed];
            rewritten.extend(args[1..].iter().cloned());
            check(&tar, &rewritten)?
        }
        None => check(&tar, args)?,
    };
    if parsed.reads.iter().any(|file| file.text.contains(':')) {
        return Err("`tar` takes an archive with a colon for one on another machine".into());
    }
    match parsed.seen.iter().any(|s| s == "-t" || s == "--list") {
        true => Ok(parsed),
        false => Err("`tar` does more than list".into()),
    }
}

/// `jq` filters that show the environment.
pub(super) fn jq_filter(filter: &str) -> bool {
    let between = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$' || c == '.');
    !filter
        .split(between)
        .any(|w| ["env", "import", "include"].contains(&w) || w.starts_with("env.") || w.starts_with("$ENV"))
}

/// `printf`: text only; `-v` sets a variable, whose subscript can run a command.
pub(super) fn printf(args: &[Word]) -> Checked {
    match args.first() {
        Some(w) if w.text.starts_with('-') && w.text != "--" => Err("`printf -v` sets a variable".into()),
        Some(w) if w.glob => Err("the format of `printf` holds a wildcard".into()),
        _ => Ok(Parsed::default()),
    }
}
