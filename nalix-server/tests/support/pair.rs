//! A server and its clients in one process.

use std::time::Duration;

use nalix_client::{Client, ClientBuilder, Session};
use nalix_core::{Connection, controller::Controller, link::memory};
use nalix_server::{Options, Server, ServerHandle};

use super::soon;

/// A server without a listener, to be handed its links.
pub(crate) async fn server(controller: impl Controller, options: Options) -> ServerHandle {
    let server = Server::builder().plaintext().no_listener().controller(controller).options(options);
    server.build().await.expect("the server is fine").handle()
}

/// A session over an in-memory link. It serves nothing.
pub(crate) async fn session(server: &ServerHandle) -> Session {
    connect(server, CAPACITY, Client::builder("memory").plaintext()).await
}

/// A server and the options that tests set.
pub(crate) struct Both {
    pub(crate) server: ServerHandle,
    /// How many bytes a link takes before its writer has to wait.
    pub(crate) capacity: usize,
    pub(crate) client_options: Options,
}

impl Both {
    pub(crate) async fn new(controller: impl Controller) -> Self {
        Self::with(controller, Options::default()).await
    }

    pub(crate) async fn with(controller: impl Controller, options: Options) -> Self {
        let server = server(controller, options).await;
        Self { server, capacity: CAPACITY, client_options: Options::default() }
    }

    /// A client that serves nothing.
    pub(crate) async fn client(&self) -> Session {
        self.connect(self.builder()).await
    }

    /// A client that serves a controller.
    pub(crate) async fn client_serving(&self, controller: impl Controller) -> Session {
        self.connect(self.builder().controller(controller)).await
    }

    /// Waits until the server has no connection left.
    pub(crate) async fn server_is_empty(&self) {
        self.server_has(0).await;
    }

    /// Waits until the server has this many connections.
    pub(crate) async fn server_has(&self, n: usize) {
        let reached = async {
            while self.server.connection_count() != n {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        soon(reached).await;
    }

    /// The server's end of its only connection.
    pub(crate) async fn server_end(&self) -> Connection {
        self.server_has(1).await;
        self.server.connections().remove(0)
    }

    fn builder(&self) -> ClientBuilder {
        Client::builder("").plaintext().options(self.client_options.clone())
    }

    async fn connect(&self, builder: ClientBuilder) -> Session {
        connect(&self.server, self.capacity, builder).await
    }
}

async fn connect(server: &ServerHandle, capacity: usize, builder: ClientBuilder) -> Session {
    let (ours, theirs) = memory::pair(capacity);
    server.serve_link(theirs);
    builder.connect_over(ours).await.expect("the handshake succeeds")
}

const CAPACITY: usize = 64 * 1024;
