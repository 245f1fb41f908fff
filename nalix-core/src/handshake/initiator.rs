//! The connecting side of the handshake.

use std::time::SystemTime;

use bytes::Bytes;
use thiserror::Error;

use super::{
    Answer, ClientSecurity, Hello, Kept, Mismatch, Offer, Params, Pinned, PublicKey, Sealing, SessionTicket,
    Terms, VERSION, Way,
    noise::{Keys, Noise, NoiseError},
    params::{Disagreement, MAX_PARAMS, clamp},
};
use crate::{
    error::{DecodeErrorKind, ProtocolError},
    record::{self, Chosen, Opener, RecordKind, Sealer, Suite, Suites},
};

/// A handshake that waits for the answer to its hello.
#[derive(Debug)]
pub struct Initiator {
    params: Params,
    secured: Option<Secured>,
}

#[derive(Debug)]
struct Secured {
    noise: Noise,
    server_key: PublicKey,
    sealing: Sealing,
    suites: Suites,
    resumes: bool,
    early: bool,
}

/// What the connecting side has when the handshake is done.
#[derive(Debug)]
#[non_exhaustive]
pub struct Connected {
    /// What both sides keep to.
    pub terms: Terms,
    /// What the records of a secured connection are sealed and opened with.
    pub secrets: Option<Secrets>,
    /// The key that the server has proven to have.
    pub server_key: Option<PublicKey>,
    /// With what the session can be resumed.
    pub ticket: Option<SessionTicket>,
    /// The session that the server has opened, if both sides keep what is not acknowledged.
    pub kept: Option<Kept>,
    /// Whether it goes on with an earlier session.
    pub resumed: bool,
    /// Whether the first frames went with the hello.
    pub early: bool,
}

/// One key for each direction.
#[derive(Debug)]
#[non_exhaustive]
pub struct Secrets {
    /// For what is sent.
    pub sealer: Sealer,
    /// For what is received.
    pub opener: Opener,
}

/// Why a hello cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HelloError {
    /// The parameters are too long.
    #[error("the fingerprints of {packets} packets do not fit a hello")]
    TooManyPackets {
        /// How many packets this side knows.
        packets: usize,
    },
    /// The operating system has no randomness.
    #[error("the operating system gave no randomness")]
    NoRandomness,
    /// A key is not usable.
    #[error("a key is not usable")]
    Key,
}

impl From<NoiseError> for HelloError {
    fn from(error: NoiseError) -> Self {
        match error {
            NoiseError::NoRandomness => HelloError::NoRandomness,
            NoiseError::Unverified | NoiseError::TooLong => HelloError::Key,
        }
    }
}

/// Why an answer is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// It is not well formed.
    #[error(transparent)]
    Protocol(ProtocolError),
    /// It does not verify: whoever sent it does not have the server's key, or somebody has changed it on its way.
    #[error("the server has not proven that it has the key that was pinned")]
    Unverified,
    /// It chooses a version that was not offered.
    #[error("the peer speaks another version of the protocol")]
    Version,
    /// A packet that both sides know differs in a way that the rules of growth do not allow.
    #[error("incompatible contracts: {0}")]
    Incompatible(Mismatch),
}

impl Initiator {
    /// Starts a handshake. Returns it with the Hello record to send.
    ///
    /// `early` are frames to go along if a ticket is used and they fit; they are in good hands with a peer that still knows
    /// the ticket, and it takes them at most once.
    ///
    /// # Errors
    /// [`HelloError`]; nothing has been sent then.
    pub fn start(
        params: Params,
        security: &ClientSecurity,
        early: &[u8],
    ) -> Result<(Self, Vec<u8>), HelloError> {
        let (way, sealing, suites) = match security {
            ClientSecurity::Plaintext => (Way::Plaintext, Sealing::None, Suites::NONE),
            ClientSecurity::Secured(pinned) => {
                let way = match (&pinned.ticket, &pinned.identity) {
                    (Some(ticket), _) => Way::Resume(ticket.id),
                    (None, Some(_)) => Way::Mutual,
                    (None, None) => Way::Pinned,
                };
                (way, pinned.sealing.max(Sealing::Marked), pinned.suites)
            }
        };
        let mut offer = Offer::new(&params, sealing, suites);
        let mut content = offer.to_bytes();
        if content.len() > MAX_PARAMS {
            return Err(HelloError::TooManyPackets { packets: offer.fingerprints.len() });
        }
        // Two bytes more may be needed for its length.
        let resumes = matches!(way, Way::Resume(_));
        let early_fits = resumes && content.len() + early.len() + 2 <= MAX_PARAMS;
        if early_fits && !early.is_empty() {
            offer.early = Bytes::copy_from_slice(early);
            content = offer.to_bytes();
        }
        let mut hello = Hello::new(way);
        let secured = match security {
            ClientSecurity::Plaintext => {
                hello.content = content.into();
                None
            }
            ClientSecurity::Secured(pinned) => {
                let mut noise = noise(&hello.prologue(), pinned)?;
                hello.content = noise.write(&content)?.into();
                let early = !offer.early.is_empty();
                Some(Secured { noise, server_key: pinned.server_key, sealing, suites, resumes, early })
            }
        };
        Ok((Self { params, secured }, record::build(RecordKind::Hello, &hello.body())))
    }

