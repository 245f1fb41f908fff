use std::{
    pin::Pin,
    task::{Context as Cx, Poll},
};

use futures_core::Stream;
use nalix_core::{
    Code, Connection, Context, Failure, Incoming, Status, StreamError, Wire, controller::Router, packet,
    packet_controller,
};

#[derive(Debug, Wire)]
pub enum Fault {
    Broken,
}

#[packet(opcode = 0x1001, stream = u8)]
struct Plain;
#[packet(opcode = 0x1002, stream = u8)]
struct Async(u8);
#[packet(opcode = 0x1003, stream = u8, error = Fault)]
struct Fallible;
#[packet(opcode = 0x1004, stream = u8, error = Fault, encrypt)]
struct Early;
#[packet(opcode = 0x1005, stream = u8)]
struct Boxed;
#[packet(opcode = 0x1006, stream = u8)]
struct Named;
#[packet(opcode = 0x1007, stream = String)]
struct Borrowed<'a> {
    text: &'a str,
}
#[packet(opcode = 0x1008, upload = u8, reply = ())]
struct Up;
#[packet(opcode = 0x1009, upload = u8, reply = u8, error = Fault)]
struct UpFallible;
#[packet(opcode = 0x100a, upload = u8, stream = u16, error = Fault)]
struct Both;
#[packet(opcode = 0x100b, upload = u8, stream = u16)]
struct Pipe;
#[packet(opcode = 0x100c, stream = ())]
struct Spawned;

struct Items<T>(Vec<T>);

impl<T: Unpin> Stream for Items<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Cx<'_>) -> Poll<Option<T>> {
        Poll::Ready(self.0.pop())
    }
}

struct Lent<'a>(&'a [u8]);

impl Stream for Lent<'_> {
    type Item = u8;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Cx<'_>) -> Poll<Option<u8>> {
        let (first, rest) = match self.0.split_first() {
            Some((first, rest)) => (*first, rest),
            None => return Poll::Ready(None),
        };
        self.0 = rest;
        Poll::Ready(Some(first))
    }
}

struct Game {
    items: Vec<u8>,
}

#[packet_controller]
impl Game {
    #[packet]
    fn plain(&self, _: Plain) -> impl Stream<Item = u8> {
        Lent(&self.items)
    }

    #[packet(concurrent)]
    async fn asynchronous(&self, ctx: &Context, packet: Async) -> impl Stream<Item = Result<u8, Status>> {
        let _ = ctx;
        Items(vec![Ok(packet.0), Err(Status::new(Code::NotFound, ""))])
    }

    #[packet]
    fn fallible(&self, _: Fallible) -> impl Stream<Item = Result<u8, Fault>> + Send {
        Items(vec![Err(Fault::Broken)])
    }

    #[packet(lane = "early")]
    async fn early(&self, _: &Connection, _: Early) -> Result<impl Stream<Item = u8>, Failure<Fault>> {
        Ok(Lent(&self.items))
    }

    #[packet]
    fn boxed(&self, _: Boxed) -> Pin<Box<dyn Stream<Item = Result<u8, Status>> + Send>> {
        Box::pin(Items(vec![Ok(1)]))
    }

    #[packet]
    async fn named(&self, _: Named) -> Result<Items<u8>, Status> {
        Ok(Items(vec![1]))
    }

    #[packet]
    fn borrowed(&self, packet: Borrowed<'_>) -> impl Stream<Item = String> {
        Items(packet.text.split(' ').map(str::to_owned).collect())
    }

    #[packet]
    async fn up(&self, _: Up, mut chunks: Incoming<u8>) {
        while let Some(Ok(_)) = chunks.next().await {}
    }

    #[packet]
    async fn up_fallible(&self, _: UpFallible, chunks: Incoming<u8>) -> Result<u8, Failure<Fault>> {
        drop(chunks);
        Err(Fault::Broken)?
    }

    #[packet]
    fn both(&self, _: Both, chunks: Incoming<u8>) -> impl Stream<Item = Result<u16, Failure<Fault>>> {
        drop(chunks);
        Items(vec![])
    }

    #[packet]
    fn pipe(&self, _: Pipe, chunks: Incoming<u8>) -> Piped {
        Piped(chunks)
    }

    #[packet(spawn)]
    async fn spawned(self: std::sync::Arc<Self>, _: Spawned) -> impl Stream<Item = ()> {
        Items(vec![()])
    }
}

struct Piped(Incoming<u8>);

impl Stream for Piped {
    type Item = Result<u16, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map(|item| match item? {
            Ok(item) => Some(Ok(u16::from(item))),
            Err(StreamError::Status(status)) => Some(Err(status)),
            Err(_) => None,
        })
    }
}

fn main() {
    let mut router = Router::builder();
    router.add(Game { items: vec![1, 2, 3] });
    assert_eq!(router.build().unwrap().handlers().len(), 12);
}
