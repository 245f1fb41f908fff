//! Keys that are the same in every run, so that inputs mean the same. They protect nothing.

use std::{
    sync::{Arc, LazyLock},
    time::{Duration, UNIX_EPOCH},
};

use nalix_core::{
    handshake::{
        ClientKeys, ClientSecurity, Identity, Pinned, Sealing, Secured, ServerSecurity, SessionId,
        SessionRecord, SessionTicket, TicketId,
    },
    record::{Key, Suites},
};

use crate::script::Script;

pub(crate) static SERVER: LazyLock<Identity> =
    LazyLock::new(|| identity("nalixsecret1uwftcvnurnvr8a86tjjar9hpznj3l83dxpg3mxwef0n5w66u5l9s0p7nuv"));
pub(crate) static CLIENT: LazyLock<Identity> =
    LazyLock::new(|| identity("nalixsecret1pv5glqpq98lsacma0yh8wke068pmwnv2zuzvwj4cuqa4kmmxpdcq8us0he"));

/// How a client secures its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    Pinned,
    Mutual,
    Resume,
}

impl Pattern {
    pub(crate) const ALL: [Self; 3] = [Pattern::Pinned, Pattern::Mutual, Pattern::Resume];
}

pub(crate) fn client(pattern: Pattern, sealing: Sealing, suites: Suites) -> ClientSecurity {
    let mut pinned = Pinned::new(SERVER.public_key());
    (pinned.sealing, pinned.suites) = (sealing, suites);
    match pattern {
        Pattern::Pinned => {}
        Pattern::Mutual => pinned.identity = Some(CLIENT.clone()),
        Pattern::Resume => {
            let id = TicketId::from_bytes(*b"what it is for  ");
            let server_key = SERVER.public_key();
            pinned.ticket = Some(SessionTicket::new(id, secret(), server_key, UNIX_EPOCH, 1 << 20, 8));
        }
    }
    ClientSecurity::Secured(pinned)
}

/// A server that lets the client in, whichever it is, unless the script says something else.
pub(crate) fn server(script: &mut Script<'_>) -> ServerSecurity {
    let mut secured = Secured::new(SERVER.clone());
    secured.sealing = script.one_of([Sealing::All, Sealing::Marked]);
    secured.suites = suites(script);
    secured.client_keys = match script.below(4) {
        1 => ClientKeys::Required,
        2 => ClientKeys::accepted(|key| *key == CLIENT.public_key()),
        3 => ClientKeys::accepted(|_| false),
        _ => ClientKeys::Optional,
    };
    ServerSecurity::Secured(Arc::new(secured))
}

/// Those that are fast here, or what every peer has.
pub(crate) fn suites(script: &mut Script<'_>) -> Suites {
    script.one_of([Suites::here(), Suites::COMMON])
}

/// What every ticket stands for.
pub(crate) fn session() -> SessionRecord {
    let expires = UNIX_EPOCH + Duration::from_secs(1 << 36);
    SessionRecord::new(SessionId::from_bytes([5; SessionId::LEN]), secret(), expires)
}

/// What both sides know when a session is resumed.
pub(crate) fn secret() -> Key {
    Key::new([0x5e; Key::LEN])
}

fn identity(private: &str) -> Identity {
    Identity::from_text(&format!("nalix identity v1\n{private}\n")).unwrap()
}
