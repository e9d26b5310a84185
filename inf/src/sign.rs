//! Signatures, by two programs that Debian has: openssl makes the certificate, osslsigncode signs and verifies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use time::{Duration, UtcDateTime};

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
const SUBJECT: &str = "Campanile test certificate";
/// How long before it is made the certificate becomes valid. Clocks of test machines are hours behind: those of other time zones that were never set, and
/// those of guests that take local time for UTC.
const BEFORE: Duration = Duration::days(2);
/// The time for which the certificate is valid after it was made.
const AFTER: Duration = Duration::days(730);
/// What `openssl ca` wants to know of the authority that signs: itself, with a list of one certificate.
const AUTHORITY: &str = "[ca]
default_ca = own
[own]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
unique_subject = no
policy = subject
x509_extensions = signing
[subject]
commonName = supplied
[signing]
subjectKeyIdentifier = hash
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,codeSigning
";

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
    pub(crate) fn find_or_make(tools: &Tools, folder: &Path) -> Result<Self, String> {
        let made = Self { certificate: folder.join("campanile_test.pem"), key: folder.join("campanile_test.key") };
        if made.certificate.exists() && made.key.exists() {
            return Ok(made);
        }
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // `openssl req -x509` cannot set the first day of a certificate before version 3.4; `openssl ca` always could.
        let authority = folder.join("authority");
        let failed = |error| format!("{}: {error}", authority.display());
        fs::create_dir_all(&authority).map_err(failed)?;
        for (file, text) in [("index.txt", ""), ("authority.cnf", AUTHORITY)] {
            fs::write(authority.join(file), text).map_err(failed)?;
        }
        let outcome = made.make(tools, &authority, UtcDateTime::now());
        fs::remove_dir_all(&authority).map_err(failed)?;
        outcome.map(|()| made)
    }

    /// Makes key and certificate with the files in `authority`.
    fn make(&self, _: &Tools, authority: &Path, now: UtcDateTime) -> Result<(), String> {
        let [first, last] = validity(now)?;
        // It runs in that folder, and so needs names that do not depend on the folder.
        let [key, certificate] = [&self.key, &self.certificate].map(std::path::absolute);
        let failed = |error| format!("no certificate was made: {error}");
        let (key, certificate) = (key.map_err(failed)?, certificate.map_err(failed)?);
        let mut command = Command::new("openssl");
        command.current_dir(authority).args(["req", "-new", "-newkey", "rsa:3072", "-sha256", "-nodes"]);
        command.args(["-subj", &format!("/CN={SUBJECT}"), "-out", "request.pem", "-keyout"]).arg(&key);
        run(&mut command, "no key was made")?;
        let mut command = Command::new("openssl");
        command.current_dir(authority).args(["ca", "-batch", "-notext", "-selfsign", "-rand_serial"]);
        command.args(["-config", "authority.cnf", "-in", "request.pem", "-startdate", &first, "-enddate", &last]);
        command.arg("-keyfile").arg(&key).arg("-out").arg(&certificate);
        run(&mut command, "no certificate was made")
    }

    /// Writes the public half as Windows reads it.
    pub(crate) fn publish(&self, _: &Tools, to: &Path) -> Result<(), String> {
        let mut command = Command::new("openssl");
        command.args(["x509", "-outform", "DER"]).arg("-in").arg(&self.certificate).arg("-out").arg(to);
        run(&mut command, "the certificate was not written")
    }
}

/// First and last second of a certificate that is made `now`, as `openssl ca` takes them.
fn validity(now: UtcDateTime) -> Result<[String; 2], String> {
    let written = |time: UtcDateTime| {
        let format = time::macros::format_description!("[year][month][day][hour][minute][second]Z");
        time.format(format).map_err(|error| error.to_string())
    };
    Ok([written(now - BEFORE)?, written(now + AFTER)?])
}

fn run(command: &mut Command, failure: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{failure}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{failure}:\n{}", String::from_utf8_lossy(&said).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_valid_from_two_days_before_it_is_made() {
        let now = time::macros::utc_datetime!(2028-03-01 1:02:03);
        assert_eq!(validity(now), Ok(["20280228010203Z".to_owned(), "20300301010203Z".to_owned()]));
    }
}
