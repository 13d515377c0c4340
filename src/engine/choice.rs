//! Who does the work of a call, and what is reported of it.

use std::fmt;
use std::sync::{Arc, PoisonError};

use super::{Engine, Kind, bytes_of};
use crate::column::CompressedColumn;
use crate::device::Context;
use crate::error::{Error, Result};
use crate::gpu::DeviceInfo;
use crate::transfer::shared::{Shares, Workers};

/// What an [`Engine`] runs on for one batch or array, and why: [`Engine::choose`],
/// [`Engine::last_choice`].
///
/// ```
/// use lanepack::Engine;
/// let choice = Engine::cpu().choose(&[]);
/// assert!(choice.cpu && choice.devices.is_empty());
/// assert_eq!(choice.to_string(), "CPU: asked for");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// Whether the CPU does some of the work or all of it. Beside GPUs it also does what they do not:
    /// see [`Engine::compress`].
    pub cpu: bool,
    /// The GPUs that take part.
    pub devices: Vec<DeviceInfo>,
    /// Why, in words.
    pub reason: String,
    /// How much each of them has done, where they have shared the work of a call.
    pub shares: Option<WorkShares>,
}

/// How the work of a call was shared: [`Choice::shares`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkShares {
    /// Bytes of values that the CPU has compressed or decompressed.
    pub cpu: usize,
    /// The same of each of [`Choice::devices`].
    pub devices: Vec<usize>,
    /// Why some of them gave up, with their numbers in [`Choice::devices`]: others have done their
    /// work.
    pub failures: Vec<(usize, String)>,
}

impl From<Shares> for WorkShares {
    fn from(shares: Shares) -> Self {
        let failures = shares.devices.iter().enumerate();
        let failures = failures.filter_map(|(at, (_, why))| Some((at, why.clone()?))).collect();
        let devices = shares.devices.iter().map(|(bytes, _)| *bytes).collect();
        Self { cpu: shares.host, devices, failures }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |f: &mut fmt::Formatter<'_>, bytes: Option<usize>| match bytes {
            Some(bytes) => write!(f, " ({bytes} bytes)"),
            None => Ok(()),
        };
        let mut separator = "";
        if self.cpu {
            f.write_str("CPU")?;
            bytes(f, self.shares.as_ref().map(|shares| shares.cpu))?;
            separator = ", ";
        }
        for (at, device) in self.devices.iter().enumerate() {
            write!(f, "{separator}{} {}", device.name, device.ordinal)?;
            bytes(f, self.shares.as_ref().and_then(|shares| shares.devices.get(at).copied()))?;
            separator = ", ";
        }
        write!(f, ": {}", self.reason)?;
        for (at, why) in self.shares.iter().flat_map(|shares| &shares.failures) {
            let name = self.devices.get(*at).map_or("", |device| &device.name);
            write!(f, "; {name} gave up: {why}")?;
        }
        Ok(())
    }
}

/// Who does the work of a call.
pub(super) enum Plan {
    Cpu,
    /// One device, whose copies and kernels overlap in each column.
    Device(Arc<Context>),
    /// Several, which take from one queue.
    Shared(Workers),
}

impl Engine {
    /// What decompressing these columns would run on, and why.
    pub fn choose(&self, columns: &[CompressedColumn]) -> Choice {
        self.pick(bytes_of(columns)).1
    }

    /// What the last call of [`Engine::compress`], [`Engine::compress_array`],
    /// [`Engine::decompress`] or [`Engine::decompress_column`] ran on, and why.
    pub fn last_choice(&self) -> Option<Choice> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who does work on so many bytes of values.
    fn pick(&self, bytes: usize) -> (Plan, Choice) {
        let choice = |cpu: bool, contexts: &[Arc<Context>], reason: String| {
            let devices = contexts.iter().map(|context| context.device().info().clone());
            Choice { cpu, devices: devices.collect(), reason, shares: None }
        };
        let shared = |contexts: &[Arc<Context>], is_lenient| {
            Plan::Shared(Workers {
                threads: if self.with_cpu { rayon::current_num_threads() } else { 0 },
                devices: contexts.to_vec(),
                device_memory: self.device_memory,
                is_lenient,
            })
        };
        let is_shared = self.with_cpu || self.device_memory.is_some();
        match &self.kind {
            Kind::Cpu => (Plan::Cpu, choice(true, &[], "asked for".to_owned())),
            Kind::Devices(contexts) => {
                let choice = choice(self.with_cpu, contexts, "asked for".to_owned());
                match contexts.as_slice() {
                    [context] if !is_shared => (Plan::Device(context.clone()), choice),
                    _ => (shared(contexts, false), choice),
                }
            }
            Kind::Auto(Err(what)) => {
                let reason = Error::NoDevice { what: what.clone() }.to_string();
                (Plan::Cpu, choice(true, &[], reason))
            }
            Kind::Auto(Ok(_)) if bytes < self.auto_bytes => {
                let reason = format!("{bytes} bytes of values, less than {}", self.auto_bytes);
                (Plan::Cpu, choice(true, &[], reason))
            }
            Kind::Auto(Ok(contexts)) => {
                let reason = format!("{bytes} bytes of values, {} or more", self.auto_bytes);
                (shared(contexts, true), choice(self.with_cpu, contexts, reason))
            }
        }
    }

    /// Has those do work on `bytes` bytes of values for whom it pays; remembers who did.
    pub(super) fn run<T>(
        &self,
        bytes: usize,
        on_cpu: impl FnOnce() -> Result<T>,
        on_device: impl FnOnce(&Arc<Context>) -> Result<T>,
        shared: impl FnOnce(&Workers) -> Result<(T, Shares)>,
    ) -> Result<T> {
        let (plan, mut choice) = self.pick(bytes);
        let result = match plan {
            Plan::Cpu => on_cpu(),
            Plan::Device(context) => on_device(&context),
            Plan::Shared(workers) => shared(&workers).map(|(result, shares)| {
                choice.cpu |= shares.host > 0;
                choice.shares = Some(shares.into());
                result
            }),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(choice);
        result
    }
}
