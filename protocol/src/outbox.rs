//! The one FIFO to the writer.

use crate::error::Closed;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

/// Frames that may wait for the writer.
pub(crate) const FRAMES: usize = 256;
/// A frame takes one slot for each started piece of this many bytes, so the outbox holds at most
/// `FRAMES` × this = 4 MiB, plus one frame.
const BYTES_PER_SLOT: usize = 16 * 1024;
/// The writer takes whole frames until it has this many bytes: about what a pipe holds.
const BATCH: usize = 64 * 1024;

/// Bounded by slots. Whoever has no slot waits; a frame with a slot is queued at once, so what one task sends leaves in
/// the order it was sent (I4). Withdrawals need no slot: they are queued behind the request they withdraw, cannot
/// block, and are at most as many as there were requests.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    slots: Semaphore,
    /// Wakes the writer: a thread waits on `filled`, a task on `filled_async`.
    filled: Condvar,
    filled_async: Notify,
    gone: CancellationToken,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<(String, u32)>,
    closed: bool,
}

/// Frames on their way out, and the slots they give back once written.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    slots: u32,
}

impl Outbox {
    pub(crate) fn new() -> Outbox {
        Outbox {
            queue: Mutex::default(),
            slots: Semaphore::new(FRAMES),
            filled: Condvar::new(),
            filled_async: Notify::new(),
            gone: CancellationToken::new(),
        }
    }

    /// Cancelled once nothing can be written any more.
    pub(crate) fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// Queues a frame (newline included), waiting for room. Dropped while it waits: nothing is queued.
    pub(crate) async fn send(&self, frame: String) -> Result<(), Closed> {
        let slots = slots(frame.len());
        self.slots.acquire_many(slots).await.map_err(|_| Closed)?.forget();
        self.push(frame, slots)
    }

    /// Waits until a frame of this length has room and takes that room for [`Outbox::send_now`].
    pub(crate) async fn room(&self, len: usize) -> Result<Room, Closed> {
        let slots = slots(len);
        self.slots.acquire_many(slots).await.map_err(|_| Closed)?.forget();
        Ok(Room(slots))
    }

    /// [`Outbox::room`], if there is some right now.
    pub(crate) fn try_room(&self, len: usize) -> Option<Room> {
        let slots = slots(len);
        self.slots.try_acquire_many(slots).ok()?.forget();
        Some(Room(slots))
    }

    /// Queues a frame in the room taken for it.
    pub(crate) fn send_now(&self, frame: String, room: Room) -> Result<(), Closed> {
        self.push(frame, room.0)
    }

    /// Queues a withdrawal. Never waits.
    pub(crate) fn withdraw(&self, frame: String) {
        _ = self.push(frame, 0);
    }

    /// No frame is taken any more; the writer ends after those that are queued.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.slots.close();
        self.wake();
    }

    /// The other side takes no more: what is queued is dropped, whoever waits is told.
    pub(crate) fn abandon(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.frames.clear();
        drop(queue);
        self.slots.close();
        self.gone.cancel();
        self.wake();
    }

    /// The next frames, in order. Blocks; `None` when closed and empty.
    pub(crate) fn take(&self) -> Option<Batch> {
        let mut queue = self.queue();
        loop {
            if let Some(batch) = queue.batch() {
                return Some(batch);
            }
            if queue.closed {
                return None;
            }
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// [`Outbox::take`] for a writer that is a task.
    pub(crate) async fn take_async(&self) -> Option<Batch> {
        loop {
            // Created before the look, so a push between the look and the wait is not missed.
            let filled = self.filled_async.notified();
            {
                let mut queue = self.queue();
                if let Some(batch) = queue.batch() {
                    return Some(batch);
                }
                if queue.closed {
                    return None;
                }
            }
            filled.await;
        }
    }

    /// Gives the slots of a written batch back.
    pub(crate) fn written(&self, batch: &Batch) {
        self.slots.add_permits(batch.slots as usize);
    }

    fn push(&self, frame: String, slots: u32) -> Result<(), Closed> {
        debug_assert!(frame.ends_with('\n'));
        let mut queue = self.queue();
        if queue.closed {
            return Err(Closed);
        }
        queue.frames.push_back((frame, slots));
        drop(queue);
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        self.filled.notify_one();
        self.filled_async.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing that can panic runs under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slots taken for one frame.
#[derive(Debug)]
#[must_use]
pub(crate) struct Room(u32);

impl Queue {
    fn batch(&mut self) -> Option<Batch> {
        let (first, slots) = self.frames.pop_front()?;
        let mut batch = Batch { bytes: first.into_bytes(), slots };
        while let Some((frame, _)) = self.frames.front()
            && batch.bytes.len() + frame.len() <= BATCH
            && let Some((frame, slots)) = self.frames.pop_front()
        {
            batch.bytes.extend_from_slice(frame.as_bytes());
            batch.slots += slots;
        }
        Some(batch)
    }
}

fn slots(len: usize) -> u32 {
    u32::try_from(len.div_ceil(BYTES_PER_SLOT).clamp(1, FRAMES)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn frame(s: &str) -> String {
        format!("{s}\n")
    }

    #[test]
    fn the_outbox_is_bounded_and_a_withdrawal_still_fits_behind_its_request() {
        let outbox = Outbox::new();
        for i in 0..FRAMES {
            outbox.send(frame(&i.to_string())).now_or_never().expect("there is room").unwrap();
        }
        assert!(outbox.send(frame("one too many")).now_or_never().is_none());
        outbox.withdraw(frame("cancel"));
        let batch = outbox.take().unwrap();
        let text = String::from_utf8(batch.bytes.clone()).unwrap();
        let expected: Vec<String> = (0..FRAMES).map(|i| i.to_string()).chain(["cancel".into()]).collect();
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        assert!(outbox.send(frame("still full")).now_or_never().is_none(), "slots come back when written");
        outbox.written(&batch);
        assert!(outbox.send(frame("room again")).now_or_never().is_some());
    }

    #[test]
    fn big_frames_take_many_slots() {
        let outbox = Outbox::new();
        let big = "x".repeat(1024 * 1024 - 1) + "\n";
        for _ in 0..4 {
            outbox.send(big.clone()).now_or_never().expect("4 MiB fit").unwrap();
        }
        assert!(outbox.send(frame("x")).now_or_never().is_none());
    }

    #[test]
    fn closing_keeps_what_is_queued_and_abandoning_drops_it() {
        let outbox = Outbox::new();
        outbox.send(frame("a")).now_or_never().unwrap().unwrap();
        outbox.close();
        assert!(outbox.send(frame("b")).now_or_never().unwrap().is_err());
        outbox.withdraw(frame("c"));
        assert_eq!(outbox.take().unwrap().bytes, b"a\n");
        assert!(outbox.take().is_none());

        let outbox = Outbox::new();
        outbox.send(frame("a")).now_or_never().unwrap().unwrap();
        outbox.abandon();
        assert!(outbox.take().is_none() && outbox.gone().is_cancelled());
    }
}
