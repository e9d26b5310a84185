//! Bounds the work of reading an image's tables by the size of its file.

use super::ImageError;

/// Bytes of tables and names that may still be read.
///
/// The entries of an image's tables and the names that they point to lie side by side in its file, so that together they are never
/// larger than it. In a hostile image they overlap: a million entries that all name the same megabyte.
pub(super) struct Allowance(usize);

impl Allowance {
    /// As much as the file has.
    pub(super) fn of(file: &[u8]) -> Self {
        Self(file.len())
    }

    /// Takes `bytes` for an entry of a table.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), ImageError> {
        self.0 = self.0.checked_sub(bytes).ok_or(ImageError::BadHeader("tables larger than the file"))?;
        Ok(())
    }

    /// Takes a terminated name.
    pub(super) fn name(&mut self, name: &[u8]) -> Result<String, ImageError> {
        self.take(name.len().saturating_add(1))?;
        Ok(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_entries_may_fill_the_file_and_no_more() {
        let mut left = Allowance::of(&[0; 16]);
        assert_eq!(left.name(b"name").as_deref(), Ok("name"));
        assert_eq!(left.take(11), Ok(()));
        assert_eq!(left.take(1), Err(ImageError::BadHeader("tables larger than the file")));
        assert!(left.name(b"").is_err(), "an empty name has an end too");
    }
}
