//! Identities and the files that hold them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use nalix_core::handshake::{Identity, IdentityError, IdentityFault};

/// The private key of RFC 7748 section 6.1 that is called Alice's, with her public one.
const ALICE: &str = "nalix identity v1
# The public key, to be given to peers: nalix1s5s0qzvfxzn4gayt0hwtg0hhtgxm7wsdycup4a8t5j5ca25mfe4qvecvq2
# The private key, to be shown to nobody:
nalixsecret1wurk6znnrzjh60qkc9e9rvnxgh05ctu8a0qfj243wla628de9s4qe4fka2
";
const PUBLIC: &str = "nalix1s5s0qzvfxzn4gayt0hwtg0hhtgxm7wsdycup4a8t5j5ca25mfe4qvecvq2";
const PRIVATE: &str = "nalixsecret1wurk6znnrzjh60qkc9e9rvnxgh05ctu8a0qfj243wla628de9s4qe4fka2";

/// A folder of a test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("nalix-identity-{}-{n}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join("server.key");
        fs::write(&path, content).unwrap();
        close_to_others(&path);
        path
    }

    fn names(&self) -> Vec<String> {
        let names =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o7777
}

fn close_to_others(path: &Path) {
    #[cfg(unix)]
    set_mode(path, 0o600);
    #[cfg(not(unix))]
    let _ = path;
}

fn fault(content: impl AsRef<[u8]>) -> String {
    let folder = Folder::new();
    let path = folder.file(content);
    let error = Identity::load(&path).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, IdentityError::Content { .. }), "{message}");
    // Whatever is there stays there.
    let before = fs::read(&path).unwrap();
    assert_eq!(Identity::load_or_generate(&path).unwrap_err().to_string(), message);
    assert_eq!(fs::read(&path).unwrap(), before);
    message.strip_prefix(&format!("identity file {path:?}: ")).unwrap().to_owned()
}

