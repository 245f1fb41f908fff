//! The server's half.

use std::{
    io,
    path::{Path, PathBuf},
};

use nalix_server::{
    BuildError, Bytes, Code, Failure, Incoming, Server, Status, Stream, StreamError, packet_controller,
    stream,
};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter},
    task::spawn_blocking,
};

use crate::{
    contracts::{CHUNK, Content, Get, GetError, Ping, Put, PutError, Stat},
    crc::{self, Sum},
    folder::Partial,
    names,
};

struct Files {
    folder: PathBuf,
    /// Bytes that a file may have.
    limit: u64,
}

#[packet_controller]
impl Files {
    /// Concurrent, so that what the same client asks meanwhile is answered; on a task of its own, so that the connection
    /// does not wait while checksums are added up.
    #[packet(concurrent, spawn)]
    async fn put(&self, put: Put, mut chunks: Incoming<Bytes>) -> Result<(), Failure<PutError>> {
        names::check(&put.name).map_err(PutError::BadName)?;
        let (announced, limit) = (put.content, self.limit);
        if announced.size > limit {
            return Err(PutError::TooLarge { size: announced.size, limit }.into());
        }
        let place = self.folder.join(&put.name);
        // If the handler ends before its time, for instance since the client has gone, the file goes with it.
        let (partial, file) = Partial::create(&place).map_err(failed)?;
        let mut file = BufWriter::with_capacity(BUFFER, File::from_std(file));
        let mut sum = Sum::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(given_up)?;
            sum.add(&chunk);
            // Whatever was announced, this is what fills the disk.
            if sum.size() > announced.size {
                return Err(PutError::NotAsAnnounced.into());
            }
            file.write_all(&chunk).await.map_err(failed)?;
        }
        if sum.content() != announced {
            return Err(PutError::NotAsAnnounced.into());
        }
        file.flush().await.map_err(failed)?;
        partial.keep(&place).map_err(failed)?;
        Ok(())
    }

    #[packet(concurrent)]
    async fn stat(&self, stat: Stat) -> Result<Content, Failure<GetError>> {
        let place = self.place(&stat.name)?;
        match spawn_blocking(move || crc::of_file(&place)).await {
            Ok(content) => Ok(content.map_err(failed)?),
            Err(panicked) => Err(Status::internal(panicked.to_string()).into()),
        }
    }

    /// The file is read when there is room for more of it at the client.
    #[packet(concurrent)]
    async fn get(&self, get: Get) -> Result<impl Stream<Item = Result<Bytes, Status>>, Failure<GetError>> {
        let place = self.place(&get.name)?;
        let file = File::open(place).await.map_err(failed)?;
        let file = BufReader::with_capacity(BUFFER, file);
        Ok(stream::try_unfold(file, async |mut file| {
            let mut chunk = vec![0; CHUNK];
            let len = file.read(&mut chunk).await.map_err(failed)?;
            chunk.truncate(len);
            Ok((len > 0).then(|| (chunk.into(), file)))
        }))
    }

    #[packet(concurrent)]
    fn ping(&self, _: Ping) {}
}

impl Files {
    /// Where a file is that can be asked for.
    fn place(&self, name: &str) -> Result<PathBuf, GetError> {
        names::check(name).map_err(GetError::BadName)?;
        let place = self.folder.join(name);
        // Links are not followed: they may lead out of the folder.
        match place.symlink_metadata() {
            Ok(metadata) if metadata.is_file() => Ok(place),
            _ => Err(GetError::NotFound),
        }
    }
}

/// What goes wrong with the disk is for the log; the client learns that it did.
fn failed(error: io::Error) -> Status {
    eprintln!("server: {error}");
    Status::internal("the server cannot read or write its files")
}

/// Why an upload has ended before its time.
fn given_up(error: StreamError<impl std::error::Error>) -> Status {
    Status::new(Code::Aborted, error.to_string())
}

/// Bytes that are read from a file, or written to it, at once.
const BUFFER: usize = 256 * 1024;

/// A server that listens on `address` and keeps files of at most `limit` bytes in `folder`.
///
/// Everything travels in the clear, to keep the example short; the example `secure` shows what to do about that.
pub async fn build(address: &str, folder: &Path, limit: u64) -> Result<Server, BuildError> {
    let files = Files { folder: folder.to_owned(), limit };
    Server::builder().plaintext().tcp(address).controller(files).build().await
}
