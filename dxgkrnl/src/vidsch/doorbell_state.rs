//! States of a doorbell, as a table.
//!
//! | state | Connect | Shown | Refused | Taken | Abort |
//! | --- | --- | --- | --- | --- | --- |
//! | Disconnected | Connecting | - | - | same | Aborted, hide |
//! | Connecting | - | Connected, show | Disconnected | Lost | Aborted, hide |
//! | Lost | - | Disconnected | Disconnected | same | Aborted, hide |
//! | Connected | same | - | - | Disconnected, hide | Aborted, hide |
//! | Aborted | same | same | same | same | same |
//!
//! The driver may take a doorbell away while the call that connects it has not come back to the thread that shows it
//! (another queue needed it at once): the page that the call answered with belongs to somebody else by then and must
//! not be shown.

use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;

/// State of a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoorbellState {
    /// User mode sees the dummy page and RETRY.
    Disconnected,
    /// The driver is being asked for a physical doorbell.
    Connecting,
    /// Taken away again before it was shown.
    Lost,
    /// User mode sees the physical doorbell.
    Connected,
    /// The device is lost: the dummy page and ABORT, for good.
    Aborted,
}

/// Event in the life of a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoorbellEvent {
    /// User mode asks for a connection.
    Connect,
    /// The driver answered with a physical doorbell.
    Shown,
    /// The driver could not connect it.
    Refused,
    /// Driver or system take it away; it may be connected again.
    Taken,
    /// The device is lost.
    Abort,
}

/// Change that user mode is to see after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing that user mode sees.
    Nothing,
    /// Show the physical doorbell, then write the status that the driver answered.
    Show,
    /// Write this status, then show the dummy page: a store that misses the physical doorbell is followed by a load
    /// that sees it.
    Hide(D3DDDI_DOORBELLSTATUS),
}

/// The words and the page by which user mode sees a doorbell.
pub(crate) trait View {
    /// Writes the status word; whoever loads it after seeing anything that follows finds it.
    fn write_status(&self, status: D3DDDI_DOORBELLSTATUS);

    /// Shows the dummy page: no store reaches the physical doorbell any more when the call returns.
    fn hide(&self);
}

impl DoorbellState {
    /// Follows the table for `event`, and hides the doorbell from `view` where that says so. To show it is the caller's part.
    pub(crate) fn apply(&mut self, event: DoorbellEvent, view: &impl View) -> Action {
        let (next, action) = self.after(event);
        *self = next;
        if let Action::Hide(status) = action {
            view.write_status(status);
            view.hide();
        }
        action
    }

    /// The state after `event`, and what to do.
    pub(crate) fn after(self, event: DoorbellEvent) -> (Self, Action) {
        use Action::{Hide, Nothing, Show};
        use DoorbellState::{Aborted, Connected, Connecting, Disconnected, Lost};
        const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
        const ABORT: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT;
        match (self, event) {
            (Aborted, _) => (Aborted, Nothing),
            (_, DoorbellEvent::Abort) => (Aborted, Hide(ABORT)),
            (Disconnected, DoorbellEvent::Connect) => (Connecting, Nothing),
            (Connecting, DoorbellEvent::Shown) => (Connected, Show),
            (Connecting, DoorbellEvent::Refused) | (Lost, DoorbellEvent::Shown | DoorbellEvent::Refused) => {
                (Disconnected, Nothing)
            }
            (Connecting, DoorbellEvent::Taken) => (Lost, Nothing),
            (Connected, DoorbellEvent::Taken) => (Disconnected, Hide(RETRY)),
            (Disconnected | Lost, DoorbellEvent::Taken)
            | (Connecting | Lost | Connected, DoorbellEvent::Connect)
            | (Disconnected | Connected, DoorbellEvent::Shown | DoorbellEvent::Refused) => (self, Nothing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Action = Action::Hide(D3DDDI_DOORBELLSTATUS(2));
    const ABORT: Action = Action::Hide(D3DDDI_DOORBELLSTATUS(3));
    const STATES: [DoorbellState; 5] = [
        DoorbellState::Disconnected,
        DoorbellState::Connecting,
        DoorbellState::Lost,
        DoorbellState::Connected,
        DoorbellState::Aborted,
    ];
    const EVENTS: [DoorbellEvent; 5] = [
        DoorbellEvent::Connect,
        DoorbellEvent::Shown,
        DoorbellEvent::Refused,
        DoorbellEvent::Taken,
        DoorbellEvent::Abort,
    ];

    #[test]
    fn transitions_are_those_of_the_table() {
        use DoorbellState::{Aborted as A, Connected as C, Connecting as G, Disconnected as D, Lost as L};
        let no = Action::Nothing;
        let table = [
            [(G, no), (D, no), (D, no), (D, no), (A, ABORT)],
            [(G, no), (C, Action::Show), (D, no), (L, no), (A, ABORT)],
            [(L, no), (D, no), (D, no), (L, no), (A, ABORT)],
            [(C, no), (C, no), (C, no), (D, RETRY), (A, ABORT)],
            [(A, no), (A, no), (A, no), (A, no), (A, no)],
        ];
        for (state, row) in STATES.into_iter().zip(table) {
            for (event, expected) in EVENTS.into_iter().zip(row) {
                assert_eq!(state.after(event), expected, "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn a_doorbell_taken_at_any_moment_is_never_left_shown() {
        // All sequences of six events: after Taken or Abort the page is hidden until the next Connect and Shown.
        for sequence in 0..5usize.pow(6) {
            let (mut state, mut shown, mut asked) = (DoorbellState::Disconnected, false, false);
            for step in 0..6 {
                let event = EVENTS[sequence / 5usize.pow(step) % 5];
                let (next, action) = state.after(event);
                match event {
                    DoorbellEvent::Connect if state == DoorbellState::Disconnected => asked = true,
                    DoorbellEvent::Taken | DoorbellEvent::Abort => asked = false,
                    _ => {}
                }
                match action {
                    Action::Show => {
                        assert!(asked, "shown after it was taken: {sequence}");
                        shown = true;
                    }
                    Action::Hide(_) => shown = false,
                    Action::Nothing => {}
                }
                state = next;
                assert_eq!(shown, state == DoorbellState::Connected);
            }
        }
    }
}
