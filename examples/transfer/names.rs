//! What files can be called.

use nalix_core::Wire;

/// Bytes that a name may have at most; file systems take 255, and there are some for an ending.
pub const LONGEST: usize = 200;

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire, thiserror::Error)]
pub enum NameFault {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {limit} bytes")]
    TooLong { limit: u32 },
    #[error("it has {letter:?} in it")]
    Letter { letter: char },
    #[error("it begins or ends with a dot or a space")]
    Edge,
    #[error("some systems have a device of that name")]
    Device,
}

/// Takes names of files that lie in the folder where they are put, on every system: no separators, no `..`, no hidden
/// files, no devices. It says what is allowed, since nobody knows all that is not.
pub fn check(name: &str) -> Result<(), NameFault> {
    if name.is_empty() {
        return Err(NameFault::Empty);
    }
    if name.len() > LONGEST {
        return Err(NameFault::TooLong { limit: LONGEST as u32 });
    }
    let allowed = |letter: char| letter.is_alphanumeric() || " ._-()".contains(letter);
    if let Some(letter) = name.chars().find(|&letter| !allowed(letter)) {
        return Err(NameFault::Letter { letter });
    }
    if name.starts_with(['.', ' ']) || name.ends_with(['.', ' ']) {
        return Err(NameFault::Edge);
    }
    if is_device(name) {
        return Err(NameFault::Device);
    }
    Ok(())
}

/// Whether Windows takes it for a device, which it does whatever comes behind the first dot.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_uppercase();
    let numbered = |prefix| {
        let rest = stem.strip_prefix(prefix).map(|rest| rest.chars().collect::<Vec<_>>());
        matches!(rest.as_deref(), Some(['0'..='9' | '¹' | '²' | '³']))
    };
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL") || numbered("COM") || numbered("LPT")
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use super::*;

    #[test]
    fn ordinary_names_are_taken() {
        for name in [
            "a",
            "notes.txt",
            "Bericht (2).pdf",
            "archive.tar.gz",
            "résumé.md",
            "文件",
            "a..b",
            "_x-1",
            "console",
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
            let parts: Vec<_> = Path::new(name).components().collect();
            assert!(matches!(parts[..], [Component::Normal(part)] if part == name), "{name}");
        }
        assert_eq!(check(&"x".repeat(LONGEST)), Ok(()));
    }

    #[test]
    fn no_name_leaves_the_folder() {
        for (name, letter) in [
            ("../secret", '/'),
            ("/etc/passwd", '/'),
            ("a/b", '/'),
            ("..\\secret", '\\'),
            ("C:x", ':'),
            ("file:stream", ':'),
            ("a\0b", '\0'),
            ("a\nb", '\n'),
            ("a\u{2215}b", '\u{2215}'),
            ("~", '~'),
            ("*", '*'),
        ] {
            assert_eq!(check(name), Err(NameFault::Letter { letter }), "{name:?}");
        }
        for name in [".", "..", "...", ".profile", "name.", "name ", " name"] {
            assert_eq!(check(name), Err(NameFault::Edge), "{name:?}");
        }
        assert_eq!(check(""), Err(NameFault::Empty));
        assert_eq!(check(&"é".repeat(LONGEST / 2 + 1)), Err(NameFault::TooLong { limit: 200 }));
    }

    #[test]
    fn devices_are_no_files() {
        for name in ["NUL", "con", "aux.txt", "COM1", "lpt9.tar.gz", "com²", "nul .txt"] {
            assert_eq!(check(name), Err(NameFault::Device), "{name:?}");
        }
        for name in ["COM", "COM10", "LPTX", "null"] {
            assert_eq!(check(name), Ok(()), "{name:?}");
        }
    }
}
