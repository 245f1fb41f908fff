//! Runs threads one at a time, in every order that a bound allows.
//!
//! A thread goes on until it takes or frees a lock of [`super`], or says [`point`]; there the schedule decides whether it goes
//! on or another does. Whatever is done between two such points is one step. Schedules are gone through depth first, so a
//! program that does the same in the same schedule is run in all of them, exactly once each.

use std::{
    cell::RefCell,
    fmt::Write,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError},
    thread,
};

use super::Held;

/// What is run once in each schedule.
pub(crate) struct Scenario<'a> {
    /// One thread each.
    pub(crate) tasks: Vec<Task<'a>>,
    /// Looks at what has come of it.
    pub(crate) check: Box<dyn FnOnce() + 'a>,
}

pub(crate) type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs what `make` makes in every schedule in which a thread is stopped at most `preemptions` times while it could go on,
/// and returns how many schedules there are.
///
/// # Panics
/// If a thread or the check panics, or if no thread can go on. The schedule is printed then.
pub(crate) fn explore<'a>(preemptions: usize, mut make: impl FnMut() -> Scenario<'a>) -> usize {
    let mut script = Vec::new();
    let mut runs = 0;
    loop {
        let Scenario { tasks, check } = make();
        let model = Arc::new(Model::new(tasks.len(), preemptions, script));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            model.run(tasks);
            check();
        }));
        let mut state = model.lock();
        if let Err(panic) = outcome {
            eprintln!("in schedule {runs}: {}", state.trace);
            resume_unwind(panic);
        }
        runs += 1;
        script = std::mem::take(&mut state.script);
        loop {
            let Some(last) = script.last_mut() else { return runs };
            last.chosen += 1;
            if last.chosen < last.options {
                break;
            }
            script.pop();
        }
    }
}

/// A place where another thread may go on.
pub(crate) fn point() {
    with_model(|model, me| model.yield_turn(me, Ready));
}

/// Whether this thread is one of a scenario's.
pub(super) fn is_on() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Takes a lock by trying, whenever it is this thread's turn.
pub(super) fn acquire<L, G>(lock: &L, mut attempt: impl FnMut() -> Result<G, TryLockError<G>>) -> Held<G> {
    let address = ptr::from_ref(lock) as usize;
    point();
    loop {
        let guard = match attempt() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                with_model(|model, me| model.yield_turn(me, Blocked(address)));
                continue;
            }
        };
        return Held { guard, _turn: Turn(address) };
    }
}

/// Wakes those who wait for a lock when it has been freed.
#[derive(Debug)]
pub(crate) struct Turn(usize);

impl Turn {
    pub(super) fn none() -> Self {
        Self(0)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.0 != 0 {
            with_model(|model, me| {
                model.lock().free(self.0);
                model.yield_turn(me, Ready);
            });
        }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<(Arc<Model>, usize)>> = const { RefCell::new(None) };
}

fn with_model(f: impl FnOnce(&Model, usize)) {
    let current = CURRENT.with_borrow(Clone::clone);
    if let Some((model, me)) = current {
        f(&model, me);
    }
}

struct Model {
    state: Mutex<State>,
    turns: Vec<Condvar>,
}

struct State {
    stages: Vec<Stage>,
    running: Option<usize>,
    /// The decisions to be made again, and behind those the ones made since.
    script: Vec<Decision>,
    decided: usize,
    preemptions_left: usize,
    /// Whose turn it has been.
    trace: String,
    /// Nobody waits for a turn any more: the scenario has failed.
    failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Ready,
    Blocked(usize),
    Done,
}
use Stage::{Blocked, Done, Ready};

struct Decision {
    chosen: usize,
    options: usize,
}

impl Model {
    fn new(tasks: usize, preemptions: usize, script: Vec<Decision>) -> Self {
        let state = State {
            stages: vec![Ready; tasks],
            running: None,
            script,
            decided: 0,
            preemptions_left: preemptions,
            trace: String::new(),
            failed: false,
        };
        Self { state: Mutex::new(state), turns: (0..tasks).map(|_| Condvar::new()).collect() }
    }

    fn run(self: &Arc<Self>, tasks: Vec<Task<'_>>) {
        self.lock().choose(None);
        thread::scope(|scope| {
            let threads: Vec<_> = tasks
                .into_iter()
                .enumerate()
                .map(|(me, task)| {
                    scope.spawn(move || {
                        CURRENT.set(Some((Arc::clone(self), me)));
                        self.wait_for_turn(self.lock(), me);
                        let outcome = catch_unwind(AssertUnwindSafe(task));
                        CURRENT.set(None);
                        self.finish(me, outcome.is_err());
                        outcome
                    })
                })
                .collect();
            let outcomes: Vec<_> =
                threads.into_iter().map(|thread| thread.join().and_then(|it| it)).collect();
            for outcome in outcomes {
                if let Err(panic) = outcome {
                    resume_unwind(panic);
                }
            }
        });
    }

