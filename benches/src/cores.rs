//! The runtimes of one process: one over all cores, or one per core.

use std::{
    io,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

use crate::case::Flavour;

/// Running runtimes. They end, with the tasks on them, when this is dropped.
#[derive(Debug)]
pub(crate) struct Cores(Vec<Core>);

impl Cores {
    /// Starts the runtimes. With `pin` there is one, with one thread, and it stays on that core.
    pub(crate) fn start(flavour: Flavour, pin: Option<usize>) -> io::Result<Self> {
        let cores = if pin.is_some() { 1 } else { count() };
        let builders = match flavour {
            Flavour::MultiThread => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(cores).on_thread_start(move || pin_thread(pin));
                vec![builder]
            }
            Flavour::PerCore => (0..cores).map(|_| Builder::new_current_thread()).collect(),
        };
        builders.into_iter().map(|builder| Core::start(builder, pin)).collect::<io::Result<_>>().map(Self)
    }

    /// One handle per runtime.
    pub(crate) fn handles(&self) -> impl Iterator<Item = &Handle> {
        self.0.iter().map(|core| &core.handle)
    }

    /// The runtime that the `index`th connection belongs to.
    pub(crate) fn of(&self, index: usize) -> &Handle {
        &self.0[index % self.0.len()].handle
    }
}

/// One runtime and the thread that keeps it going.
#[derive(Debug)]
struct Core {
    handle: Handle,
    // Dropping the sender is what ends the thread.
    keep: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Core {
    fn start(mut builder: Builder, pin: Option<usize>) -> io::Result<Self> {
        let runtime = builder.enable_all().build()?;
        let handle = runtime.handle().clone();
        let (keep, ended) = oneshot::channel::<()>();
        let (started, running) = mpsc::channel();
        let thread = thread::Builder::new().name("core".into()).spawn(move || {
            pin_thread(pin);
            let _ = started.send(());
            let _ = runtime.block_on(ended);
        })?;
        running.recv().map_err(io::Error::other)?;
        Ok(Self { handle, keep: Some(keep), thread: Some(thread) })
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.keep.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How many cores this process may use.
pub(crate) fn count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the calling thread on one core, where the system can do that.
fn pin_thread(core: Option<usize>) {
    #[cfg(target_os = "linux")]
    if let Some(core) = core {
        use nix::{
            sched::{CpuSet, sched_setaffinity},
            unistd::Pid,
        };
        let mut set = CpuSet::new();
        // A machine that refuses is measured unpinned: both ends of every peer alike.
        let _ = set.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = core;
}
