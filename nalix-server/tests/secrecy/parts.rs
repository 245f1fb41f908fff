//! The types that hold secrets, one by one.

use std::{fmt::Debug, time::SystemTime};

use bytes::Bytes;
use nalix_client::{Client, SessionTicket};
use nalix_core::{
    CallId,
    connection::{Driver, EarlyRequest, Serving, accept, connect_early},
    controller::{Reply, ReplyBuffer, Router},
    frame::{Head, Metadata},
    handshake::{
        ClientSecurity, Contracts, Grant, Hello, Initiator, Offer, Params, Pinned, Responder, Secured,
        ServerSecurity, SessionData, SessionRecord,
    },
    link::memory,
    record::{self, Key, Suites},
    session::{Cover, Inbound, Outbound},
    wire::to_vec,
};
use nalix_server::{Identity, Options, Packet, Sealing, SessionId, store::TicketId};

use crate::{ANSWER, LogIn, PASSWORD, WHISPER, both, search::Secrets, words};

fn clean(secrets: &Secrets, value: &impl Debug) {
    let text = both(value);
    assert_eq!(secrets.found_in(&text), None, "{text}");
}

fn log_in() -> LogIn {
    LogIn { password: PASSWORD.into() }
}

#[test]
fn what_is_kept_prints_no_secret() {
    let mut secrets = words();
    let me = Identity::generate().unwrap();
    secrets.add_identity("an identity", &me);
    let (id, secret) = (TicketId::generate().unwrap(), Key::new(*b"kQ7xvZp2mWc9tRb4yHn6sLd8fGj3aEu1"));
    secrets.add("a ticket's name", id.as_bytes());
    secrets.add("a secret", secret.as_bytes());
    let ticket = SessionTicket::new(id, secret.clone(), me.public_key(), SystemTime::now(), 1, 1);
    let mut session = SessionRecord::new(SessionId::generate().unwrap(), secret.clone(), SystemTime::now());
    session.data.insert("kept", &PASSWORD.to_owned()).unwrap();
    let mut data = SessionData::new();
    data.insert("kept", &WHISPER.to_owned()).unwrap();

    clean(&secrets, &(&me, &id, &secret, &ticket));
    clean(&secrets, &(&session, &data, Grant::new(id, std::time::Duration::from_secs(1))));
    let mut pinned = Pinned::new(me.public_key());
    (pinned.identity, pinned.ticket) = (Some(me.clone()), Some(ticket.clone()));
    clean(&secrets, &(&pinned, ClientSecurity::Secured(pinned.clone())));
    clean(&secrets, &Secured::new(me.clone()));
    clean(&secrets, &ServerSecurity::Secured(std::sync::Arc::new(Secured::new(me.clone()))));
    clean(&secrets, &Client::builder("").identity(me.clone()).resume(ticket.clone()));

    // Texts and bytes that have been damaged are not repeated in what is wrong with them.
    let text = me.to_text();
    for cut in (1..text.len()).step_by(5) {
        for damaged in [&text[..cut], &text[cut..], &text.replacen(char::is_alphanumeric, "!", cut)] {
            if let Err(error) = Identity::from_text(damaged) {
                let printed = format!("{error} {}", both(&error));
                assert_eq!(secrets.found_in(&printed), None, "{printed}");
            }
        }
    }
    for bytes in [ticket.to_bytes(), session.to_bytes()] {
        for cut in (0..bytes.len()).step_by(3) {
            for damaged in [&bytes[..cut], &bytes[cut..]] {
                let errors =
                    (SessionTicket::from_bytes(damaged).err(), SessionRecord::from_bytes(damaged).err());
                clean(&secrets, &errors);
                for error in [errors.0, errors.1].into_iter().flatten() {
                    assert_eq!(secrets.found_in(&error.to_string()), None);
                }
            }
        }
    }
}

