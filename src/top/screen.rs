//! The screen of `campanile top`.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::rates::{AdapterShown, Shown, TITLES, cells, percent};
use super::{Options, Source};
use crate::control::{ControlError, WAITED_TITLES};
use crate::ctl::{bytes, segment_kind};

/// Longest time until a signal is noticed, which leaves the terminal as it was.
const NOTICE: Duration = Duration::from_millis(100);

/// Most columns and lines of a screen together, which are drawn in memory first.
const CELLS_MAX: usize = 1 << 20;

/// Longest time until a key is noticed while a look is waited for.
const KEY_NOTICE: Duration = Duration::from_millis(20);

/// Shows looks until the user ends it, a signal or the machine does, or so many were shown as was asked for.
pub(super) fn run(source: Source, options: &Options) -> Result<(), ControlError> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&ended))
            .map_err(|error| ControlError::Refused(format!("signals cannot be waited for: {error}")))?;
    }
    let looks = Looks::start(source)?;
    // Before any of it is in memory.
    let (width, height) = terminal::size().map_err(broken)?;
    check_size(width, height)?;
    let mut terminal = ratatui::try_init().map_err(broken)?;
    let outcome = Keys::new().and_then(|keys| show(&mut terminal, (&looks, &keys), options, &ended));
    // One that is broken already cannot be restored.
    let restored = ratatui::try_restore();
    outcome.and_then(|()| restored.map_err(broken))
}

fn broken(error: io::Error) -> ControlError {
    ControlError::Refused(format!("the terminal cannot be used: {error}; try --json"))
}

/// Looks that a thread of their own waits for, for as long as the machine takes: it is left where it is when nobody wants them any more.
struct Looks {
    ask: Sender<()>,
    told: Receiver<Result<Shown, ControlError>>,
}

impl Looks {
    fn start(mut source: Source) -> Result<Self, ControlError> {
        let (ask, asked) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let looks = move || while asked.recv().is_ok() && tell.send(source.next()).is_ok() {};
        let thread = thread::Builder::new().name("looks".to_owned()).spawn(looks);
        thread.map_err(|error| ControlError::Refused(format!("the host gives no thread for looks: {error}")))?;
        Ok(Self { ask, told })
    }

    /// Asks for the next one.
    fn ask(&self) {
        // Without the thread nothing is told.
        let _ = self.ask.send(());
    }

    /// The one that was asked for, if it comes soon.
    fn told(&self) -> Result<Option<Shown>, ControlError> {
        match self.told.recv_timeout(KEY_NOTICE) {
            Ok(look) => look.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ControlError::Refused("its looks have ended".to_owned())),
        }
    }
}

/// The terminal that keys come from, as crossterm chooses it: standard input, or else the one of the process.
enum Keys {
    Input,
    Own(File),
}

impl Keys {
    fn new() -> Result<Self, ControlError> {
        if io::stdin().is_terminal() {
            return Ok(Self::Input);
        }
        File::open("/dev/tty").map(Self::Own).map_err(broken)
    }

