//! Each file of `fixtures/transcripts`: what the agent says in it, line by line, and that a load in a new process shows
//! the same. `UPDATE=1` rewrites them; `ONLY=name` runs those whose name has it.
use crate::support::transcript::{diff, run};
use std::{fs, path::Path};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_transcript_is_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts");
    let update = std::env::var_os("UPDATE").is_some();
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "acp") && f.to_string_lossy().contains(&only));
    files.sort();
    assert!(!files.is_empty());
    let mut running = tokio::task::JoinSet::new();
    let at_once = std::sync::Arc::new(tokio::sync::Semaphore::new(4));
    for file in files {
        let at_once = at_once.clone();
        running.spawn(async move {
            let _place = at_once.acquire().await.unwrap();
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            let written = fs::read_to_string(&file).unwrap();
            let script = written.clone();
            let ran = tokio::spawn(async move { run(&script, update).await }).await;
            (file, name, written, ran)
        });
    }
    let mut faults = Vec::new();
    while let Some(done) = running.join_next().await {
        let (file, name, written, ran) = done.unwrap();
        match ran {
            Err(e) => faults.push(format!("{name}: {}", panic_text(e))),
            Ok((came, more)) => {
                faults.extend(more.iter().map(|fault| format!("{name}: {fault}")));
                let stuck = more.iter().any(|f| f.contains("stuck"));
                if came != written && update && !stuck {
                    fs::write(&file, came).unwrap();
                } else if came != written {
                    faults.push(format!("{name}: written (-), came (+)\n{}", diff(&written, &came)));
                }
            }
        }
    }
    faults.sort();
    assert!(faults.is_empty(), "{} faults\n\n{}", faults.len(), faults.join("\n\n"));
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "cancelled".into() };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_else(|| "a panic".into())
}