#[test]
fn handshakes_print_no_secret() {
    let mut secrets = words();
    let (server, me) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    secrets.add_identity("the server's key", &server);
    secrets.add_identity("the client's key", &me);
    let security = ServerSecurity::Secured(std::sync::Arc::new(Secured::new(server.clone())));
    let params = || Params::new(1_000, 10, Contracts::default());
    let early = EarlyRequest::new(&log_in(), 1_000, None).unwrap();
    clean(&secrets, &early);
    let mut offer = Offer::new(&params(), Sealing::All, Suites::here());
    offer.early = Bytes::copy_from_slice(early.frames());
    clean(&secrets, &offer);

    let mut session: Option<(SessionTicket, SessionRecord)> = None;
    for _ in 0..3 {
        let mut pinned = Pinned::new(server.public_key());
        pinned.identity = Some(me.clone());
        pinned.ticket = session.as_ref().map(|(ticket, _)| ticket.clone());
        let security_there = ClientSecurity::Secured(pinned);
        let (initiator, hello) = Initiator::start(params(), &security_there, early.frames()).unwrap();
        clean(&secrets, &initiator);
        let hello = Hello::parse(&Bytes::copy_from_slice(&hello[record::HEADER..])).unwrap();
        let kept = session.as_ref().map(|(_, record)| record);
        let responder = Responder::read(&hello, params(), &security, kept).unwrap();
        clean(&secrets, &responder);
        let next = TicketId::generate().unwrap();
        secrets.add("a ticket's name", next.as_bytes());
        let grant = Grant::new(next, std::time::Duration::from_secs(60));
        clean(&secrets, &grant);
        let accepted = responder.accept(Some(grant), None).unwrap();
        let reply = Bytes::copy_from_slice(&accepted.reply[record::HEADER..]);
        let secret = accepted.secrets.as_ref().unwrap().1.clone();
        secrets.add("a resumption secret", secret.as_bytes());
        clean(&secrets, &accepted);
        assert_eq!(accepted.early.is_empty(), session.is_none(), "they go along with a ticket only");
        let connected = initiator.finish(&reply, SystemTime::now()).unwrap();
        clean(&secrets, &connected);
        clean(&secrets, &connected.secrets);
        let record = SessionRecord::new(SessionId::generate().unwrap(), secret, SystemTime::now());
        session = connected.ticket.map(|ticket| (ticket, record));
    }
}

#[test]
fn paths_of_a_connection_print_no_payload() {
    let secrets = words();
    let mut outbound = Outbound::new(1_000);
    let head = Head::request(CallId::new(0), LogIn::OPCODE);
    let password = to_vec(&log_in()).unwrap();
    outbound.append(Cover::Plain, head, Metadata::default(), 10, |w| w.put(&password)).unwrap();
    assert!(!outbound.is_empty());
    clean(&secrets, &outbound);
    let bytes = outbound.take(Vec::new());
    let mut inbound = Inbound::new(1_000);
    inbound.establish(1_000);
    inbound.buffer().extend_from_slice(&bytes);
    inbound.buffer().extend_from_slice(&bytes[..bytes.len() - 1]);
    clean(&secrets, &inbound);
    let frame = inbound.next_frame().unwrap().unwrap();
    assert!(frame.payload.ends_with(PASSWORD.as_bytes()));
    clean(&secrets, &frame);
    clean(&secrets, &inbound);

    let reply = ReplyBuffer::new(Vec::new(), 1_000).value(&ANSWER.to_owned());
    let _: &Reply = &reply;
    clean(&secrets, &reply);
}

/// With what waits to be sent in them.
#[tokio::test(start_paused = true)]
async fn connections_print_no_payload() {
    let mut secrets = words();
    let server = Identity::generate().unwrap();
    secrets.add_identity("the server's key", &server);
    let security = ServerSecurity::Secured(std::sync::Arc::new(Secured::new(server.clone())));
    let (ours, theirs) = memory::pair(1 << 16);
    let options = Options::default();
    let pinned = ClientSecurity::Secured(Pinned::new(server.public_key()));
    let accepting = tokio::spawn(async move {
        accept(theirs, Contracts::default(), &security, &Options::default()).await.unwrap()
    });
    let established = connect_early(ours, Contracts::default(), &pinned, &[], &options).await.unwrap();
    clean(&secrets, &established);
    let (connection, driver) = Driver::new(established, Serving::from(Router::empty()), &options);
    let mut call = Box::pin(std::future::IntoFuture::into_future(connection.request(log_in())));
    let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
    assert!(polled, "it waits for its answer");
    clean(&secrets, &(&call, &driver, &connection));
    let driving = tokio::spawn(driver);
    let there = accepting.await.unwrap();
    clean(&secrets, &there);
    drop(there);
    let error = call.await.unwrap_err();
    clean(&secrets, &(&error, error.to_string()));
    clean(&secrets, &driving.await.unwrap());
}
