//! The person at the terminal: lines they type, Ctrl-C, and who answers questions.
use std::io::{self, BufRead};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Who answers a permission question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// The person, at the terminal.
    Person,
    /// `--yes`: allow once, everything.
    Yes,
    /// No terminal and no `--yes`: no.
    Nobody,
}

/// Where answers and interrupts come from.
pub struct Person {
    pub answers: Answers,
    /// Asks for one line.
    want: UnboundedSender<()>,
    /// A line; `None`: the input ended.
    pub lines: UnboundedReceiver<Option<String>>,
    /// Ctrl-C or SIGTERM.
    pub interrupts: UnboundedReceiver<()>,
}

/// The other ends of a `Person`, for whoever plays it.
pub struct Strings {
    pub wanted: UnboundedReceiver<()>,
    pub lines: UnboundedSender<Option<String>>,
    pub interrupts: UnboundedSender<()>,
}

impl Person {
    pub fn pair(answers: Answers) -> (Person, Strings) {
        let (want, wanted) = unbounded_channel();
        let (line_in, lines) = unbounded_channel();
        let (interrupt_in, interrupts) = unbounded_channel();
        (
            Person { answers, want, lines, interrupts },
            Strings { wanted, lines: line_in, interrupts: interrupt_in },
        )
    }

    /// The process's own terminal. Must be called inside a runtime, which gets a task for the signals; lines are read
    /// by a thread of their own, because a read from a terminal cannot be given up.
    pub fn here(answers: Answers) -> Person {
        let (person, strings) = Person::pair(answers);
        tokio::spawn(watch_signals(strings.interrupts));
        if answers == Answers::Person {
            let (mut wanted, lines) = (strings.wanted, strings.lines);
            std::thread::spawn(move || {
                while wanted.blocking_recv().is_some() {
                    if lines.send(read_line()).is_err() {
                        return;
                    }
                }
            });
        }
        person
    }

    pub fn ask_for_line(&self) {
        // The reader ends only with the process.
        let _ = self.want.send(());
    }
}

/// A line typed from now on: what was typed before the question is thrown away, it cannot be an answer to it.
fn read_line() -> Option<String> {
    let stdin = io::stdin();
    #[cfg(unix)]
    if io::IsTerminal::is_terminal(&stdin) {
        let _ = rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush);
    }
    let mut line = String::new();
    match stdin.lock().read_line(&mut line) {
        Ok(n) if n > 0 => Some(line),
        _ => None,
    }
}

#[cfg(unix)]
async fn watch_signals(interrupts: UnboundedSender<()>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut term) = signal(SignalKind::terminate()) else { return };
    loop {
        tokio::select! {
            r = tokio::signal::ctrl_c() => if r.is_err() { return },
            _ = term.recv() => {}
        }
        if interrupts.send(()).is_err() {
            return;
        }
    }
}

#[cfg(not(unix))]
async fn watch_signals(interrupts: UnboundedSender<()>) {
    while tokio::signal::ctrl_c().await.is_ok() && interrupts.send(()).is_ok() {}
}
