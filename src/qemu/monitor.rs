//! QEMU's monitor: commands and answers as JSON, a line each. [QEMU machine protocol specification]

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// How long QEMU may take to answer; it stands still while it waits for a server.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to a monitor.
pub(super) struct Monitor(BufReader<UnixStream>);

impl Monitor {
    /// Connects to the monitor at a socket.
    ///
    /// # Errors
    /// Nobody is there, or somebody who is no monitor.
    pub(super) fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut monitor = Self(BufReader::new(stream));
        let greeting = monitor.line()?;
        if greeting.get("QMP").is_none() {
            return Err(io::Error::other(format!("no monitor: {greeting}")));
        }
        monitor.execute("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    fn line(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "QEMU has closed its monitor"));
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Has a command carried out and returns its answer.
    ///
    /// # Errors
    /// QEMU refuses it, or does not answer.
    pub(super) fn execute(&mut self, command: &str, arguments: Value) -> io::Result<Value> {
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        self.0.get_mut().write_all(line.as_bytes())?;
        loop {
            let mut answer = self.line()?;
            if let Some(returned) = answer.get_mut("return") {
                return Ok(returned.take());
            }
            if let Some(error) = answer.get("error") {
                let why = error.get("desc").and_then(Value::as_str).unwrap_or("no reason told");
                return Err(io::Error::other(format!("{command}: {why}")));
            }
            // Anything else is an event, of which there may be any number.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    fn answer(lines: &'static [&'static str]) -> (std::path::PathBuf, thread::JoinHandle<Vec<String>>) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("campanile-monitor-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut seen = Vec::new();
            for line in lines {
                stream.write_all(line.as_bytes()).unwrap();
                stream.write_all(b"\r\n").unwrap();
                if !line.contains("event") {
                    let mut text = String::new();
                    let _ = reader.read_line(&mut text);
                    seen.push(text.trim().to_owned());
                }
            }
            seen
        };
        (path, thread::spawn(serve))
    }

    #[test]
    fn commands_are_answered_whatever_happens_meanwhile_and_refusals_are_told() {
        let (path, server) = answer(&[
            r#"{"QMP": {"version": {}, "capabilities": []}}"#,
            r#"{"return": {}}"#,
            r#"{"event": "RESET", "data": {}}"#,
            r#"{"return": {"running": true}}"#,
            r#"{"error": {"class": "GenericError", "desc": "no such device"}}"#,
        ]);
        let mut monitor = Monitor::connect(&path).unwrap();
        assert_eq!(monitor.execute("query-status", json!({})).unwrap(), json!({ "running": true }));
        let error = monitor.execute("device_del", json!({ "id": "x" })).unwrap_err();
        assert_eq!(error.to_string(), "device_del: no such device");
        drop(monitor);
        let seen = server.join().unwrap();
        assert_eq!(seen[2], r#"{"arguments":{"id":"x"},"execute":"device_del"}"#);
        std::fs::remove_file(&path).unwrap();
        assert!(Monitor::connect(&path).is_err());
    }

    #[test]
    fn somebody_who_is_no_monitor_is_not_taken_for_one() {
        let (path, _) = answer(&[r#"{"hello": 1}"#]);
        assert!(Monitor::connect(&path).map(drop).unwrap_err().to_string().contains("no monitor"));
        std::fs::remove_file(&path).unwrap();
    }
}
