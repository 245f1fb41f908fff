//! Sealed records: their bytes, their order, the change of keys and the end of the counter.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::record::{
    Best, Cipher, HEADER, Key, MAX_BODY, MAX_RECORDS, OpenError, Opener, Portable, RECORDS_PER_KEY,
    RecordKind, SealError, Sealer, TAG, header,
};

const KEY: [u8; 32] = [7; 32];

#[test]
fn bytes_are_those_of_the_plain_cipher() {
    let mut sealer = Sealer::new(Key::new(KEY));
    for counter in 0..3 {
        let mut record = b"before".to_vec();
        record.extend_from_slice(&[0xff; HEADER]);
        record.extend_from_slice(b"some frames");
        sealer.seal(&mut record, 6).unwrap();

        let mut body = b"some frames".to_vec();
        let head = [4, 11 + 16, 0, 0];
        let tag = Portable::new(&Key::new(KEY)).seal(counter, &head, &mut body);
        assert_eq!(record, [b"before", &head[..], &body, &tag].concat());
    }
}

#[test]
fn an_empty_body_round_trips() {
    let (mut sealer, mut opener) = pair::<Best>(0);
    assert_eq!(open(&mut opener, &sealed(&mut sealer, b"")), Ok(vec![]));
}

#[test]
fn the_longest_body_is_sealed_and_a_longer_one_is_left_alone() {
    let (mut sealer, mut opener) = pair::<Best>(0);
    let mut record = vec![9; HEADER + MAX_BODY - TAG + 1];
    assert_eq!(sealer.seal(&mut record, 0), Err(SealError::TooLong { found: MAX_BODY - TAG + 1 }));
    assert!(record.iter().all(|&byte| byte == 9));
    assert_eq!(open(&mut opener, &sealed(&mut sealer, b"the first")), Ok(b"the first".to_vec()));
    record.pop();
    assert_eq!(sealer.seal(&mut record, 0), Ok(()));
    assert_eq!(record[..HEADER], header(RecordKind::Sealed, MAX_BODY));
    assert_eq!(record.len(), HEADER + MAX_BODY);
}

#[test]
fn records_out_of_order_repeated_or_changed_are_refused_and_the_right_one_opens_afterwards() {
    let (mut sealer, mut opener) = pair::<Best>(0);
    let records: Vec<_> = (0..3u8).map(|i| sealed(&mut sealer, &[i; 20])).collect();

    assert_eq!(open(&mut opener, &records[1]), Err(OpenError::Unauthentic));
    assert_eq!(open(&mut opener, &records[0]), Ok(vec![0; 20]));
    assert_eq!(open(&mut opener, &records[0]), Err(OpenError::Unauthentic));
    assert_eq!(open(&mut opener, &records[2]), Err(OpenError::Unauthentic));
    for bit in 0..records[1].len() * 8 {
        let mut changed = records[1].clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(open(&mut opener, &changed), Err(OpenError::Unauthentic), "bit {bit}");
    }
    assert_eq!(open(&mut opener, &records[1]), Ok(vec![1; 20]));
    assert_eq!(open(&mut opener, &records[2]), Ok(vec![2; 20]));
}

#[test]
fn a_body_shorter_than_the_tag_is_refused() {
    let mut opener = Opener::new(Key::new(KEY));
    for len in 0..TAG {
        let mut body = vec![0; len];
        assert_eq!(
            opener.open(header(RecordKind::Sealed, len), &mut body),
            Err(OpenError::Unauthentic),
            "{len}"
        );
    }
}

#[test]
fn a_header_of_another_kind_or_length_is_refused() {
    for head in [header(RecordKind::Plain, 20 + TAG), header(RecordKind::Sealed, 20), [0xff; 4]] {
        let mut body = [3; 20 + TAG];
        let tag = Best::new(&Key::new(KEY)).seal(0, &head, &mut body[..20]);
        body[20..].copy_from_slice(&tag);
        assert_eq!(Opener::new(Key::new(KEY)).open(head, &mut body), Err(OpenError::Unauthentic), "{head:?}");
    }
}

