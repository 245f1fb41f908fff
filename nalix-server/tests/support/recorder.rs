//! A subscriber that keeps what is traced.

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt::{self, Write},
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// An event, with the spans it happened in from the outermost on.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) text: String,
    pub(crate) spans: Vec<String>,
}

type Sink = Box<dyn Fn(&Line) + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Recorder {
    inner: Arc<Inner>,
}

struct Inner {
    spans: Mutex<HashMap<u64, String>>,
    next: std::sync::atomic::AtomicU64,
    lines: Mutex<Vec<Line>>,
    sink: Option<Sink>,
}

thread_local! {
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self::with_sink(None)
    }

    /// Hands each line on as well.
    pub(crate) fn to(sink: impl Fn(&Line) + Send + Sync + 'static) -> Self {
        Self::with_sink(Some(Box::new(sink)))
    }

    fn with_sink(sink: Option<Sink>) -> Self {
        let (spans, lines) = Default::default();
        let next = std::sync::atomic::AtomicU64::new(1);
        Self { inner: Arc::new(Inner { spans, next, lines, sink }) }
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.inner.lines.lock().unwrap().clone()
    }

    /// Lines of these levels or worse.
    pub(crate) fn at_least(&self, level: Level) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.level <= level).collect()
    }

    /// Every span there has been.
    pub(crate) fn spans(&self) -> Vec<String> {
        self.inner.spans.lock().unwrap().values().cloned().collect()
    }
}

/// Writes fields as most subscribers do: text as it is, everything else with `Debug`.
struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let id = self.inner.next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let mut text = attributes.metadata().name().to_owned();
        attributes.record(&mut Fields(&mut text));
        self.inner.spans.lock().unwrap().insert(id, text);
        span::Id::from_u64(id)
    }

    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        if let Some(text) = self.inner.spans.lock().unwrap().get_mut(&id.into_u64()) {
            values.record(&mut Fields(text));
        }
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        // Libraries below have much to say.
        if ["tokio", "mio", "tower"].iter().any(|other| event.metadata().target().starts_with(other)) {
            return;
        }
        let mut text = String::new();
        event.record(&mut Fields(&mut text));
        let spans = {
            let known = self.inner.spans.lock().unwrap();
            STACK.with_borrow(|stack| stack.iter().filter_map(|id| known.get(id).cloned()).collect())
        };
        let line = Line { level: *event.metadata().level(), text, spans };
        if let Some(sink) = &self.inner.sink {
            sink(&line);
        }
        self.inner.lines.lock().unwrap().push(line);
    }

    fn enter(&self, id: &span::Id) {
        STACK.with_borrow_mut(|stack| stack.push(id.into_u64()));
    }

    fn exit(&self, id: &span::Id) {
        STACK.with_borrow_mut(|stack| {
            if let Some(at) = stack.iter().rposition(|&found| found == id.into_u64()) {
                stack.remove(at);
            }
        });
    }
}
