//! Plays a patch on a virtual tree.

use super::{FileOp, PatchError, hunks};
use crate::workspace::text::Text;
use std::fmt::Display;

/// What one file is to become. Paths are as the patch gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VirtualChange {
    /// A file is created (`old` is `None`) or gets other text.
    Write {
        /// The file.
        path: String,
        /// What it said.
        old: Option<Text>,
        /// What it will say.
        new: Text,
    },
    /// A file goes.
    Delete {
        /// The file.
        path: String,
        /// What it said.
        old: Text,
    },
    /// A file goes elsewhere, perhaps with other text. Nothing is at `to`, unless the two differ in case alone and the file
    /// system takes them for one.
    Move {
        /// Where it was.
        from: String,
        /// Where it will be.
        to: String,
        /// What it said.
        old: Text,
        /// What it will say.
        new: Text,
    },
}

/// The paths a patch reads or writes, each once, in order: what [`simulate`] will ask for.
pub fn touched(ops: &[FileOp]) -> Vec<&str> {
    let mut paths: Vec<&str> = Vec::new();
    for op in ops {
        let (path, other) = match op {
            FileOp::Add { path, .. } | FileOp::Delete { path } => (path, None),
            FileOp::Update { path, move_to, .. } => (path, move_to.as_ref()),
        };
        for path in std::iter::once(path).chain(other) {
            if !paths.iter().any(|p| key(p) == key(path)) {
                paths.push(path);
            }
        }
    }
    paths
}

struct Node {
    path: String,
    original: Option<Text>,
    current: Option<Text>,
    /// The file whose text, changed or not, is here now.
    lineage: Option<usize>,
}

struct Tree<'a, E> {
    nodes: Vec<Node>,
    read: &'a dyn Fn(&str) -> Result<Option<Text>, E>,
}

/// What the files of a patch become, one entry for each file that changes, in the order in which the patch names them.
///
/// `read` gives the text of a file, `None` where there is none, an error where there is something that is not text or may
/// not be read; it is asked once for each file.
///
/// # Errors
/// [`PatchError`] for the first part of the patch that does not apply; then nothing does.
pub fn simulate<E: Display>(
    ops: &[FileOp],
    read: &dyn Fn(&str) -> Result<Option<Text>, E>,
) -> Result<Vec<VirtualChange>, PatchError> {
    let mut tree = Tree { nodes: Vec::new(), read };
    for op in ops {
        tree.play(op)?;
    }
    let changes = changes(&tree.nodes);
    if changes.is_empty() { Err(PatchError::NoChange) } else { Ok(changes) }
}

impl<E: Display> Tree<'_, E> {
    fn node(&mut self, path: &str) -> Result<usize, PatchError> {
        if let Some(i) = self.nodes.iter().position(|n| key(&n.path) == key(path)) {
            return Ok(i);
        }
        let original = (self.read)(path)
            .map_err(|e| PatchError::Unreadable { path: path.to_owned(), why: e.to_string() })?;
        let i = self.nodes.len();
        let lineage = original.is_some().then_some(i);
        self.nodes.push(Node { path: path.to_owned(), current: original.clone(), original, lineage });
        Ok(i)
    }

    fn play(&mut self, op: &FileOp) -> Result<(), PatchError> {
        match op {
            FileOp::Add { path, text } => {
                let i = self.node(path)?;
                let node = &mut self.nodes[i];
                let form = node.current.as_ref().or(node.original.as_ref());
                node.current = Some(form.map_or_else(|| Text::new_utf8(text.as_str()), |t| t.rewrite(text)));
            }
            FileOp::Delete { path } => {
                let i = self.node(path)?;
                self.take(i, "delete", path)?;
            }
            FileOp::Update { path, move_to, hunks } => {
                let i = self.node(path)?;
                let what = if move_to.is_some() { "move" } else { "update" };
                let (old, lineage) = self.take(i, what, path)?;
                let new = hunks::apply(path, &old, hunks)?;
                let to = match move_to {
                    Some(to) => self.node(to)?,
                    None => i,
                };
                self.nodes[to].current = Some(new);
                self.nodes[to].lineage = lineage;
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        i: usize,
        what: &'static str,
        path: &str,
    ) -> Result<(Text, Option<usize>), PatchError> {
        let node = &mut self.nodes[i];
        let text = node.current.take().ok_or_else(|| PatchError::Missing { what, path: path.to_owned() })?;
        Ok((text, node.lineage.take()))
    }
}

/// The difference of the tree before and after.
fn changes(nodes: &[Node]) -> Vec<VirtualChange> {
    let mut moved_from = vec![None; nodes.len()];
    for (i, node) in nodes.iter().enumerate().filter(|(_, n)| n.current.is_some()) {
        if let Some(from) = source(nodes, i, node).filter(|f| moved_from.iter().all(|m| *m != Some(*f))) {
            moved_from[i] = Some(from);
        }
    }
    let change = |(i, node): (usize, &Node)| match (&node.current, &node.original) {
        (Some(new), old) => {
            match moved_from[i].and_then(|from| Some((&nodes[from], nodes[from].original.clone()?))) {
                Some((from, old)) => Some(VirtualChange::Move {
                    from: from.path.clone(),
                    to: node.path.clone(),
                    old,
                    new: new.clone(),
                }),
                None => (old.as_ref() != Some(new)).then(|| VirtualChange::Write {
                    path: node.path.clone(),
                    old: old.clone(),
                    new: new.clone(),
                }),
            }
        }
        (None, Some(old)) if !moved_from.contains(&Some(i)) => {
            Some(VirtualChange::Delete { path: node.path.clone(), old: old.clone() })
        }
        _ => None,
    };
    nodes.iter().enumerate().filter_map(change).collect()
}

/// The file that was moved to node `i`: gone from where it was, to a place where nothing was. Two paths that differ in case
/// alone and read the same are one file on some disks, and then the second is there because the first is.
fn source(nodes: &[Node], i: usize, node: &Node) -> Option<usize> {
    let gone = |f: &usize| *f != i && nodes[*f].current.is_none() && nodes[*f].original.is_some();
    if node.original.is_none() {
        return node.lineage.filter(gone);
    }
    let twin = |f: &usize| {
        gone(f)
            && nodes[*f].original == node.original
            && key(&nodes[*f].path).to_lowercase() == key(&node.path).to_lowercase()
    };
    (0..nodes.len()).find(twin)
}

/// A path in one spelling: without `.`, empty parts and parts undone by `..`.
fn key(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|p| *p != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}
