//! The service: routes a path to a handler.

use std::{
    convert::Infallible,
    future::{self, Ready},
    pin::Pin,
    task::{Context, Poll},
};

use ::tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    server::{Grpc, NamedService, StreamingService, UnaryService},
};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::messages::{ECHO, ECHO_STREAM, Payload, SERVICE, SUM, SumReply, SumRequest};

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
