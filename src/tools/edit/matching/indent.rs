//! One rule that explains the indentation of every line of a block.

/// How the indentation of a block in the file follows from the indentation that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The file has this much more in front of every line.
    Deeper(String),
    /// The file has this much less in front of every line.
    Shallower(String),
    /// The file has one tab for so many spaces.
    Tabs(usize),
    /// The file has so many spaces for one tab.
    Spaces(usize),
    /// The file has steps of `to` spaces where steps of `from` were sent.
    Steps {
        /// Spaces of one step as sent.
        from: usize,
        /// Spaces of one step in the file.
        to: usize,
    },
}

/// The spaces and tabs in front of a line.
pub(crate) fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

pub(crate) fn is_blank(line: &str) -> bool {
    line.trim_matches([' ', '\t']).is_empty()
}

/// `indent` as whole units followed by a rest of spaces that is shorter than a unit.
fn tabs_of(indent: &str) -> Option<(usize, usize)> {
    let tabs = indent.len() - indent.trim_start_matches('\t').len();
    let rest = &indent[tabs..];
    rest.bytes().all(|b| b == b' ').then_some((tabs, rest.len()))
}

fn spaces_of(indent: &str) -> Option<usize> {
    indent.bytes().all(|b| b == b' ').then_some(indent.len())
}

impl Rule {
    /// The indentation in the file for one that was sent; `None` where the rule says nothing about it.
    pub(crate) fn map(&self, sent: &str) -> Option<String> {
        match self {
            Rule::Deeper(more) => Some(format!("{more}{sent}")),
            Rule::Shallower(less) => sent.strip_prefix(less.as_str()).map(str::to_owned),
            Rule::Tabs(size) => {
                let n = spaces_of(sent)?;
                Some(format!("{}{}", "\t".repeat(n / size), " ".repeat(n % size)))
            }
            Rule::Spaces(size) => {
                let (tabs, rest) = tabs_of(sent)?;
                Some(" ".repeat(tabs * size + rest))
            }
            Rule::Steps { from, to } => {
                let n = spaces_of(sent)?;
                (n % from == 0).then(|| " ".repeat(n / from * to))
            }
        }
    }

    fn explains(&self, pairs: &[(&str, &str)]) -> bool {
        pairs.iter().all(|(sent, file)| self.map(sent).as_deref() == Some(file))
    }

    /// The rules that turn what was sent into what the file has, for every pair. Several are rivals: where they give the
    /// new lines different indentation, neither is known to be right.
    pub(crate) fn all(pairs: &[(&str, &str)]) -> Vec<Rule> {
        let Some((sent, file)) = pairs.first() else { return Vec::new() };
        let shift = match (file.strip_suffix(sent), sent.strip_suffix(file)) {
            (Some(more), _) if !more.is_empty() => Some(Rule::Deeper(more.to_owned())),
            (_, Some(less)) if !less.is_empty() => Some(Rule::Shallower(less.to_owned())),
            _ => None,
        };
        shift.filter(|rule| rule.explains(pairs)).into_iter().chain(Rule::units(pairs)).collect()
    }

    /// The changes of unit that explain every pair. A tab's width follows from any pair that has one; several steps of spaces
    /// may fit, the largest first.
    pub(crate) fn units(pairs: &[(&str, &str)]) -> Vec<Rule> {
        const SIZES: [usize; 4] = [8, 4, 3, 2];
        if pairs.iter().all(|(a, b)| a == b) {
            return Vec::new();
        }
        let units = SIZES.into_iter().flat_map(|n| [Rule::Tabs(n), Rule::Spaces(n)]);
        let steps = SIZES.into_iter().flat_map(|from| SIZES.map(|to| Rule::Steps { from, to }));
        units.chain(steps).filter(|rule| rule.explains(pairs)).collect()
    }

    /// Whether the rule moves a block as a whole, so that it says nothing about other blocks.
    pub(crate) fn is_shift(&self) -> bool {
        matches!(self, Rule::Deeper(_) | Rule::Shallower(_))
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rule::Deeper(more) => write!(f, "the file is indented by {} more", described(more)),
            Rule::Shallower(less) => write!(f, "the file is indented by {} less", described(less)),
            Rule::Tabs(size) => write!(f, "the file has tabs where {size} spaces were sent"),
            Rule::Spaces(size) => write!(f, "the file has {size} spaces where tabs were sent"),
            Rule::Steps { from, to } => write!(f, "the file is indented in steps of {to} spaces, not {from}"),
        }
    }
}

/// White space in words: `1 tab`, `4 spaces`, `2 tabs and 1 space`, `no white space`.
pub(crate) fn described(white: &str) -> String {
    let tabs = white.matches('\t').count();
    let spaces = white.matches(' ').count();
    let other = white.chars().count() - tabs - spaces;
    let part = |n: usize, what: &str| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    };
    let parts: Vec<_> =
        [part(tabs, "tab"), part(spaces, "space"), part(other, "other white-space character")]
            .into_iter()
            .flatten()
            .collect();
    if parts.is_empty() { "no white space".to_owned() } else { parts.join(" and ") }
}
