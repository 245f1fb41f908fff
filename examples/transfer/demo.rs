//! A server and a client in one process, a file up and down, and what is refused.

use std::{
    error::Error,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
    time::Duration,
};

use nalix_client::{Bytes, RequestError, Session, stream};
use tokio::time::sleep;

use crate::{
    calls::Calls,
    client,
    contracts::{Content, GetError, Put, PutError, Stat},
    folder::TempFolder,
    server,
};

/// Bytes that the file has, and that a file may have.
const SIZE: u64 = 32 << 20;
const LIMIT: u64 = 64 << 20;

type Outcome = Result<(), Box<dyn Error>>;

pub async fn run() -> Outcome {
    let (there, here) = (TempFolder::new()?, TempFolder::new()?);
    let server = server::build("127.0.0.1:0", there.path(), LIMIT).await?;
    let address = server.local_addr();
    println!("server: listening on {address}");
    let (handle, running) = server.spawn();
    let session = client::connect(&address.to_string()).await?;

    let calls = Calls::start(&session);
    sleep(Duration::from_millis(500)).await;
    println!("nothing else: {}\n", calls.stop().await?);

    up_and_down(&session, here.path()).await?;
    refused(&session, there.path()).await?;

    session.close().await;
    handle.shutdown();
    let report = running.await??;
    println!("server: stopped, {} connection(s) drained, {} cut off", report.drained, report.forced);
    Ok(())
}

async fn up_and_down(session: &Session, folder: &Path) -> Outcome {
    let (file, back) = (folder.join("large.bin"), folder.join("back.bin"));
    make(&file, SIZE)?;

    let calls = Calls::start(session);
    client::send(session, &file).await?;
    println!("beside the upload: {}\n", calls.stop().await?);

    let calls = Calls::start(session);
    client::get(session, "large.bin", &back).await?;
    println!("beside the download: {}", calls.stop().await?);

    if fs::read(&file)? != fs::read(&back)? {
        return Err("the file that came back is another one".into());
    }
    println!("the file that came back is the same\n");
    Ok(())
}

async fn refused(session: &Session, folder: &Path) -> Outcome {
    let before = files(folder)?;
    let nothing = Content { size: 0, crc: 0 };

    let name = "../../etc/passwd";
    match session.request(Stat { name: name.to_owned() }).await {
        Err(RequestError::Application(error @ GetError::BadName(_))) => println!("{name}: {error}"),
        other => return Err(unexpected(&other)),
    }
    let name = "..\\autoexec.bat";
    match put(session, name, nothing, &[]).await {
        Err(RequestError::Application(error @ PutError::BadName(_))) => println!("{name}: {error}"),
        other => return Err(unexpected(&other)),
    }
    let name = "nothing.txt";
    match session.request(Stat { name: name.to_owned() }).await {
        Err(RequestError::Application(error @ GetError::NotFound)) => println!("{name}: {error}"),
        other => return Err(unexpected(&other)),
    }
    let name = "huge.bin";
    match put(session, name, Content { size: 1 << 40, crc: 0 }, &[]).await {
        Err(RequestError::Application(error @ PutError::TooLarge { .. })) => println!("{name}: {error}"),
        other => return Err(unexpected(&other)),
    }
    for (name, came) in [("short.bin", &b"abc"[..]), ("long.bin", b"abcdef"), ("broken.bin", b"abcd!")] {
        match put(session, name, Content { size: 5, crc: 0x8587_d865 }, came).await {
            Err(RequestError::Application(error @ PutError::NotAsAnnounced)) => println!("{name}: {error}"),
            other => return Err(unexpected(&other)),
        }
    }

    if files(folder)? != before {
        return Err("something that was refused has left a file behind".into());
    }
    println!("none of them has left a file behind\n");
    Ok(())
}

async fn put(
    session: &Session,
    name: &str,
    announced: Content,
    content: &'static [u8],
) -> Result<(), RequestError<PutError>> {
    let upload = session.upload(Put { name: name.to_owned(), content: announced }).await?;
    let chunk = (!content.is_empty()).then(|| Bytes::from_static(content));
    upload.finish_with(stream::iter(chunk)).await
}

fn unexpected(outcome: &dyn std::fmt::Debug) -> Box<dyn Error> {
    format!("an error of another kind was expected, not {outcome:?}").into()
}

/// Writes bytes that do not repeat (after George Marsaglia's xorshift).
fn make(path: &Path, size: u64) -> io::Result<()> {
    let mut file = BufWriter::new(File::create_new(path)?);
    let mut state = 1_u64;
    for _ in 0..size / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes())?;
    }
    file.flush()
}

fn files(folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}
