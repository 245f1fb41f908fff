//! The peer's calls: those that wait, those that run, and in what order they start.

use std::{collections::VecDeque, sync::Arc, task::Waker};

use tokio::time::Instant;

use super::{
    dispatch::Dispatch,
    running::{Event, Running},
};
use crate::{
    CallId,
    controller::{Call, CallKind, Outcome, Panicked, Reply, ReplyKind, Route, caught},
    error::ProtocolError,
    frame::FRAGMENT,
    packet::Priority,
    session::Cover,
    status::{Code, Status},
};

/// What must be remembered of a call once its packet has gone to the handler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    /// `None` for one-way packets.
    pub(super) id: Option<CallId>,
    /// As the packet has come, and its answer goes.
    pub(super) cover: Cover,
    /// The lane that it still holds.
    pub(super) lane: Option<u32>,
    /// That of its packet, for its answer.
    pub(super) priority: Option<Priority>,
    /// From how many bytes on its answer is compressed, or [`NEVER`].
    compress: u32,
    /// How many bytes its packet has.
    len: usize,
    pub(super) deadline: Option<Instant>,
    /// Whether an upload follows the packet.
    pub(super) uploads: bool,
    /// Whose policy has set the deadline, if one has.
    pub(super) limited: Option<Route>,
}

/// No message is so long.
const NEVER: u32 = u32::MAX;

impl Ticket {
    /// From how many bytes on its answer is compressed.
    #[inline]
    pub(super) fn compress(&self) -> Option<usize> {
        (self.compress != NEVER).then_some(self.compress as usize)
    }

    /// How many bytes its packet has, if it does not fit a frame.
    #[inline]
    fn large(&self) -> usize {
        if self.len > FRAGMENT { self.len } else { 0 }
    }

    /// Lets its answer be compressed.
    pub(super) fn set_compress(&mut self, from: Option<usize>) {
        self.compress = from.and_then(|from| u32::try_from(from).ok()).unwrap_or(NEVER);
    }
}

/// An answer for the outbox.
pub(super) type Answered = (Ticket, Reply);

/// The calls of the peer's on one connection.
#[derive(Debug)]
pub(super) struct Inbox {
    lanes: Vec<Lane>,
    /// Calls whose turn it is, held up by the gate: the outbox is full, the service is not ready, hooks still run.
    ready: VecDeque<(Call, Ticket)>,
    running: Running,
    /// Where the call with this id is.
    places: Vec<Place>,
    max_calls: usize,
    queued_one_way: usize,
    /// How many bytes of items the peer takes on a stream at first.
    window: usize,
    /// How many bytes the large ones among them have.
    queued_bytes: usize,
    /// Bytes of memory that all calls take that wait.
    waiting_bytes: usize,
    /// Bytes of large packets whose handlers have not finished.
    held: usize,
}

#[derive(Debug, Default)]
struct Lane {
    busy: bool,
    queue: VecDeque<(Call, Ticket)>,
}

/// Whom a new call comes after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// Nobody.
    First,
    /// Those whose turn it is and who wait for the gate.
    Ready,
    /// Another call of this lane.
    Lane(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Queued,
    Running(usize),
}

impl Inbox {
    pub(super) fn new(lanes: usize, max_calls: usize, window: usize, max_rest: usize) -> Self {
        Self {
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            ready: VecDeque::new(),
            running: Running::new(max_rest),
            places: Vec::new(),
            max_calls,
            queued_one_way: 0,
            window,
            queued_bytes: 0,
            waiting_bytes: 0,
            held: 0,
        }
    }

    /// Makes room for the lanes of a router that has got more handlers.
    pub(super) fn set_lanes(&mut self, lanes: usize) {
        self.lanes.resize_with(lanes.max(self.lanes.len()), Lane::default);
    }

    /// Sets whom to wake when a handler has been woken.
    pub(super) fn set_driver(&self, driver: &Waker) {
        self.running.set_driver(driver);
    }

