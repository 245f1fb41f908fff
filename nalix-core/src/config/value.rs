//! Values as people write them.

use std::{fmt, str::FromStr, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// A value as it has come, before it is known what of.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// A number, from a file.
    Number(u64),
    /// Text, from a file or the environment.
    Text(String),
    /// Yes or no, from a file.
    Flag(bool),
    /// Several texts, from a file.
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyRaw)
    }
}

struct AnyRaw;

impl<'de> Visitor<'de> for AnyRaw {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number that is not negative, text, true or false, or a list of texts")
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<Raw, E> {
        Ok(Raw::Number(n))
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<Raw, E> {
        u64::try_from(n).map(Raw::Number).map_err(|_| E::custom(format_args!("{n} is negative")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Raw, E> {
        Ok(Raw::Flag(flag))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }
}

/// A plain number within a range.
///
/// # Errors
/// What is wrong with it.
pub fn number(raw: &Raw, min: u64, max: u64) -> Result<u64, String> {
    let n = match raw {
        Raw::Number(n) => *n,
        Raw::Text(text) => digits(text.trim()).ok_or_else(|| format!("{text:?} is not a number"))?,
        Raw::Flag(flag) => return Err(format!("{flag} is not a number")),
        Raw::List(_) => return Err("a list is not a number".into()),
    };
    in_range(n, min, max)
}

/// A number of bytes within a range: plain, or with `B`, `KiB`, `MiB`, `GiB`, `kB`, `MB` or `GB`.
///
/// # Errors
/// What is wrong with it.
pub fn size(raw: &Raw, min: usize, max: usize) -> Result<usize, String> {
    let n = match raw {
        Raw::Number(n) => *n,
        Raw::Flag(flag) => return Err(format!("{flag} is not a size")),
        Raw::List(_) => return Err("a list is not a size".into()),
        Raw::Text(text) => {
            let units = [
                ("KiB", 1 << 10),
                ("MiB", 1 << 20),
                ("GiB", 1 << 30),
                ("kB", 1_000),
                ("MB", 1_000_000),
                ("GB", 1_000_000_000),
                ("B", 1),
                ("", 1),
            ];
            with_unit(text, &units).ok_or_else(|| format!("{text:?} is not a size such as \"16 MiB\""))?
        }
    };
    let n = in_range(n, min as u64, max as u64)?;
    usize::try_from(n).map_err(|_| format!("{n} is more than this machine can address"))
}

/// A time: text with `ns`, `us`, `ms`, `s`, `min`, `h` or `d`.
///
/// # Errors
/// What is wrong with it.
pub fn time(raw: &Raw, min: Duration) -> Result<Duration, String> {
    let Raw::Text(text) = raw else { return Err("a time needs a unit, as in \"5s\"".into()) };
    let fine = with_unit(text, &[("ns", 1), ("us", 1_000), ("ms", 1_000_000)]).map(Duration::from_nanos);
    let coarse =
        || with_unit(text, &[("s", 1), ("min", 60), ("h", 3_600), ("d", 86_400)]).map(Duration::from_secs);
    let time =
        fine.or_else(coarse).ok_or_else(|| format!("{text:?} is not a time such as \"5s\" or \"100ms\""))?;
    if time < min {
        return Err(format!("{text} is too short: at least {min:?}"));
    }
    Ok(time)
}

/// A time, or `none`.
///
/// # Errors
/// What is wrong with it.
pub fn optional_time(raw: &Raw, min: Duration) -> Result<Option<Duration>, String> {
    match raw {
        Raw::Text(text) if text.trim() == "none" => Ok(None),
        raw => time(raw, min).map(Some).map_err(|why| format!("{why}, or \"none\"")),
    }
}

/// True or false.
///
/// # Errors
/// What is wrong with it.
pub fn flag(raw: &Raw) -> Result<bool, String> {
    match raw {
        Raw::Flag(flag) => Ok(*flag),
        Raw::Text(text) if text.trim() == "true" => Ok(true),
        Raw::Text(text) if text.trim() == "false" => Ok(false),
        Raw::Text(text) => Err(format!("{text:?} is neither true nor false")),
        Raw::Number(n) => Err(format!("{n} is neither true nor false")),
        Raw::List(_) => Err("a list is neither true nor false".into()),
    }
}

/// Text that is not empty.
///
/// # Errors
/// What is wrong with it.
pub fn text(raw: &Raw) -> Result<String, String> {
    match raw {
        Raw::Text(text) if text.trim().is_empty() => Err("it is empty".into()),
        Raw::Text(text) => Ok(text.clone()),
        _ => Err("it must be text, in quotes".into()),
    }
}

/// One of several words.
///
/// # Errors
/// Which words there are.
pub fn word<T: Copy>(raw: &Raw, words: &[(&str, T)]) -> Result<T, String> {
    let found = match raw {
        Raw::Text(text) => words.iter().find(|(word, _)| *word == text.trim()),
        _ => None,
    };
    found.map(|&(_, value)| value).ok_or_else(|| {
        let known: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        format!("it must be one of {}", known.join(", "))
    })
}

/// A list of things that are written as text: a list of texts, or one text with commas between them, as in environment
/// variables. An empty text is an empty list.
///
/// # Errors
/// What is wrong with the first that is wrong.
pub fn list<T: FromStr<Err: fmt::Display>>(raw: &Raw) -> Result<Vec<T>, String> {
    let parse = |item: &str| item.trim().parse::<T>().map_err(|why| format!("{item:?}: {why}"));
    match raw {
        Raw::List(items) => items.iter().map(|item| parse(item)).collect(),
        Raw::Text(text) if text.trim().is_empty() => Ok(Vec::new()),
        Raw::Text(text) => text.split(',').map(parse).collect(),
        _ => Err("it must be a list of texts, or one text with commas between them".into()),
    }
}

fn in_range(n: u64, min: u64, max: u64) -> Result<u64, String> {
    match (min..=max).contains(&n) {
        true => Ok(n),
        false => Err(format!("{n} is out of range: from {min} to {max}")),
    }
}

/// Digits and a unit, with or without spaces in between.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    digits(number)?.checked_mul(*factor)
}

/// A number, as Rust and TOML write it.
fn digits(text: &str) -> Option<u64> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    if !plain.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    plain.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Raw {
        Raw::Text(text.into())
    }

    #[test]
    fn sizes_are_numbers_with_or_without_a_unit() {
        for (written, n) in
            [("16 MiB", 16 << 20), ("16MiB", 16 << 20), ("1_000", 1_000), ("7 kB", 7_000), (" 3B ", 3)]
        {
            assert_eq!(size(&text(written), 0, usize::MAX), Ok(n), "{written}");
        }
        assert_eq!(size(&Raw::Number(5), 0, 10), Ok(5));
        for bad in
            ["", "MiB", "1.5 MiB", "-1", "16 mib", "1 MiB x", "99999999999 GiB", "18446744073709551616", "+1"]
        {
            assert!(size(&text(bad), 0, usize::MAX).is_err(), "{bad}");
        }
        assert!(size(&Raw::Number(11), 1, 10).unwrap_err().contains("from 1 to 10"));
        assert!(size(&text("0"), 1, 10).is_err());
    }

    #[test]
    fn lists_are_lists_or_texts_with_commas() {
        let listed = Raw::List(vec!["1".into(), " 2".into()]);
        for raw in [listed, text("1,2"), text(" 1 , 2 ")] {
            assert_eq!(list::<u8>(&raw), Ok(vec![1, 2]), "{raw:?}");
        }
        assert_eq!(list::<u8>(&text(" ")), Ok(Vec::new()));
        assert_eq!(list::<u8>(&Raw::List(Vec::new())), Ok(Vec::new()));
        assert!(list::<u8>(&text("1,,2")).is_err() && list::<u8>(&Raw::Number(1)).is_err());
        assert!(list::<u8>(&text("1,x")).unwrap_err().contains("\"x\""));
        let none = Raw::List(Vec::new());
        assert!(number(&none, 0, 1).is_err() && size(&none, 0, 1).is_err() && flag(&none).is_err());
        assert!(time(&none, Duration::ZERO).is_err());
    }

    #[test]
    fn words_are_those_there_are() {
        let words = [("one", 1), ("two", 2)];
        assert_eq!(word(&text(" two "), &words), Ok(2));
        for bad in [text("three"), text("One"), Raw::Number(1)] {
            assert!(word(&bad, &words).unwrap_err().contains("\"one\", \"two\""), "{bad:?}");
        }
        assert_eq!(super::text(&text("a.key")), Ok("a.key".into()));
        assert!(super::text(&text(" ")).is_err() && super::text(&Raw::Flag(true)).is_err());
    }

    #[test]
    fn times_have_units() {
        for (written, millis) in
            [("5s", 5_000), ("100ms", 100), ("2 min", 120_000), ("1h", 3_600_000), ("0s", 0)]
        {
            assert_eq!(time(&text(written), Duration::ZERO), Ok(Duration::from_millis(millis)), "{written}");
        }
        for bad in ["5", "", "s", "1.5s", "-1s", "5 S", "18446744073709551615d"] {
            assert!(time(&text(bad), Duration::ZERO).is_err(), "{bad}");
        }
        assert!(time(&Raw::Number(5), Duration::ZERO).unwrap_err().contains("unit"));
        assert!(time(&text("1ms"), Duration::from_millis(100)).is_err());
        assert_eq!(optional_time(&text("none"), Duration::ZERO), Ok(None));
        assert!(flag(&text("yes")).is_err() && flag(&Raw::Number(1)).is_err());
        assert_eq!((flag(&text("true")), flag(&Raw::Flag(false))), (Ok(true), Ok(false)));
    }
}
