//! Identities: key pairs that prove who a peer is.

mod error;
mod file;

pub use self::error::{IdentityError, IdentityFault};

use std::{fmt, path::Path, sync::Arc};

use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

use super::{
    PublicKey,
    noise::Own,
    random::{self, NoRandomness},
    text::{self, Kind},
};

/// An X25519 key pair (RFC 7748). A server proves with it that it is the one whose [`PublicKey`] its clients
/// know; a client may prove who it is in the same way.
///
/// Clones share one private key, which is wiped when the last is dropped. It is never printed.
///
/// The functions that touch files block for as long as the file system takes; call them before the server or
/// client is up, or on a thread for blocking work.
#[derive(Clone)]
pub struct Identity {
    secret: Arc<StaticSecret>,
    public: PublicKey,
}

impl Identity {
    /// A fresh key pair.
    ///
    /// # Errors
    /// [`NoRandomness`] if the operating system has none to give.
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut bytes = Zeroizing::new([0; 32]);
        random::fill(&mut *bytes)?;
        Ok(Self::of(&bytes))
    }

    /// Reads a file that [`Identity::save`] has written.
    ///
    /// # Errors
    /// [`IdentityError`], which names the file and what is wrong with it. On Unix, files that the group or
    /// others have any access to are refused.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        file::load(path.as_ref())
    }

    /// Reads a file that [`Identity::save`] has written; if there is none, makes a fresh identity and saves
    /// it there.
    ///
    /// Processes that do this at the same time all get the same identity.
    ///
    /// # Errors
    /// [`IdentityError`]. A file that is there but cannot be used is an error, and stays as it is.
    pub fn load_or_generate(path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        file::load_or_generate(path.as_ref())
    }

    /// Writes the key pair to a new file, which on Unix only its owner can read and write.
    ///
    /// The file is there as a whole or not at all, also if the machine fails meanwhile. An existing file is
    /// never replaced. A process that is killed may leave a file behind whose name ends in `.tmp`, as secret
    /// as the one wanted.
    ///
    /// # Errors
    /// [`IdentityError::Exists`] if there is something under this name, and other [`IdentityError`]s.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), IdentityError> {
        file::save(self, path.as_ref())
    }

    /// Reads what [`Identity::to_text`] gives: for keys that are kept elsewhere than in a file of their own.
    ///
    /// # Errors
    /// [`IdentityFault`] says what is wrong with the text, without repeating it.
    pub fn from_text(text: &str) -> Result<Self, IdentityFault> {
        let mut lines = text.lines().map(str::trim);
        match lines.next() {
            None | Some("") if text.trim().is_empty() => return Err(IdentityFault::Empty),
            Some(FIRST_LINE) => {}
            Some(line) if Kind::Public.is_claimed_by(line) => return Err(IdentityFault::PublicKey),
            Some(line) if line.starts_with(ANY_VERSION) => return Err(IdentityFault::Version),
            _ => return Err(IdentityFault::FirstLine),
        }
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let key = lines.next().ok_or(IdentityFault::NoKey)?;
        if Kind::Public.is_claimed_by(key) {
            return Err(IdentityFault::PublicKey);
        }
        let identity = Self::of(&*text::decode(Kind::Private, key)?);
        if lines.next().is_some() { Err(IdentityFault::MoreThanOneKey) } else { Ok(identity) }
    }

    /// The key pair as the text that files contain. **It holds the private key.** It is wiped when it is
    /// dropped; copies made of it are not.
    pub fn to_text(&self) -> Zeroizing<String> {
        // Room for all, so that nothing is left behind in a smaller buffer.
        let mut out = Zeroizing::new(String::with_capacity(256));
        let private = text::encode(Kind::Private, self.secret.as_bytes());
        out.push_str(FIRST_LINE);
        out.push_str("\n# The public key, to be given to peers: ");
        out.push_str(&text::encode(Kind::Public, self.public.as_bytes()));
        out.push_str("\n# The private key, to be shown to nobody:\n");
        out.push_str(&private);
        out.push('\n');
        out
    }

    /// The public half.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Both halves, for a handshake. Keep them out of whatever is printed, logged or sent.
    pub(super) fn own(&self) -> Own<'_> {
        Own { private: self.secret.as_bytes(), public: self.public.as_bytes() }
    }

    fn of(private: &[u8; 32]) -> Self {
        let secret = Arc::new(StaticSecret::from(*private));
        Self { public: PublicKey::of(&secret), secret }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("public_key", &self.public).finish_non_exhaustive()
    }
}

const FIRST_LINE: &str = "nalix identity v1";
const ANY_VERSION: &str = "nalix identity v";
