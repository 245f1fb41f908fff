//! What connections and groups do when several threads use them at once, in every order of their steps.
//!
//! This is the code that servers run: groups, the hub, and the guard with which a connection's task takes it out of both. The
//! drivers of the connections and of their peers are polled by hand, so that nothing runs which the schedule has not chosen.

mod ends;
mod history;
mod world;

use world::{Op, World};

use Op::{Ask, Close, End, Join, Leave, LeaveAll, Look, Send, Watch};

/// Two threads with one step each, on a connection that is in the group or not, beside one that is in it for good.
#[test]
fn any_two_things_at_once_are_as_if_one_came_first() {
    const OPS: [Op; 9] =
        [Join(0, 0), Leave(0, 0), LeaveAll(0), Send(0), Ask(0), Watch(0), Look(0), Close(0), End(0)];
    let world = World::new();
    let mut runs = 0;
    for (n, first) in OPS.into_iter().enumerate() {
        for second in &OPS[n..] {
            // A connection ends once.
            if (first, *second) == (End(0), End(0)) {
                continue;
            }
            for inside in [&[(1, 0)][..], &[(1, 0), (0, 0)]] {
                runs += world.explore(3, inside, &[&[first], &[*second]]);
            }
        }
    }
    println!("{runs} schedules");
    assert!(runs > 5_000, "only {runs} schedules");
}

/// Neither is the connection left in a group, nor does anybody who comes later send to it.
#[test]
fn a_connection_that_ends_while_it_joins_is_left_in_no_group() {
    let world = World::new();
    world.explore(2, &[], &[&[End(0), Send(0), Look(0)], &[Join(0, 0), Join(0, 1)]]);
    world.explore(2, &[], &[&[End(0)], &[Join(0, 0), Leave(0, 0)], &[Join(0, 0)]]);
    world.explore(2, &[(0, 0), (0, 1)], &[&[End(0)], &[LeaveAll(0), Join(0, 1)], &[Send(1), Send(0)]]);
}

#[test]
fn who_has_left_gets_nothing_of_what_is_sent_later() {
    let world = World::new();
    world.explore(2, &[(0, 0), (1, 0)], &[&[Leave(0, 0), Send(0)], &[Send(0), Send(0)], &[Join(0, 0)]]);
    world.explore(2, &[(0, 0), (1, 0)], &[&[LeaveAll(0), Send(0)], &[Ask(0), Send(0)]]);
    world.explore(2, &[(0, 0), (1, 0)], &[&[End(0), Send(0), Ask(0)], &[Send(0), Send(0)]]);
    world.explore(2, &[(0, 0), (1, 0)], &[&[Close(0), Leave(0, 0)], &[Send(0), Send(0)], &[Ask(0)]]);
}

#[test]
fn what_several_send_while_members_come_and_go_has_each_senders_order_everywhere() {
    let world = World::new();
    world.explore(
        2,
        &[(0, 0), (1, 0)],
        &[&[Send(0), Send(0)], &[Send(0), Send(0)], &[Join(2, 0), Leave(0, 0)]],
    );
}

#[test]
fn each_coming_and_going_is_told_once_and_in_the_order_in_which_it_happens() {
    let world = World::new();
    world.explore(2, &[], &[&[Join(0, 0), Leave(0, 0)], &[Join(0, 0), Leave(0, 0)], &[Watch(0)]]);
    world.explore(2, &[(0, 0), (1, 0)], &[&[End(0)], &[Leave(1, 0), Join(1, 0)], &[Watch(0), Look(0)]]);
}

/// Two groups of one name would each have some of the members, and one that nobody holds would be there for ever.
#[test]
fn a_group_that_vanishes_while_it_is_looked_up_is_one_and_leaves_nothing() {
    let world = World::new();
    let runs = world.explore_brief(2, 2) + world.explore_brief(1, 3);
    assert!(runs > 1_000, "only {runs} schedules");
}
