//! The packets and controllers that this program contains, collected at link time.
//!
//! `#[packet]` and `#[packet_controller]` submit an entry each. What is collected is sorted by opcode and path, so
//! nothing depends on the order in which crates were linked.
//!
//! What is collected is what the linker has put into the program. A crate of packets that nothing names is left out:
//! `use my_packets as _;` brings it in. A dynamic library has a registry of its own. On targets without a way to run code
//! before `main` (wasm among them, depending on how a module is started) the registry may be empty; a server does not depend
//! on it, since its table is built of the controllers that it is given, and [`Registry::of`] takes packets by hand.

use std::{collections::HashMap, fmt, sync::OnceLock};

use crate::{
    Opcode,
    error::DuplicateError,
    packet::Priority,
    schema::{Contract, Fingerprint},
};

/// A place in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The file, as the compiler names it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The shape of the conversation a packet opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shape {
    /// Sent, never answered.
    OneWay,
    /// Answered once.
    Request,
    /// Answered with a stream.
    Stream,
    /// Followed by an upload and answered once.
    Upload,
    /// Followed by an upload and answered with a stream.
    Duplex,
}

/// What the program knows of a packet.
#[derive(Debug)]
#[non_exhaustive]
pub struct PacketInfo {
    /// Its opcode.
    pub opcode: Opcode,
    /// Its name (after `rename`).
    pub name: &'static str,
    /// Its full path.
    pub path: &'static str,
    /// Where it is defined.
    pub location: Location,
    /// The conversation it opens.
    pub shape: Shape,
    /// How urgent it is, if it says so.
    pub priority: Option<Priority>,
    contract: fn() -> Contract,
    cell: OnceLock<(Contract, Fingerprint)>,
}

impl PacketInfo {
    /// Made by `#[packet]`.
    pub const fn new(
        opcode: Opcode,
        name: &'static str,
        path: &'static str,
        location: Location,
        shape: Shape,
        contract: fn() -> Contract,
    ) -> Self {
        Self { opcode, name, path, location, shape, priority: None, contract, cell: OnceLock::new() }
    }

    /// Sets how urgent it is.
    #[must_use]
    pub const fn with_priority(mut self, priority: Option<Priority>) -> Self {
        self.priority = priority;
        self
    }

    /// The layout of the packet, its reply and its error. Described once, at the first call.
    pub fn contract(&self) -> &Contract {
        &self.described().0
    }

    /// The contract's fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        self.described().1
    }

    fn described(&self) -> &(Contract, Fingerprint) {
        self.cell.get_or_init(|| {
            let contract = (self.contract)();
            let fingerprint = Fingerprint::of(&contract);
            (contract, fingerprint)
        })
    }
}

/// What `#[packet]` submits: a reference, since an entry itself may not hold a cell.
#[doc(hidden)]
#[derive(Debug)]
pub struct PacketEntry(pub &'static PacketInfo);

inventory::collect!(PacketEntry);

/// Whether any packet of this program has a priority of its own, so that connections have to be ready for it.
pub(crate) fn has_priorities() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let mut packets = inventory::iter::<PacketEntry>.into_iter();
        packets.any(|entry| Priority::is_special(entry.0.priority))
    })
}

/// Every packet linked into the program, checked for duplicates.
#[derive(Debug)]
pub struct Registry {
    packets: Vec<&'static PacketInfo>,
    by_opcode: Box<[u16]>,
    by_name: HashMap<&'static str, u16>,
}

/// Marks an opcode without a packet; there are at most 65,280 packets, so no index is that high.
const NONE: u16 = u16::MAX;

impl Registry {
    /// The registry of this program, built at the first call.
    ///
    /// # Errors
    /// [`DuplicateError`] if two packets have one opcode or one name.
    pub fn global() -> Result<&'static Registry, DuplicateError> {
        static REGISTRY: OnceLock<Result<Registry, DuplicateError>> = OnceLock::new();
        REGISTRY
            .get_or_init(|| Registry::of(inventory::iter::<PacketEntry>.into_iter().map(|entry| entry.0)))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// A registry of the given packets, in any order.
    ///
    /// # Errors
    /// [`DuplicateError`] if two packets have one opcode or one name.
    pub fn of(packets: impl IntoIterator<Item = &'static PacketInfo>) -> Result<Registry, DuplicateError> {
        let mut packets: Vec<_> = packets.into_iter().collect();
        packets.sort_by_key(|p| (p.opcode, p.path, p.location));
        let mut by_opcode = vec![NONE; 1 << 16].into_boxed_slice();
        let mut by_name = HashMap::with_capacity(packets.len());
        for (i, packet) in packets.iter().enumerate() {
            let index = u16::try_from(i).unwrap_or(NONE);
            let slot = &mut by_opcode[usize::from(packet.opcode.get())];
            if *slot != NONE {
                let what = format!("opcode {}", packet.opcode);
                return Err(duplicate(what, packets[usize::from(*slot)], packet));
            }
            *slot = index;
            if let Some(first) = by_name.insert(packet.name, index) {
                let what = format!("packet name \"{}\"", packet.name);
                return Err(duplicate(what, packets[usize::from(first)], packet));
            }
        }
        Ok(Registry { packets, by_opcode, by_name })
    }

    /// The packet with this opcode.
    pub fn by_opcode(&self, opcode: Opcode) -> Option<&'static PacketInfo> {
        self.packets.get(usize::from(self.by_opcode[usize::from(opcode.get())])).copied()
    }

    /// The packet with this name.
    pub fn by_name(&self, name: &str) -> Option<&'static PacketInfo> {
        self.by_name.get(name).map(|&i| self.packets[usize::from(i)])
    }

    /// All packets, by ascending opcode.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'static PacketInfo> + '_ {
        self.packets.iter().copied()
    }
}

fn duplicate(what: String, first: &PacketInfo, second: &PacketInfo) -> DuplicateError {
    DuplicateError {
        what: what.into(),
        opcode: Some(second.opcode),
        first: first.path.into(),
        first_at: first.location.to_string().into(),
        second: second.path.into(),
        second_at: second.location.to_string().into(),
    }
}
