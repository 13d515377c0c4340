//! What a device has compiled so far, by its source.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;

/// Modules that stay as long as the device. Two threads that ask for the same source
/// wait for one compilation, those that ask for others do not.
#[derive(Debug)]
pub(super) struct Compiled<T> {
    by_source: Mutex<HashMap<String, Entry<T>>>,
}

/// Nothing until its source has been compiled without an error.
type Entry<T> = Arc<Mutex<Option<Arc<T>>>>;

impl<T> Default for Compiled<T> {
    fn default() -> Self {
        Self { by_source: Mutex::default() }
    }
}

impl<T> Compiled<T> {
    /// The module of a source, compiled by `compile` unless it has been.
    pub fn get(&self, source: &str, compile: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let entry = {
            let mut by_source = self.by_source.lock().unwrap_or_else(PoisonError::into_inner);
            by_source.entry(source.to_owned()).or_default().clone()
        };
        let mut module = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = module.as_ref() {
            return Ok(module.clone());
        }
        let compiled = Arc::new(compile()?);
        *module = Some(compiled.clone());
        Ok(compiled)
    }

    /// Whether a source has been compiled, or is being.
    pub fn has(&self, source: &str) -> bool {
        self.by_source.lock().unwrap_or_else(PoisonError::into_inner).contains_key(source)
    }

    /// How many sources have been compiled, or are being.
    pub fn len(&self) -> usize {
        self.by_source.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::error::Error;

    #[test]
    fn compiles_a_source_once_for_all_threads() {
        let (compiled, count) = (Compiled::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for thread in 0..16 {
                let (compiled, count) = (&compiled, &count);
                scope.spawn(move || {
                    let source = ["a", "b"][thread % 2];
                    let module = compiled.get(source, || {
                        count.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                        Ok(source)
                    });
                    assert_eq!(*module.unwrap(), source);
                });
            }
        });
        assert_eq!(count.into_inner(), 2);
    }

    #[test]
    fn compiles_again_after_an_error() {
        let compiled = Compiled::default();
        assert!(compiled.get("a", || Err(Error::device("no compiler"))).is_err());
        assert_eq!(*compiled.get("a", || Ok(7)).unwrap(), 7);
        assert_eq!(*compiled.get("a", || panic!("compiled twice")).unwrap(), 7);
    }
}
