//! Files of the system that have their name once they are complete.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// A file that is written under another name in the same folder, and takes its name when it is complete:
/// the sink of [`Writer::create`](super::Writer::create).
#[derive(Debug)]
pub struct LocalFile {
    path: PathBuf,
    /// None once the file has its name.
    sink: Option<BufWriter<NamedTempFile>>,
    /// Its folder, whose entry is flushed to the disk as well, where the system opens folders.
    folder: Option<File>,
}

/// Longer names are not part of the other name, which has some characters more.
const LONGEST_NAME: usize = 200;

impl LocalFile {
    pub(super) fn create(path: &Path) -> Result<Self> {
        Self::begin(path).map_err(|error| error.in_file(&path.display().to_string()))
    }

    fn begin(path: &Path) -> Result<Self> {
        // A link stays, and what it leads to is replaced.
        let older = std::fs::canonicalize(path).ok();
        let path = match &older {
            Some(path) => path.clone(),
            None => std::path::absolute(path)?,
        };
        let (folder, name) = match (path.parent(), path.file_name()) {
            // Neither a folder nor a device, and no link that leads nowhere.
            (Some(folder), Some(name)) if path.is_file() || path.symlink_metadata().is_err() => {
                (folder, name)
            }
            _ => {
                let what = "this is not the path of a file";
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, what).into());
            }
        };
        let name = name.to_string_lossy();
        let prefix = format!(".{}.", if name.len() > LONGEST_NAME { "lanepack" } else { &*name });
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".part");
        // As `std::fs::File::create` asks for them; the system removes those of its mask.
        let permissions =
            older.map(std::fs::metadata).transpose()?.map(|older| older.permissions());
        #[cfg(unix)]
        builder.permissions(
            permissions
                .clone()
                .unwrap_or_else(|| std::os::unix::fs::PermissionsExt::from_mode(0o666)),
        );
        let file = builder.tempfile_in(folder)?;
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions)?;
        }
        let folder = if cfg!(unix) { File::open(folder).ok() } else { None };
        Ok(Self { path, sink: Some(BufWriter::with_capacity(1 << 20, file)), folder })
    }

    /// Where the file is once it is complete.
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
        // Some file systems cannot flush folders, and the file is there already.
        let _ = self.folder.take().map(|folder| folder.sync_all());
        Ok(())
    }
}

impl Write for LocalFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.sink.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.as_mut().map_or(Ok(()), |sink| sink.flush())
    }
}
