//! SHA-256 of files, in the form in which reports have it.

use sha2::Digest as _;

/// Takes bytes, and then has the digest of all of them.
#[derive(Default)]
pub struct Sha256(sha2::Sha256);

impl Sha256 {
    /// Adds bytes behind those before.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest, in hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [FIPS 180-2: B.1].
    #[test]
    fn the_digest_is_that_of_the_standard_in_whatever_parts_the_bytes_come() {
        let mut digest = Sha256::default();
        digest.update(b"a");
        digest.update(b"bc");
        assert_eq!(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
