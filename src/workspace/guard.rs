//! The guard: turns what a model wrote into a [`WsPath`], and says where it lies (invariant I15).
//!
//! Links are followed by hand, component by component, the last one too, so a path that does not exist yet (or a dangling
//! link) resolves to the place where a write would really land. The disk layer then opens that place without following
//! any link, so nothing can be swapped in between.
use super::WsError;
use crate::effects::{Place, WsPath};
use std::{
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

mod names;

/// As many links as Linux follows in one path (path_resolution(7)).
const MAX_LINKS: u32 = 40;

/// A folder that the session may work in.
#[derive(Clone, Debug)]
struct Root {
    /// As the client named it; its buffers are known below this name.
    named: PathBuf,
    /// With every link followed.
    real: PathBuf,
}

/// Resolves and places paths for one session.
#[derive(Clone, Debug)]
pub struct Guard {
    roots: Vec<Root>,
    real_roots: Vec<PathBuf>,
    session_folder: PathBuf,
    home: Option<PathBuf>,
}

/// Whether a file's name says that it holds secrets.
pub fn is_secret_name(path: &Path) -> bool {
    names::secret(path)
}

impl Guard {
    /// `roots`: the cwd first, then the additional folders, absolute, as the client named them. `home` serves `~`.
    ///
    /// # Errors
    /// A root that does not exist or is no folder.
    pub fn new(roots: &[PathBuf], session_folder: &Path, home: Option<PathBuf>) -> Result<Self, WsError> {
        let mut found = Vec::new();
        for named in roots {
            let io = |why: String| WsError::Io { path: named.display().to_string(), why };
            if !named.is_absolute() {
                return Err(io("the folder of a session must be an absolute path".into()));
            }
            let real = std::fs::canonicalize(named).map_err(|e| io(e.to_string()))?;
            if !real.is_dir() {
                return Err(io("is not a folder".into()));
            }
            found.push(Root { named: tidy(named), real });
        }
        if found.is_empty() {
            return Err(WsError::Io { path: String::new(), why: "a session needs a folder".into() });
        }
        let session_folder = follow(session_folder).unwrap_or_else(|_| session_folder.to_path_buf());
        let real_roots = found.iter().map(|r| r.real.clone()).collect();
        Ok(Guard { roots: found, real_roots, session_folder, home })
    }

    /// The canonical roots, the cwd first.
    pub fn roots(&self) -> &[PathBuf] {
        &self.real_roots
    }

    /// The session's cwd, as the client named it.
    pub(super) fn first_root(&self) -> &Path {
        &self.roots[0].named
    }

    /// What a confined command must not write to inside the roots, whether it exists or not.
    pub(super) fn protected_paths(&self) -> Vec<PathBuf> {
        self.real_roots.iter().flat_map(|root| names::BELOW_ROOT.iter().map(|p| root.join(p))).collect()
    }

    /// The session folder, canonical.
    pub fn session_folder(&self) -> &Path {
        &self.session_folder
    }

    /// Resolves what a model wrote: relative to the cwd, absolute, `~`, or a `file://` URI.
    ///
    /// Odd forms are taken only where the path as written does not exist and the tidied one does: white space or quotes
    /// around it, `:12` or `:12:3` behind it.
    ///
    /// # Errors
    /// An empty path, a NUL byte, a URI of another host or scheme, too many links, or a parent that cannot be looked into.
    pub fn resolve(&self, written: &str) -> Result<WsPath, WsError> {
        let refuse = |why: &str| WsError::Io { path: shorten(written), why: why.into() };
        if written.trim().is_empty() {
            return Err(refuse("the path is empty"));
        }
        if written.contains('\0') {
            return Err(refuse("the path has a NUL character"));
        }
        if let Some(rest) = written.trim().strip_prefix("file://") {
            let path = from_uri(rest).ok_or_else(|| refuse("not a file URI of this machine"))?;
            return self.place(&path, written);
        }
        let plain = self.absolute(written);
        if plain.symlink_metadata().is_err() {
            for other in variants(written) {
                let other = self.absolute(&other);
                if other.symlink_metadata().is_ok() {
                    return self.place(&other, written);
                }
            }
        }
        self.place(&plain, written)
    }

    /// Resolves a path that is already one (from a directory walk, from a command's end).
    ///
    /// # Errors
    /// As [`Guard::resolve`].
    pub fn resolve_path(&self, path: &Path) -> Result<WsPath, WsError> {
        self.place(&self.roots[0].named.join(path), &path.to_string_lossy())
    }

    fn absolute(&self, written: &str) -> PathBuf {
        if let (Some(home), Some(rest)) = (&self.home, written.strip_prefix('~')) {
            if rest.is_empty() {
                return home.clone();
            }
            if let Some(rest) = rest.strip_prefix('/') {
                return home.join(rest.trim_start_matches('/'));
            }
        }
        self.roots[0].named.join(written)
    }

    fn place(&self, absolute: &Path, written: &str) -> Result<WsPath, WsError> {
        let real = follow(absolute).map_err(|why| WsError::Io { path: shorten(written), why })?;
        // The deepest root that holds it; of equals the first.
        let root = self
            .roots
            .iter()
            .enumerate()
            .filter(|(_, r)| real.starts_with(&r.real))
            .max_by_key(|(i, r)| (r.real.components().count(), std::cmp::Reverse(*i)));
        let (place, shown) = if real.starts_with(&self.session_folder) {
            (Place::SessionFolder, real.clone())
        } else if let Some((index, root)) = root {
            (Place::Root(index), self.spelled(absolute, &real, root))
        } else {
            (Place::Outside, real.clone())
        };
        // Protection looks at both spellings: a link into `.git` is protected by its target, and `.bashrc` that is a
        // link into a folder of dot files by its own name.
        let protected = names::protected(&real).or_else(|| names::protected(&shown));
        let secret = names::secret(&real) || names::secret(&shown);
        Ok(WsPath { absolute: Arc::new(shown), real: Arc::new(real), place, protected, secret })
    }

    /// The client's spelling: what was written, where it lies textually below a root as named; else the real path, carried
    /// over to the root's name.
    fn spelled(&self, absolute: &Path, real: &Path, root: &Root) -> PathBuf {
        let has_parent = absolute.components().any(|c| c == Component::ParentDir);
        if !has_parent {
            let tidied = tidy(absolute);
            if self.roots.iter().any(|r| tidied.starts_with(&r.named)) {
                return tidied;
            }
        }
        match real.strip_prefix(&root.real) {
            Ok(rest) if rest.as_os_str().is_empty() => root.named.clone(),
            Ok(rest) => root.named.join(rest),
            Err(_) => real.to_path_buf(),
        }
    }
}

/// Drops `.`, doubled and trailing separators; leaves `..` and links alone.
fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Follows every link, the last component's too; what does not exist is kept as written.
fn follow(path: &Path) -> Result<PathBuf, String> {
    let mut real = PathBuf::new();
    let mut rest: Vec<OsString> = pieces(path);
    let mut links = 0;
    while let Some(piece) = rest.pop() {
        match Path::new(&piece).components().next() {
            Some(Component::RootDir | Component::Prefix(_)) => {
                real.push(&piece);
                continue;
            }
            Some(Component::ParentDir) => {
                real.pop();
                continue;
            }
            Some(Component::CurDir) | None => continue,
            Some(Component::Normal(name)) if cfg!(windows) && has_second_name(name) => {
                return Err(
                    "on Windows a name with `:`, or with a dot or blank at its end, means another file"
                        .into(),
                );
            }
            Some(Component::Normal(_)) => {}
        }
        let next = real.join(&piece);
        match std::fs::symlink_metadata(&next) {
            Ok(meta) if meta.file_type().is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err("too many symbolic links, or a loop of them".into());
                }
                let target = std::fs::read_link(&next).map_err(|e| e.to_string())?;
                rest.extend(pieces(&target));
            }
            Ok(_) => real = next,
            Err(e) if missing(&e) => real = next,
            Err(e) => return Err(e.to_string()),
        }
    }
    Ok(true_case(real))
}

