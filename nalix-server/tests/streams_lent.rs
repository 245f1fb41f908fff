//! Items of streams that are lent to who reads them, instead of owned.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{future::Future, pin::pin, task::Poll};

use futures_core::Stream;
use nalix_core::Wire;
use nalix_server::{Incoming, StreamError, packet, packet_controller};
use support::{Both, from_fn, soon};
use tokio::sync::mpsc;

#[derive(Debug, Clone, PartialEq, Wire)]
struct Tick {
    symbol: String,
    data: Vec<u8>,
    price: u64,
}

#[derive(Debug, PartialEq, Wire)]
struct TickRef<'a> {
    symbol: &'a str,
    data: &'a [u8],
    price: u64,
}

/// Other names of fields are another layout, as they are between two sides.
#[derive(Debug, Wire)]
struct Quote<'a> {
    name: &'a str,
    data: &'a [u8],
    price: u64,
}

/// Ticks with so many bytes of data.
#[packet(opcode = 0x4201, stream = Tick)]
struct Watch {
    lens: Vec<u32>,
}

#[packet(opcode = 0x4202, stream = Tick)]
struct Late;

/// How many bytes of data have come, with every chunk lent.
#[packet(opcode = 0x4203, upload = Tick, reply = u64)]
struct Record;

struct Exchange(std::sync::Mutex<Option<mpsc::UnboundedReceiver<Tick>>>);

fn tick(len: u32) -> Tick {
    Tick { symbol: format!("len {len}"), data: vec![len as u8; len as usize], price: len.into() }
}

#[packet_controller]
impl Exchange {
    #[packet]
    fn watch(&self, watch: Watch) -> impl Stream<Item = Tick> + use<> {
        let mut lens = watch.lens.into_iter();
        from_fn(move |_| Poll::Ready(lens.next().map(tick)))
    }

    #[packet]
    fn late(&self, _: Late) -> impl Stream<Item = Tick> + use<> {
        let mut ticks = self.0.lock().unwrap().take().unwrap();
        from_fn(move |cx| ticks.poll_recv(cx))
    }

    #[packet]
    async fn record(&self, _: Record, mut ticks: Incoming<Tick>) -> u64 {
        let mut sum = 0;
        while let Some(tick) = ticks.next_as::<TickRef<'_>>().await {
            sum += tick.unwrap().data.len() as u64;
        }
        sum
    }
}

fn exchange() -> (mpsc::UnboundedSender<Tick>, Exchange) {
    let (ticks, late) = mpsc::unbounded_channel();
    (ticks, Exchange(std::sync::Mutex::new(Some(late))))
}

fn is(lent: &TickRef<'_>, owned: &Tick) -> bool {
    (lent.symbol, lent.data, lent.price) == (&owned.symbol, &owned.data, owned.price)
}

/// In frames, across them, and longer than any.
const LENS: [u32; 12] = [0, 1, 100, 16_000, 16_300, 16_384, 16_385, 40_000, 3, 300_000, 7, 0];

#[tokio::test]
async fn lent_items_are_the_same_as_owned_ones_wherever_they_lie() {
    for capacity in [7, 1_000, 1 << 20] {
        let mut both = Both::new(exchange().1).await;
        both.capacity = capacity;
        let client = both.client().await;
        let lens = LENS.repeat(5);
        let mut ticks = client.stream(Watch { lens: lens.clone() }).await.unwrap();
        for (n, &len) in lens.iter().enumerate() {
            let expected = tick(len);
            // One after the other may be had either way.
            if n % 3 == 0 {
                assert_eq!(soon(ticks.next()).await.unwrap().unwrap(), expected);
            } else {
                let lent = soon(ticks.next_as::<TickRef<'_>>()).await.unwrap().unwrap();
                assert!(is(&lent, &expected), "{len}");
            }
        }
        assert!(soon(ticks.next_as::<TickRef<'_>>()).await.is_none());
        assert!(soon(ticks.next_as::<TickRef<'_>>()).await.is_none());
    }
}

#[tokio::test]
async fn items_are_not_lent_as_a_type_of_another_layout() {
    let client = Both::new(exchange().1).await.client().await;
    let mut ticks = client.stream(Watch { lens: vec![5] }).await.unwrap();
    for _ in 0..2 {
        let error = soon(ticks.next_as::<Quote<'_>>()).await.unwrap().unwrap_err();
        assert!(
            matches!(&error, StreamError::Decode(error) if error.to_string().contains("another layout")),
            "{error}"
        );
    }
    // None is lost for that.
    assert!(is(&soon(ticks.next_as::<TickRef<'_>>()).await.unwrap().unwrap(), &tick(5)));
    assert!(soon(ticks.next_as::<TickRef<'_>>()).await.is_none());
}

#[tokio::test]
async fn a_wait_for_a_lent_item_that_is_dropped_takes_none() {
    let (ticks_in, exchange) = exchange();
    let client = Both::new(exchange).await.client().await;
    let mut ticks = client.stream(Late).await.unwrap();
    for n in 1..=20 {
        {
            let mut waiting = pin!(ticks.next_as::<TickRef<'_>>());
            let polled = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending()));
            assert!(polled.await, "nothing has been sent");
        }
        ticks_in.send(tick(n)).unwrap();
        assert!(is(&soon(ticks.next_as::<TickRef<'_>>()).await.unwrap().unwrap(), &tick(n)));
    }
    drop(ticks_in);
    assert!(soon(ticks.next_as::<TickRef<'_>>()).await.is_none());
}

#[tokio::test]
async fn a_handler_reads_an_upload_lent() {
    let client = Both::new(exchange().1).await.client().await;
    let mut upload = client.upload(Record).await.unwrap();
    for len in LENS {
        soon(upload.send(&tick(len))).await.unwrap();
    }
    let sum: u64 = LENS.iter().map(|&len| u64::from(len)).sum();
    assert_eq!(soon(upload.finish()).await.unwrap(), sum);
}
