//! Which engine scans: the setting `lanepack.engine`.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::{config_err, extensions_options};
use datafusion::error::{DataFusionError, Result};
use lanepack::Engine;

use crate::external;

extensions_options! {
    /// Settings of lanepack: `SET lanepack.engine = 'cpu'`.
    pub struct LanepackOptions {
        /// Who scans: `auto` takes a GPU or the CPU, whichever is predicted to be faster; `cpu` and `cuda` one
        /// of the two. GPUs need the feature `cuda` of this crate.
        pub engine: EngineKind, default = EngineKind::default()
        /// Whether aggregates of rows that are joined with small tables are computed by scans with lookups.
        pub push_joins: bool, default = false
    }
}

impl ConfigExtension for LanepackOptions {
    const PREFIX: &'static str = "lanepack";
}

/// A value of `lanepack.engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// A GPU or the CPU, whichever is predicted to be faster for a scan.
    Auto,
    /// The CPU.
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
}

impl Default for EngineKind {
    fn default() -> Self {
        match cfg!(feature = "cuda") {
            true => Self::Auto,
            false => Self::Cpu,
        }
    }
}

impl FromStr for EngineKind {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            _ => config_err!("lanepack.engine is 'auto', 'cpu' or 'cuda', found '{text}'"),
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        })
    }
}

impl datafusion::common::config::ConfigField for EngineKind {
    fn visit<V: datafusion::common::config::Visit>(
        &self,
        visitor: &mut V,
        key: &str,
        description: &'static str,
    ) {
        visitor.some(key, self, description);
    }

    fn set(&mut self, _: &str, value: &str) -> Result<()> {
        *self = value.parse()?;
        Ok(())
    }
}

/// The setting `lanepack.push_joins` of a session; the default where lanepack is not registered.
pub(crate) fn joins_are_pushed(options: &ConfigOptions) -> bool {
    let own = options.extensions.get::<LanepackOptions>();
    own.map_or_else(|| LanepackOptions::default().push_joins, |own| own.push_joins)
}

impl EngineKind {
    /// The setting of a session; the default where lanepack is not registered.
    pub(crate) fn of(options: &ConfigOptions) -> Self {
        options.extensions.get::<LanepackOptions>().map_or_else(Self::default, |own| own.engine)
    }

    /// The engine.
    pub(crate) fn engine(self) -> Result<Engine> {
        static AUTO: OnceLock<Engine> = OnceLock::new();
        static CUDA: OnceLock<Engine> = OnceLock::new();
        match self {
            Self::Cpu => Ok(Engine::cpu()),
            Self::Auto => Ok(AUTO.get_or_init(Engine::auto).clone()),
            Self::Cuda => {
                if let Some(engine) = CUDA.get() {
                    return Ok(engine.clone());
                }
                let engine = Engine::cuda(0).map_err(external)?;
                Ok(CUDA.get_or_init(|| engine).clone())
            }
        }
    }

    /// Whether it is the CPU alone, whose partitions are scanned side by side.
    pub(crate) fn is_cpu(self) -> bool {
        self == Self::Cpu
    }

    /// Whether the last call was that of a GPU. Of `auto` the engine knows, which queries share.
    pub(crate) fn took_gpu(self) -> bool {
        match self {
            Self::Cpu => false,
            Self::Cuda => true,
            Self::Auto => {
                let last = self.engine().ok().and_then(|engine| engine.last_choice());
                last.is_some_and(|choice| !choice.devices.is_empty())
            }
        }
    }

    /// Chunks that a scan of rows reads at a time.
    pub(crate) fn chunks_of_step(self) -> usize {
        match self.is_cpu() {
            true => 1,
            false => 64,
        }
    }

    /// What plans show behind a scan.
    pub(crate) fn suffix(self) -> String {
        match self {
            Self::Cpu => String::new(),
            other => format!(", engine={other}"),
        }
    }
}
