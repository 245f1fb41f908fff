//! Files that hold an identity.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use zeroize::Zeroizing;

use super::{Identity, IdentityError, IdentityFault};
use crate::handshake::random;

pub(super) fn load(path: &Path) -> Result<Identity, IdentityError> {
    let failed = IdentityError::read(path);
    // Looked at before it is opened, since opening a pipe would wait for its writer.
    if !fs::metadata(path).map_err(&failed)?.is_file() {
        return Err(IdentityError::NotAFile { path: path.into() });
    }
    let mut file = File::open(path).map_err(&failed)?;
    check_permissions(&file, path).map_err(&failed)??;
    let bytes = read_all(&mut file).map_err(&failed)?;
    identity_of(&bytes).map_err(IdentityError::content(path))
}

pub(super) fn load_or_generate(path: &Path) -> Result<Identity, IdentityError> {
    match load_settled(path) {
        Err(IdentityError::Missing { .. }) => {}
        done => return done,
    }
    let identity = Identity::generate()?;
    match save(&identity, path) {
        Ok(()) => Ok(identity),
        Err(IdentityError::Exists { .. }) => load_settled(path),
        Err(error) => Err(error),
    }
}

pub(super) fn save(identity: &Identity, path: &Path) -> Result<(), IdentityError> {
    save_with(identity, path, |from, to| fs::hard_link(from, to))
}

/// `link` gives the finished file its name, which fails if the name is taken.
fn save_with(
    identity: &Identity,
    path: &Path,
    link: impl Fn(&Path, &Path) -> io::Result<()>,
) -> Result<(), IdentityError> {
    let failed = IdentityError::write(path);
    if fs::symlink_metadata(path).is_ok() {
        return Err(IdentityError::Exists { path: path.into() });
    }
    let temp = Temp::beside(path)?;
    let mut file = create(&temp.path).map_err(&failed)?;
    // Some file systems open every file to everybody, and what is saved there could not be loaded.
    check_permissions(&file, path).map_err(&failed)??;
    file.write_all(identity.to_text().as_bytes()).map_err(&failed)?;
    file.sync_all().map_err(&failed)?;
    drop(file);
    let published = match link(&temp.path, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => claim_and_rename(&temp.path, path),
        done => done,
    };
    published.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => IdentityError::Exists { path: path.into() },
        _ => failed(error),
    })?;
    sync_folder(path);
    Ok(())
}

/// For file systems without hard links: whoever creates the empty file may put the real one in its place.
/// What a crash can leave behind is the empty file.
fn claim_and_rename(temp: &Path, path: &Path) -> io::Result<()> {
    drop(create(path)?);
    fs::rename(temp, path).inspect_err(|_| drop(fs::remove_file(path)))
}

/// Loads, but gives another process time to put the file in the place of the empty one that it has made.
fn load_settled(path: &Path) -> Result<Identity, IdentityError> {
    for _ in 0..SETTLE_TRIES {
        match load(path) {
            Err(IdentityError::Content { fault: IdentityFault::Empty, .. }) => thread::sleep(SETTLE_PAUSE),
            done => return done,
        }
    }
    load(path)
}

fn identity_of(bytes: &[u8]) -> Result<Identity, IdentityFault> {
    if bytes.len() > MAX_FILE {
        return Err(IdentityFault::TooLarge { limit: MAX_FILE });
    }
    Identity::from_text(std::str::from_utf8(bytes).map_err(|_| IdentityFault::NotUtf8)?)
}

/// All of a file, or one byte more than [`MAX_FILE`]. Into one buffer, since a growing one leaves copies
/// behind.
fn read_all(file: &mut File) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; MAX_FILE + 1]);
    let mut len = 0;
    while len < bytes.len() {
        match file.read(&mut bytes[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// As ssh does with private keys, whoever owns the file.
#[cfg(unix)]
fn check_permissions(file: &File, path: &Path) -> io::Result<Result<(), IdentityError>> {
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o7777;
    Ok(if mode & 0o077 == 0 { Ok(()) } else { Err(IdentityError::Permissions { path: path.into(), mode }) })
}

#[cfg(not(unix))]
fn check_permissions(_: &File, _: &Path) -> io::Result<Result<(), IdentityError>> {
    Ok(Ok(()))
}

/// Makes the new name last. Where folders cannot be synchronised there is nothing better to be had.
fn sync_folder(path: &Path) {
    if cfg!(unix) {
        drop(File::open(folder_of(path)).and_then(|folder| folder.sync_all()));
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file under a name of its own, which is removed however saving ends.
struct Temp {
    path: PathBuf,
}

impl Temp {
    fn beside(path: &Path) -> Result<Self, IdentityError> {
        let Some(name) = path.file_name() else {
            return Err(IdentityError::NotAFile { path: path.into() });
        };
        let mut unique = [0; 8];
        random::fill(&mut unique)?;
        let mut temp = std::ffi::OsString::from(".");
        temp.push(name);
        temp.push(format!(".{:016x}.tmp", u64::from_le_bytes(unique)));
        Ok(Self { path: folder_of(path).join(temp) })
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

/// Room for an identity and many comments.
const MAX_FILE: usize = 4096;
const SETTLE_TRIES: u32 = 50;
const SETTLE_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("nalix-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_system_without_hard_links_is_served_and_nothing_overwritten() {
        let folder = folder("no-links");
        let path = folder.join("key");
        let no_links = |_: &Path, _: &Path| Err(io::Error::from(ErrorKind::Unsupported));
        let first = Identity::generate().unwrap();
        save_with(&first, &path, no_links).unwrap();
        assert_eq!(load(&path).unwrap().public_key(), first.public_key());
        let second = Identity::generate().unwrap();
        assert!(matches!(save_with(&second, &path, no_links), Err(IdentityError::Exists { .. })));
        // Also if the name is taken only after it was looked at.
        assert_eq!(claim_and_rename(&folder.join("x"), &path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(load(&path).unwrap().public_key(), first.public_key());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_name_that_is_taken_at_the_last_moment_is_not_overwritten() {
        let folder = folder("late");
        let path = folder.join("key");
        let winner = Identity::generate().unwrap();
        let late = |from: &Path, to: &Path| {
            fs::write(to, winner.to_text().as_bytes())?;
            fs::hard_link(from, to)
        };
        let loser = Identity::generate().unwrap();
        assert!(matches!(save_with(&loser, &path, late), Err(IdentityError::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), winner.to_text().as_bytes());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_failed_rename_leaves_neither_claim_nor_temporary_file() {
        let folder = folder("rename");
        let path = folder.join("key");
        assert_eq!(claim_and_rename(&folder.join("gone"), &path).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }
}
