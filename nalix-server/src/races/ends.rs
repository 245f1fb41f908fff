//! Both ends of a connection, polled by hand.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    task::{Context, Waker},
};

use nalix_core::{
    Connection, Subscription,
    connection::{Driver, Options, Serving, accept, connect},
    controller::Router,
    handshake::{ClientSecurity, Contracts, ServerSecurity},
    link::memory::{self, MemoryLink},
    packet, packet_controller,
};

use crate::links::{Links, Present};

#[packet(opcode = 0x3e21)]
pub(super) struct Note {
    pub(super) n: u32,
}

#[packet(opcode = 0x2e21, reply = u32)]
pub(super) struct Question;

/// The peer answers, and counts.
struct Answerer(Arc<AtomicU32>);

#[packet_controller]
impl Answerer {
    #[packet]
    fn question(&self, _: Question) -> u32 {
        self.0.fetch_add(1, SeqCst);
        ANSWER
    }
}

pub(super) const ANSWER: u32 = 7;

/// The server's end of a connection and the peer's.
pub(super) struct Ends {
    pub(super) connection: Connection,
    /// What the connection's task has, until it is over.
    task: Mutex<Option<(Driver<MemoryLink>, Present)>>,
    peer: Mutex<Option<Driver<MemoryLink>>>,
    notes: Mutex<Subscription<Note>>,
    asked: Arc<AtomicU32>,
}

impl Ends {
    pub(super) async fn new(links: &Arc<Links>) -> Self {
        let (ours, theirs) = memory::pair(1 << 16);
        let options = Options::default();
        let (peer, server) = tokio::join!(
            connect(ours, Contracts::default(), &ClientSecurity::Plaintext, &options),
            accept(theirs, Contracts::default(), &ServerSecurity::Plaintext, &options)
        );
        let asked = Arc::default();
        let router = Router::empty().with(Answerer(Arc::clone(&asked))).expect("one handler");
        let (peer, peer_driver) = Driver::new(peer.expect("connects"), Serving::from(router), &options);
        let serving = Serving::from(Router::empty());
        let (connection, driver) = Driver::new(server.expect("is accepted"), serving, &options);
        let mut present = links.enter().expect("there is room");
        present.open(connection.clone());
        Self {
            connection,
            task: Mutex::new(Some((driver, present))),
            peer: Mutex::new(Some(peer_driver)),
            notes: Mutex::new(peer.subscribe()),
            asked,
        }
    }

    /// What the connection's task does at its end. `lost` is called when the connection has ended and is still a member.
    pub(super) fn end(&self, lost: impl FnOnce()) {
        let task = self.task.lock().expect("no panic").take();
        let Some((driver, present)) = task else { return };
        drop(driver);
        lost();
        present.leave_groups();
        drop(present);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.connection.close_reason().is_some()
    }

    /// Lets both ends do what they can. Several turns are needed for a question and its answer.
    pub(super) fn poll(&self) {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut task = self.task.lock().expect("no panic");
        let over = task.as_mut().is_some_and(|(driver, _)| Pin::new(driver).poll(cx).is_ready());
        drop(task);
        if over {
            self.end(|| ());
        }
        let mut peer = self.peer.lock().expect("no panic");
        if peer.as_mut().is_some_and(|driver| Pin::new(driver).poll(cx).is_ready()) {
            *peer = None;
        }
    }

    /// The notes that have come to the peer since this was last asked, and how many questions.
    pub(super) fn received(&self) -> (Vec<u32>, u32) {
        let mut notes = self.notes.lock().expect("no panic");
        let notes = std::iter::from_fn(|| notes.try_next()).map(|note| note.expect("few wait").n);
        (notes.collect(), self.asked.swap(0, SeqCst))
    }
}
