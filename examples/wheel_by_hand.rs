//! A wheel without async, clock or lock. For simulations, games and other runtimes.
//!
//! A tick is whatever you count. Here it is a second of a simulated day in a shop, so the whole day
//! takes no time at all.
//!
//! ```text
//! cargo run --example wheel_by_hand
//! ```

use tickwheel::wheel::{Key, Wheel};

enum Event {
    Opens,
    Arrives(u64),
    Leaves(u64),
    Closes,
}

const HOUR: u64 = 3600;

fn main() {
    clap::Command::new("wheel_by_hand")
        .about("Simulates a shop's day on a wheel without async")
        .get_matches(); // for --help
    let mut day = Wheel::new();
    assert!(day.pop_due(7 * HOUR).is_none()); // its first tick: an empty wheel jumps to any
    day.insert(8 * HOUR, Event::Opens);
    let closing: Key = day.insert(18 * HOUR, Event::Closes);
    assert!(day.reset(closing, 12 * HOUR)); // a half holiday: `reset` moves it, `remove` takes it

    // `next_turn` is a tick before which nothing is due, so the program jumps from one to the next.
    let mut turns = 0;
    while let Some(tick) = day.next_turn() {
        turns += 1;
        // In the order of their dues. `advance` gives them as an iterator, which borrows the wheel.
        while let Some((_key, due, event)) = day.pop_due(tick) {
            print!("{:02}:{:02} ", due / HOUR, due / 60 % 60);
            match event {
                Event::Opens => {
                    println!("the shop opens");
                    day.insert(due + HOUR / 2, Event::Arrives(1));
                }
                Event::Arrives(customer) => {
                    println!("customer {customer} arrives");
                    day.insert(due + HOUR / 3, Event::Leaves(customer));
                    day.insert(due + HOUR, Event::Arrives(customer + 1));
                }
                Event::Leaves(customer) => println!("customer {customer} leaves"),
                Event::Closes => {
                    println!("the shop closes, {} timer is disarmed", day.len());
                    day.clear();
                }
            }
        }
    }
    println!("{} seconds in {turns} turns", day.now() - 7 * HOUR);
}
