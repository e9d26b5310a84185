//! The archive that a kernel unpacks as its first file system: cpio in the format "newc". [Documentation/driver-api/early-userspace/buffer-format.rst]

/// An archive under construction. Everything in it belongs to root.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER: u32 = 0o04_0755;
const FILE: u32 = 0o10_0644;
const PROGRAM: u32 = 0o10_0755;
const CHARACTER_DEVICE: u32 = 0o02_0600;
const TRAILER: &str = "TRAILER!!!";

impl Archive {
    /// Adds a folder, for example `lib`. Its parents must be there already.
    pub(super) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, (0, 0), &[]);
    }

    /// Adds a folder with all its parents; those that are there twice do no harm.
    pub(super) fn folders(&mut self, name: &str) {
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for end in ends {
            self.folder(&name[..end]);
        }
    }

    /// Adds a file.
    pub(super) fn file(&mut self, name: &str, contents: &[u8]) {
        self.entry(name, FILE, (0, 0), contents);
    }

    /// Adds a file that can be executed.
    pub(super) fn program(&mut self, name: &str, contents: &[u8]) {
        self.entry(name, PROGRAM, (0, 0), contents);
    }

    /// Adds a character device.
    pub(super) fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(name, CHARACTER_DEVICE, (major, minor), &[]);
    }

    /// The archive with its end.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), contents: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(contents.len()).unwrap_or(u32::MAX);
        let links = if mode == FOLDER { 2 } else { 1 };
        let name_size = name.len() as u32 + 1;
        // Magic, inode, mode, user, group, links, time, size, device, device of the entry, size of the name with its end, checksum.
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_the_kernel_reads_them() {
        let mut archive = Archive::default();
        archive.folders("a/b");
        archive.file("a/b/c", b"hello");
        archive.device("console", 5, 1);
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let mut at = 0;
        let mut found = Vec::new();
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |index: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * index..at + 14 + 8 * index]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            let name = at + 110;
            let data = (name + name_size).next_multiple_of(4);
            let text = std::str::from_utf8(&bytes[name..name + name_size - 1]).unwrap().to_owned();
            found.push((text, mode, bytes[data..data + size].to_vec(), (field(9), field(10))));
            at = (data + size).next_multiple_of(4);
        }
        let expected = [
            ("a".to_owned(), FOLDER, vec![], (0, 0)),
            ("a/b".to_owned(), FOLDER, vec![], (0, 0)),
            ("a/b/c".to_owned(), FILE, b"hello".to_vec(), (0, 0)),
            ("console".to_owned(), CHARACTER_DEVICE, vec![], (5, 1)),
            (TRAILER.to_owned(), 0, vec![], (0, 0)),
        ];
        assert_eq!(found, expected);
    }
}
