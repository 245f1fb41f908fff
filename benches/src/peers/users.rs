//! The payloads of the suite `users`: those that the benchmark of ActualLab.Rpc has, with the same content.

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use nalix_core::Wire;

use crate::load::GREETING;

#[derive(Debug, Clone, PartialEq, Wire)]
#[cfg_attr(
    feature = "peers",
    derive(::tarpc::serde::Serialize, ::tarpc::serde::Deserialize),
    serde(crate = "::tarpc::serde")
)]
pub(crate) struct User {
    pub(crate) id: i64,
    pub(crate) version: i64,
    pub(crate) created_at: SystemTime,
    pub(crate) modified_at: SystemTime,
    pub(crate) name: String,
}

#[derive(Debug, Clone, PartialEq, Wire)]
#[cfg_attr(
    feature = "peers",
    derive(::tarpc::serde::Serialize, ::tarpc::serde::Deserialize),
    serde(crate = "::tarpc::serde")
)]
pub(crate) struct Hello {
    pub(crate) name: String,
    pub(crate) double: f64,
    pub(crate) float: f32,
    pub(crate) flag: bool,
    pub(crate) int: i32,
    pub(crate) long: i64,
    pub(crate) choice: Choice,
    pub(crate) pets: Vec<Pet>,
}

#[derive(Debug, Clone, PartialEq, Wire)]
#[cfg_attr(
    feature = "peers",
    derive(::tarpc::serde::Serialize, ::tarpc::serde::Deserialize),
    serde(crate = "::tarpc::serde")
)]
pub(crate) enum Choice {
    Text(String),
    Flag(bool),
}

#[derive(Debug, Clone, PartialEq, Wire)]
#[cfg_attr(
    feature = "peers",
    derive(::tarpc::serde::Serialize, ::tarpc::serde::Deserialize),
    serde(crate = "::tarpc::serde")
)]
pub(crate) struct Pet {
    pub(crate) name: String,
    pub(crate) color: Color,
}

#[derive(Debug, Clone, Copy, PartialEq, Wire)]
#[cfg_attr(
    feature = "peers",
    derive(::tarpc::serde::Serialize, ::tarpc::serde::Deserialize),
    serde(crate = "::tarpc::serde")
)]
pub(crate) enum Color {
    White,
    Green,
    Blue,
    Red,
}

/// The user with this id. Servers have looked it up before and have it at hand.
pub(crate) fn user(id: i64) -> User {
    static BOB: LazyLock<User> = LazyLock::new(|| {
        let now = SystemTime::UNIX_EPOCH + Duration::new(1_790_000_000, 123_456_700);
        User { id: 1, version: 2, created_at: now, modified_at: now, name: "Bob".into() }
    });
    User { id, ..BOB.clone() }
}

/// What clients greet with.
pub(crate) fn hello() -> Hello {
    static HELLO: LazyLock<Hello> = LazyLock::new(|| Hello {
        name: "a name".into(),
        double: 4.55332,
        float: 232.3,
        flag: true,
        int: GREETING,
        long: 444_325_235_223,
        choice: Choice::Text("ofcouse".into()),
        pets: vec![
            Pet { name: "Bof the dog".into(), color: Color::Blue },
            Pet { name: "Kim the cat".into(), color: Color::Red },
        ],
    });
    HELLO.clone()
}