    /// Checks the id of a new request.
    pub(super) fn check_id(&self, id: CallId) -> Result<(), ProtocolError> {
        let found = id.get();
        if found as usize >= self.max_calls {
            return Err(ProtocolError::BadCallId { found, what: "is above the limit" });
        }
        match self.places.get(found as usize) {
            None | Some(Place::Nowhere) => Ok(()),
            Some(_) => Err(ProtocolError::BadCallId { found, what: "is in use" }),
        }
    }

    /// Gives a call its place in the order, before the call itself is put together.
    #[inline]
    pub(super) fn line_up(
        &mut self,
        route: Route,
        id: Option<CallId>,
        cover: Cover,
        deadline: Option<Instant>,
        len: usize,
    ) -> (Ticket, Line) {
        let lane = route.lane().filter(|&lane| lane < self.lanes.len());
        let (lane_id, priority) = (lane.map(|lane| lane as u32), route.priority());
        let uploads = route.uploads() && id.is_some();
        let compress = NEVER;
        let ticket =
            Ticket { id, cover, lane: lane_id, priority, compress, len, deadline, uploads, limited: None };
        self.held += ticket.large();
        if let Some(lane) = lane
            && std::mem::replace(&mut self.lanes[lane].busy, true)
        {
            return (ticket, Line::Lane(lane));
        }
        (ticket, if self.ready.is_empty() { Line::First } else { Line::Ready })
    }

    /// Keeps a call that comes after another of its lane.
    pub(super) fn queue(&mut self, lane: usize, call: Call, ticket: Ticket) {
        self.note_queued(&ticket);
        self.lanes[lane].queue.push_back((call, ticket));
    }

    /// Keeps a call whose turn it is until the gate opens.
    pub(super) fn hold(&mut self, call: Call, ticket: Ticket) {
        self.note_queued(&ticket);
        self.ready.push_back((call, ticket));
    }

    /// The next call that could start if the gate is open.
    pub(super) fn next(&mut self) -> Option<(Call, Ticket)> {
        let (call, ticket) = self.ready.pop_front()?;
        self.note_unqueued(&ticket);
        Some((call, ticket))
    }

    /// The priority of the next call that could start if the gate is open, if there is one.
    pub(super) fn next_priority(&self) -> Option<Option<Priority>> {
        self.ready.front().map(|(_, ticket)| ticket.priority)
    }

    /// Whether a call waits only for the gate.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Starts a call. Returns its answer if it is done at once.
    #[inline]
    pub(super) fn start(
        &mut self,
        dispatch: &mut dyn Dispatch,
        call: Call,
        ticket: &Ticket,
    ) -> Option<Reply> {
        let stream = call.items().map(|items| (Arc::clone(items), self.window));
        let answer = match caught(|| dispatch.call(call)) {
            Ok(Outcome::Ready(reply)) => reply,
            Ok(Outcome::Pending(future)) => match self.running.start(future, *ticket, stream) {
                Ok(index) => {
                    self.set_place(ticket.id, Place::Running(index));
                    return None;
                }
                Err((_, result)) => reply_of(result),
            },
            Err(panicked) => reply_of(Err(panicked)),
        };
        self.finish(ticket);
        Some(answer)
    }

    /// Forgets a call that has been answered without being started.
    pub(super) fn forget(&mut self, ticket: &Ticket) {
        self.finish(ticket);
    }

    /// Polls the handlers that have been woken and collects the answers of those that are done.
    pub(super) fn poll_running(&mut self, answers: &mut Vec<Answered>) {
        let from = answers.len();
        let mut begun = Vec::new();
        self.running.poll(|event| match event {
            Event::Finished((ticket, result)) => answers.push((ticket, reply_of(result))),
            Event::Items(ticket, items) => answers.push((ticket, Reply::items(items))),
            Event::Begun(ticket) => begun.push(ticket),
        });
        for (ticket, reply) in &answers[from..] {
            if *reply.kind() != ReplyKind::Items {
                self.finish(ticket);
            }
        }
        for ticket in begun {
            self.leave_lane(&ticket);
        }
    }

