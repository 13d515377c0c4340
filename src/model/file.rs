//! Rates in files: those of the machine in the cache folder, and those that are shipped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::Rates;

/// Rates of an NVIDIA H200 with 16 cores of an Intel Xeon, until somebody has calibrated.
const DEFAULTS: &str = include_str!("defaults.json");

/// Files longer than this are none of ours.
const LONGEST: u64 = 1 << 20;

impl Rates {
    /// The rates that are shipped.
    pub fn shipped() -> Self {
        static SHIPPED: LazyLock<Rates> =
            LazyLock::new(|| serde_json::from_str(DEFAULTS).expect("a test reads the file"));
        SHIPPED.clone()
    }

    /// The rates of a machine from its file in a folder; none if there is none, or a damaged one, or
    /// one of another machine.
    pub fn read(folder: &Path, machine: &str) -> Option<Self> {
        let path = file(folder, machine);
        if std::fs::metadata(&path).ok()?.len() > LONGEST {
            return None;
        }
        let rates: Self = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        (rates.machine == machine && rates.are_rates()).then_some(rates)
    }

    /// Writes the rates to their file in a folder, which is made if there is none.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let path = file(folder, &self.machine);
        // Whoever reads meanwhile reads the old or the new one.
        let own = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut out = std::fs::File::create(&own)?;
        let written = serde_json::to_writer_pretty(&mut out, self).map_err(Into::into);
        let renamed = written.and_then(|()| out.flush()).and_then(|()| std::fs::rename(&own, path));
        if renamed.is_err() {
            let _ = std::fs::remove_file(own);
        }
        renamed
    }

    /// Whether all are numbers that something can be predicted from.
    fn are_rates(&self) -> bool {
        let is_rate = |rate: f64| (1e3..1e15).contains(&rate);
        let buses = self.up.iter().chain(&self.down).chain([&self.memory]);
        let mut kinds =
            self.compress.rates().chain(self.decompress.rates()).chain(self.scan.rates());
        buses.copied().all(is_rate)
            && kinds.all(|rate| is_rate(rate.cpu) && is_rate(rate.device))
            && (0.0..10.0).contains(&self.call)
    }
}

/// The file of a machine.
fn file(folder: &Path, machine: &str) -> PathBuf {
    let name = machine.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' });
    folder.join(format!("rates-{}.json", name.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("lanepack-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn shipped_rates_are_rates() {
        let rates = Rates::shipped();
        assert!(rates.are_rates());
        for kinds in [&rates.compress, &rates.decompress, &rates.scan] {
            assert!(kinds.rates().count() > 5, "{rates:?}");
        }
    }

    #[test]
    fn files_of_others_and_damaged_ones_are_not_read() {
        let folder = folder("rates");
        let rates = Rates { machine: "a GPU, 16 threads".to_owned(), ..Rates::shipped() };
        assert_eq!(Rates::read(&folder, &rates.machine), None);
        rates.write(&folder).unwrap();
        assert_eq!(Rates::read(&folder, &rates.machine), Some(rates.clone()));
        assert_eq!(Rates::read(&folder, "another"), None);
        let path = file(&folder, &rates.machine);
        let text = std::fs::read_to_string(&path).unwrap();
        let another = text.replace("a GPU, 16", "a GPU, 17");
        let endless = text.replacen("\"memory\": ", "\"memory\": -", 1);
        for damaged in ["", "{}", &text[..text.len() / 2], &another, &endless] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(Rates::read(&folder, &rates.machine), None, "{damaged}");
        }
        rates.write(&folder).unwrap();
        assert_eq!(Rates::read(&folder, &rates.machine), Some(rates));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
