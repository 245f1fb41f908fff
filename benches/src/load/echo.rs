//! A closed loop: one echo at a time, every one timed.

use std::time::Instant;

use bytes::Bytes;

use crate::{
    Error,
    load::{Client, Stop, Tally},
};

pub(super) async fn run<C: Client>(client: &mut C, payload: usize, stop: &Stop) -> Result<Tally, Error> {
    let data = Bytes::from(vec![0xA5; payload]);
    let mut tally = Tally::new()?;
    let mut last = Instant::now();
    while !stop.stopped() {
        let echoed = client.echo(&data).await?;
        if echoed != payload {
            return Err(format!("{payload} bytes came back as {echoed}").into());
        }
        // The end of one call is the start of the next: one look at the clock per call.
        let now = Instant::now();
        tally.timed(now - last);
        tally.ops += 1;
        last = now;
    }
    Ok(tally)
}