#[test]
fn a_record_played_back_to_its_sender_does_not_open() {
    let mut there = Sealer::new(Key::new([1; 32]));
    let mut back = Opener::new(Key::new([2; 32]));
    assert_eq!(open(&mut back, &sealed(&mut there, b"hello")), Err(OpenError::Unauthentic));
}

#[test]
fn the_key_changes_by_count_and_no_record_is_lost() {
    for epoch in [1, 2, 77] {
        let change = epoch * RECORDS_PER_KEY;
        let (mut sealer, mut opener) = pair::<Best>(change - 5);
        let old = Portable::new(&Key::new(KEY));
        let new = Portable::new(&old.next_key());
        for counter in change - 5..change + 5 {
            let record = sealed(&mut sealer, &counter.to_le_bytes());
            let (valid, other) = if counter < change { (&old, &new) } else { (&new, &old) };
            assert_eq!(by_hand(valid, counter, &record), Some(counter.to_le_bytes().to_vec()));
            assert_eq!(by_hand(other, counter, &record), None);
            assert_eq!(open(&mut opener, &record), Ok(counter.to_le_bytes().to_vec()));
        }
    }
}

#[test]
fn the_next_key_is_that_of_the_noise_framework() {
    let cipher = Best::new(&Key::new(KEY));
    let mut zeros = [0; 32];
    cipher.encrypt([0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255], &[], &mut zeros);
    assert_eq!(cipher.next_key(), Key::new(zeros));
}

#[test]
fn the_counter_ends_before_a_value_comes_twice() {
    let (mut sealer, mut opener) = pair::<Best>(MAX_RECORDS - 3);
    for round in 0..10 {
        let mut record = vec![0; HEADER];
        record.extend_from_slice(b"plain");
        if round < 3 {
            sealer.seal(&mut record, 0).unwrap();
            assert_eq!(open(&mut opener, &record), Ok(b"plain".to_vec()));
        } else {
            assert_eq!(sealer.seal(&mut record, 0), Err(SealError::Exhausted));
            assert_eq!(record, b"\0\0\0\0plain");
            assert_eq!(opener.open(header(RecordKind::Sealed, 20), &mut [0; 20]), Err(OpenError::Exhausted));
        }
    }
    assert_eq!(
        Sealer::<Best>::at(Key::new(KEY), u64::MAX).seal(&mut vec![0; HEADER], 0),
        Err(SealError::Exhausted)
    );
}

#[test]
fn debug_shows_no_key() {
    let (sealer, opener) = pair::<Best>(0);
    assert_eq!(format!("{sealer:?} {opener:?}"), "Sealer { counter: 0, .. } Opener { counter: 0, .. }");
}

fn pair<C: Cipher>(counter: u64) -> (Sealer<C>, Opener<C>) {
    (Sealer::at(Key::new(KEY), counter), Opener::at(Key::new(KEY), counter))
}

fn sealed<C: Cipher>(sealer: &mut Sealer<C>, plain: &[u8]) -> Vec<u8> {
    let mut record = vec![0; HEADER];
    record.extend_from_slice(plain);
    sealer.seal(&mut record, 0).unwrap();
    record
}

fn open<C: Cipher>(opener: &mut Opener<C>, record: &[u8]) -> Result<Vec<u8>, OpenError> {
    let (head, body) = record.split_first_chunk().unwrap();
    let mut body = body.to_vec();
    let len = opener.open(*head, &mut body)?;
    body.truncate(len);
    Ok(body)
}

/// Opens a record with a key and a counter, without an opener.
fn by_hand<C: Cipher>(cipher: &C, counter: u64, record: &[u8]) -> Option<Vec<u8>> {
    let (head, body) = record.split_first_chunk::<HEADER>().unwrap();
    let (data, tag) = body.split_last_chunk::<TAG>().unwrap();
    let mut data = data.to_vec();
    cipher.open(counter, head, &mut data, tag).ok()?;
    Some(data)
}
