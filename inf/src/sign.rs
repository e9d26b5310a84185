//! Signatures, by two programs that Debian has: openssl makes the certificate, osslsigncode signs and verifies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// Both programs, found.
#[derive(Debug)]
pub(crate) struct Tools(());

/// A self-signed certificate for test signatures, and its key. Neither belongs into a repository.
#[derive(Debug)]
pub(crate) struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
}

/// What the certificate says it is. Nobody should trust it but a test machine.
const SUBJECT: &str = "/CN=Campanile test certificate";

impl Tools {
    /// # Errors
    /// One sentence that names the package to install.
    pub(crate) fn find() -> Result<Self, String> {
        for program in ["openssl", "osslsigncode"] {
            let present = Command::new(program).arg("version").output().is_ok()
                || Command::new(program).arg("-v").output().is_ok();
            if !present {
                return Err(format!("{program} is missing: install the package {program}"));
            }
        }
        Ok(Self(()))
    }

    /// Replaces `file` by itself with a signature.
    pub(crate) fn sign(&self, certificate: &Certificate, file: &Path) -> Result<(), String> {
        let signed = file.with_extension("signed");
        let mut command = Command::new("osslsigncode");
        command.arg("sign").arg("-certs").arg(&certificate.certificate).arg("-key").arg(&certificate.key);
        command.args(["-h", "sha256", "-n", "Campanile"]).arg("-in").arg(file).arg("-out").arg(&signed);
        run(&mut command, &format!("{} was not signed", file.display()))?;
        fs::rename(&signed, file).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// The certificate in `file`, which is DER, in the form that osslsigncode trusts: a file that is gone when the value is.
    pub(crate) fn readable(&self, file: &Path) -> Result<Trusted, String> {
        let trusted = Trusted(std::env::temp_dir().join(format!("campanile-{}-{}.pem", std::process::id(), unique())));
        let mut command = Command::new("openssl");
        command.args(["x509", "-inform", "DER"]).arg("-in").arg(file).arg("-out").arg(&trusted.0);
        run(&mut command, &format!("{} is no certificate", file.display()))?;
        Ok(trusted)
    }

    /// Verifies the signature of `file`, or that of `catalog` and that `file` is in it.
    pub(crate) fn verify(&self, trusted: &Trusted, file: &Path, catalog: Option<&Path>) -> Result<(), String> {
        let mut command = Command::new("osslsigncode");
        command.arg("verify").arg("-CAfile").arg(&trusted.0);
        if let Some(catalog) = catalog {
            command.arg("-catalog").arg(catalog);
        }
        command.arg("-in").arg(file);
        run(&mut command, &format!("{} did not verify", file.display()))
    }
}

/// A certificate that verification trusts.
#[derive(Debug)]
pub(crate) struct Trusted(PathBuf);

impl Drop for Trusted {
    fn drop(&mut self) {
        // A file too many in the folder for temporary ones harms nobody.
        let _ = fs::remove_file(&self.0);
    }
}

/// A number that this process did not have before.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Certificate {
    /// The certificate in `folder`, made there if there is none, with a key that only its owner may read.
    pub(crate) fn find_or_make(_: &Tools, folder: &Path) -> Result<Self, String> {
        let made = Self { certificate: folder.join("campanile_test.pem"), key: folder.join("campanile_test.key") };
        if made.certificate.exists() && made.key.exists() {
            return Ok(made);
        }
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "rsa:3072", "-sha256", "-nodes", "-days", "730", "-subj", SUBJECT]);
        command.args([
            "-addext",
            "keyUsage=critical,digitalSignature",
            "-addext",
            "extendedKeyUsage=critical,codeSigning",
        ]);
        command.arg("-out").arg(&made.certificate).arg("-keyout").arg(&made.key);
        run(&mut command, "no certificate was made")?;
        Ok(made)
    }

    /// Writes the public half as Windows reads it.
    pub(crate) fn publish(&self, _: &Tools, to: &Path) -> Result<(), String> {
        let mut command = Command::new("openssl");
        command.args(["x509", "-outform", "DER"]).arg("-in").arg(&self.certificate).arg("-out").arg(to);
        run(&mut command, "the certificate was not written")
    }
}

fn run(command: &mut Command, failure: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{failure}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{failure}:\n{}", String::from_utf8_lossy(&said).trim()))
}