#[test]
fn what_is_saved_is_loaded() {
    let folder = Folder::new();
    let path = folder.0.join("server.key");
    let identity = Identity::generate().unwrap();
    identity.save(&path).unwrap();
    assert_eq!(folder.names(), ["server.key"]);
    let loaded = Identity::load(&path).unwrap();
    assert_eq!(loaded.public_key(), identity.public_key());
    assert_eq!(loaded.to_text(), identity.to_text());
    #[cfg(unix)]
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn files_of_today_are_read_for_ever() {
    let folder = Folder::new();
    let alice = Identity::load(folder.file(ALICE)).unwrap();
    assert_eq!(alice.public_key().to_string(), PUBLIC);
    assert_eq!(*alice.to_text(), ALICE);
    // By hand, on another system, in an editor.
    for text in [
        format!("nalix identity v1\r\n{PRIVATE}\r\n"),
        format!("nalix identity v1  \n\n# mine\n  {PRIVATE}  \n# end\n\n"),
        format!("nalix identity v1\n{}", PRIVATE.to_uppercase()),
    ] {
        assert_eq!(Identity::from_text(&text).unwrap().public_key(), alice.public_key(), "{text}");
    }
}

#[test]
fn every_identity_is_another() {
    let a = Identity::generate().unwrap();
    let b = Identity::generate().unwrap();
    assert_ne!(a.public_key(), b.public_key());
    assert_ne!(a.to_text(), b.to_text());
}

#[test]
fn errors_name_the_file_and_the_fault() {
    let first = "does not begin with the line `nalix identity v1`";
    assert_eq!(fault("hello\n"), first);
    assert_eq!(fault(format!("{PRIVATE}\n")), first);
    assert_eq!(fault(format!("\n{ALICE}")), first);
    assert_eq!(fault([0; 100]), first);
    assert_eq!(
        fault(ALICE.replace("v1", "v2")),
        "has a format that this version does not know; it knows `nalix identity v1`"
    );
    assert_eq!(fault("nalix identity v1\n# nothing\n"), "has no line with a private key");
    assert_eq!(fault(format!("{ALICE}{PRIVATE}\n")), "has more behind the private key than comments");
    assert_eq!(fault(PUBLIC), "holds a public key, not a private one");
    assert_eq!(fault(format!("nalix identity v1\n{PUBLIC}\n")), "holds a public key, not a private one");
    let cut = &ALICE[..ALICE.len() - 11];
    assert_eq!(fault(cut), "private key: 60 characters long, not 70");
    assert_eq!(fault("nalix identity v1\nsomething\n"), "private key: does not begin with `nalixsecret1`");
    assert_eq!(fault(b"nalix identity v1\n\xff\xfe\n"), "is not UTF-8 text");
    let comments = "# comment\n".repeat(500);
    assert_eq!(fault(format!("{ALICE}{comments}")), "is larger than 4096 bytes, so it is not an identity");
}

#[test]
fn an_empty_file_is_no_identity() {
    assert_eq!(fault(""), "is empty");
    assert_eq!(Identity::from_text(" \n\t\n").unwrap_err(), IdentityFault::Empty);
}

#[test]
fn a_private_key_with_one_wrong_character_is_refused_without_being_shown() {
    for at in 12..70 {
        let mut wrong = PRIVATE.as_bytes().to_vec();
        wrong[at] = if wrong[at] == b'q' { b'p' } else { b'q' };
        let wrong = String::from_utf8(wrong).unwrap();
        let error = Identity::from_text(&format!("nalix identity v1\n{wrong}")).unwrap_err();
        assert_eq!(error.to_string(), "private key: the checksum is wrong, so at least one character is");
    }
}

#[test]
fn debug_shows_the_public_key_only() {
    let identity = Identity::from_text(ALICE).unwrap();
    assert_eq!(format!("{identity:?}"), format!("Identity {{ public_key: {PUBLIC}, .. }}"));
}

#[test]
fn what_is_missing_or_no_file_is_named() {
    let folder = Folder::new();
    let path = folder.0.join("none.key");
    let error = Identity::load(&path).unwrap_err();
    assert!(matches!(error, IdentityError::Missing { .. }));
    assert_eq!(error.to_string(), format!("identity file {path:?} does not exist"));
    for found in [Identity::load(&folder.0), Identity::load_or_generate(&folder.0)] {
        let error = found.unwrap_err();
        assert_eq!(error.to_string(), format!("identity file {:?} is not a regular file", folder.0));
    }
    let key = folder.file(ALICE);
    let inside = key.join("x");
    let error = Identity::load(&inside).unwrap_err();
    assert!(error.to_string().contains(&format!("{inside:?}")), "{error}");
    for path in [Path::new("/"), Path::new(""), Path::new("..")] {
        assert!(Identity::load_or_generate(path).is_err(), "{path:?}");
    }
}

#[test]
#[cfg(unix)]
fn a_file_open_to_others_is_refused() {
    let folder = Folder::new();
    let path = folder.file(ALICE);
    for open in [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o777] {
        set_mode(&path, open);
        for found in [Identity::load(&path), Identity::load_or_generate(&path)] {
            let error = found.unwrap_err();
            assert!(matches!(error, IdentityError::Permissions { mode, .. } if mode == open));
            let message = error.to_string();
            assert!(message.contains(&format!("(mode {open:04o})")), "{message}");
            assert!(message.ends_with(&format!("run: chmod 600 {path:?}")), "{message}");
        }
        assert_eq!(mode(&path), open);
    }
    for closed in [0o600, 0o400, 0o700] {
        set_mode(&path, closed);
        Identity::load(&path).unwrap();
    }
}

#[test]
#[cfg(unix)]
fn a_file_that_cannot_be_read_is_named() {
    let folder = Folder::new();
    let path = folder.file(ALICE);
    set_mode(&path, 0);
    // The superuser may read everything.
    if fs::File::open(&path).is_err() {
        let error = Identity::load(&path).unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot read identity file {path:?}: ")), "{error}");
    }
}

#[test]
#[cfg(unix)]
fn a_link_is_followed_when_reading_and_never_when_writing() {
    let folder = Folder::new();
    let real = folder.file(ALICE);
    let link = folder.0.join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert_eq!(Identity::load(&link).unwrap().public_key().to_string(), PUBLIC);
    let target = folder.0.join("target");
    let dangling = folder.0.join("dangling");
    std::os::unix::fs::symlink(&target, &dangling).unwrap();
    let error = Identity::generate().unwrap().save(&dangling).unwrap_err();
    assert!(matches!(error, IdentityError::Exists { .. }), "{error}");
    assert!(Identity::load_or_generate(&dangling).is_err());
    assert!(!target.exists());
}

#[test]
fn saving_never_overwrites_and_leaves_nothing_behind() {
    let folder = Folder::new();
    for content in ["", "something else", ALICE] {
        let path = folder.file(content);
        let error = Identity::generate().unwrap().save(&path).unwrap_err();
        assert!(matches!(error, IdentityError::Exists { .. }));
        assert!(error.to_string().starts_with(&format!("{path:?} exists already")), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
        assert_eq!(folder.names(), ["server.key"]);
    }
    let error = Identity::generate().unwrap().save(&folder.0).unwrap_err();
    assert!(matches!(error, IdentityError::Exists { .. }), "{error}");
    let path = folder.0.join("no such folder").join("server.key");
    let error = Identity::load_or_generate(&path).unwrap_err();
    assert!(matches!(error, IdentityError::Write { .. }), "{error}");
    assert!(error.to_string().starts_with(&format!("cannot write identity file {path:?}: ")), "{error}");
    assert_eq!(folder.names(), ["server.key"]);
}

#[test]
fn all_who_start_at_once_get_the_same_identity() {
    for _ in 0..100 {
        let folder = Folder::new();
        let path = folder.0.join("server.key");
        let start = Barrier::new(2);
        let keys: Vec<_> = thread::scope(|scope| {
            let run = || {
                start.wait();
                Identity::load_or_generate(&path).unwrap().public_key()
            };
            let threads = [scope.spawn(run), scope.spawn(run)];
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(keys[0], keys[1]);
        assert_eq!(Identity::load(&path).unwrap().public_key(), keys[0]);
        assert_eq!(folder.names(), ["server.key"]);
    }
}
