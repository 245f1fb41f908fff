//! The accepting side of the handshake.

use std::fmt;

use bytes::Bytes;

use super::{
    Answer, Attach, Grant, Hello, Kept, Lasting, Offer, Params, PublicKey, Sealing, Secrets, Secured,
    ServerSecurity, SessionRecord, Terms, VERSION, Way,
    noise::{Noise, NoiseError},
};
use crate::{
    error::ProtocolError,
    record::{self, Key, RecordKind, Suite, Suites},
    status::{CloseCode, CloseReason},
};

/// A hello that has been read and whose parameters are acceptable, not yet answered.
#[derive(Debug)]
pub struct Responder {
    params: Params,
    offer: Offer,
    sealing: Sealing,
    suite: Option<Suite>,
    noise: Option<Noise>,
    client_key: Option<PublicKey>,
}

/// What the accepting side has when the handshake is done.
#[non_exhaustive]
pub struct Accepted {
    /// What both sides keep to.
    pub terms: Terms,
    /// What the records of a secured connection are sealed and opened with, and what a ticket for it stands for.
    pub secrets: Option<(Secrets, Key)>,
    /// Frames that came with the hello.
    pub early: Bytes,
    /// The session that is opened, if both sides keep what is not acknowledged.
    pub kept: Option<Kept>,
    /// The session that the client wants to go on with, if both sides keep what is not acknowledged. Nobody has checked it,
    /// nor that the hello is no recording.
    pub attach: Option<Attach>,
    /// The HelloReply record to send.
    pub reply: Vec<u8>,
}

/// Without what the early frames say, which may be secret.
impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepted")
            .field("terms", &self.terms)
            .field("secured", &self.secrets.is_some())
            .field("early", &format_args!("{} bytes", self.early.len()))
            .finish_non_exhaustive()
    }
}

impl Responder {
    /// Reads a hello. If it is to resume a session, `session` is what its ticket stands for; the ticket must not be
    /// consumed before this has succeeded.
    ///
    /// # Errors
    /// The reason to refuse the peer for. What fails in cryptography fails with one and the same reason.
    pub fn read(
        hello: &Hello,
        params: Params,
        security: &ServerSecurity,
        session: Option<&SessionRecord>,
    ) -> Result<Self, CloseReason> {
        hello.check_version()?;
        let secured = match (security, hello.way) {
            (ServerSecurity::Plaintext, Way::Plaintext) => return Self::plain(hello, params),
            (ServerSecurity::Plaintext, _) => return Err(not_secured()),
            (ServerSecurity::Secured(_), Way::Plaintext) => return Err(encryption_required()),
            (ServerSecurity::Secured(secured), _) => secured,
        };
        let (noise, payload) = open(hello, secured, session).map_err(|_| unverified())?;
        let offer = Offer::parse(&payload.into()).map_err(malformed)?;
        let resumes = matches!(hello.way, Way::Resume(_));
        // Another hello proves nothing of a session.
        let session = session.filter(|_| resumes);
        if offer.sealing == Sealing::None || (!resumes && !offer.early.is_empty()) {
            return Err(CloseReason::new(
                CloseCode::ProtocolError,
                "an offer that does not fit its handshake",
            ));
        }
        let client_key = match session {
            Some(session) => session.peer_key,
            None => noise.remote_static().map(PublicKey::from_bytes).transpose().map_err(|_| unverified())?,
        };
        if !secured.client_keys.admits(client_key.as_ref()) {
            return Err(key_refused(client_key.is_some()));
        }
        let sealing = offer.sealing.max(secured.sealing);
        let suite = Some(secured.suites.choose(offer.suites).ok_or_else(no_suite)?);
        Ok(Self { params, offer, sealing, suite, noise: Some(noise), client_key })
    }

    fn plain(hello: &Hello, params: Params) -> Result<Self, CloseReason> {
        let offer = Offer::parse(&hello.content).map_err(malformed)?;
        if offer.sealing != Sealing::None || offer.suites != Suites::NONE || !offer.early.is_empty() {
            return Err(CloseReason::new(
                CloseCode::ProtocolError,
                "an offer that does not fit its handshake",
            ));
        }
        Ok(Self { params, offer, sealing: Sealing::None, suite: None, noise: None, client_key: None })
    }

    /// The key that the client has proven to have.
    pub fn client_key(&self) -> Option<PublicKey> {
        self.client_key
    }

