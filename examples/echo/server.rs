//! The server's half.

use std::sync::atomic::{AtomicU32, Ordering};

use nalix_server::{BuildError, Context, Server, Status, packet_controller};

use crate::contracts::{CountMoves, Divide, DivideError, Greet, Moved, Ping, Pong, WhoAreYou};

struct Echo;

/// Kept with each connection.
#[derive(Default)]
struct Moves(AtomicU32);

#[packet_controller]
impl Echo {
    #[connected]
    fn welcome(&self, ctx: &Context) {
        ctx.set(Moves::default());
    }

    #[packet]
    fn ping(&self, ping: Ping) -> Pong {
        Pong { message: ping.message }
    }

    #[packet]
    fn divide(&self, Divide { dividend, divisor }: Divide) -> Result<i64, DivideError> {
        if divisor == 0 {
            return Err(DivideError::ByZero { dividend });
        }
        dividend.checked_div(divisor).ok_or(DivideError::Overflow)
    }

    #[packet]
    fn moved(&self, ctx: &Context, moved: Moved) {
        println!("server: client moved to ({}, {})", moved.x, moved.y);
        if let Some(moves) = ctx.get::<Moves>() {
            moves.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[packet]
    fn count_moves(&self, ctx: &Context, _: CountMoves) -> u32 {
        ctx.get::<Moves>().map_or(0, |moves| moves.0.load(Ordering::Relaxed))
    }

    #[packet]
    async fn greet(&self, ctx: &Context, _: Greet) -> Result<String, Status> {
        let name = ctx
            .request(WhoAreYou { polite: true })
            .await
            .map_err(|error| Status::internal(format!("the client did not say who it is: {error}")))?;
        Ok(format!("Hello, {name}!"))
    }
}

/// A server that listens on `address`.
pub async fn build(address: &str) -> Result<Server, BuildError> {
    Server::builder().plaintext().tcp(address).controller(Echo).build().await
}
