//! Progress bar on a terminal, nothing elsewhere.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar over all bytes of the files, if `show` and standard error is a terminal.
    pub(super) fn new(files: &[PathBuf], show: bool) -> Self {
        if !show || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let total = files.iter().filter_map(|path| path.metadata().ok()).map(|data| data.len()).sum();
        let bar = ProgressBar::new(total);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:32} {bytes:>10} of {total_bytes}  {binary_bytes_per_sec}  {msg}")
        {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// Names the file that is streamed from now on.
    pub(super) fn start(&self, path: &Path) {
        if let Some(bar) = &self.0 {
            bar.set_message(path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned());
        }
    }

    /// Counts bytes sent.
    pub(super) fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(bytes);
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
