//! Commands that run in the background: started by a command, listed, read and stopped by the model, ended with the
//! session.
use super::{
    OutputSink, Ran,
    freshness::lock,
    process::{Collector, Confined, Running, conclude},
};
use crate::effects::Command;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A job that ends within this time is reported like any other command; it is also how much of its output the first
/// result has.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// As many jobs are remembered after their end.
const KEPT: usize = 32;

/// The background commands of one session.
#[derive(Default)]
pub struct Jobs {
    list: Mutex<(u32, BTreeMap<u32, Arc<Job>>)>,
    tracker: TaskTracker,
}

struct Job {
    text: String,
    started: Instant,
    collector: Arc<Mutex<Collector>>,
    /// How much of its output has been read.
    read: Mutex<u64>,
    cancel: CancellationToken,
    /// `None` while it runs; else how it ended.
    end: watch::Receiver<Option<Result<Ran, String>>>,
}

/// A job as it is now.
#[derive(Clone, Debug)]
pub struct JobStatus {
    pub id: u32,
    pub command: String,
    pub running_for: Duration,
    /// `None` while it runs.
    pub ended: Option<Result<Ran, String>>,
}

impl Jobs {
    /// Lets a started command go on in the background; its live output, and the turn's power to cancel it, end with the
    /// first look.
    pub(super) async fn adopt(
        &self,
        command: &Command,
        running: Running,
        (collector, sink, turn): (Arc<Mutex<Collector>>, Arc<dyn OutputSink>, CancellationToken),
        confined: Confined,
    ) -> Ran {
        let (tell, mut end) = watch::channel(None);
        let cancel = CancellationToken::new();
        let tap = Arc::new(Tap(Mutex::new(Some(sink))));
        let job = Arc::new(Job {
            text: command.text.clone(),
            started: Instant::now(),
            collector: collector.clone(),
            read: Mutex::new(0),
            cancel: cancel.clone(),
            end: end.clone(),
        });
        let work = {
            let (tap, cancel, confined) = (tap.clone(), cancel.clone(), confined.clone());
            async move {
                let ended = running.finish(tap, &collector, None, cancel).await.map_err(|e| e.to_string());
                tell.send_replace(Some(ended.and_then(|ended| conclude(ended, &collector, &confined))));
            }
        };
        // In the list before the first wait: whoever drops this future leaves a job that can be found and ended.
        let id = self.remember(job.clone());
        self.tracker.spawn(work);
        let ended = async { end.wait_for(Option::is_some).await.ok().and_then(|e| e.clone()) };
        let early = tokio::select! {
            ended = tokio::time::timeout(FIRST_LOOK, ended) => ended.ok().flatten(),
            () = turn.cancelled() => {
                cancel.cancel();
                let mut end = job.end.clone();
                end.wait_for(Option::is_some).await.ok().and_then(|e| e.clone())
            }
        };
        lock(&tap.0).take();
        if let Some(Ok(ran)) = early {
            lock(&self.list).1.remove(&id);
            return ran;
        }
        Ran {
            output: job.news(),
            sandbox: confined.name,
            job: Some(id),
            took: job.started.elapsed(),
            ..Ran::default()
        }
    }

    fn remember(&self, job: Arc<Job>) -> u32 {
        let mut list = lock(&self.list);
        list.0 += 1;
        let id = list.0;
        list.1.insert(id, job);
        while list.1.len() > KEPT {
            let Some(old) = list.1.iter().find(|(_, j)| !j.runs()).map(|(id, _)| *id) else { break };
            list.1.remove(&old);
        }
        id
    }

    fn get(&self, id: u32) -> Option<Arc<Job>> {
        lock(&self.list).1.get(&id).cloned()
    }

    /// All jobs of the session, ended ones too.
    pub fn list(&self) -> Vec<JobStatus> {
        lock(&self.list).1.iter().map(|(id, job)| job.status(*id)).collect()
    }

    /// The output since the last reading, and how the job is. `None`: there is no such job.
    pub fn read(&self, id: u32) -> Option<(String, JobStatus)> {
        let job = self.get(id)?;
        // The state first: output that comes between is then read with the next call, not lost.
        let status = job.status(id);
        Some((job.news(), status))
    }

    /// Ends a job with everything that it started, and waits for that. `None`: there is no such job.
    pub async fn stop(&self, id: u32) -> Option<(String, JobStatus)> {
        let job = self.get(id)?;
        job.cancel.cancel();
        let _ = job.end.clone().wait_for(Option::is_some).await;
        self.read(id)
    }

    /// Ends all jobs, and waits for that.
    pub async fn close(&self) {
        for job in lock(&self.list).1.values() {
            job.cancel.cancel();
        }
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for job in lock(&self.list).1.values() {
            job.cancel.cancel();
        }
    }
}

impl Job {
    fn runs(&self) -> bool {
        self.end.borrow().is_none()
    }
    fn status(&self, id: u32) -> JobStatus {
        let ended = self.end.borrow().clone();
        JobStatus { id, command: self.text.clone(), running_for: self.started.elapsed(), ended }
    }
    fn news(&self) -> String {
        let mut read = lock(&self.read);
        let (text, now) = lock(&self.collector).since(*read);
        *read = now;
        text
    }
}

/// Passes live output on until it is taken away.
struct Tap(Mutex<Option<Arc<dyn OutputSink>>>);

impl OutputSink for Tap {
    fn output(&self, bytes: &[u8]) {
        if let Some(sink) = &*lock(&self.0) {
            sink.output(bytes);
        }
    }
}
