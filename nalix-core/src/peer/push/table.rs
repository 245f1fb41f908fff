//! Who takes the peer's one-way packets besides the handlers of controllers.

use std::{
    any::{Any, TypeId},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;

use crate::{
    Opcode,
    caught::caught,
    error::DecodeError,
    packet::{Push, decode_packet},
    wire::Limits,
};

/// A decoded packet, whose type is known to those who take it.
pub(super) type AnyPacket = Arc<dyn Any + Send + Sync>;

/// One who takes packets of one type. It is given each packet that comes while it is in the table, in order.
pub(super) trait Taker: Send + Sync {
    /// Takes a packet. Runs on the connection's task, and may be user code.
    fn take(&self, packet: &AnyPacket);

    /// Nothing more comes.
    fn end(&self);
}

/// The takers of one connection.
pub(crate) struct Pushes {
    /// Whether there is any. Most connections have none, and need not look behind the lock.
    watched: AtomicBool,
    table: Mutex<Table>,
    unclaimed: AtomicU64,
    malformed: AtomicU64,
}

#[derive(Default)]
struct Table {
    /// Ordered by opcode and type, and then by when they came. Copied when it changes, so that no lock is held while
    /// user code runs.
    entries: Arc<Vec<Entry>>,
    issued: u64,
    ended: bool,
}

#[derive(Clone)]
struct Entry {
    opcode: Opcode,
    /// Types of one opcode are told apart, though a program has more than one only if it has made them by hand.
    ty: TypeId,
    id: u64,
    /// Whether the packet is taken from sealed records only.
    encrypt: bool,
    decode: fn(&Bytes) -> Result<AnyPacket, DecodeError>,
    taker: Arc<dyn Taker>,
}

/// What has become of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Nobody takes it.
    Unclaimed,
    Taken,
    /// There are takers, and for one type of theirs at least it does not decode.
    Malformed,
}

impl fmt::Debug for Pushes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pushes")
            .field("takers", &self.lock().entries.len())
            .field("unclaimed", &self.unclaimed)
            .field("malformed", &self.malformed)
            .finish()
    }
}

impl Pushes {
    pub(crate) fn new() -> Self {
        Self {
            watched: AtomicBool::new(false),
            table: Mutex::default(),
            unclaimed: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
        }
    }

    /// Adds a taker of `T`. `None` if nothing more comes.
    pub(super) fn add<T: Push>(self: &Arc<Self>, taker: Arc<dyn Taker>) -> Option<Place> {
        let mut table = self.lock();
        if table.ended {
            return None;
        }
        let id = table.issued;
        table.issued += 1;
        let entry = Entry {
            opcode: T::OPCODE,
            ty: TypeId::of::<T>(),
            id,
            encrypt: T::ENCRYPT,
            decode: decode::<T>,
            taker,
        };
        let at = table.entries.partition_point(|other| (other.opcode, other.ty) <= (entry.opcode, entry.ty));
        let mut entries = Vec::with_capacity(table.entries.len() + 1);
        entries.extend_from_slice(&table.entries);
        entries.insert(at, entry);
        table.entries = Arc::new(entries);
        self.watched.store(true, Ordering::Release);
        Some(Place { pushes: Arc::clone(self), id: Some(id) })
    }

    fn remove(&self, id: u64) {
        let mut table = self.lock();
        let others = table.entries.iter().filter(|entry| entry.id != id).cloned().collect::<Vec<_>>();
        self.watched.store(!others.is_empty(), Ordering::Release);
        let before = std::mem::replace(&mut table.entries, Arc::new(others));
        drop(table);
        // A closure may be among what is dropped, and what it holds may come back here.
        drop(before);
    }

    /// Decodes a packet once and gives it to everybody who takes its type.
    pub(crate) fn publish(&self, opcode: Opcode, sealed: bool, payload: &Bytes) -> Pushed {
        if !self.watched.load(Ordering::Acquire) {
            return Pushed::Unclaimed;
        }
        let entries = Arc::clone(&self.lock().entries);
        let first = entries.partition_point(|entry| entry.opcode < opcode);
        let mut pushed = Pushed::Unclaimed;
        for takers in entries[first..].chunk_by(|a, b| (a.opcode, a.ty) == (b.opcode, b.ty)) {
            let Entry { opcode: found, encrypt, decode, .. } = takers[0];
            if found != opcode {
                break;
            }
            if encrypt && !sealed {
                tracing::debug!(%opcode, "packet that must be sealed came in the clear");
                continue;
            }
            match caught(|| decode(payload)) {
                Ok(Ok(packet)) => {
                    for taker in takers {
                        drop(caught(|| taker.taker.take(&packet)));
                    }
                    drop(caught(move || drop(packet)));
                    if pushed == Pushed::Unclaimed {
                        pushed = Pushed::Taken;
                    }
                }
                Ok(Err(error)) => {
                    tracing::debug!(%opcode, %error, "a pushed packet does not decode");
                    pushed = Pushed::Malformed;
                }
                Err(_) => pushed = Pushed::Malformed,
            }
        }
        // Whoever has left meanwhile may have left the last hold of a closure to us.
        drop(caught(move || drop(entries)));
        if pushed == Pushed::Malformed {
            self.malformed.fetch_add(1, Ordering::Relaxed);
        }
        pushed
    }

    /// Nobody has taken a packet.
    pub(crate) fn note_unclaimed(&self) {
        self.unclaimed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unclaimed(&self) -> u64 {
        self.unclaimed.load(Ordering::Relaxed)
    }

    pub(crate) fn malformed(&self) -> u64 {
        self.malformed.load(Ordering::Relaxed)
    }

    /// Ends every subscription, and refuses further ones.
    pub(crate) fn end(&self) {
        let mut table = self.lock();
        table.ended = true;
        self.watched.store(false, Ordering::Release);
        let entries = std::mem::take(&mut table.entries);
        drop(table);
        for entry in &*entries {
            entry.taker.end();
        }
        drop(caught(move || drop(entries)));
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A taker's place in the table, which it has until this is dropped.
pub(super) struct Place {
    pushes: Arc<Pushes>,
    id: Option<u64>,
}

impl Place {
    /// Leaves the taker in the table until the connection ends.
    pub(super) fn keep(mut self) {
        self.id = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.pushes.remove(id);
        }
    }
}

fn decode<T: Push>(payload: &Bytes) -> Result<AnyPacket, DecodeError> {
    let packet: T = decode_packet(payload, &Limits::DEFAULT)?;
    Ok(Arc::new(packet))
}
