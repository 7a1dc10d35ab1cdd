//! Reads the `.case` tables in `fixtures/tools`; their form is told in the README there.

/// One case: its name and its sections, in order.
pub(crate) struct Case {
    pub name: String,
    pub sections: Vec<Section>,
}

/// A section: the first word of its header, the other words, and its text.
pub(crate) struct Section {
    pub kind: String,
    pub words: Vec<String>,
    pub text: String,
}

impl Case {
    pub fn get(&self, kind: &str) -> Option<&Section> {
        self.sections.iter().find(|s| s.kind == kind)
    }
}

/// All cases of `fixtures/tools/<folder>`.
pub(crate) fn cases(folder: &str) -> Vec<Case> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tools").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "case")) {
        let text = std::fs::read_to_string(file).unwrap();
        for case in text.split("\n## ").skip(usize::from(!text.starts_with("## "))) {
            found.push(read(case.trim_start_matches("## "), &file.file_name().unwrap().to_string_lossy()));
        }
    }
    assert!(!found.is_empty());
    found
}

fn read(case: &str, file: &str) -> Case {
    let mut parts = case.split("\n=== ");
    let name = format!("{file}: {}", parts.next().unwrap().lines().next().unwrap());
    let sections = parts.map(section).collect();
    Case { name, sections }
}

fn section(part: &str) -> Section {
    let (header, body) = part.split_once('\n').unwrap_or((part, ""));
    let mut words: Vec<_> = header.split(' ').map(str::to_owned).collect();
    let kind = words.remove(0);
    let mut flag = |name: &str| words.iter().position(|w| w == name).map(|i| words.remove(i)).is_some();
    let (escaped, open, closed) = (flag("escaped"), flag("open"), flag("closed"));
    // Blank lines at the end of a section part it from what follows, unless the section is escaped and spells them out.
    let mut text = body.trim_end_matches('\n').to_owned();
    if !open && (closed || (kind != "old" && kind != "new")) && !body.is_empty() {
        text.push('\n');
    }
    Section { kind, words, text: if escaped { unescaped(&text) } else { text } }
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut chars = rest[at + 1..].chars();
        match chars.next().unwrap() {
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            's' => out.push(' '),
            '\\' => out.push('\\'),
            'u' => {
                let code = &rest[at + 3..at + rest[at..].find('}').unwrap()];
                out.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
                rest = &rest[at + rest[at..].find('}').unwrap() + 1..];
                continue;
            }
            other => panic!("no escape: \\{other}"),
        }
        rest = chars.as_str();
    }
    out + rest
}
