//! What this process has mapped, as the host tells it.

use std::fs;
use std::io;
use std::ops::Range;

use super::FileId;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    range: Range<usize>,
    read_and_write: bool,
    shared: bool,
    file: FileId,
}

/// All mappings, in the order of their addresses.
pub(super) struct Maps(Vec<Mapping>);

/// Those of this process at the moment, by the calling thread: the host tells nothing by a main thread that has ended.
pub(super) fn of_this_process() -> io::Result<Maps> {
    Maps::from_text(&fs::read_to_string("/proc/thread-self/maps")?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

impl Mapping {
    /// A line of the host's: addresses, rights, offset, device and inode, and what it is.
    fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let (major, minor) = words.nth(1)?.split_once(':')?;
        let device = libc::makedev(hexadecimal(major)? as u32, hexadecimal(minor)? as u32);
        Some(Self {
            range: hexadecimal(start)? as usize..hexadecimal(end)? as usize,
            read_and_write: rights.starts_with("rw"),
            shared: rights.ends_with('s'),
            file: FileId { device, inode: words.next()?.parse().ok()? },
        })
    }
}

impl Maps {
    fn from_text(text: &str) -> Option<Self> {
        text.lines().map(Mapping::from_line).collect::<Option<_>>().map(Self)
    }

    /// Those that have addresses of a range, cut off at its ends and where the one before it ends: the host tells of its mappings piece by piece, and of one that
    /// has grown meanwhile once more, from where it begins.
    fn within<'a>(&'a self, range: &'a Range<usize>) -> impl Iterator<Item = (Range<usize>, &'a Mapping)> {
        let mut reached = range.start;
        self.0.iter().filter_map(move |mapping| {
            let part = mapping.range.start.max(reached)..mapping.range.end.min(range.end);
            if part.is_empty() {
                return None;
            }
            reached = part.end;
            Some((part, mapping))
        })
    }

    /// True if a range is memory that this process may read and write and that nobody else sees.
    ///
    /// # Errors
    /// EFAULT, EOPNOTSUPP, as [`super::UserSpace::adopt`].
    pub(super) fn are_its_own(&self, range: &Range<usize>) -> io::Result<()> {
        let (mut reached, mut shared) = (range.start, false);
        for (part, mapping) in self.within(range) {
            if part.start != reached || !mapping.read_and_write {
                return Err(io::Error::from_raw_os_error(libc::EFAULT));
            }
            (reached, shared) = (part.end, shared | mapping.shared);
        }
        match (reached == range.end, shared) {
            (false, _) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
            (true, true) => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            (true, false) => Ok(()),
        }
    }

    /// The parts of a range that show a file.
    pub(super) fn that_show(&self, range: &Range<usize>, file: FileId) -> Vec<Range<usize>> {
        self.within(range).filter(|(_, mapping)| mapping.file == file).map(|(part, _)| part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
1000-3000 rw-p 00000000 00:00 0
3000-4000 rw-p 00001000 fd:01 77                         /a file with blanks in its name
4000-5000 r--p 00000000 00:00 0
6000-7000 rw-s 00002000 00:01 1234                       /memfd:campanile-ram (deleted)
7000-8000 rw-s 00003000 00:01 1234                       /memfd:campanile-ram (deleted)
8000-9000 rw-p 00000000 00:00 0                          [heap]
";

    #[test]
    fn memory_is_a_process_own_where_it_may_write_and_nobody_else_sees_it() {
        let maps = Maps::from_text(TEXT).unwrap();
        let of = |range: Range<usize>| maps.are_its_own(&range).map_err(|error| error.raw_os_error().unwrap());
        assert_eq!(of(0x1000..0x4000), Ok(()), "also by a file that it has to itself");
        assert_eq!(of(0x8000..0x9000), Ok(()));
        for range in [0..0x1000, 0..0x2000, 0x3000..0x5000, 0x5000..0x6000, 0x8000..0xa000, 0x9000..0xa000] {
            assert_eq!(of(range.clone()), Err(libc::EFAULT), "{range:x?}");
        }
        assert_eq!(of(0x6000..0x9000), Err(libc::EOPNOTSUPP));
    }

    /// Another thread has more memory from the host between two pieces of the text.
    #[test]
    fn a_mapping_that_grows_while_the_host_tells_of_it_is_one() {
        let text = "1000-3000 rw-p 00000000 00:00 0\n1000-4000 rw-p 00000000 00:00 0\n4000-5000 rw-s 00000000 00:01 7\n3000-6000 rw-s 00000000 00:01 7\n";
        let maps = Maps::from_text(text).unwrap();
        assert!(maps.are_its_own(&(0x1000..0x4000)).is_ok() && maps.are_its_own(&(0x2000..0x3800)).is_ok());
        let file = FileId { device: libc::makedev(0, 1), inode: 7 };
        assert_eq!(maps.that_show(&(0x2000..0x6000), file), [0x4000..0x5000, 0x5000..0x6000]);
    }

    #[test]
    fn what_shows_a_file_is_found_and_cut_off_at_the_ends() {
        let maps = Maps::from_text(TEXT).unwrap();
        let ram = FileId { device: libc::makedev(0, 1), inode: 1234 };
        assert_eq!(maps.that_show(&(0x1000..0x7800), ram), [0x6000..0x7000, 0x7000..0x7800]);
        assert!(maps.that_show(&(0x1000..0x6000), ram).is_empty());
        assert!(maps.that_show(&(0x6000..0x8000), FileId { device: 0, ..ram }).is_empty());
    }

    #[test]
    fn lines_that_are_none_are_an_error() {
        for text in
            ["1000", "1000-2000 rw-p", "1000-2000 rw-p 0 00:01", "x-y rw-p 0 00:01 7", "1000-2000 rw-p 0 00:01 x"]
        {
            assert!(Maps::from_text(text).is_none(), "{text}");
        }
    }
}
