//! An editor for tests, with the habits that real ones have.
use super::{BufferError, Buffers, SessionWorkspace, Setup, process};
use crate::effects::WsPath;
use async_trait::async_trait;
use std::{
    collections::{HashMap, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// What it does with a text that is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Save {
    /// Takes it into the buffer, and saves it as it is.
    AsIs,
    /// Takes it into the buffer, and does not save.
    BufferOnly,
    /// Writes the file, and its buffers do not notice (vscode-acp 0.2).
    DiskOnly,
    /// Keeps LF and no byte-order mark in the buffer, and saves with the endings and the mark that the file had.
    Normalises,
    /// Saves LF and no byte-order mark, whatever the file had, through a new file with mode 0644.
    LosesForm,
    /// Formats on save: trailing blanks go.
    Formats,
    /// Says that it did, and does nothing.
    Ignores,
}

/// An answer in place of its own.
#[derive(Clone, Debug)]
pub enum Answer {
    NotFound,
    Timeout,
    Failed,
    Text(&'static str),
    /// To a write: it is done, and an error is answered.
    FailedDone,
    /// To a write: this is written, and an error is answered.
    FailedWith(&'static str),
}
impl Answer {
    fn error(&self) -> BufferError {
        match self {
            Answer::NotFound => BufferError::NotFound,
            Answer::Timeout => BufferError::Timeout,
            _ => BufferError::Failed("no such luck".into()),
        }
    }
}

pub struct Editor {
    pub read: bool,
    pub write: bool,
    pub save: Save,
    /// Unsaved or stale buffers; any other file is read from disk.
    pub buffers: Mutex<HashMap<PathBuf, String>>,
    /// Answers for ever, by file name.
    pub reads: Mutex<HashMap<String, Answer>>,
    /// Answers to the next writes, in order.
    pub writes: Mutex<VecDeque<Option<Answer>>>,
    /// `read NAME`, `write NAME`, in order.
    pub log: Mutex<Vec<String>>,
}

impl Editor {
    pub fn new(read: bool, write: bool) -> Self {
        Editor {
            read,
            write,
            save: Save::AsIs,
            buffers: Mutex::default(),
            reads: Mutex::default(),
            writes: Mutex::default(),
            log: Mutex::default(),
        }
    }
    pub fn saving(save: Save) -> Self {
        Editor { save, ..Editor::new(true, true) }
    }
    fn note(&self, what: &str, path: &Path) -> String {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        self.log.lock().unwrap().push(format!("{what} {name}"));
        name
    }
    fn on_disk(path: &Path) -> Result<String, BufferError> {
        let bytes = std::fs::read(path).map_err(|_| BufferError::NotFound)?;
        String::from_utf8(bytes).map_err(|_| BufferError::Failed("not UTF-8".into()))
    }
}

#[async_trait]
impl Buffers for Editor {
    fn can_read(&self) -> bool {
        self.read
    }
    fn can_write(&self) -> bool {
        self.write
    }
    async fn read(&self, path: &Path) -> Result<String, BufferError> {
        assert!(self.read, "not advertised");
        let name = self.note("read", path);
        match self.reads.lock().unwrap().get(&name) {
            Some(Answer::Text(text)) => return Ok((*text).to_owned()),
            Some(answer) => return Err(answer.error()),
            None => {}
        }
        if let Some(text) = self.buffers.lock().unwrap().get(path) {
            return Ok(text.clone());
        }
        let text = Editor::on_disk(path)?;
        Ok(match self.save {
            Save::Normalises | Save::LosesForm => text.trim_start_matches('\u{feff}').replace("\r\n", "\n"),
            _ => text,
        })
    }
    async fn write(&self, path: &Path, text: &str) -> Result<(), BufferError> {
        assert!(self.write, "not advertised");
        self.note("write", path);
        let answer = self.writes.lock().unwrap().pop_front().flatten();
        match &answer {
            None | Some(Answer::FailedDone) => {}
            Some(answer) => {
                if let Answer::FailedWith(text) = answer {
                    std::fs::write(path, text).unwrap();
                }
                return Err(answer.error());
            }
        }
        let old = std::fs::read_to_string(path).unwrap_or_default();
        let save = |text: &str| std::fs::write(path, text).unwrap();
        let buffer = |text: &str| self.buffers.lock().unwrap().insert(path.to_owned(), text.to_owned());
        match self.save {
            Save::AsIs => {
                save(text);
                self.buffers.lock().unwrap().remove(path);
            }
            Save::BufferOnly => {
                buffer(text);
            }
            Save::Ignores => {}
            Save::DiskOnly => {
                buffer(&old);
                save(text);
            }
            Save::Normalises => {
                assert!(!text.contains(['\r', '\u{feff}']), "this editor shows neither");
                let mark = if old.starts_with('\u{feff}') { "\u{feff}" } else { "" };
                let text = if old.contains("\r\n") { text.replace('\n', "\r\n") } else { text.to_owned() };
                save(&format!("{mark}{text}"));
            }
            Save::LosesForm => {
                std::fs::remove_file(path).unwrap();
                save(text);
            }
            Save::Formats => {
                let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
                save(&(lines.join("\n") + "\n"));
            }
        }
        answer.map_or(Ok(()), |answer| Err(answer.error()))
    }
}

pub struct Fixture {
    pub _dir: tempfile::TempDir,
    pub root: PathBuf,
    pub editor: Arc<Editor>,
    pub ws: SessionWorkspace,
}

impl Fixture {
    pub fn new(editor: Editor) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("ws");
        std::fs::create_dir_all(&root).unwrap();
        let editor = Arc::new(editor);
        let setup = Setup {
            roots: vec![root.clone()],
            session_folder: dir.path().join("own"),
            home: None,
            buffers: editor.clone(),
            process: process::Settings { env: Vec::new(), ..process::Settings::default() },
        };
        Fixture { ws: SessionWorkspace::new(setup).unwrap(), _dir: dir, root, editor }
    }
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> WsPath {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self.path(name)
    }
    pub fn path(&self, name: &str) -> WsPath {
        super::Reader::resolve(&self.ws, name).unwrap()
    }
    pub fn disk(&self, name: &str) -> Option<String> {
        self.bytes(name).map(|b| String::from_utf8(b).unwrap())
    }
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.root.join(name)).ok()
    }
    pub fn buffer(&self, name: &str, text: &str) {
        self.editor.buffers.lock().unwrap().insert(self.root.join(name), text.into());
    }
    pub fn buffered(&self, name: &str) -> Option<String> {
        self.editor.buffers.lock().unwrap().get(&self.root.join(name)).cloned()
    }
    pub fn requests(&self, what: &str) -> usize {
        self.editor.log.lock().unwrap().iter().filter(|l| l.starts_with(what)).count()
    }
    /// Everything below the root, for "no temporary file is left".
    pub fn files(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                match entry.path() {
                    path if entry.file_type().unwrap().is_dir() => folders.push(path),
                    path => all.push(path.strip_prefix(&self.root).unwrap().display().to_string()),
                }
            }
        }
        all.sort();
        all
    }
}
