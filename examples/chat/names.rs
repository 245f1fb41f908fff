//! What people and rooms can be called.

use nalix_core::Wire;

/// Letters that a name may have at most.
pub const LONGEST: usize = 20;

/// What is wrong with a name.
#[derive(Debug, PartialEq, Wire, thiserror::Error)]
pub enum NameFault {
    #[error("it is empty")]
    Empty,
    #[error("it has more than {limit} letters")]
    TooLong { limit: u32 },
    #[error("{letter:?} is neither a letter, a digit, - nor _")]
    Letter { letter: char },
}

/// Names are shown on everybody's terminal, so what could play tricks there is no part of them: spaces, control
/// characters, marks that turn the direction of writing.
pub fn check(name: &str) -> Result<(), NameFault> {
    if name.is_empty() {
        return Err(NameFault::Empty);
    }
    if name.chars().count() > LONGEST {
        return Err(NameFault::TooLong { limit: LONGEST as u32 });
    }
    match name.chars().find(|&letter| !letter.is_alphanumeric() && !matches!(letter, '-' | '_')) {
        Some(letter) => Err(NameFault::Letter { letter }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_and_little_else() {
        for good in ["ada", "Zoë", "李雷", "r2-d2", "_", &"x".repeat(LONGEST), &"é".repeat(LONGEST)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        assert_eq!(check(""), Err(NameFault::Empty));
        assert_eq!(check(&"x".repeat(LONGEST + 1)), Err(NameFault::TooLong { limit: 20 }));
        for (bad, letter) in
            [("a b", ' '), ("a\n", '\n'), ("\u{1b}[2J", '\u{1b}'), ("a\u{202e}b", '\u{202e}'), ("a/b", '/')]
        {
            assert_eq!(check(bad), Err(NameFault::Letter { letter }));
        }
    }
}
