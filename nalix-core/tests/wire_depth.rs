//! Recursive types on a small stack: too deep is an error on both sides, at any depth.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Arc, thread};

use nalix_core::{
    error::{DecodeError, DecodeErrorKind, EncodeError},
    wire::{Decode, DecodeOwned, Encode, Limits, Reader, Writer, from_slice, to_vec},
};

const STACK: usize = 256 * 1024;
const LIMIT: u16 = Limits::DEFAULT.max_depth;

/// A type that contains itself through `$pointer`, with the constants that the derive would give it.
macro_rules! recursive {
    ($name:ident $(<$a:lifetime>)?, $pointer:ty) => {
        struct $name $(<$a>)? ($pointer);

        impl $(<$a>)? Encode for $name $(<$a>)? {
            const FIXED_SIZE: Option<usize> = <$pointer>::FIXED_SIZE;

            fn encode(&self, w: &mut Writer<'_>) {
                self.0.encode(w);
            }

            fn size_hint(&self) -> usize {
                self.0.size_hint()
            }
        }
    };
}

macro_rules! decode {
    ($name:ident, $pointer:ty) => {
        impl<'de> Decode<'de> for $name {
            const MIN_SIZE: usize = <$pointer>::MIN_SIZE;

            fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
                Decode::decode(r).map(Self)
            }
        }
    };
}

recursive!(List, Option<Box<List>>);
decode!(List, Option<Box<List>>);
recursive!(Shared, Option<Arc<Shared>>);
decode!(Shared, Option<Arc<Shared>>);
recursive!(Tree, Vec<Tree>);
decode!(Tree, Vec<Tree>);
recursive!(Slices, Box<[Slices]>);
decode!(Slices, Box<[Slices]>);
recursive!(Keyed, BTreeMap<u8, Keyed>);
decode!(Keyed, BTreeMap<u8, Keyed>);
recursive!(Mixed, Option<(u8, [Box<Mixed>; 1])>);
decode!(Mixed, Option<(u8, [Box<Mixed>; 1])>);
recursive!(Endless, Box<Endless>);
decode!(Endless, Box<Endless>);
recursive!(Borrowed<'a>, Option<&'a Borrowed<'a>>);
recursive!(BorrowedTree<'a>, &'a [BorrowedTree<'a>]);

#[test]
fn decoding_stops_at_the_limit() {
    on_a_small_stack(|| {
        for depth in [100, 10_000, 200_000] {
            too_deep::<List>(&[1], depth);
            too_deep::<Shared>(&[1], depth);
            too_deep::<Tree>(&[1], depth);
            too_deep::<Slices>(&[1], depth);
            // Maps of one entry are so large that the memory limit might come first: a message with more to say.
            too_deep::<Keyed>(&[1, 7], depth.max(1_000));
            too_deep::<Mixed>(&[1, 0], depth);
            too_deep::<Endless>(&[0], depth);
        }
    });
}

#[test]
fn encoding_stops_at_the_limit() {
    for depth in [100, 10_000, 200_000] {
        stops(depth, |inner| List(inner.map(Box::new)), |list| list.0.take().map(|next| *next));
        stops(
            depth,
            |inner| Shared(inner.map(Arc::new)),
            |shared| shared.0.take().and_then(|next| Arc::try_unwrap(next).ok()),
        );
        stops(depth, |inner| Tree(inner.into_iter().collect()), |tree| tree.0.pop());
        stops(
            depth,
            |inner| Keyed(inner.map(|inner| (0, inner)).into_iter().collect()),
            |keyed| keyed.0.pop_first().map(|(_, next)| next),
        );
    }
}

#[test]
fn encoding_stops_at_the_limit_through_references() {
    let mut list: &Borrowed<'_> = Box::leak(Box::new(Borrowed(None)));
    let mut tree: &[BorrowedTree<'_>] = &[];
    for _ in 0..200_000 {
        list = Box::leak(Box::new(Borrowed(Some(list))));
        tree = Box::leak(Box::new([BorrowedTree(tree)]));
    }
    let limit = LIMIT;
    on_a_small_stack(move || {
        assert_eq!(to_vec(list), Err(EncodeError::TooDeep { limit }));
        assert_eq!(to_vec(tree), Err(EncodeError::TooDeep { limit }));
    });
}

/// What one side may write the other may read, up to the last level.
#[test]
fn both_sides_have_one_limit() {
    let list = |levels: u16| (0..levels).fold(List(None), |list, _| List(Some(Box::new(list))));
    let bytes = to_vec(&list(LIMIT)).unwrap();
    assert!(from_slice::<List>(&bytes).is_ok());
    assert_eq!(to_vec(&list(LIMIT + 1)), Err(EncodeError::TooDeep { limit: LIMIT }));

    let tree = |levels: u16| (1..levels).fold(Tree(Vec::new()), |tree, _| Tree(vec![tree]));
    let bytes = to_vec(&tree(LIMIT)).unwrap();
    assert!(from_slice::<Tree>(&bytes).is_ok());
    assert_eq!(to_vec(&tree(LIMIT + 1)), Err(EncodeError::TooDeep { limit: LIMIT }));
}

#[test]
fn a_tighter_limit_holds_inside_its_scope_only() {
    let deep = [1, 1, 1, 0, 1, 1, 1, 0];
    let mut r = Reader::new(&deep, &Limits::DEFAULT);
    assert!(r.with_max_depth(3, List::decode).is_ok());
    assert!(List::decode(&mut r).is_ok());
    let mut r = Reader::new(&deep, &Limits::DEFAULT);
    let error = r.with_max_depth(2, List::decode).map(drop).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::TooDeep { limit: 2 });
}

/// Breadth is not depth: the levels are given back.
#[test]
fn breadth_costs_no_levels() {
    let wide = Tree((0..1_000).map(|_| Tree(vec![Tree(Vec::new())])).collect());
    let bytes = to_vec(&wide).unwrap();
    assert_eq!(from_slice::<Tree>(&bytes).unwrap().0.len(), 1_000);
}

fn too_deep<T: DecodeOwned>(level: &[u8], depth: usize) {
    let error = from_slice::<T>(&level.repeat(depth)).map(drop).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::TooDeep { limit: LIMIT }, "{}", std::any::type_name::<T>());
}

/// Builds a value of that depth with `wrap`, encodes it, and takes it apart with `unwrap`: dropping it whole would
/// recurse too, which is not what is tested.
fn stops<T: Encode + Send + 'static>(
    depth: usize,
    wrap: impl Fn(Option<T>) -> T + Send + 'static,
    unwrap: impl Fn(&mut T) -> Option<T> + Send + 'static,
) {
    on_a_small_stack(move || {
        let mut value = (0..depth).fold(wrap(None), |inner, _| wrap(Some(inner)));
        assert_eq!(to_vec(&value), Err(EncodeError::TooDeep { limit: LIMIT }));
        while let Some(next) = unwrap(&mut value) {
            value = next;
        }
    });
}

fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(STACK).spawn(test).unwrap().join().unwrap();
}
