//! `demo`: the real server, the real tools and the real questions, with a scripted model and a sample project.
use super::{
    Exit,
    args::DemoArgs,
    banner,
    client::{Launch, Style, Task, View},
    exec::{answers, perform},
    say,
};
use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::Stdio,
};

/// The sample project: name and text of each file.
const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("../../fixtures/workspaces/demo/README.md")),
    ("greet.sh", include_str!("../../fixtures/workspaces/demo/greet.sh")),
    ("test.sh", include_str!("../../fixtures/workspaces/demo/test.sh")),
];
const PROMPT: &str = "Make the test pass.";
/// Milliseconds between the pieces of the scripted model's text, for people who watch.
const PACE: &str = "18";

/// Runs the demo; 0 when it went through (and, with `--yes`, the test passes in the end).
pub fn demo(args: &DemoArgs) -> Exit {
    match prepare() {
        Ok((folder, project)) => run(args, folder, &project),
        Err(e) => {
            say(&mut io::stderr(), &format!("hermes-editor: the sample project could not be made: {e}\n"));
            Exit::Failed
        }
    }
}

fn prepare() -> io::Result<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::Builder::new().prefix("hermes-demo-").tempdir()?;
    // The canonical form on Windows (`\\?\C:\…`) is none that people or programs know.
    let root =
        if cfg!(windows) { folder.path().to_path_buf() } else { std::fs::canonicalize(folder.path())? };
    let project = root.join("project");
    std::fs::create_dir(&project)?;
    std::fs::create_dir(root.join("home"))?;
    for (name, text) in FILES {
        std::fs::write(project.join(name), text)?;
    }
    Ok((folder, project))
}

fn run(args: &DemoArgs, folder: tempfile::TempDir, project: &Path) -> Exit {
    let terminal = io::stdout().is_terminal();
    let style = Style::of(terminal);
    let mut out = io::stdout();
    say(&mut out, &intro(project, style));
    let mut launch = match Launch::own() {
        Ok(launch) => launch,
        Err(e) => {
            say(&mut io::stderr(), &format!("hermes-editor: {e}\n"));
            return Exit::Failed;
        }
    };
    let home = project.with_file_name("home");
    launch.env.push(("HERMES_EDITOR_HOME".into(), home.into()));
    launch.env.push(("HERMES_EDITOR_MODEL".into(), "demo/scripted".into()));
    let pace = if terminal { PACE } else { "0" };
    launch.env.push(("HERMES_EDITOR_DEMO_PACE".into(), pace.into()));
    let task = Task { cwd: project.to_path_buf(), prompt: PROMPT.to_owned(), model: None, mode: None };
    let mut view = View::new(io::stdout(), style, project);
    let exit = perform(&launch, &task, &mut view, answers(args.yes, terminal));
    let passes = test_passes(project);
    say(&mut out, &outro(passes, style));
    finish(folder, args.keep, &mut out);
    match exit {
        Exit::Good if args.yes && !passes => Exit::Failed,
        exit => exit,
    }
}

fn intro(project: &Path, style: Style) -> String {
    format!(
        "{}\n\nA small project with a failing test lies in {}.\n\
         A scripted model works on it, offline and without a key; the server, its tools, the questions\n\
         and the results are the real ones.\n\n{} {PROMPT}\n\n",
        style.bold("Hermes demo"),
        project.display(),
        style.cyan(">"),
    )
}

/// The demo's own look at the project: independent of what the model says.
fn test_passes(project: &Path) -> bool {
    let shell = if cfg!(windows) { crate::workspace::process::find_shell() } else { "sh".into() };
    let mut sh = std::process::Command::new(shell);
    sh.arg("test.sh").current_dir(project).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    sh.status().is_ok_and(|s| s.success())
}

fn outro(passes: bool, style: Style) -> String {
    let verdict = if passes {
        style.green("Checked: `sh test.sh` passes.")
    } else {
        style.yellow("Checked: `sh test.sh` fails.")
    };
    format!("\n{verdict}\n\n{}\n", banner::how_to_add(style))
}

fn finish(folder: tempfile::TempDir, keep: bool, out: &mut impl io::Write) {
    let path = folder.path().to_path_buf();
    let text = if keep {
        format!("The sample project stays in {}.\n", folder.keep().display())
    } else {
        match folder.close() {
            Ok(()) => "The sample project was removed (--keep keeps it).\n".to_owned(),
            Err(e) => format!("The sample project in {} could not be removed: {e}\n", path.display()),
        }
    };
    say(out, &text);
}
