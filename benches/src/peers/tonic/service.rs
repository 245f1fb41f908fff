//! The service: routes a path to a handler.

use std::{
    convert::Infallible,
    future::{self, Ready},
    pin::Pin,
    sync::OnceLock,
    task::{Context, Poll},
};

use ::tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    server::{Grpc, NamedService, ServerStreamingService, StreamingService, UnaryService},
};
use bytes::Bytes;
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::{
    MAX_MESSAGE,
    messages::{
        ECHO, ECHO_STREAM, FETCH, GET_ITEMS, GET_USER, GetItemsRequest, GetUserReply, GetUserRequest,
        HelloMessage, Item, Payload, SAY_HELLO, SERVICE, STORE, SUM, Size, SumReply, SumRequest,
    },
};
use crate::peers::{
    countdown::{Countdown, Numbered},
    users,
};

#[derive(Debug, Clone)]
pub(super) struct Bench;

impl NamedService for Bench {
    const NAME: &'static str = SERVICE;
}

impl Service<http::Request<Body>> for Bench {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match request.uri().path() {
            ECHO => Box::pin(async { Ok(Grpc::new(ProstCodec::default()).unary(Echo, request).await) }),
            SUM => Box::pin(async { Ok(Grpc::new(ProstCodec::default()).unary(Sum, request).await) }),
            ECHO_STREAM => {
                Box::pin(async { Ok(Grpc::new(ProstCodec::default()).streaming(Echo, request).await) })
            }
            GET_USER => {
                Box::pin(async { Ok(Grpc::new(ProstCodec::default()).unary(GetUser, request).await) })
            }
            SAY_HELLO => {
                Box::pin(async { Ok(Grpc::new(ProstCodec::default()).unary(SayHello, request).await) })
            }
            GET_ITEMS => Box::pin(async {
                Ok(Grpc::new(ProstCodec::default()).server_streaming(GetItems, request).await)
            }),
            STORE => Box::pin(async {
                let grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_MESSAGE);
                Ok({ grpc }.unary(Store, request).await)
            }),
            FETCH => Box::pin(async { Ok(Grpc::new(ProstCodec::default()).unary(Fetch, request).await) }),
            _ => Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) }),
        }
    }
}

// Handlers answer with ready futures, which is less than generated code does: it boxes one per call.

struct Echo;

impl UnaryService<Payload> for Echo {
    type Response = Payload;
    type Future = Ready<Result<Response<Payload>, Status>>;

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        future::ready(Ok(Response::new(request.into_inner())))
    }
}

impl StreamingService<Payload> for Echo {
    type Response = Payload;
    // The stream of requests is the stream of replies.
    type ResponseStream = Streaming<Payload>;
    type Future = Ready<Result<Response<Streaming<Payload>>, Status>>;

    fn call(&mut self, request: Request<Streaming<Payload>>) -> Self::Future {
        future::ready(Ok(Response::new(request.into_inner())))
    }
}

struct Sum;

impl UnaryService<SumRequest> for Sum {
    type Response = SumReply;
    type Future = Ready<Result<Response<SumReply>, Status>>;

    fn call(&mut self, request: Request<SumRequest>) -> Self::Future {
        let SumRequest { a, b } = request.into_inner();
        future::ready(Ok(Response::new(SumReply { sum: a.wrapping_add(b) })))
    }
}

struct GetUser;

impl UnaryService<GetUserRequest> for GetUser {
    type Response = GetUserReply;
    type Future = Ready<Result<Response<GetUserReply>, Status>>;

    fn call(&mut self, request: Request<GetUserRequest>) -> Self::Future {
        let user = users::user(request.into_inner().id).into();
        future::ready(Ok(Response::new(GetUserReply { user: Some(user) })))
    }
}

struct SayHello;

impl UnaryService<HelloMessage> for SayHello {
    type Response = HelloMessage;
    type Future = Ready<Result<Response<HelloMessage>, Status>>;

    fn call(&mut self, request: Request<HelloMessage>) -> Self::Future {
        future::ready(Ok(Response::new(request.into_inner())))
    }
}

struct GetItems;

impl ServerStreamingService<GetItemsRequest> for GetItems {
    type Response = Item;
    type ResponseStream = Countdown<Result<Item, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<GetItemsRequest>) -> Self::Future {
        let GetItemsRequest { items, size } = request.into_inner();
        future::ready(Ok(Response::new(Countdown::new(items, size))))
    }
}

impl Numbered for Result<Item, Status> {
    #[inline]
    fn new(number: i64, data: Bytes) -> Self {
        Ok(Item { index: number, data })
    }
}

struct Store;

impl UnaryService<Payload> for Store {
    type Response = Size;
    type Future = Ready<Result<Response<Size>, Status>>;

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        future::ready(Ok(Response::new(Size { bytes: request.into_inner().data.len() as u64 })))
    }
}

struct Fetch;

impl UnaryService<Size> for Fetch {
    type Response = Payload;
    type Future = Ready<Result<Response<Payload>, Status>>;

    fn call(&mut self, request: Request<Size>) -> Self::Future {
        static DATA: OnceLock<Bytes> = OnceLock::new();
        let size = request.into_inner().bytes as usize;
        let data = DATA.get_or_init(|| vec![0xA5; size].into());
        future::ready(Ok(Response::new(Payload { data: data.slice(..size.min(data.len())) })))
    }
}
