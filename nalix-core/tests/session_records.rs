//! What is kept of a session on either side, and its form as bytes.

use std::{
    collections::HashSet,
    pin::pin,
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nalix_core::{
    error::EncodeError,
    handshake::{
        PublicKey, SessionData, SessionId, SessionRecord, SessionTicket, StoreError, StoreFuture, TicketId,
    },
    record::Key,
};
use proptest::prelude::*;

const SECRET: [u8; 32] = [0xa5; 32];

fn peer() -> PublicKey {
    PublicKey::from_bytes([0x0c; 32]).unwrap()
}

fn moment() -> SystemTime {
    UNIX_EPOCH + Duration::new(0x0102_0304, 0x0506)
}

fn record() -> SessionRecord {
    let mut record = SessionRecord::new(SessionId::from_bytes([0x11; 16]), Key::new(SECRET), moment());
    record.peer_key = Some(peer());
    record.data.insert("user", &String::from("ada")).unwrap();
    record.data.insert("score", &7u16).unwrap();
    record
}

fn ticket() -> SessionTicket {
    let id = TicketId::from_bytes([0x22; 16]);
    SessionTicket::new(id, Key::new(SECRET), peer(), moment(), 0x0010_0000, 128)
}

#[test]
fn the_bytes_of_version_1_stay_the_same() {
    let time = [4, 3, 2, 1, 0, 0, 0, 0, 6, 5, 0, 0];
    let data: &[u8] = b"\x02\x05score\x02\x07\x00\x04user\x04\x03ada";
    let bytes = [&[1][..], &[0x11; 16], &SECRET, &[1], &[0x0c; 32], &time, data].concat();
    assert_eq!(*record().to_bytes(), bytes);
    assert_eq!(SessionRecord::from_bytes(&bytes).unwrap(), record());

    let limits = [0, 0, 16, 0, 128, 0, 0, 0];
    let bytes = [&[1][..], &[0x22; 16], &SECRET, &[0x0c; 32], &time, &limits].concat();
    assert_eq!(*ticket().to_bytes(), bytes);
    assert_eq!(SessionTicket::from_bytes(&bytes).unwrap(), ticket());
}

#[test]
fn a_buffer_that_grows_would_leave_secrets_behind() {
    for bytes in [record().to_bytes(), ticket().to_bytes()] {
        assert_eq!(bytes.capacity(), bytes.len());
    }
}

#[test]
fn what_is_cut_or_has_more_is_refused() {
    let (record, ticket) = (record().to_bytes(), ticket().to_bytes());
    for len in 0..record.len() {
        assert!(SessionRecord::from_bytes(&record[..len]).is_err(), "{len}");
    }
    for len in 0..ticket.len() {
        assert!(SessionTicket::from_bytes(&ticket[..len]).is_err(), "{len}");
    }
    let more = [&record[..], &[0]].concat();
    assert_eq!(SessionRecord::from_bytes(&more).unwrap_err().to_string(), "1 bytes left over");
    let more = [&ticket[..], &[0]].concat();
    assert_eq!(SessionTicket::from_bytes(&more).unwrap_err().to_string(), "1 bytes left over");
}

#[test]
fn a_later_version_is_named_as_such() {
    let mut bytes = record().to_bytes();
    bytes[0] = 2;
    let error = SessionRecord::from_bytes(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "SessionRecord.version: no variant 2");
    let mut bytes = ticket().to_bytes();
    bytes[0] = 0;
    let error = SessionTicket::from_bytes(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "SessionTicket.version: no variant 0");
}

#[test]
fn a_key_of_low_order_is_refused() {
    let mut bytes = ticket().to_bytes();
    bytes[49..81].fill(0);
    assert_eq!(SessionTicket::from_bytes(&bytes).unwrap_err().to_string(), "not a usable public key");
    let mut bytes = record().to_bytes();
    bytes[50..82].fill(0);
    assert_eq!(SessionRecord::from_bytes(&bytes).unwrap_err().to_string(), "not a usable public key");
}

#[test]
fn moments_before_1970_are_kept_as_past() {
    let mut record = record();
    record.expires = UNIX_EPOCH - Duration::from_secs(1 << 40);
    let read = SessionRecord::from_bytes(&record.to_bytes()).unwrap();
    assert_eq!(read.expires, UNIX_EPOCH);
    assert!(read.is_expired(UNIX_EPOCH));
}

#[test]
fn a_ticket_ends_at_its_moment_and_not_before() {
    let before = moment() - Duration::from_nanos(1);
    assert!(!ticket().is_expired(before) && ticket().is_expired(moment()));
    assert!(!record().is_expired(before) && record().is_expired(moment()));
}

#[test]
fn debug_shows_no_secret() {
    for text in [format!("{:?}", record()), format!("{:#?}", ticket()), format!("{:?}", record().data)] {
        for secret in ["a5", "165", "ada", "22", "34", "score"] {
            assert!(!text.replace(&peer().to_string(), "").contains(secret), "{secret} in {text}");
        }
    }
    assert_eq!(format!("{:?}", ticket().id), "TicketId(..)");
    assert_eq!(format!("{:?}", record().data), "SessionData(2 values, 19 bytes)");
}

#[test]
fn session_ids_survive_their_text() {
    let id = SessionId::from_bytes(*b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xff");
    let text = "000102030405060708090a0b0c0d0eff";
    assert_eq!(id.to_string(), text);
    assert_eq!(format!("{id:?}"), text);
    assert_eq!(text.parse(), Ok(id));
    assert_eq!(format!(" {}\n", text.to_uppercase()).parse(), Ok(id));
    let sign = format!("+{}", &text[1..]);
    for wrong in ["", "0", &text[1..], &format!("{text}0"), &sign, &text.replace('f', "g")] {
        let error = wrong.parse::<SessionId>().unwrap_err();
        assert_eq!(error.to_string(), "a session id has 32 hexadecimal digits", "{wrong:?}");
    }
}

/// Thresholds that a right implementation misses less than once in 10^12 runs.
#[test]
fn tickets_have_no_order_and_nothing_in_common() {
    let ids: Vec<[u8; 16]> = (0..1000).map(|_| *TicketId::generate().unwrap().as_bytes()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 1000);
    let rising = ids.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((400..600).contains(&rising), "{rising} of 999 follow a smaller one");
    for byte in 0..16 {
        for bit in 0..8 {
            let ones = ids.iter().filter(|id| id[byte] >> bit & 1 == 1).count();
            assert!((370..630).contains(&ones), "bit {bit} of byte {byte} is set in {ones} of 1,000");
        }
    }
    let starts: HashSet<_> = ids.iter().map(|id| &id[..8]).collect();
    let ends: HashSet<_> = ids.iter().map(|id| &id[8..]).collect();
    assert_eq!((starts.len(), ends.len()), (1000, 1000));
}

#[test]
fn data_of_another_type_or_name_is_not_mixed_up() {
    let mut data = SessionData::new();
    assert!(data.is_empty());
    data.insert("a", &1u32).unwrap();
    data.insert("b", &String::from("x")).unwrap();
    assert_eq!(data.get::<u32>("a"), Ok(Some(1)));
    assert_eq!(data.get::<u32>("c"), Ok(None));
    assert!(data.get::<u64>("a").is_err());
    assert!(data.get::<bool>("b").is_ok_and(|v| v == Some(true)));
    data.insert("a", &vec![1u8, 2, 3]).unwrap();
    assert_eq!(data.get::<Vec<u8>>("a"), Ok(Some(vec![1, 2, 3])));
    assert_eq!(data.names().collect::<Vec<_>>(), ["a", "b"]);
    assert!(data.contains("a") && data.remove("a") && !data.contains("a") && !data.remove("a"));
    assert_eq!((data.len(), data.size()), (1, 5));
    assert!(data.remove("b"));
    assert_eq!((data, 0), (SessionData::new(), 0));
}

#[test]
fn data_is_bounded_and_a_refused_value_changes_nothing() {
    let mut data = SessionData::new();
    // A name of one byte and its length, the value's two lengths of three bytes each.
    let largest = SessionData::MAX_SIZE - 2 - 6;
    data.insert("x", &vec![0u8; largest]).unwrap();
    assert_eq!(data.size(), SessionData::MAX_SIZE);
    let before = data.clone();
    let error = data.insert("x", &vec![0u8; largest + 1]).unwrap_err();
    let (len, limit) = (SessionData::MAX_SIZE + 1, SessionData::MAX_SIZE);
    assert_eq!(error, EncodeError::TooLong { field: "SessionData", len, limit });
    assert_eq!(error.to_string(), "SessionData: length 65537 is over the limit of 65536");
    assert!(data.insert("", &()).is_err());
    assert!(data.insert(&"n".repeat(70_000), &()).is_err());
    assert_eq!(data, before);

    let mut record = record();
    record.data = data;
    let bytes = record.to_bytes();
    assert_eq!(SessionRecord::from_bytes(&bytes).unwrap(), record);
    // One more value than allowed, written by somebody else.
    let at = bytes.len() - SessionData::MAX_SIZE - 1;
    let mut more = [&bytes[..], &[0, 0]].concat();
    assert_eq!(more[at], 1);
    more[at] = 2;
    let error = SessionRecord::from_bytes(&more).unwrap_err();
    assert_eq!(error.to_string(), "length 65538 is over the limit of 65536");
    record.data.remove("x");
    record.data.insert("x", &0u8).unwrap();
}

#[test]
fn the_same_name_twice_is_refused() {
    let mut twice =
        SessionRecord::new(SessionId::from_bytes([1; 16]), Key::new(SECRET), moment()).to_bytes().to_vec();
    *twice.last_mut().unwrap() = 2;
    twice.extend_from_slice(b"\x01a\x00\x01a\x00");
    assert_eq!(SessionRecord::from_bytes(&twice).unwrap_err().to_string(), "duplicate key");
}

#[test]
fn store_futures_give_their_result_and_errors_their_cause() {
    let mut cx = Context::from_waker(Waker::noop());
    let ready = pin!(StoreFuture::ready(Ok(5)));
    assert!(matches!(ready.poll(&mut cx), Poll::Ready(Ok(5))));
    let failing = pin!(StoreFuture::<()>::new(async { Err(StoreError::new("unreachable")) }));
    let Poll::Ready(Err(error)) = failing.poll(&mut cx) else { panic!("it fails at once") };
    assert_eq!(error.to_string(), "session store: unreachable");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "unreachable");
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), version: bool) {
        let mut bytes = bytes;
        if version {
            bytes.insert(0, 1);
        }
        if let Ok(mut record) = SessionRecord::from_bytes(&bytes) {
            record.expires = record.expires.max(UNIX_EPOCH);
            prop_assert_eq!(SessionRecord::from_bytes(&record.to_bytes()), Ok(record));
        }
        if let Ok(mut ticket) = SessionTicket::from_bytes(&bytes) {
            ticket.expires = ticket.expires.max(UNIX_EPOCH);
            prop_assert_eq!(SessionTicket::from_bytes(&ticket.to_bytes()), Ok(ticket));
        }
    }
}