    /// Answers, with a ticket for the session if there is one, and with its name if it is to outlive its links.
    ///
    /// # Errors
    /// The reason to refuse the peer for.
    pub fn accept(self, ticket: Option<Grant>, kept: Option<Kept>) -> Result<Accepted, CloseReason> {
        let terms = self.offer.terms(&self.params, self.sealing);
        let suite = self.suite;
        let kept = kept.filter(|_| terms.lasting);
        let answer =
            Answer::new(&self.offer, &self.params, self.sealing, suite, ticket, kept.clone())?.to_bytes();
        let (body, secrets) = match self.noise.zip(suite) {
            None => (answer, None),
            Some((mut noise, suite)) => {
                let mut body = vec![VERSION];
                body.extend_from_slice(&noise.write(&answer).map_err(internal)?);
                let keys = noise.finish().map_err(internal)?;
                let resumption = keys.resumption.clone();
                let secrets = Secrets::new(suite, keys).ok_or_else(no_suite)?;
                (body, Some((secrets, resumption)))
            }
        };
        let reply = record::build(RecordKind::HelloReply, &body);
        let attach = match self.offer.lasting {
            Lasting::Attach(attach) if terms.lasting => Some(attach),
            _ => None,
        };
        Ok(Accepted { terms, secrets, early: self.offer.early, kept, attach, reply })
    }
}

fn open(
    hello: &Hello,
    secured: &Secured,
    session: Option<&SessionRecord>,
) -> Result<(Noise, Vec<u8>), NoiseError> {
    let prologue = hello.prologue();
    let own = secured.identity.own();
    let mut noise = match (hello.way, session) {
        (Way::Pinned, _) => Noise::responder_nk(&prologue, own)?,
        (Way::Mutual, _) => Noise::responder_ik(&prologue, own)?,
        (Way::Resume(_), Some(session)) => Noise::responder_resume(&prologue, &session.secret)?,
        (Way::Resume(_) | Way::Plaintext, _) => return Err(NoiseError::Unverified),
    };
    let payload = noise.read(&hello.content)?;
    Ok((noise, payload))
}

fn malformed(error: ProtocolError) -> CloseReason {
    CloseReason::new(CloseCode::ProtocolError, error.to_string())
}

fn unverified() -> CloseReason {
    let message = "the hello did not verify: it was made for another key, or changed on its way";
    CloseReason::new(CloseCode::HandshakeFailed, message)
}

fn not_secured() -> CloseReason {
    CloseReason::new(CloseCode::Incompatible, "this side does not encrypt its connections")
}

fn encryption_required() -> CloseReason {
    CloseReason::new(CloseCode::EncryptionRequired, "this side takes encrypted connections only")
}

fn no_suite() -> CloseReason {
    CloseReason::new(CloseCode::Incompatible, "the peers have no cipher in common")
}

fn key_refused(has_key: bool) -> CloseReason {
    let message = if has_key {
        "the client's key is not accepted"
    } else {
        "this side wants the client to prove a key"
    };
    CloseReason::new(CloseCode::KeyRefused, message)
}

fn internal(_: NoiseError) -> CloseReason {
    CloseReason::new(CloseCode::Internal, "the handshake could not be answered")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::handshake::{Contracts, Identity};

    /// Whoever has recorded the hello could have them run again.
    #[test]
    fn early_frames_are_refused_where_the_hello_may_be_a_recording() {
        let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let params = || Params::new(1_000, 10, Contracts::default());
        let security = ServerSecurity::Secured(Arc::new(Secured::new(server.clone())));
        let key = server.public_key();
        for way in [Way::Pinned, Way::Mutual] {
            for (sealing, early, good) in [
                (Sealing::All, &b""[..], true),
                (Sealing::Marked, b"", true),
                (Sealing::All, b"x", false),
                (Sealing::None, b"", false),
            ] {
                let mut hello = Hello::new(way);
                let mut noise = match way {
                    Way::Pinned => Noise::initiator_nk(&hello.prologue(), key.as_bytes()),
                    _ => Noise::initiator_ik(&hello.prologue(), client.own(), key.as_bytes()),
                }
                .unwrap();
                let mut offer = Offer::new(&params(), sealing, Suites::here());
                offer.early = Bytes::from_static(early);
                hello.content = noise.write(&offer.to_bytes()).unwrap().into();
                let read = Responder::read(&hello, params(), &security, None);
                match read {
                    Ok(responder) => {
                        assert!(good && responder.client_key().is_some() == (way == Way::Mutual));
                    }
                    Err(reason) => assert!(!good && reason.code == CloseCode::ProtocolError, "{reason}"),
                }
            }
        }
    }
}
