//! A server whose handlers say what a call must meet. None of them looks after that itself.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use nalix_server::{
    BuildError, Code, Context, GuardOptions, HubExt, Permission, Server, ServerBuilder, ServerHandle, Status,
    packet_controller,
};
use tokio::sync::OnceCell;

use crate::contracts::{AskBroken, BanMe, Login, LoginError, OpenVault, Position, Post, Search, Secret};

struct Board {
    posts: AtomicU64,
    handle: std::sync::Arc<OnceCell<ServerHandle>>,
}

#[packet_controller]
impl Board {
    #[packet]
    fn login(&self, ctx: &Context, login: Login) -> Result<(), LoginError> {
        let permission = match (login.name.as_str(), login.password.as_str()) {
            ("ada", "lovelace") => Permission::USER,
            ("root", "hunter2") => Permission::SYSTEM_ADMINISTRATOR,
            _ => return Err(LoginError::Wrong),
        };
        ctx.set_permission(permission);
        // Rates with `key = identity` are for all connections of this user.
        ctx.set_identity(&login.name);
        ctx.hub().identify(ctx, login.name.clone());
        println!("server: {} has logged in", login.name);
        Ok(())
    }

    #[packet(permission = Permission::USER, rate = "2/s", burst = 3, key = identity, max_size = 128)]
    fn post(&self, post: Post) -> u64 {
        println!("server: posted {:?}", post.text);
        self.posts.fetch_add(1, Ordering::Relaxed) + 1
    }

    #[packet(concurrent, concurrency = 1, queue = 1, wait = "200ms", timeout = "300ms")]
    async fn search(&self, search: Search) {
        // Dropped here, with all it holds, when the time is up.
        tokio::time::sleep(Duration::from_millis(search.takes)).await;
        println!("server: a search of {} ms is done", search.takes);
    }

    #[packet(breaker = 2, cool_down = "300ms")]
    fn ask_broken(&self, _: AskBroken) -> Result<(), Status> {
        println!("server: something broken was asked");
        Err(Status::new(Code::Unavailable, "the database is down"))
    }

    #[packet]
    fn secret(&self, _: Secret) {
        println!("server: never reached in the clear");
    }

    #[packet(transport = "udp")]
    fn position(&self, _: Position) {
        println!("server: never reached over TCP");
    }

    #[packet(check = in_the_evening)]
    fn open_vault(&self, _: OpenVault) {
        println!("server: never reached in the daytime");
    }

    #[packet(permission = Permission::SYSTEM_ADMINISTRATOR)]
    fn ban_me(&self, ctx: &Context, ban: BanMe) -> Result<(), Status> {
        let address = ctx.peer_addr().ok_or_else(|| Status::internal("a link without an address"))?;
        let handle = self.handle.get().ok_or_else(|| Status::internal("not ready"))?;
        let banned = handle.guard().ban(address.ip(), Duration::from_secs(ban.seconds));
        println!("server: {} is banned for {} s: {banned}", address.ip(), ban.seconds);
        Ok(())
    }
}

/// Any condition can stand before a handler.
fn in_the_evening(_: &Context) -> Result<(), Status> {
    Err(Status::new(Code::FailedPrecondition, "the vault opens in the evening"))
}

fn builder() -> ServerBuilder {
    let mut guard = GuardOptions::default();
    // This machine is treated as strangers are, so that there is something to see.
    guard.exempt_loopback = false;
    guard.max_connections_per_address = 4;
    Server::builder().plaintext().guard(guard).drain_timeout(Duration::from_secs(1))
}

/// A server that listens on `address`.
pub async fn build(address: &str) -> Result<Server, BuildError> {
    let handle = std::sync::Arc::new(OnceCell::new());
    let board = Board { posts: AtomicU64::new(0), handle: handle.clone() };
    let server = builder().tcp(address).controller(board).build().await?;
    // It is set once, right here.
    let _ = handle.set(server.handle());
    Ok(server)
}