    /// Takes the body of the HelloReply record. `now` is when the ticket's lifetime begins.
    ///
    /// # Errors
    /// [`AnswerError`] says why there is no connection.
    pub fn finish(self, body: &Bytes, now: SystemTime) -> Result<Connected, AnswerError> {
        let Some(Secured { mut noise, server_key, sealing, suites, resumes, early }) = self.secured else {
            let answer = Answer::parse(body).map_err(AnswerError::Protocol)?;
            let terms = agree(&answer, &self.params, Sealing::None)?;
            return Ok(Connected {
                terms,
                secrets: None,
                server_key: None,
                ticket: None,
                kept: answer.lasting.filter(|_| terms.lasting),
                resumed: false,
                early: false,
            });
        };
        let Some((&version, message)) = body.split_first() else {
            return Err(AnswerError::Protocol(ProtocolError::BadHello(
                DecodeErrorKind::Truncated { missing: 1 }.into(),
            )));
        };
        if version != VERSION {
            return Err(AnswerError::Version);
        }
        let payload = noise.read(message).map_err(|_| AnswerError::Unverified)?;
        let answer = Answer::parse(&payload.into()).map_err(AnswerError::Protocol)?;
        let terms = agree(&answer, &self.params, sealing)?;
        let keys = noise.finish().map_err(|_| AnswerError::Unverified)?;
        let ticket = answer.ticket.map(|grant| {
            let expires = now.checked_add(grant.lifetime).unwrap_or(now);
            let (max_message, max_calls) = (clamp(terms.message_out), clamp(terms.calls_out));
            SessionTicket::new(grant.id, keys.resumption.clone(), server_key, expires, max_message, max_calls)
        });
        let suite = answer.suite.filter(|&suite| suites.contains(suite));
        let secrets = suite.and_then(|suite| Secrets::new(suite, keys)).ok_or(AnswerError::Protocol(
            ProtocolError::BadHello(DecodeErrorKind::OutOfRange { expected: "Suite" }.into()),
        ))?;
        Ok(Connected {
            terms,
            secrets: Some(secrets),
            server_key: Some(server_key),
            ticket,
            kept: answer.lasting.filter(|_| terms.lasting),
            resumed: resumes,
            early,
        })
    }
}

impl Secrets {
    /// `None` if this build does not have the suite.
    pub(super) fn new(suite: Suite, keys: Keys) -> Option<Self> {
        Some(Self {
            sealer: Sealer::with(Chosen::with(suite, &keys.send)?),
            opener: Opener::with(Chosen::with(suite, &keys.recv)?),
        })
    }
}

fn noise(prologue: &[u8], pinned: &Pinned) -> Result<Noise, NoiseError> {
    let server = pinned.server_key.as_bytes();
    match (&pinned.ticket, &pinned.identity) {
        (Some(ticket), _) => Noise::initiator_resume(prologue, &ticket.secret),
        (None, Some(identity)) => Noise::initiator_ik(prologue, identity.own(), server),
        (None, None) => Noise::initiator_nk(prologue, server),
    }
}

fn agree(answer: &Answer, ours: &Params, asked: Sealing) -> Result<Terms, AnswerError> {
    answer.terms(ours, asked).map_err(|disagreement| match disagreement {
        Disagreement::Version => AnswerError::Version,
        Disagreement::Sealing => AnswerError::Protocol(ProtocolError::BadHello(
            DecodeErrorKind::OutOfRange { expected: "Sealing" }.into(),
        )),
        Disagreement::Contracts(mismatch) => AnswerError::Incompatible(mismatch),
    })
}
