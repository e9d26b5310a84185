//! `campanile top`: what a machine that is served does, once a second.

mod rates;
mod screen;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use testbed::exit::EXIT_OK;

use crate::control::{self, Answer, Connection, ControlError, Look, Question};
use crate::print::is_printed;
use rates::Shown;

/// Options of `campanile top`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine; that of CAMPANILE_MACHINE if none is named.
    pub machine: Option<PathBuf>,
    /// Print a line of JSON for each look instead of a screen.
    pub json: bool,
    /// Time between two looks.
    pub interval: Duration,
    /// End after so many looks, of which the first has no rates; `None`: when the user ends it, or the machine.
    pub count: Option<u64>,
}

/// Looks at a machine again and again.
struct Source {
    connection: Connection,
    earlier: Option<Look>,
}

impl Source {
    fn next(&mut self) -> Result<Shown, ControlError> {
        let answer = match self.connection.ask(&Question::Look) {
            // The machine has given the place to somebody else, or there is another one. One that does not answer is not asked again.
            Err(ControlError::Lost(machine, error)) if error.kind() != io::ErrorKind::WouldBlock => {
                self.connection = Connection::open(&machine).map_err(|_| ControlError::Lost(machine, error))?;
                self.earlier = None;
                self.connection.ask(&Question::Look)?
            }
            answer => answer?,
        };
        let Answer::Look(look) = answer else {
            return Err(ControlError::Refused("the machine answered with something other than a look".to_owned()));
        };
        let shown = Shown::new(self.earlier.as_ref(), &look);
        self.earlier = Some(look);
        Ok(shown)
    }
}

/// Runs the command and returns the exit code.
pub fn command(options: &Options) -> u8 {
    let opened = control::machine_path(options.machine.clone())
        .map_err(ControlError::Refused)
        .and_then(|machine| Connection::open(&machine));
    let mut source = match opened {
        Ok(connection) => Source { connection, earlier: None },
        Err(error) => {
            testbed::complain!("campanile top: {error}");
            return error.exit_code();
        }
    };
    let outcome = if options.json {
        lines(&mut source, options, |shown| serde_json::to_string(shown).unwrap_or_default())
    } else if io::stdout().is_terminal() && io::stdin().is_terminal() {
        screen::run(source, options)
    } else {
        lines(&mut source, options, rates::text)
    };
    match outcome {
        Ok(()) => EXIT_OK,
        Err(error) => {
            testbed::complain!("campanile top: {error}");
            error.exit_code()
        }
    }
}

/// Prints a look after the other, as long as somebody takes them.
fn lines(source: &mut Source, options: &Options, text: impl Fn(&Shown) -> String) -> Result<(), ControlError> {
    let mut number = 0;
    loop {
        let goes_on = is_printed(&text(&source.next()?));
        number += 1;
        if !goes_on || options.count.is_some_and(|count| number >= count) {
            return Ok(());
        }
        std::thread::sleep(options.interval);
    }
}
