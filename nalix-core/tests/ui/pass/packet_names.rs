//! Packets and controllers may be called what the framework's own types are called.

mod contracts {
    use nalix_core::packet;

    #[packet(opcode = 0x1001, reply = Reply, error = Error)]
    pub struct Request;
    #[derive(nalix_core::Wire)]
    pub struct Reply;
    #[derive(nalix_core::Wire)]
    pub struct Error;
    #[packet(opcode = 0x1002)]
    pub struct Packet;
    #[packet(opcode = 0x1003)]
    pub struct Registry;
    #[packet(opcode = 0x1004)]
    pub struct Client;
    #[packet(opcode = 0x1005)]
    pub struct Result;
    #[packet(opcode = 0x1006)]
    pub struct Option;
    #[packet(opcode = 0x1007)]
    pub enum Wire {
        Encode,
        Decode(u8),
    }
    #[packet(opcode = 0x1008)]
    pub struct Type;
    #[packet(opcode = 0x1009)]
    pub struct Context;
    #[packet(opcode = 0x100a)]
    pub struct Self_;
}

mod one {
    use super::contracts::*;

    #[derive(Default)]
    pub struct Controller;

    #[nalix_core::packet_controller]
    impl Controller {
        #[packet]
        fn request(&self, _: Request) -> ::std::result::Result<Reply, Error> {
            Err(Error)
        }

        #[packet]
        fn packet(&self, _: Packet) {}
    }
}

mod two {
    use super::contracts::*;

    #[derive(Default)]
    pub struct Controller;

    #[nalix_core::packet_controller]
    impl Controller {
        #[packet]
        fn context(&self, _: &nalix_core::Context, _: Context) {}

        #[nalix_core::packet]
        async fn option(&self, _: Option) {}
    }
}

fn main() {
    assert_eq!(nalix_core::registry::Registry::global().unwrap().iter().len(), 10);
    let mut router = nalix_core::controller::Router::builder();
    router.discover();
    assert_eq!(router.build().unwrap().handlers().len(), 4);
}