    /// Lets the schedule decide, and returns when it is this thread's turn again.
    fn yield_turn(&self, me: usize, stage: Stage) {
        let mut state = self.lock();
        if state.failed {
            // Destructors go on without turns, and everything else comes to its end here.
            assert!(thread::panicking(), "another thread of the scenario has failed");
            return;
        }
        state.stages[me] = stage;
        self.pass_on(&mut state, me);
        self.wait_for_turn(state, me);
    }

    fn finish(&self, me: usize, failed: bool) {
        let mut state = self.lock();
        state.stages[me] = Done;
        if failed {
            self.fail(&mut state);
        } else {
            self.pass_on(&mut state, me);
        }
    }

    fn pass_on(&self, state: &mut State, me: usize) {
        state.choose(Some(me));
        match state.running {
            Some(next) => self.turns[next].notify_one(),
            None if state.stages.iter().all(|stage| *stage == Done) => {}
            None => self.fail(state),
        }
    }

    fn fail(&self, state: &mut State) {
        state.failed = true;
        self.turns.iter().for_each(Condvar::notify_one);
    }

    fn wait_for_turn(&self, mut state: MutexGuard<'_, State>, me: usize) {
        while state.running != Some(me) && !state.failed {
            state = self.turns[me].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let failed = state.failed;
        drop(state);
        assert!(!failed || thread::panicking(), "no thread of the scenario can go on, or one has failed");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Decides who runs next. The one who has run so far comes first, and stopping it is counted.
    fn choose(&mut self, current: Option<usize>) {
        let goes_on = current.filter(|&me| self.stages[me] == Ready);
        let others =
            (0..self.stages.len()).filter(|&other| self.stages[other] == Ready && Some(other) != goes_on);
        let mut options: Vec<usize> = goes_on.into_iter().chain(others).collect();
        if goes_on.is_some() && self.preemptions_left == 0 {
            options.truncate(1);
        }
        let place = if options.len() > 1 { self.decide(options.len()) } else { 0 };
        self.preemptions_left -= usize::from(goes_on.is_some() && place > 0);
        self.running = options.get(place).copied();
        if let Some(running) = self.running {
            write!(self.trace, "{running}").expect("text takes all");
        }
    }

    fn decide(&mut self, options: usize) -> usize {
        if self.decided == self.script.len() {
            self.script.push(Decision { chosen: 0, options });
        }
        let decision = &self.script[self.decided];
        assert_eq!(decision.options, options, "it does not do the same again");
        self.decided += 1;
        decision.chosen
    }

    fn free(&mut self, address: usize) {
        for stage in &mut self.stages {
            if *stage == Blocked(address) {
                *stage = Ready;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
    };

    use super::*;
    use crate::sync::Mutex;

    #[test]
    fn every_order_is_run_once() {
        let orders = std::sync::Mutex::new(HashSet::new());
        let runs = explore(usize::MAX, || {
            let order = Arc::new(std::sync::Mutex::new(Vec::new()));
            let task = |me: usize| -> Task<'_> {
                let order = Arc::clone(&order);
                Box::new(move || {
                    for step in 0..2 {
                        order.lock().unwrap().push((me, step));
                        if step == 0 {
                            point();
                        }
                    }
                })
            };
            let tasks = (0..3).map(task).collect();
            let orders = &orders;
            Scenario {
                tasks,
                check: Box::new(move || {
                    assert!(orders.lock().unwrap().insert(order.lock().unwrap().clone()), "again");
                }),
            }
        });
        // Six steps, two of each of three threads.
        assert_eq!((runs, orders.lock().unwrap().len()), (90, 90));
    }

    #[test]
    fn an_update_that_is_lost_in_one_order_is_found() {
        let found = catch_unwind(|| {
            explore(1, || {
                let count = Arc::new(AtomicUsize::new(0));
                let task = || -> Task<'_> {
                    let count = Arc::clone(&count);
                    Box::new(move || {
                        let seen = count.load(SeqCst);
                        point();
                        count.store(seen + 1, SeqCst);
                    })
                };
                let tasks = vec![task(), task()];
                Scenario { tasks, check: Box::new(move || assert_eq!(count.load(SeqCst), 2)) }
            })
        });
        assert!(found.is_err());
    }

    #[test]
    fn locks_that_are_taken_in_two_orders_are_found() {
        let found = catch_unwind(|| {
            explore(1, || {
                let locks = Arc::new([Mutex::<u8>::default(), Mutex::default()]);
                let task = |first: usize| -> Task<'_> {
                    let locks = Arc::clone(&locks);
                    Box::new(move || {
                        let _one = locks[first].lock();
                        let _other = locks[1 - first].lock();
                    })
                };
                Scenario { tasks: vec![task(0), task(1)], check: Box::new(|| ()) }
            })
        });
        assert!(found.is_err());
    }
}
