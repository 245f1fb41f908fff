//! The handshake's reads and writes, and their bounds in time.

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    task::Poll,
    time::Duration,
};

use tokio::time::timeout;

use super::ConnectError;
use crate::{
    connection::writing::put,
    frame::{Control, FrameKind, Head},
    handshake,
    link::Link,
    record::{self, RecordKind},
    session::{Cover, Inbound, Outbound, Record},
    status::CloseReason,
};

/// Tells the peer why there will be no connection. It may be gone or deaf: this is a courtesy, and bounded.
pub(super) async fn abort<L: Link>(
    link: &mut L,
    inbound: &mut Inbound,
    reason: &CloseReason,
    time: Duration,
) {
    let record = record::build(RecordKind::Abort, &handshake::abort_body(reason));
    last_words(link, inbound, &record, time).await;
}

/// As [`abort`], for a peer that has its answer already.
pub(super) async fn goodbye<L: Link>(
    link: &mut L,
    inbound: &mut Inbound,
    outbound: &mut Outbound,
    reason: CloseReason,
    time: Duration,
) {
    put(outbound, Cover::Sealed, Head::plain(FrameKind::Control), &Control::Close(reason));
    last_words(link, inbound, &outbound.take(Vec::new()), time).await;
}

async fn last_words<L: Link>(link: &mut L, inbound: &mut Inbound, record: &[u8], time: Duration) {
    let told = async {
        write(link, record).await?;
        poll_fn(|cx| link.poll_close(cx)).await?;
        // A link that is dropped with unread bytes may take the abort back that the peer has not read yet.
        drain(link, inbound).await
    };
    if let Err(error) = within(time, told).await {
        tracing::debug!(%error, "the peer may not have been told why");
    }
}

pub(super) async fn within<T, E: Into<ConnectError>>(
    time: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, ConnectError> {
    if time.is_zero() {
        // A timer would let through what is ready at once.
        return Err(ConnectError::Timeout(time));
    }
    match timeout(time, work).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(ConnectError::Timeout(time)),
    }
}

/// Does the work until `stop` says why it must not go on.
pub(super) async fn unless<T>(
    stop: impl Future<Output = CloseReason>,
    work: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    poll_fn(|cx| match stop.as_mut().poll(cx) {
        Poll::Ready(reason) => Poll::Ready(Err(ConnectError::Refused(reason))),
        Poll::Pending => work.as_mut().poll(cx),
    })
    .await
}

pub(super) async fn read<L: Link>(link: &mut L, inbound: &mut Inbound) -> Result<Record, ConnectError> {
    loop {
        if let Some(record) = inbound.next_record().map_err(ConnectError::Protocol)? {
            return Ok(record);
        }
        fill(link, inbound).await?;
    }
}

/// Reads some more. The end of the link is an error.
pub(super) async fn fill<L: Link>(link: &mut L, inbound: &mut Inbound) -> Result<(), ConnectError> {
    if poll_fn(|cx| link.poll_read(cx, inbound.buffer())).await? == 0 {
        inbound.end().map_err(ConnectError::Protocol)?;
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(())
}

pub(super) async fn write<L: Link>(link: &mut L, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match poll_fn(|cx| link.poll_write(cx, bytes)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

async fn drain<L: Link>(link: &mut L, inbound: &mut Inbound) -> io::Result<()> {
    loop {
        let buffer = inbound.buffer();
        buffer.clear();
        if poll_fn(|cx| link.poll_read(cx, buffer)).await? == 0 {
            return Ok(());
        }
    }
}
