//! The client's half: files up and down.

use std::{error::Error, ffi::OsStr, io, path::Path};

use nalix_client::{Bytes, Client, Session, stream};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter},
    task::spawn_blocking,
};

use crate::{
    contracts::{CHUNK, Content, Get, Put, Stat},
    crc::{self, Sum},
    folder::Partial,
    progress::Progress,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

pub async fn connect(address: &str) -> Outcome<Session> {
    Ok(Client::builder(format!("tcp://{address}")).plaintext().connect().await?)
}

/// Stores a file at the server, under the name that it has here.
pub async fn send(session: &Session, path: &Path) -> Outcome<Content> {
    let cannot_read = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let name = path.file_name().and_then(OsStr::to_str);
    let name = name.ok_or_else(|| format!("{} has no name that can be sent", path.display()))?;
    if !path.metadata().map_err(cannot_read)?.is_file() {
        return Err(format!("{} is not a file", path.display()).into());
    }
    let content = content(path).await.map_err(cannot_read)?;
    let mut file = BufReader::with_capacity(BUFFER, File::open(path).await.map_err(cannot_read)?);

    let mut progress = Progress::new("up  ", content.size);
    let chunks = stream::try_generate(async |mut chunks| {
        loop {
            let chunk = read(&mut file).await.map_err(cannot_read)?;
            if chunk.is_empty() {
                return Ok::<_, Box<dyn Error>>(());
            }
            let len = chunk.len();
            chunks.send(chunk).await;
            progress.add(len as u64)?;
        }
    });
    let upload = session.upload(Put { name: name.to_owned(), content }).await?;
    // The outer error is the file's, the inner one is what the server answers.
    upload.try_finish_with(chunks).await??;
    progress.finish()?;
    Ok(content)
}

/// Gets the file of this name from the server, and puts it where `path` says.
pub async fn get(session: &Session, name: &str, path: &Path) -> Outcome<Content> {
    let cannot_write = |error: io::Error| format!("cannot write {}: {error}", path.display());
    if path.file_name().is_none() || path.is_dir() {
        return Err(format!("{path:?} cannot be written: it is no name of a file, or a folder").into());
    }
    let content = session.request(Stat { name: name.to_owned() }).await?;
    let mut chunks = session.stream(Get { name: name.to_owned() }).await?;
    // Removed again if anything fails from here on.
    let (partial, file) = Partial::create(path).map_err(cannot_write)?;
    let mut file = BufWriter::with_capacity(BUFFER, File::from_std(file));
    let mut progress = Progress::new("down", content.size);
    let mut sum = Sum::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        sum.add(&chunk);
        // A server could go on for ever.
        if sum.content().size > content.size {
            break;
        }
        file.write_all(&chunk).await.map_err(cannot_write)?;
        progress.add(chunk.len() as u64)?;
    }
    if sum.content() != content {
        return Err("what has come is not what was announced; perhaps the file has changed meanwhile".into());
    }
    file.flush().await.map_err(cannot_write)?;
    partial.keep(path).map_err(cannot_write)?;
    progress.finish()?;
    Ok(content)
}

/// What is in a file. Reads it once more than needed to send it, so that the server knows beforehand what comes.
async fn content(path: &Path) -> io::Result<Content> {
    let path = path.to_owned();
    spawn_blocking(move || crc::of_file(&path)).await?
}

/// The next chunk; empty at the end.
async fn read(file: &mut BufReader<File>) -> io::Result<Bytes> {
    let mut chunk = vec![0; CHUNK];
    let len = file.read(&mut chunk).await?;
    chunk.truncate(len);
    Ok(chunk.into())
}

/// Bytes that are read from a file, or written to it, at once.
const BUFFER: usize = 256 * 1024;
