//! Work that threads of rayon's pool share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use rayon::prelude::*;

use crate::error::Result;

/// How long a thread of the pool sleeps that finds nothing to do while it waits.
pub(crate) const IDLE: Duration = Duration::from_micros(50);

/// Does `work` with each number below `count`, by all threads: each takes the least that nobody has taken. What has
/// come of them, in order. After an error no more are taken; of several it is that of the least number.
pub(crate) fn each_in_turn<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let of_thread = |_| {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return done;
            }
            let result = work(number).inspect_err(|_| next.store(count, Ordering::Relaxed));
            done.push((number, result));
        }
    };
    let threads = rayon::current_num_threads().min(count);
    let done = (0..threads).into_par_iter().with_max_len(1).flat_map_iter(of_thread);
    let mut done: Vec<(usize, Result<T>)> = done.collect();
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What is sent by work of the pool; none if it has ended without. A thread of the pool does meanwhile what the
/// pool has to do.
pub(crate) fn receive<T>(receiver: &Receiver<T>) -> Option<T> {
    loop {
        match receiver.try_recv() {
            Ok(received) => return Some(received),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => {}
        }
        match rayon::yield_now() {
            None => return receiver.recv().ok(),
            Some(rayon::Yield::Executed) => {}
            Some(rayon::Yield::Idle) => std::thread::sleep(IDLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::error::Error;

    #[test]
    fn results_are_in_order() {
        for count in [0, 1, 1000] {
            let taken = AtomicUsize::new(0);
            let take = |number| Ok((number, taken.fetch_add(1, Ordering::Relaxed)));
            let (numbers, mut turns): (Vec<_>, Vec<_>) =
                each_in_turn(count, take).unwrap().into_iter().unzip();
            turns.sort_unstable();
            let all: Vec<usize> = (0..count).collect();
            assert_eq!([numbers, turns], [all.clone(), all]);
        }
    }

    #[test]
    fn nothing_is_taken_after_an_error() {
        let failed = |number| match number {
            0 => Err(Error::corrupt("first")),
            // Others may have been taken before that.
            _ if number < 100_000 => {
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            }
            _ => panic!("{number} was taken"),
        };
        assert!(each_in_turn(1_000_000, failed).is_err());
    }

    #[test]
    fn threads_of_a_small_pool_wait_for_each_other() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let received = pool.scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            scope.spawn(move |_| sender.send(3).unwrap());
            let (dropped, nothing) = mpsc::channel::<i32>();
            scope.spawn(move |_| drop(dropped));
            (receive(&receiver), receive(&nothing))
        });
        assert_eq!(received, (Some(3), None));
    }
}
