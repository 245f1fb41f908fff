//! Tuples of one to twelve: their items in a row, nothing around them.

use super::{Decode, Encode, Reader, Writer};
use crate::error::DecodeError;

macro_rules! tuple {
    ($($t:ident)*) => {
        impl<$($t: Encode),*> Encode for ($($t,)*) {
            const FIXED_SIZE: Option<usize> = sum(&[$($t::FIXED_SIZE),*]);

            #[inline]
            #[expect(non_snake_case, reason = "a type and the variable of that type share one name")]
            fn encode(&self, w: &mut Writer<'_>) {
                let ($($t,)*) = self;
                $($t.encode(w);)*
            }

            #[inline]
            #[expect(non_snake_case, reason = "a type and the variable of that type share one name")]
            fn size_hint(&self) -> usize {
                let ($($t,)*) = self;
                0usize$(.saturating_add($t.size_hint()))*
            }
        }

        impl<'de, $($t: Decode<'de>),*> Decode<'de> for ($($t,)*) {
            const MIN_SIZE: usize = 0usize$(.saturating_add($t::MIN_SIZE))*;

            #[inline]
            fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
                Ok(($($t::decode(r)?,)*))
            }
        }
    };
}

tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);
tuple!(A B C D E F G);
tuple!(A B C D E F G H);
tuple!(A B C D E F G H I);
tuple!(A B C D E F G H I J);
tuple!(A B C D E F G H I J K);
tuple!(A B C D E F G H I J K L);

/// The sum of sizes, where all are fixed.
const fn sum(mut sizes: &[Option<usize>]) -> Option<usize> {
    let mut total = 0usize;
    while let [first, rest @ ..] = sizes {
        match first {
            Some(size) => total = total.saturating_add(*size),
            None => return None,
        }
        sizes = rest;
    }
    Some(total)
}