    /// Waits for a key, a signal or the time.
    ///
    /// # Errors
    /// The terminal has been closed.
    fn wait(&self, limit: Duration) -> Result<(), ControlError> {
        let input = io::stdin();
        let keys = match self {
            Self::Input => input.as_fd(),
            Self::Own(file) => file.as_fd(),
        };
        let mut keys = [PollFd::from_borrowed_fd(keys, PollFlags::IN)];
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut keys, Some(&limit)) {
            Ok(_) if keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => {
                Err(broken(io::ErrorKind::NotConnected.into()))
            }
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(broken(error.into())),
        }
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    (looks, keys): (&Looks, &Keys),
    options: &Options,
    ended: &AtomicBool,
) -> Result<(), ControlError> {
    let (mut shown, mut number) = (None, 0);
    redraw(terminal, None)?;
    looks.ask();
    // When the next look is asked for; `None` while one is waited for.
    let mut next = None;
    while !ended.load(Ordering::Relaxed) {
        let now = Instant::now();
        let wait = match next {
            Some(at) if at <= now => {
                looks.ask();
                next = None;
                Duration::ZERO
            }
            Some(at) => NOTICE.min(at - now),
            None => {
                if let Some(look) = looks.told()? {
                    number += 1;
                    redraw(terminal, Some(&look))?;
                    if options.count.is_some_and(|count| number >= count) {
                        return Ok(());
                    }
                    shown = Some(look);
                    next = Some(Instant::now() + options.interval);
                }
                Duration::ZERO
            }
        };
        keys.wait(wait)?;
        // One that waited would wait for ever for a terminal that is closed meanwhile.
        if !event::poll(Duration::ZERO).map_err(broken)? {
            continue;
        }
        match event::read().map_err(broken)? {
            Event::Key(key) if key.kind == KeyEventKind::Press && ends(key.code, key.modifiers) => return Ok(()),
            Event::Resize(..) => redraw(terminal, shown.as_ref())?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a screen is small enough to draw.
fn check_size(width: u16, height: u16) -> Result<(), ControlError> {
    if usize::from(width) * usize::from(height) <= CELLS_MAX {
        return Ok(());
    }
    Err(broken(io::Error::other(format!("it says that it has {width} columns and {height} lines, too many to draw"))))
}

/// Draws the last look, or that there is none yet.
fn redraw(terminal: &mut DefaultTerminal, shown: Option<&Shown>) -> Result<(), ControlError> {
    let size = terminal.size().map_err(broken)?;
    check_size(size.width, size.height)?;
    let drawn = terminal.draw(|frame| match shown {
        Some(shown) => draw(frame, shown),
        None => frame.render_widget(Line::raw("campanile top: the machine has not answered yet, q ends"), frame.area()),
    });
    drawn.map(drop).map_err(broken)
}

fn ends(code: KeyCode, modifiers: KeyModifiers) -> bool {
    matches!(code, KeyCode::Char('q') | KeyCode::Esc)
        || (code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL))
}

/// Draws a look. Where there are too few lines, what is at the bottom is left out.
pub(super) fn draw(frame: &mut Frame<'_>, shown: &Shown) {
    let seconds = shown.time_ns / 1_000_000_000;
    let title =
        format!("campanile top: serving for {}:{:02}:{:02}, q ends", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let rows = [Constraint::Length(1)].into_iter().chain(shown.adapters.iter().map(|_| Constraint::Fill(1)));
    let areas = Layout::vertical(rows).split(frame.area());
    let mut areas = areas.iter();
    if let Some(area) = areas.next() {
        let line = match &shown.bugcheck {
            None => Line::styled(title, Style::new().add_modifier(Modifier::BOLD)),
            Some(bugcheck) => Line::styled(format!("the machine has stopped: {bugcheck}"), Style::new().fg(Color::Red)),
        };
        frame.render_widget(line, *area);
    }
    if shown.adapters.is_empty() {
        frame.render_widget(Paragraph::new("\n\nno adapter is started"), frame.area());
    }
    for (adapter, area) in shown.adapters.iter().zip(areas) {
        draw_adapter(frame, *area, adapter);
    }
}

fn draw_adapter(frame: &mut Frame<'_>, area: Rect, adapter: &AdapterShown) {
    let inside = Block::bordered().inner(area);
    let gauges = (adapter.engines.len() + adapter.segments.len()) as u16;
    let [upper, lower] = Layout::vertical([Constraint::Length(gauges), Constraint::Fill(1)]).areas(inside);
    let lines = Layout::vertical(vec![Constraint::Length(1); usize::from(gauges)]).split(upper);
    let mut lines = lines.iter();
    for (engine, line) in adapter.engines.iter().zip(&mut lines) {
        let state = engine.fstate.map_or_else(String::new, |state| format!(" F{state}"));
        let name = format!("node {}{state}", engine.place);
        gauge(frame, *line, &name, (engine.busy.unwrap_or(0.0), percent(engine.busy)), Color::Green);
    }
    for (segment, line) in adapter.segments.iter().zip(&mut lines) {
        let text = format!("{} of {}", bytes(segment.resident_bytes), bytes(segment.bytes));
        let part = segment.resident_bytes as f64 / segment.bytes.max(1) as f64;
        gauge(
            frame,
            *line,
            &format!("segment {} {}", segment.place, segment_kind(segment.aperture)),
            (part, text),
            Color::Blue,
        );
    }
    let waited = adapter.waited_rows.len() as u16;
    let of_waits = Constraint::Length(if waited == 0 { 0 } else { waited + 1 });
    let [of_processes, of_waits] = Layout::vertical([Constraint::Fill(1), of_waits]).areas(lower);
    let below = format!("{}, {}", adapter.resets(), processes(adapter.processes.len(), of_processes.height));
    frame.render_widget(Block::bordered().title(adapter.headline()).title_bottom(below), area);
    let shown = columns(of_processes.width);
    let chosen =
        |all: Vec<String>| Row::new(shown.iter().filter_map(|column| all.get(*column).cloned()).collect::<Vec<_>>());
    let rows = adapter.processes.iter().map(|process| chosen(cells(process)));
    let titles = chosen(TITLES.map(str::to_owned).into()).style(Style::new().add_modifier(Modifier::BOLD));
    let widths = shown.iter().map(|column| match column {
        0 => Constraint::Fill(1),
        column => Constraint::Length(WIDTHS[*column]),
    });
    frame.render_widget(Table::new(rows, widths).header(titles), of_processes);
    let widths = [Constraint::Fill(2), Constraint::Fill(1), Constraint::Fill(1), Constraint::Length(7)];
    let rows = adapter.waited_rows.iter().map(|cells| Row::new(cells.clone()));
    frame.render_widget(Table::new(rows, widths).header(header(&WAITED_TITLES)), of_waits);
}

/// Least width of each of [`TITLES`]; the first one takes what is left.
const WIDTHS: [u16; TITLES.len()] = [12, 8, 9, 17, 7, 10, 7];
/// Columns in the order in which they go where there is too little space.
const LEAST_FIRST: [usize; TITLES.len() - 1] = [6, 5, 4, 1, 3, 2];

/// The columns of processes for which there is space.
fn columns(width: u16) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..TITLES.len()).collect();
    for least in LEAST_FIRST {
        let needed: u16 = shown.iter().map(|column| WIDTHS[*column] + 1).sum();
        if needed <= width + 1 {
            break;
        }
        shown.retain(|column| *column != least);
    }
    shown
}

/// How many processes there are, and how many of them lines below their titles have no space for.
fn processes(count: usize, lines: u16) -> String {
    match count.saturating_sub(usize::from(lines.saturating_sub(1))) {
        0 => format!("{count} processes"),
        hidden => format!("{count} processes, {hidden} not shown (--json has all)"),
    }
}

fn header<'a>(titles: &[&'a str]) -> Row<'a> {
    Row::new(titles.to_vec()).style(Style::new().add_modifier(Modifier::BOLD))
}

