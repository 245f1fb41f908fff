//! What can be sent to other threads, shared and cloned. These are promises that a compiler checks.

use std::{error::Error, fmt::Debug};

use nalix_client::{Client, ClientBuilder, ConnectError, RouterError, Session, SessionState};
use nalix_server::{
    BuildError, Call, CloseReason, Connection, Context, DrainReport, Encoded, Failure, Group, Hub, Lagged,
    Listener, Member, Members, Options, PresenceEvent, Reply, RequestError, Router, SendError, Server,
    ServerBuilder, ServerHandle, State, Status, Subscription, link::memory, packet, packet_controller,
};

#[packet(opcode = 0x1001, reply = u32)]
struct Hello;

#[packet(opcode = 0x1002)]
struct Noted;

struct Lab;

#[packet_controller]
impl Lab {
    #[packet]
    fn hello(&self, _: Hello) -> u32 {
        7
    }
}

fn is_handle<T: Send + Sync + Clone + Debug + 'static>() {}
fn is_error<T: Error + Send + Sync + Debug + 'static>() {}
fn is_value<T: Send + Sync + Debug + 'static>() {}
fn is_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn handles_are_shared_and_cloned() {
    is_handle::<Session>();
    is_handle::<Connection>();
    is_handle::<ServerHandle>();
    is_handle::<Context>();
    is_handle::<Router>();
    is_handle::<State<String>>();
    is_handle::<Hub>();
    is_handle::<Group>();
    is_handle::<Member>();
    is_handle::<Members>();
    is_handle::<PresenceEvent>();
    is_handle::<Encoded<Noted>>();
    is_handle::<Options>();
    is_handle::<SessionState>();
    is_handle::<CloseReason>();
    is_handle::<Status>();
}

#[test]
fn errors_fit_where_errors_go() {
    is_error::<BuildError>();
    is_error::<ConnectError>();
    is_error::<RouterError>();
    is_error::<RequestError<Status>>();
    is_error::<RequestError>();
    is_error::<SendError>();
    is_error::<Lagged>();
    is_error::<Status>();
    is_error::<CloseReason>();
    is_error::<Failure<Status>>();
    is_error::<nalix_core::error::DecodeError>();
    is_error::<nalix_core::error::EncodeError>();
    is_error::<nalix_core::error::ProtocolError>();
    is_error::<nalix_core::error::DuplicateError>();
    is_error::<nalix_core::handshake::Mismatch>();
}

#[test]
fn values_go_to_other_threads() {
    is_value::<Server>();
    is_value::<Call>();
    is_value::<Reply>();
    is_value::<DrainReport>();
    is_value::<Listener>();
    is_value::<Subscription<Noted>>();
    let builder: ServerBuilder = Server::builder();
    drop(is_send(builder));
    let builder: ClientBuilder = Client::builder("");
    drop(is_send(builder));
}

#[tokio::test]
async fn futures_go_to_other_threads() {
    let building = is_send(Server::builder().plaintext().no_listener().controller(Lab).build());
    let server = building.await.unwrap();
    let handle = server.handle();
    let running = is_send(server.run_until(std::future::pending()));
    let (ours, theirs) = memory::pair(64);
    handle.serve_link(theirs);
    let connecting = is_send(Client::builder("").plaintext().connect_over(ours));
    let running = tokio::spawn(running);
    let session = connecting.await.unwrap();
    drop(is_send(Client::builder("tcp://localhost:1").plaintext().connect()));
    assert_eq!(is_send(session.request(Hello).into_future()).await, Ok(7));
    is_send(session.send(&Noted)).await.unwrap();
    drop(is_send(session.connection().send(&Noted)));
    drop(is_send(session.closed()));
    drop(is_send(session.subscribe::<Noted>().next()));
    drop(is_send(session.connection().closed()));
    is_send(session.close()).await;
    handle.shutdown();
    running.await.unwrap().unwrap();
    let server = Server::builder().plaintext().no_listener().controller(Lab).build().await.unwrap();
    drop(is_send(server.run()));
}
