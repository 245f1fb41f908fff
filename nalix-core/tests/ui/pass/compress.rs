//! `compress` goes on every kind of packet, alone or with a number of bytes, and beside every other key.

use nalix_core::{Encoded, Packet, Wire, controller::Router, packet, packet::COMPRESS_FROM, packet_controller};

#[packet(opcode = 0x1001, reply = Vec<u8>, error = Fault, exact, compress, rename = "page")]
struct Page<'a> {
    name: &'a str,
}

#[derive(Wire)]
enum Fault {
    Missing,
}

#[packet(compress = 4096, opcode = 0x1002)]
struct Snapshot(Vec<u8>);

#[packet(opcode = 0x1003, compress = 0, encrypt, priority = "bulk")]
enum Report {
    Full(String),
    Nothing,
}

const KIB: usize = 1 << 10;

#[packet(opcode = 0x1004, stream = String, compress = 2 * KIB)]
struct Log;

#[packet(opcode = 0x1005, upload = String, stream = String, compress = KIB)]
struct Translate;

#[packet(opcode = 0x1006, compress = 1_073_741_824)]
struct Never;

#[allow(non_upper_case_globals)]
const from: usize = 7;

#[packet(opcode = 0x1008, compress = from)]
struct Named;

#[packet(opcode = 0x1007)]
struct Open;

struct Pages;

#[packet_controller]
impl Pages {
    #[packet]
    fn page(&self, page: Page<'_>) -> Result<Vec<u8>, Fault> {
        if page.name.is_empty() { Err(Fault::Missing) } else { Ok(Vec::new()) }
    }

    #[packet]
    fn snapshot(&self, _: Snapshot) {}

    #[packet(concurrent)]
    fn report(&self, report: Report) {
        match report {
            Report::Full(text) => drop(text),
            Report::Nothing => {}
        }
    }

    #[packet]
    fn open(&self, _: Open) {}
}

const _: () = {
    assert!(matches!(Page::COMPRESS, Some(COMPRESS_FROM)) && COMPRESS_FROM == 1024);
    assert!(matches!(Snapshot::COMPRESS, Some(4096)));
    assert!(matches!(Report::COMPRESS, Some(0)) && Report::ENCRYPT);
    assert!(matches!(Log::COMPRESS, Some(2048)));
    assert!(matches!(Translate::COMPRESS, Some(1024)));
    assert!(matches!(Never::COMPRESS, Some(0x4000_0000)));
    assert!(matches!(Named::COMPRESS, Some(7)));
    assert!(Open::COMPRESS.is_none());
    assert!(matches!(<Encoded<Snapshot> as Packet>::COMPRESS, Some(4096)));
    assert!(<Encoded<Open> as Packet>::COMPRESS.is_none());
};

fn main() {
    let mut router = Router::builder();
    router.add(Pages);
    let router = router.build().unwrap();
    let says: Vec<_> = router.handlers().map(|spec| spec.compress).collect();
    assert_eq!(says, [Some(1024), Some(4096), Some(0), None]);
    for spec in router.handlers() {
        let route = router.route(spec.opcode).unwrap();
        assert_eq!((route.is_compressed(), router.compress(route)), (spec.compress.is_some(), spec.compress));
    }
}