/// Whether Windows takes this for another name: `config::$DATA` and `config.` are `config`.
fn has_second_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.contains(':') || name.ends_with(['.', ' '])
}

fn missing(e: &std::io::Error) -> bool {
    matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The components, last first.
fn pieces(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|c| c.as_os_str().to_owned()).collect()
}

/// On disks that fold case, one file has many spellings: the nearest existing part takes the disk's own.
#[cfg(any(target_os = "macos", windows))]
fn true_case(real: PathBuf) -> PathBuf {
    for head in real.ancestors() {
        if let Ok(found) = std::fs::canonicalize(head) {
            return match real.strip_prefix(head) {
                Ok(tail) if tail.as_os_str().is_empty() => found,
                Ok(tail) => found.join(tail),
                Err(_) => found,
            };
        }
    }
    real
}
#[cfg(not(any(target_os = "macos", windows)))]
fn true_case(real: PathBuf) -> PathBuf {
    real
}

/// The path of a `file://` URI behind its scheme (RFC 8089): no host or `localhost`, percent-decoded.
fn from_uri(rest: &str) -> Option<PathBuf> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let mut bytes = Vec::with_capacity(path.len());
    let mut it = path.bytes();
    while let Some(b) = it.next() {
        if b != b'%' {
            bytes.push(b);
            continue;
        }
        let hex = |b: Option<u8>| b.and_then(|b| (b as char).to_digit(16));
        let byte = hex(it.next())? * 16 + hex(it.next())?;
        bytes.push(u8::try_from(byte).ok().filter(|b| *b != 0)?);
    }
    let path = String::from_utf8(bytes).ok()?;
    // `/C:/x`: the drive stands behind a slash.
    let drive = cfg!(windows) && path.as_bytes().get(2) == Some(&b':');
    Some(PathBuf::from(if drive { &path[1..] } else { &path[..] }))
}

/// What a model may have meant, where the path as written does not exist.
fn variants(written: &str) -> Vec<String> {
    let mut out = Vec::new();
    let trimmed = written.trim().trim_matches(['`', '"', '\'']);
    if trimmed != written && !trimmed.is_empty() {
        out.push(trimmed.to_owned());
    }
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if let Some((head, tail)) = trimmed.rsplit_once(':')
        && digits(tail)
        && !head.is_empty()
    {
        out.push(head.to_owned());
        if let Some((head, tail)) = head.rsplit_once(':')
            && digits(tail)
        {
            out.push(head.to_owned());
        }
    }
    out
}

fn shorten(written: &str) -> String {
    match written.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &written[..end]),
        None => written.to_owned(),
    }
}

#[cfg(test)]
mod tests;
