//! Event Tracing for Windows, as far as drivers take part in it: providers that they register, sessions that want their events, and
//! what they wrote meanwhile.

mod trace_logging;

use std::collections::BTreeMap;

use crate::lock::{Innermost, Mutex, lock};
use wddm_ddi::nt::EVENT_DESCRIPTOR;
use wddm_ddi::types::{GUID, KIRQL};

pub use trace_logging::{BadTraceLogging, TraceLoggingEvent, TraceLoggingField, TraceLoggingValue};

/// Events that are kept; more are counted as lost.
const EVENTS_MAX: usize = 1 << 16;
/// Providers that one driver may have registered at a time.
const REGISTRATIONS_MAX: usize = 1 << 10;
/// Bytes of one event, as on Windows.
pub const EVENT_BYTES_MAX: usize = 0xffff;
/// Parts of one event's data. [evntprov: MAX_EVENT_DATA_DESCRIPTORS]
pub const PARTS_MAX: u32 = 128;

/// Parts of an event's data: type, and bytes.
pub type Parts = Vec<(u8, Vec<u8>)>;

/// An event as a driver wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtwEvent {
    /// Identifier of its provider; that of the event for one of [`EtwEvent::logged`].
    pub provider: GUID,
    /// Id, version, level, keywords and further numbers of the event.
    pub descriptor: EVENT_DESCRIPTOR,
    /// Its data: type of the part, and bytes.
    pub parts: Vec<(u8, Vec<u8>)>,
    /// Written by DxgkCbLogEtwEvent into the graphics kernel's own trace, not by the driver's provider.
    pub logged: bool,
    /// Level at which it was written.
    pub irql: KIRQL,
}

impl EtwEvent {
    /// What the event says of itself, in the format TraceLogging.
    ///
    /// # Errors
    /// [`BadTraceLogging`] if it is no such event.
    pub fn trace_logging(&self) -> Result<TraceLoggingEvent, BadTraceLogging> {
        trace_logging::decode(self.descriptor, &self.parts)
    }
}

/// Which events a session wants of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtwSession {
    /// Events up to this level; 0 for all.
    pub level: u8,
    /// Events with one of these keywords; 0 for all. Events without a keyword always.
    pub keywords: u64,
}

impl EtwSession {
    fn wants(self, level: u8, keyword: u64) -> bool {
        let of_level = self.level == 0 || level <= self.level;
        of_level && (keyword == 0 || self.keywords == 0 || keyword & self.keywords != 0)
    }
}

/// A provider that the driver registered.
#[derive(Clone, Debug)]
pub struct Registration {
    pub provider: GUID,
    /// Addresses of the callback, 0 for none, and of what it is called with.
    pub callback: usize,
    pub context: usize,
    /// Name and traits, if the provider set them.
    pub traits: Vec<u8>,
}

#[derive(Default)]
struct State {
    registrations: BTreeMap<u64, Registration>,
    last: u64,
    sessions: Vec<(GUID, EtwSession)>,
    /// True while the graphics kernel logs what drivers hand to DxgkCbLogEtwEvent.
    logging: bool,
    events: Vec<EtwEvent>,
    lost: u64,
}

/// Event providers and sessions of one driver.
#[derive(Default)]
pub struct Etw(Mutex<State, Innermost>);

/// A callback that is to be made: address, what it is called with, and what it is told.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    pub provider: GUID,
    pub callback: usize,
    pub context: usize,
    pub code: u32,
    pub session: EtwSession,
}

impl Etw {
    /// Sets or ends the session of a provider; the callbacks of its registrations that must hear of it.
    pub fn set_session(&self, provider: GUID, session: Option<EtwSession>) -> Vec<Notice> {
        use wddm_ddi::nt::{EVENT_CONTROL_CODE_DISABLE_PROVIDER, EVENT_CONTROL_CODE_ENABLE_PROVIDER};
        let mut state = lock(&self.0);
        state.sessions.retain(|(guid, _)| *guid != provider);
        state.sessions.extend(session.map(|session| (provider, session)));
        let code =
            if session.is_some() { EVENT_CONTROL_CODE_ENABLE_PROVIDER } else { EVENT_CONTROL_CODE_DISABLE_PROVIDER };
        let session = session.unwrap_or(EtwSession { level: 0, keywords: 0 });
        let registrations = state.registrations.values();
        registrations.filter_map(|registration| registration.notice(provider, code, session)).collect()
    }

    /// Sets if the graphics kernel takes events of [`EtwEvent::logged`].
    pub fn set_logging(&self, logging: bool) {
        lock(&self.0).logging = logging;
    }

    pub fn register(&self, registration: Registration) -> Option<(u64, Option<Notice>)> {
        use wddm_ddi::nt::EVENT_CONTROL_CODE_ENABLE_PROVIDER;
        let mut state = lock(&self.0);
        if state.registrations.len() >= REGISTRATIONS_MAX {
            return None;
        }
        state.last += 1;
        let handle = state.last;
        let session =
            state.sessions.iter().find(|(guid, _)| *guid == registration.provider).map(|(_, session)| *session);
        let notice = session.and_then(|session| {
            registration.notice(registration.provider, EVENT_CONTROL_CODE_ENABLE_PROVIDER, session)
        });
        state.registrations.insert(handle, registration);
        Some((handle, notice))
    }

