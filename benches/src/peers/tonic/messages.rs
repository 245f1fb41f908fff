//! What a `.proto` file would declare.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::peers::users;

pub(super) const SERVICE: &str = "bench.Bench";
pub(super) const ECHO: &str = "/bench.Bench/Echo";
pub(super) const ECHO_STREAM: &str = "/bench.Bench/EchoStream";
pub(super) const SUM: &str = "/bench.Bench/Sum";
pub(super) const GET_USER: &str = "/bench.Bench/GetUser";
pub(super) const SAY_HELLO: &str = "/bench.Bench/SayHello";
pub(super) const GET_ITEMS: &str = "/bench.Bench/GetItems";
pub(super) const STORE: &str = "/bench.Bench/Store";
pub(super) const FETCH: &str = "/bench.Bench/Fetch";

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Payload {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) data: Bytes,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct SumRequest {
    #[prost(int32, tag = "1")]
    pub(super) a: i32,
    #[prost(int32, tag = "2")]
    pub(super) b: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct SumReply {
    #[prost(int32, tag = "1")]
    pub(super) sum: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct GetUserRequest {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetUserReply {
    #[prost(message, optional, tag = "1")]
    pub(super) user: Option<User>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct User {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(int64, tag = "2")]
    pub(super) version: i64,
    #[prost(message, optional, tag = "3")]
    pub(super) created_at: Option<Timestamp>,
    #[prost(message, optional, tag = "4")]
    pub(super) modified_at: Option<Timestamp>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
}

/// As `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

/// `SayHello`, both ways.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HelloMessage {
    #[prost(message, optional, tag = "1")]
    pub(super) hello: Option<Hello>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Hello {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(double, tag = "2")]
    pub(super) double: f64,
    #[prost(float, tag = "3")]
    pub(super) float: f32,
    #[prost(bool, tag = "4")]
    pub(super) flag: bool,
    #[prost(int32, tag = "5")]
    pub(super) int: i32,
    #[prost(int64, tag = "6")]
    pub(super) long: i64,
    #[prost(oneof = "Choice", tags = "7, 8")]
    pub(super) choice: Option<Choice>,
    #[prost(message, repeated, tag = "9")]
    pub(super) pets: Vec<Pet>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Choice {
    #[prost(string, tag = "7")]
    Text(String),
    #[prost(bool, tag = "8")]
    Flag(bool),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Pet {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(enumeration = "Color", tag = "2")]
    pub(super) color: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Color {
    White = 0,
    Green = 1,
    Blue = 2,
    Red = 3,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct GetItemsRequest {
    #[prost(uint32, tag = "1")]
    pub(super) items: u32,
    #[prost(uint32, tag = "2")]
    pub(super) size: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Item {
    #[prost(int64, tag = "1")]
    pub(crate) index: i64,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) data: Bytes,
}

/// How long what was sent is, or is to be.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Size {
    #[prost(uint64, tag = "1")]
    pub(super) bytes: u64,
}

impl From<users::User> for User {
    fn from(user: users::User) -> Self {
        let users::User { id, version, created_at, modified_at, name } = user;
        let timestamp = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() as i32 }
        };
        let (created_at, modified_at) = (Some(timestamp(created_at)), Some(timestamp(modified_at)));
        Self { id, version, created_at, modified_at, name }
    }
}

impl From<users::Hello> for Hello {
    fn from(hello: users::Hello) -> Self {
        let users::Hello { name, double, float, flag, int, long, choice, pets } = hello;
        let choice = Some(match choice {
            users::Choice::Text(text) => Choice::Text(text),
            users::Choice::Flag(flag) => Choice::Flag(flag),
        });
        let pet = |pet: users::Pet| {
            let color = match pet.color {
                users::Color::White => Color::White,
                users::Color::Green => Color::Green,
                users::Color::Blue => Color::Blue,
                users::Color::Red => Color::Red,
            };
            Pet { name: pet.name, color: color.into() }
        };
        Self { name, double, float, flag, int, long, choice, pets: pets.into_iter().map(pet).collect() }
    }
}
