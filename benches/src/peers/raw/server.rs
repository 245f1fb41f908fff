//! The serving half: everything one read brought is answered by one write.

use std::{io, sync::Arc};

use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{
    group::Group,
    wire::{self, Frame, Inbox, Outbox, Push},
};

pub(super) async fn connection(mut stream: TcpStream, group: Arc<Group>) -> io::Result<()> {
    let (mut inbox, mut outbox) = (Inbox::new(), Outbox::new());
    let mut joins = false;
    while inbox.fill(&mut stream).await? {
        while let Some(mut record) = inbox.next_record() {
            while !record.is_empty() {
                let request = Frame::request(&mut record)?;
                joins |= request.opcode == wire::JOIN;
                answer(&request, &group, &mut outbox)?;
            }
        }
        if let Some(bytes) = outbox.finish() {
            stream.write_all(bytes).await?;
            outbox.clear();
        }
        if joins {
            return group.keep(stream).await;
        }
    }
    Ok(())
}

fn answer(request: &Frame<'_>, group: &Group, outbox: &mut Outbox) -> io::Result<()> {
    match request.opcode {
        wire::ECHO => outbox.reply(request.id, request.payload),
        wire::SUM => {
            let (a, b) = wire::operands(request.payload)?;
            outbox.reply(request.id, &a.wrapping_add(b).to_le_bytes());
        }
        wire::JOIN => outbox.reply(request.id, &[]),
        wire::PUSH => {
            group.send(Push::parse(request.payload)?);
            outbox.reply(request.id, &[]);
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    Ok(())
}
