//! What a `.proto` file would declare.

use bytes::Bytes;

pub(super) const SERVICE: &str = "bench.Bench";
pub(super) const ECHO: &str = "/bench.Bench/Echo";
pub(super) const ECHO_STREAM: &str = "/bench.Bench/EchoStream";
pub(super) const SUM: &str = "/bench.Bench/Sum";

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