fn gauge(frame: &mut Frame<'_>, line: Rect, name: &str, (part, text): (f64, String), colour: Color) {
    let [left, right] = Layout::horizontal([Constraint::Length(22), Constraint::Fill(1)]).areas(line);
    frame.render_widget(Line::raw(name.to_owned()), left);
    let part = part.clamp(0.0, 1.0);
    frame.render_widget(Gauge::default().ratio(part).label(text).gauge_style(Style::new().fg(colour)), right);
}

#[cfg(test)]
mod tests {
    use super::super::rates::{EngineRow, ProcessRow, SegmentRow};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(shown: &Shown, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
        terminal.draw(|frame| draw(frame, shown)).expect("it is drawn");
        terminal.backend().to_string()
    }

    fn shown() -> Shown {
        let engine = EngineRow { node: 0, physical_adapter: 0, place: "0".into(), busy: Some(0.5), fstate: Some(0) };
        let segment = SegmentRow {
            segment: 1,
            physical_adapter: 0,
            place: "1".into(),
            aperture: false,
            bytes: 1 << 20,
            resident_bytes: 1 << 19,
        };
        let process = ProcessRow {
            id: 9,
            pid: Some(4711),
            name: "two_programs".into(),
            busy: Some(0.25),
            memory_bytes: vec![1 << 19],
            queues: 2,
            connected_doorbells: 1,
            fences: 5,
        };
        let adapter = AdapterShown {
            luid: 0x1000,
            powered_down: false,
            interrupts_per_second: Some(12.0),
            fence_waits: 1,
            waited_fences: Vec::new(),
            waited_rows: vec![vec!["two_programs".into(), "76".into(), "78".into(), "1".into()]],
            engine_resets: 0,
            adapter_resets: 0,
            engines: vec![engine],
            segments: vec![segment],
            processes: vec![process],
        };
        Shown { time_ns: 3_661_000_000_000, bugcheck: None, adapters: vec![adapter] }
    }

    #[test]
    fn a_screen_has_engines_memory_and_processes() {
        let screen = drawn(&shown(), 110, 14);
        for text in [
            "serving for 1:01:01",
            "node 0 F0",
            "50.0 %",
            "512 KiB of 1 MiB",
            "two_programs",
            "4711",
            "25.0 %",
            "awaited",
            "78",
        ] {
            assert!(screen.contains(text), "{text}\n{screen}");
        }
    }

    /// Of a terminal as everybody has it.
    #[test]
    fn a_small_screen_says_what_it_has_no_space_for() {
        let mut shown = shown();
        let process = shown.adapters[0].processes[0].clone();
        shown.adapters[0].processes = vec![process; 40];
        let screen = drawn(&shown, 80, 24);
        let rows = screen.matches("two_programs").count() - 1;
        assert!(rows > 10, "{screen}");
        for text in ["0 engine resets, 0 adapter resets, 40 processes", &format!("{} not shown", 40 - rows)] {
            assert!(screen.contains(text), "{text}\n{screen}");
        }
    }

    /// The name of a process comes first, then how busy it is.
    #[test]
    fn a_narrow_screen_leaves_out_whole_columns() {
        let titles = |width| {
            let screen = drawn(&shown(), width, 20);
            let line = screen.lines().find(|line| line.contains("busy")).expect("titles");
            TITLES.into_iter().filter(|title| line.contains(title)).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(titles(80), TITLES.join(", "));
        assert_eq!(titles(60), "process, pid, busy, memory by segment, queues");
        assert_eq!(titles(45), "process, busy, memory by segment");
        assert_eq!(titles(30), "process, busy");
        assert!(drawn(&shown(), 20, 20).contains("two_programs"), "{}", drawn(&shown(), 20, 20));
    }

    #[test]
    fn screens_of_any_size_are_drawn() {
        for (width, height) in [(1, 1), (5, 2), (20, 4), (300, 100)] {
            drawn(&shown(), width, height);
            drawn(&Shown { adapters: Vec::new(), bugcheck: Some("0x119".into()), ..shown() }, width, height);
        }
    }
}
