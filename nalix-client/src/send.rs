//! Sending one-way packets over whatever connection there is.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use nalix_core::{CloseCode, CloseReason, Connection, Offline, OneWay, SendError};

use crate::{
    reconnect::{Line, Stop, Wait},
    while_offline::WhileOffline,
};

/// The future of a one-way packet: done when the packet is in the outbox.
///
/// Cancel safe: dropped before it is done, it has sent nothing.
#[must_use = "futures do nothing unless they are awaited"]
pub struct SendFuture<'a, P: OneWay> {
    line: &'a Arc<Line>,
    connection: Connection,
    inner: nalix_core::SendFuture<'a, P>,
    bytes: usize,
    while_offline: WhileOffline,
    /// Whether there is a connection to begin with.
    online: bool,
    wait: Option<Wait>,
}

impl<P: OneWay> fmt::Debug for SendFuture<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<'a, P: OneWay> SendFuture<'a, P> {
    pub(crate) fn new(line: &'a Arc<Line>, packet: &'a P) -> Self {
        let (connection, online) = line.route();
        let inner = connection.__send(packet);
        Self {
            line,
            connection,
            inner,
            bytes: packet.size_hint(),
            while_offline: WhileOffline::Wait,
            online,
            wait: None,
        }
    }

    /// Lets a key and a value travel with the packet, as [`RequestBuilder::metadata`](crate::RequestBuilder::metadata) does
    /// with a request: for its handler. Subscribers are given the packet alone.
    ///
    /// What cannot travel fails with [`SendError::Encode`]; nothing is sent then.
    pub fn metadata(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.inner = self.inner.metadata(key, value);
        self
    }

    /// Whether it waits while the session has no connection. Default [`WhileOffline::Wait`].
    pub fn while_offline(mut self, while_offline: WhileOffline) -> Self {
        self.while_offline = while_offline;
        self
    }
}

impl<P: OneWay> Future for SendFuture<'_, P> {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            if let Some(wait) = &mut this.wait {
                let Poll::Ready(routed) = wait.poll(cx) else { return Poll::Pending };
                this.wait = None;
                match routed {
                    Ok(connection) => {
                        this.inner.__restart(&connection);
                        this.connection = connection;
                    }
                    Err(stop) => return Poll::Ready(Err(failed(stop))),
                }
            }
            let online = std::mem::replace(&mut this.online, true);
            let closed = match online {
                true => match Pin::new(&mut this.inner).poll(cx) {
                    Poll::Ready(Err(SendError::Closed(reason))) => reason,
                    done => return done,
                },
                // The connection may live on without a link, and would take it.
                false => CloseReason::new(CloseCode::Lost, ""),
            };
            if !this.line.reconnects() {
                return Poll::Ready(Err(SendError::Closed(closed)));
            }
            let waits = this.while_offline == WhileOffline::Wait;
            match this.line.reroute(online.then_some(&this.connection), waits, this.bytes, None) {
                Ok(wait) => this.wait = Some(wait),
                Err(stop) => return Poll::Ready(Err(failed(stop))),
            }
        }
    }
}

/// Sends a packet if that can be done right now.
pub(crate) fn try_send<P: OneWay>(line: &Arc<Line>, packet: &P) -> Result<(), SendError> {
    let (connection, online) = line.route();
    let sent = if online { Some(connection.try_send(packet)) } else { None };
    match sent.unwrap_or_else(|| Err(SendError::Closed(CloseReason::new(CloseCode::Lost, "")))) {
        Err(SendError::Closed(_)) if line.reconnects() => {
            match line.reroute(online.then_some(&connection), false, 0, None) {
                // There is a new one already.
                Ok(_) => line.connection().try_send(packet),
                Err(stop) => Err(failed(stop)),
            }
        }
        done => done,
    }
}

fn failed(stop: Stop) -> SendError {
    match stop {
        Stop::Over(reason) => SendError::Closed(reason),
        Stop::Offline(offline) => SendError::Offline(offline),
        Stop::Late => SendError::Offline(Offline::Expired),
    }
}
