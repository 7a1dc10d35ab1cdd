//! A line that is typed and not shown: a key.
use crate::secret::Secret;
use std::io::{self, IsTerminal, Read, Write};

#[cfg_attr(unix, path = "secret_line/unix.rs")]
#[cfg_attr(windows, path = "secret_line/windows.rs")]
mod system;
use system::Silent;

/// The longest key.
const LONGEST: usize = 64 << 10;

/// The first line of standard input: asked for and not shown where a person types it, else as it comes. `None`: given up
/// with Ctrl-C or Ctrl-D.
///
/// # Errors
/// Where standard input cannot be read.
pub fn read(question: &str) -> io::Result<Option<Secret>> {
    let mut input = io::stdin();
    if !input.is_terminal() {
        return line(&mut input);
    }
    let mut err = io::stderr();
    err.write_all(question.as_bytes())?;
    err.flush()?;
    let line = {
        let _silent = Silent::begin()?;
        line(&mut input)
    };
    err.write_all(b"\n")?;
    line
}

/// One line, with what a terminal would do to it: Ctrl-C and Ctrl-D give up, backspace and Ctrl-U take back.
fn line(input: &mut impl Read) -> io::Result<Option<Secret>> {
    let (mut typed, mut byte) = (Vec::new(), [0]);
    loop {
        match input.read(&mut byte) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
            Ok(0) if typed.is_empty() => return Ok(None),
            Ok(0) => break,
            Ok(_) => {}
        }
        match byte[0] {
            b'\n' | b'\r' => break,
            0x03 => return Ok(None),
            0x04 if typed.is_empty() => return Ok(None),
            0x04 => break,
            0x7f | 0x08 => drop(typed.pop()),
            0x15 => typed.clear(),
            byte if typed.len() < LONGEST => typed.push(byte),
            _ => return Err(io::Error::other("longer than 64 KiB")),
        }
    }
    match String::from_utf8(typed) {
        Ok(text) => Ok(Some(Secret::new(text.trim()))),
        // Its error holds the bytes.
        Err(_) => Err(io::Error::other("not UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_was_meant_and_can_be_given_up() {
        let read = |text: &[u8]| line(&mut &*text).unwrap().map(|s| s.expose().to_owned());
        for (typed, meant) in [
            (&b"sk-1\nmore"[..], Some("sk-1")),
            (b"  sk-1\r\n", Some("sk-1")),
            (b"sk-1", Some("sk-1")),
            (b"sk-2\x7f1\n", Some("sk-1")),
            (b"wrong\x15sk-1\n", Some("sk-1")),
            (b"\n", Some("")),
            (b"", None),
            (b"sk\x03", None),
            (b"\x04", None),
        ] {
            assert_eq!(read(typed).as_deref(), meant, "{typed:?}");
        }
        assert!(line(&mut &b"\xff\n"[..]).is_err());
    }
}
