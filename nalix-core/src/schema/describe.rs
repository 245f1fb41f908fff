//! The layouts of the standard types.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    convert::Infallible,
    marker::PhantomData,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    num::NonZero,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;

use super::{Def, Describe, Field, Fields, SchemaBuilder, Type, TypeKey, Variant};

macro_rules! primitive {
    ($($t:ty => $name:literal;)*) => {$(
        impl Describe for $t {
            fn describe(_: &mut SchemaBuilder) -> Type {
                Type::primitive($name)
            }
        }
    )*};
}

primitive! {
    u8 => "u8";
    u16 => "u16";
    u32 => "u32";
    u64 => "u64";
    u128 => "u128";
    i8 => "i8";
    i16 => "i16";
    i32 => "i32";
    i64 => "i64";
    i128 => "i128";
    f32 => "f32";
    f64 => "f64";
    bool => "bool";
    char => "char";
    str => "str";
    String => "str";
    NonZero<u8> => "nonzero_u8";
    NonZero<u16> => "nonzero_u16";
    NonZero<u32> => "nonzero_u32";
    NonZero<u64> => "nonzero_u64";
    NonZero<u128> => "nonzero_u128";
    NonZero<i8> => "nonzero_i8";
    NonZero<i16> => "nonzero_i16";
    NonZero<i32> => "nonzero_i32";
    NonZero<i64> => "nonzero_i64";
    NonZero<i128> => "nonzero_i128";
    Infallible => "never";
    Duration => "duration";
    SystemTime => "system_time";
    Ipv4Addr => "ipv4";
    Ipv6Addr => "ipv6";
    IpAddr => "ip";
    SocketAddrV4 => "socket_addr_v4";
    SocketAddrV6 => "socket_addr_v6";
    SocketAddr => "socket_addr";
}

impl Describe for () {
    fn describe(_: &mut SchemaBuilder) -> Type {
        Type::Unit
    }
}

impl<T: ?Sized> Describe for PhantomData<T> {
    fn describe(_: &mut SchemaBuilder) -> Type {
        Type::Unit
    }
}

/// What is transparent on the wire has the layout of what it holds.
macro_rules! transparent {
    ($($t:ty,)*) => {$(
        impl<T: Describe + ?Sized> Describe for $t {
            fn describe(schema: &mut SchemaBuilder) -> Type {
                T::describe(schema)
            }
        }
    )*};
}

transparent!(&T, Box<T>, Arc<T>,);

impl<B: Describe + ToOwned + ?Sized> Describe for Cow<'_, B> {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        B::describe(schema)
    }
}

impl<T: Describe> Describe for Option<T> {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        Type::Option(Box::new(T::describe(schema)))
    }
}

/// The flag in front is what the number of a variant would be: the layout is that of an enum.
impl<T: Describe, E: Describe> Describe for Result<T, E> {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        schema.named(TypeKey::of::<Self>(file!(), line!(), column!()), |schema| {
            let ok = Variant::new("Ok", Fields::new(vec![Field::new("0", T::describe(schema))]));
            let err = Variant::new("Err", Fields::new(vec![Field::new("0", E::describe(schema))]));
            Def::enumeration("Result", vec![ok, err], false)
        })
    }
}

/// Bytes are items of type `u8`: `Vec<u8>` and [`Bytes`] have one layout and so one description.
impl Describe for Bytes {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        <[u8]>::describe(schema)
    }
}

impl<T: Describe> Describe for [T] {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        Type::Seq(Box::new(T::describe(schema)))
    }
}

impl<T: Describe> Describe for Vec<T> {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        <[T]>::describe(schema)
    }
}

impl<T: Describe> Describe for VecDeque<T> {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        <[T]>::describe(schema)
    }
}

impl<T: Describe, const N: usize> Describe for [T; N] {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        Type::Array(Box::new(T::describe(schema)), N as u64)
    }
}

impl<T: Describe, S> Describe for HashSet<T, S> {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        Type::Set(Box::new(T::describe(schema)))
    }
}

impl<T: Describe> Describe for BTreeSet<T> {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        Type::Set(Box::new(T::describe(schema)))
    }
}

impl<K: Describe, V: Describe, S> Describe for HashMap<K, V, S> {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        BTreeMap::<K, V>::describe(schema)
    }
}

impl<K: Describe, V: Describe> Describe for BTreeMap<K, V> {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        let key = K::describe(schema);
        Type::Map(Box::new(key), Box::new(V::describe(schema)))
    }
}

macro_rules! tuple {
    ($($t:ident)*) => {
        impl<$($t: Describe),*> Describe for ($($t,)*) {
            fn describe(schema: &mut SchemaBuilder) -> Type {
                Type::Tuple(vec![$($t::describe(schema)),*])
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
