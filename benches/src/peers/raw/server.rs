//! The serving half: everything one read brought is answered by one write.

use std::io;

use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::wire::{self, Frame, Inbox, Outbox};

pub(super) async fn connection(mut stream: TcpStream) -> io::Result<()> {
    let (mut inbox, mut outbox) = (Inbox::new(), Outbox::new());
    while inbox.fill(&mut stream).await? {
        while let Some(mut record) = inbox.next_record() {
            while !record.is_empty() {
                answer(&Frame::request(&mut record)?, &mut outbox)?;
            }
        }
        if let Some(bytes) = outbox.finish() {
            stream.write_all(bytes).await?;
            outbox.clear();
        }
    }
    Ok(())
}

fn answer(request: &Frame<'_>, outbox: &mut Outbox) -> io::Result<()> {
    match request.opcode {
        wire::ECHO => outbox.reply(request.id, request.payload),
        wire::SUM => {
            let (a, b) = wire::operands(request.payload)?;
            outbox.reply(request.id, &a.wrapping_add(b).to_le_bytes());
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    Ok(())
}
