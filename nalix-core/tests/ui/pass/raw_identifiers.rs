//! Names on the wire and in messages are without `r#`.

#![allow(non_camel_case_types)]

use nalix_core::{Packet, Wire, controller::Controller, packet, packet_controller, registry::Registry};

mod r#mod {
    use super::*;

    #[packet(opcode = 0x1001, reply = r#enum)]
    pub struct r#type {
        pub r#match: u8,
        pub r#ref: Vec<u8>,
    }

    #[derive(Wire)]
    pub enum r#enum {
        r#struct { r#fn: u8 },
        r#union(u8),
    }
}

use r#mod::{r#enum, r#type};

#[derive(Default)]
struct r#trait;

#[packet_controller]
impl r#trait {
    #[packet]
    fn r#fn(&self, r#type { r#match, r#ref: _ }: r#type) -> r#enum {
        r#enum::r#struct { r#fn: r#match }
    }
}

fn main() {
    assert_eq!(r#type::NAME, "type");
    assert_eq!(r#trait::NAME, "trait");
    let info = Registry::global().unwrap().by_name("type").unwrap();
    assert!(info.path.ends_with("::type"), "{}", info.path);
    let schema = info.contract().to_string();
    assert!(schema.contains("match") && !schema.contains("r#"), "{schema}");

    let mut router = nalix_core::controller::Router::builder();
    router.discover();
    let router = router.build().unwrap();
    assert_eq!(router.handlers().next().unwrap().name, "trait::fn");
}