    /// The peer has granted the stream of its call `n` bytes more.
    ///
    /// # Errors
    /// [`ProtocolError::BadFrame`] if that is more than it may grant.
    pub(super) fn grant(&mut self, id: CallId, n: u64) -> Result<(), ProtocolError> {
        // One that is not running has sent nothing that could be consumed, or its end has crossed the credit.
        let Some(Place::Running(index)) = self.places.get(id.get() as usize) else { return Ok(()) };
        self.running.grant(*index, n).ok_or(ProtocolError::BadFrame { what: "too much credit" })
    }

    /// The running handlers.
    pub(super) fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    /// Stops a call that its caller has given up. Returns the answer that ends the exchange, unless it had one already.
    pub(super) fn cancel(&mut self, id: CallId) -> Option<Answered> {
        let cancelled = || Reply::from_status(Status::new(Code::Cancelled, ""));
        match *self.places.get(id.get() as usize)? {
            Place::Nowhere => None,
            Place::Running(index) => {
                let ticket = self.running.stop(index)?;
                self.finish(&ticket);
                Some((ticket, cancelled()))
            }
            Place::Queued => {
                let mut found = None;
                self.remove_queued(|ticket| ticket.id == Some(id), &mut |call, ticket| {
                    found = Some((ticket, call.refuse(Status::new(Code::Cancelled, ""))));
                });
                found
            }
        }
    }

    /// Answers the calls whose deadline has passed, and returns the next deadline.
    pub(super) fn expire(&mut self, now: Instant, answers: &mut Vec<Answered>) -> Option<Instant> {
        let passed = |ticket: &Ticket| ticket.deadline.is_some_and(|deadline| deadline <= now);
        let late: Vec<_> =
            self.running.iter().filter(|(_, ticket)| passed(ticket)).map(|(index, _)| index).collect();
        for index in late {
            if let Some(ticket) = self.running.stop(index) {
                self.finish(&ticket);
                let status = if ticket.limited.is_some() { overdue() } else { deadline_exceeded() };
                answers.push((ticket, Reply::from_status(status)));
            }
        }
        self.remove_queued(passed, &mut |call, ticket| {
            answers.push((ticket, call.refuse(deadline_exceeded())));
        });
        let queued =
            self.lanes.iter().flat_map(|lane| &lane.queue).chain(&self.ready).map(|(_, ticket)| ticket);
        self.running.iter().map(|(_, ticket)| ticket).chain(queued).filter_map(|ticket| ticket.deadline).min()
    }

    /// Refuses every call that has not started.
    pub(super) fn refuse_queued(&mut self, status: &Status, answers: &mut Vec<Answered>) {
        self.remove_queued(|_| true, &mut |call, ticket| answers.push((ticket, call.refuse(status.clone()))));
    }

    /// Stops the handlers of streams, which end with a status. Whoever is asked for one and sends nothing that could be lost may
    /// just ask another.
    pub(super) fn end_streams(&mut self, status: &Status, answers: &mut Vec<Answered>) {
        let streams: Vec<_> = self.running.streaming().collect();
        for index in streams {
            if let Some(ticket) = self.running.stop(index) {
                self.finish(&ticket);
                answers.push((ticket, Reply::from_status(status.clone())));
            }
        }
    }

    /// Drops everything: the connection has ended.
    pub(super) fn stop_all(&mut self) {
        self.running.stop_all();
        self.lanes.clear();
        self.ready.clear();
    }

    /// Bytes of large packets whose handlers have not finished.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// One-way packets that wait.
    pub(super) fn queued_one_way(&self) -> usize {
        self.queued_one_way
    }

    /// How many bytes large one-way packets have that wait.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Bytes of memory that calls take that wait, for their turn or for room in the outbox.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// How many calls wait.
    pub(super) fn waiting_calls(&self) -> usize {
        self.ready.len() + self.lanes.iter().map(|lane| lane.queue.len()).sum::<usize>()
    }

