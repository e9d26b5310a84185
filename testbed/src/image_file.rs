//! Reads whole files that a user names: at most a given size, and regular files only.

use std::fmt;
use std::fs::{self, FileType, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The reason why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The host's reason, for example that there is no such file.
    Host(String),
    /// It is something else than a file; says what.
    NotAFile(&'static str),
    /// It has more bytes than allowed.
    TooLarge(u64),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(reason) => f.write_str(reason),
            Self::NotAFile(kind) => write!(f, "is {kind}, not a file"),
            Self::TooLarge(max) => write!(f, "is larger than {} MiB, the most that it may have", max >> 20),
        }
    }
}

impl std::error::Error for Unreadable {}

impl From<std::io::Error> for Unreadable {
    fn from(error: std::io::Error) -> Self {
        Self::Host(error.to_string())
    }
}

/// Reads a regular file of at most `max` bytes. Neither a pipe that nobody writes to nor a device without end can block it.
///
/// # Errors
/// [`Unreadable`]; the caller adds the path.
pub fn read(path: &Path, max: usize) -> Result<Vec<u8>, Unreadable> {
    // Before it is opened: some devices do things when they are.
    check(&fs::metadata(path)?, max)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    check(&metadata, max)?;
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    // It may have grown since.
    file.take(max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > max { Err(Unreadable::TooLarge(max as u64)) } else { Ok(bytes) }
}

fn check(metadata: &Metadata, max: usize) -> Result<(), Unreadable> {
    if !metadata.is_file() {
        return Err(Unreadable::NotAFile(kind(metadata.file_type())));
    }
    if metadata.len() > max as u64 { Err(Unreadable::TooLarge(max as u64)) } else { Ok(()) }
}

fn kind(found: FileType) -> &'static str {
    match found {
        _ if found.is_dir() => "a directory",
        _ if found.is_fifo() => "a pipe",
        _ if found.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("campanile-image-file-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_file_is_read_up_to_the_limit_and_not_beyond() {
        let path = scratch("limit");
        fs::write(&path, [7; 100]).unwrap();
        let (all, more) = (read(&path, 100), read(&path, 99));
        fs::remove_file(&path).unwrap();
        assert_eq!(all, Ok(vec![7; 100]));
        assert_eq!(more, Err(Unreadable::TooLarge(99)));
        assert!(matches!(read(&path, 100), Err(Unreadable::Host(_))), "it is gone");
    }

    #[test]
    fn a_file_that_is_huge_only_in_name_is_refused_without_being_read() {
        let path = scratch("sparse");
        fs::File::create(&path).and_then(|file| file.set_len(1 << 40)).unwrap();
        let outcome = read(&path, 64 << 20);
        fs::remove_file(&path).unwrap();
        assert_eq!(outcome.unwrap_err().to_string(), "is larger than 64 MiB, the most that it may have");
    }

    #[test]
    fn what_is_no_file_is_refused_by_its_kind_and_waits_for_nobody() {
        assert_eq!(read(Path::new("/dev/zero"), 100), Err(Unreadable::NotAFile("a device")));
        assert_eq!(read(&std::env::temp_dir(), 100), Err(Unreadable::NotAFile("a directory")));
        let path = scratch("pipe");
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a terminated path of this frame.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let outcome = read(&path, 100);
        fs::remove_file(&path).unwrap();
        assert_eq!(outcome, Err(Unreadable::NotAFile("a pipe")));
    }
}
