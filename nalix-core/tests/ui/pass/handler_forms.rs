//! Every form of `self`, of arguments, of patterns and of returns.

use std::sync::Arc;

use nalix_core::{Context, Failure, State, Status, Wire, packet, packet_controller};

macro_rules! requests {
    ($($name:ident $opcode:literal -> $reply:ty;)*) => {$(
        #[packet(opcode = $opcode, reply = $reply, error = LoginError)]
        struct $name {
            a: u8,
        }
    )*};
}

#[derive(Wire)]
enum LoginError {
    Bad,
}

requests! {
    A 0x1001 -> u8; B 0x1002 -> u8; C 0x1003 -> u8; D 0x1004 -> u8; E 0x1005 -> u8; F 0x1006 -> (); G 0x1007 -> ();
    H 0x1008 -> Result<u8, String>; I 0x1009 -> Vec<u8>; J 0x100a -> u8; K 0x100b -> u8; L 0x100c -> u8;
    M 0x100d -> u8; N 0x100e -> u8; O 0x100f -> u8;
}

#[packet(opcode = 0x1101)]
struct Tell<'a> {
    text: &'a str,
}

#[packet(opcode = 0x1102)]
struct Told;

#[packet(opcode = 0x1103)]
struct Never;

#[packet(opcode = 0x1104)]
struct AsyncNever;

type Answer = Result<u8, LoginError>;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn mutable(&self, mut a: A) -> u8 {
        a.a += 1;
        a.a
    }
    #[packet]
    async fn destructured(self: &Arc<Self>, B { a }: B) -> u8 {
        a
    }
    #[packet]
    async fn ignored(self: Arc<Self>, _: C) -> u8 {
        1
    }
    #[packet]
    fn lifetime<'a>(&'a self, ctx: &'a Context, State(state): State<u8>, d: D) -> Result<u8, Status> {
        let _ = ctx;
        Ok(*state + d.a)
    }
    #[packet]
    fn alias(self: &Self, _: E) -> Answer {
        Err(LoginError::Bad)
    }
    #[packet]
    fn unit(&self, _: F) {}
    #[packet]
    async fn unit_result(&self, _: G) -> Result<(), Failure<LoginError>> {
        if true {
            Err(LoginError::Bad)?;
        }
        Err(Status::not_found("nothing"))?
    }
    /// The reply is a `Result` itself.
    #[packet]
    fn result(&self, _: H) -> Result<u8, String> {
        Ok(1)
    }
    #[packet]
    async fn nested(&self, _: I) -> Result<Vec<u8>, LoginError> {
        Ok(vec![1])
    }
    #[packet]
    fn opaque(
        &self,
        _: J,
    ) -> impl nalix_core::controller::Respond<J, nalix_core::controller::respond_marker::Value> {
        1u8
    }
    #[packet]
    fn owned_context(&self, _: Context, _: State<u8>, _: &Context, _: K) -> u8 {
        1
    }
    #[packet(concurrent)]
    async fn concurrent(&self, _: L) -> u8 {
        1
    }
    #[packet(lane = "lane", spawn)]
    async fn lane(&self, _: M) -> u8 {
        1
    }
    #[packet(blocking)]
    fn blocking(&self, _: N) -> u8 {
        1
    }
    #[packet()]
    fn parentheses(&self, _: O) -> Result<u8, Failure<LoginError>> {
        Err(Failure::Application(LoginError::Bad))
    }
    #[packet]
    async fn borrowed<'a>(&self, tell: Tell<'a>) {
        let text: &'a str = tell.text;
        std::future::ready(()).await;
        assert!(!text.is_empty());
    }
    #[packet]
    fn fallible(&self, _: Told) -> Result<(), Status> {
        Ok(())
    }
    #[packet]
    fn never(&self, _: Never) -> ! {
        panic!("on purpose")
    }
    #[packet]
    async fn async_never(&self, _: AsyncNever) -> ! {
        std::future::pending().await
    }
    fn helper(&self) {}
}

fn main() {
    let mut router = nalix_core::controller::Router::builder();
    router.add(Game);
    router.state(1u8);
    assert_eq!(router.build().unwrap().handlers().len(), 19);
    Game.helper();
}