    /// Whether nothing waits or runs.
    pub(super) fn is_idle(&self) -> bool {
        self.running.len() == 0
            && self.ready.is_empty()
            && self.lanes.iter().all(|lane| lane.queue.is_empty())
    }

    /// Forgets a call that is over, and lets the next of its lane have its turn.
    fn finish(&mut self, ticket: &Ticket) {
        self.set_place(ticket.id, Place::Nowhere);
        self.held -= ticket.large();
        self.leave_lane(ticket);
    }

    /// Lets the next of a call's lane have its turn.
    fn leave_lane(&mut self, ticket: &Ticket) {
        let Some(lane) = ticket.lane else { return };
        let lane = &mut self.lanes[lane as usize];
        match lane.queue.pop_front() {
            // Counted as queued all the while.
            Some(next) => self.ready.push_back(next),
            None => lane.busy = false,
        }
    }

    /// Takes calls out of the queues. A call that had its turn gives it to the next of its lane.
    fn remove_queued(&mut self, which: impl Fn(&Ticket) -> bool, out: &mut dyn FnMut(Call, Ticket)) {
        for lane in 0..self.lanes.len() {
            let mut queue = std::mem::take(&mut self.lanes[lane].queue);
            for (call, ticket) in extract(&mut queue, &which) {
                self.note_unqueued(&ticket);
                self.held -= ticket.large();
                out(call, ticket);
            }
            self.lanes[lane].queue = queue;
        }
        let mut ready = std::mem::take(&mut self.ready);
        let removed = extract(&mut ready, &which);
        self.ready = ready;
        for (call, ticket) in removed {
            self.note_unqueued(&ticket);
            self.finish(&ticket);
            out(call, ticket);
        }
    }

    fn note_queued(&mut self, ticket: &Ticket) {
        self.waiting_bytes += ticket.len + size_of::<(Call, Ticket)>();
        match ticket.id {
            Some(_) => self.set_place(ticket.id, Place::Queued),
            None => {
                self.queued_one_way += 1;
                self.queued_bytes += ticket.large();
            }
        }
    }

    fn note_unqueued(&mut self, ticket: &Ticket) {
        self.waiting_bytes -= ticket.len + size_of::<(Call, Ticket)>();
        match ticket.id {
            Some(_) => self.set_place(ticket.id, Place::Nowhere),
            None => {
                self.queued_one_way -= 1;
                self.queued_bytes -= ticket.large();
            }
        }
    }

    fn set_place(&mut self, id: Option<CallId>, place: Place) {
        let Some(id) = id else { return };
        let index = id.get() as usize;
        if index >= self.places.len() {
            if place == Place::Nowhere {
                return;
            }
            self.places.resize(index + 1, Place::Nowhere);
        }
        self.places[index] = place;
    }
}

/// What the caller is told when its deadline has passed.
pub(super) fn deadline_exceeded() -> Status {
    Status::new(Code::DeadlineExceeded, "the deadline has passed")
}

/// What the caller is told when the handler's own time is up.
fn overdue() -> Status {
    Status::new(Code::DeadlineExceeded, "the handler has taken too long")
}

fn reply_of(result: Result<Reply, Panicked>) -> Reply {
    result.unwrap_or_else(|panicked| panicked.reply())
}

fn extract(queue: &mut VecDeque<(Call, Ticket)>, which: impl Fn(&Ticket) -> bool) -> Vec<(Call, Ticket)> {
    if !queue.iter().any(|(_, ticket)| which(ticket)) {
        return Vec::new();
    }
    let (removed, kept): (VecDeque<_>, VecDeque<_>) = queue.drain(..).partition(|(_, ticket)| which(ticket));
    *queue = kept;
    removed.into()
}

/// Whether a failed one-way call is worth a line in the log: nobody else will hear of it.
pub(super) fn kind_of(ticket: &Ticket) -> CallKind {
    if ticket.id.is_some() { CallKind::Request } else { CallKind::OneWay }
}
