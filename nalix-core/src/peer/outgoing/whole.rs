//! An upload of all chunks of a stream, up to its answer.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, Waker},
};

use futures_core::Stream;

use super::{RequestError, SendError, Upload};
use crate::{
    packet::UploadRequest,
    status::{Code, Status},
};

impl<P: UploadRequest> Upload<P> {
    /// Sends all chunks of a stream, ends the upload and waits for the answer. [`stream`](crate::stream) has ways to make one.
    ///
    /// If the other side takes no more of them, what it answers is the result all the same, and the rest of the stream is
    /// not asked for. It is waited for at the same time as chunks are.
    ///
    /// Dropping the future cancels the call.
    ///
    /// # Errors
    /// What the answer is, or [`RequestError`] without one. [`RequestError::TooLarge`] and [`RequestError::Encode`] say that a
    /// chunk cannot be sent: the call has been cancelled, with the chunks before it on their way.
    ///
    /// ```
    /// use nalix_core::{Connection, RequestError, packet, stream};
    ///
    /// #[packet(opcode = 0x4f20, upload = String, reply = u64)]
    /// struct Count;
    ///
    /// async fn count(connection: Connection, lines: Vec<String>) -> Result<u64, RequestError> {
    ///     connection.upload(Count).await?.finish_with(stream::iter(lines)).await
    /// }
    /// ```
    pub async fn finish_with<S>(mut self, chunks: S) -> Result<P::Reply, RequestError<P::Error>>
    where
        S: Stream<Item = P::Chunk>,
    {
        let mut chunks = pin!(chunks);
        let next = |cx: &mut Context<'_>| chunks.as_mut().poll_next(cx).map(|chunk| chunk.map(Ok));
        match self.send_all::<Infallible>(next).await {
            Ok(None) => self.finish().await,
            Ok(Some(error)) => Err(error),
            Err(never) => match never {},
        }
    }

    /// As [`Upload::finish_with`], with chunks that may fail to be made, such as those of a file that is read. Such an error
    /// is the outer one; it cancels the call.
    ///
    /// ```
    /// # use nalix_core::{Bytes, Connection, packet, stream};
    /// # use tokio::io::AsyncReadExt;
    /// # #[packet(opcode = 0x4f21, upload = Bytes, reply = u64)]
    /// # struct Store;
    /// # async fn store(
    /// #     connection: Connection,
    /// #     file: impl tokio::io::AsyncRead + Unpin,
    /// # ) -> Result<u64, Box<dyn std::error::Error>> {
    /// let chunks = stream::try_unfold(file, async |mut file| {
    ///     let mut chunk = vec![0; 16_000];
    ///     let len = file.read(&mut chunk).await?;
    ///     chunk.truncate(len);
    ///     Ok::<_, std::io::Error>((len > 0).then(|| (chunk.into(), file)))
    /// });
    /// let answer = connection.upload(Store).await?.try_finish_with(chunks).await??;
    /// # Ok(answer) }
    /// ```
    ///
    /// # Errors
    /// The stream's error, and inside as [`Upload::finish_with`].
    pub async fn try_finish_with<S, E>(
        mut self,
        chunks: S,
    ) -> Result<Result<P::Reply, RequestError<P::Error>>, E>
    where
        S: Stream<Item = Result<P::Chunk, E>>,
    {
        let mut chunks = pin!(chunks);
        Ok(match self.send_all(|cx| chunks.as_mut().poll_next(cx)).await? {
            None => self.finish().await,
            Some(error) => Err(error),
        })
    }

    /// Sends chunks until there are no more, or no more are taken. Returns why one cannot be sent, if that is so.
    async fn send_all<E>(
        &mut self,
        mut next: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<P::Chunk, E>>>,
    ) -> Result<Option<RequestError<P::Error>>, E> {
        loop {
            let chunk = poll_fn(|cx| match next(cx) {
                // The answer may come before the next chunk is there.
                Poll::Pending if self.raw.poll_end(cx).is_some() || self.raw.is_late() => Poll::Ready(None),
                polled => polled,
            });
            let Some(chunk) = chunk.await else { return Ok(self.late()) };
            match self.send(&chunk?).await {
                Ok(()) => {}
                // The answer says more.
                Err(SendError::Stopped | SendError::Closed(_)) => return Ok(self.late()),
                Err(error) => return Ok(Some(unsent(error))),
            }
        }
    }

    /// Whether the time is over, and no answer has come by then. Chunks may be missing, so that the upload must not be ended
    /// as a whole one.
    fn late(&self) -> Option<RequestError<P::Error>> {
        let late = self.raw.is_late() && self.raw.poll_end(&Context::from_waker(Waker::noop())).is_none();
        late.then_some(RequestError::Timeout)
    }
}

/// What a chunk that cannot be sent makes of the call.
#[cold]
fn unsent<E>(error: SendError) -> RequestError<E> {
    match error {
        SendError::TooLarge { limit } => RequestError::TooLarge { limit },
        SendError::Encode(error) => RequestError::Encode(error),
        SendError::EncryptionRequired => RequestError::EncryptionRequired,
        SendError::Closed(reason) => RequestError::Closed(reason),
        SendError::Offline(offline) => RequestError::Offline(offline),
        SendError::Full | SendError::Stopped => {
            RequestError::Status(Status::new(Code::ResourceExhausted, error.to_string()))
        }
    }
}