    pub fn write(&self, handle: u64, event: EtwEvent) -> bool {
        let mut state = lock(&self.0);
        let Some(provider) = state.registrations.get(&handle).map(|registration| registration.provider) else {
            return false;
        };
        if state.wants(provider, event.descriptor.Level, event.descriptor.Keyword) {
            state.keep(EtwEvent { provider, ..event });
        }
        true
    }

    /// True if a session wants events of this level and with these keywords from the provider of a registration.
    pub fn is_enabled(&self, handle: u64, level: u8, keyword: u64) -> bool {
        let state = lock(&self.0);
        state.registrations.get(&handle).is_some_and(|registration| state.wants(registration.provider, level, keyword))
    }

    /// A registration is over; false if there is none.
    pub fn unregister(&self, handle: u64) -> bool {
        lock(&self.0).registrations.remove(&handle).is_some()
    }

    /// Sets name and traits of a provider; false if there is no such registration.
    pub fn set_traits(&self, handle: u64, traits: Vec<u8>) -> bool {
        lock(&self.0).registrations.get_mut(&handle).map(|registration| registration.traits = traits).is_some()
    }

    /// Keeps an event that was logged, if such are taken.
    pub fn log(&self, event: EtwEvent) {
        let mut state = lock(&self.0);
        if state.logging {
            state.keep(event);
        }
    }

    /// Events that sessions got, oldest first, and how many more there were. They are forgotten.
    pub fn take_events(&self) -> (Vec<EtwEvent>, u64) {
        let mut state = lock(&self.0);
        (std::mem::take(&mut state.events), std::mem::take(&mut state.lost))
    }

    /// Identifiers, and name and traits, of the providers that are registered.
    pub fn providers(&self) -> Vec<(GUID, Vec<u8>)> {
        let state = lock(&self.0);
        state.registrations.values().map(|provider| (provider.provider, provider.traits.clone())).collect()
    }

    /// Number of providers that are still registered.
    pub fn registered(&self) -> usize {
        lock(&self.0).registrations.len()
    }
}

impl Registration {
    fn notice(&self, provider: GUID, code: u32, session: EtwSession) -> Option<Notice> {
        let wanted = self.provider == provider && self.callback != 0;
        wanted.then_some(Notice { provider, callback: self.callback, context: self.context, code, session })
    }
}

impl State {
    fn wants(&self, provider: GUID, level: u8, keyword: u64) -> bool {
        self.sessions.iter().any(|(guid, session)| *guid == provider && session.wants(level, keyword))
    }

    fn keep(&mut self, event: EtwEvent) {
        if self.events.len() < EVENTS_MAX { self.events.push(event) } else { self.lost += 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::nt::WINEVENT_CHANNEL_TRACELOGGING;

    const PROVIDER: GUID = GUID { Data1: 1, Data2: 2, Data3: 3, Data4: [4; 8] };

    fn event(level: u8, keyword: u64) -> EtwEvent {
        let descriptor = EVENT_DESCRIPTOR {
            Id: 0,
            Version: 0,
            Channel: WINEVENT_CHANNEL_TRACELOGGING,
            Level: level,
            Opcode: 0,
            Task: 0,
            Keyword: keyword,
        };
        EtwEvent { provider: PROVIDER, descriptor, parts: Vec::new(), logged: false, irql: 0 }
    }

    #[test]
    fn a_session_gets_the_events_of_its_level_and_keywords_and_no_others() {
        let etw = Etw::default();
        let registration = Registration { provider: PROVIDER, callback: 8, context: 16, traits: Vec::new() };
        let (handle, notice) = etw.register(registration).unwrap();
        assert!(notice.is_none(), "nobody listens yet");
        assert!(etw.write(handle, event(4, 1)) && etw.take_events().0.is_empty());
        assert!(!etw.write(handle + 1, event(4, 1)), "no such registration");
        let notices = etw.set_session(PROVIDER, Some(EtwSession { level: 4, keywords: 6 }));
        assert_eq!((notices.len(), notices[0].code, notices[0].context), (1, 1, 16));
        for (level, keyword, kept) in [(4, 2, 1), (4, 0, 1), (5, 2, 0), (4, 8, 0), (1, 12, 1)] {
            assert!(etw.write(handle, event(level, keyword)));
            assert_eq!(etw.take_events().0.len(), kept, "{level} {keyword}");
        }
        assert_eq!(etw.set_session(PROVIDER, None)[0].code, 0);
        assert!(etw.write(handle, event(4, 2)) && etw.take_events().0.is_empty());
    }

    #[test]
    fn a_provider_that_comes_late_hears_of_the_session() {
        let etw = Etw::default();
        assert!(etw.set_session(PROVIDER, Some(EtwSession { level: 5, keywords: 0 })).is_empty());
        let registration = Registration { provider: PROVIDER, callback: 8, context: 0, traits: Vec::new() };
        let (_, notice) = etw.register(registration).unwrap();
        assert_eq!(notice.unwrap().session, EtwSession { level: 5, keywords: 0 });
    }
}
