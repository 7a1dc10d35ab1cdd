//! Seatbelt (sandbox-exec(1), macOS). Written by its documentation; not tested by us.
use super::Policy;
use std::{ffi::OsString, path::Path};

pub(super) fn arguments(policy: &Policy, argv: Vec<OsString>) -> Vec<OsString> {
    let mut profile = String::from(
        "(version 1)(allow default)(deny file-write*)\
         (allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\") (regex #\"^/dev/fd/\"))",
    );
    for folder in &policy.writable {
        profile.push_str(&format!("(allow file-write* (subpath {}))", quote(folder)));
    }
    for path in &policy.protected {
        profile.push_str(&format!("(deny file-write* (subpath {}))", quote(path)));
    }
    if !policy.network {
        profile.push_str("(deny network*)");
    }
    let mut out = vec!["-p".into(), profile.into(), "--".into()];
    out.extend(argv);
    out
}

fn quote(path: &Path) -> String {
    format!("\"{}\"", path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\""))
}
