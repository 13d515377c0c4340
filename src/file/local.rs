//! Files of the system that have their name once they are complete.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// A file that is written under another name in the same folder, and takes its name when it is complete.
/// What [`Writer::create`](super::Writer::create) writes to.
#[derive(Debug)]
pub struct LocalFile {
    path: PathBuf,
    /// None once the file has its name.
    sink: Option<BufWriter<NamedTempFile>>,
}

impl LocalFile {
    pub(super) fn create(path: &Path) -> Result<Self> {
        Self::begin(path).map_err(|error| error.in_file(&path.display().to_string()))
    }

    fn begin(path: &Path) -> Result<Self> {
        let name = path.file_name().ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "this is not the path of a file")
        })?;
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{}.", name.to_string_lossy());
        builder.prefix(&prefix).suffix(".part");
        // Those of files that `std::fs::File::create` makes; the system takes away what the process may not give.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder_of(path))?;
        Ok(Self { path: path.to_owned(), sink: Some(BufWriter::with_capacity(1 << 20, file)) })
    }

    /// Where the file is, or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes all bytes to the disk, and gives the file its name.
    pub(super) fn complete(&mut self) -> Result<()> {
        self.rename().map_err(|error| error.in_file(&self.path.display().to_string()))
    }

    fn rename(&mut self) -> Result<()> {
        let Some(sink) = self.sink.take() else { return Ok(()) };
        let file = sink.into_inner().map_err(|error| Error::from(error.into_error()))?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| Error::from(error.error))?;
        // The name as well.
        #[cfg(unix)]
        std::fs::File::open(folder_of(&self.path))?.sync_all()?;
        Ok(())
    }
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Write for LocalFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.sink.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.as_mut().map_or(Ok(()), |sink| sink.flush())
    }
}
