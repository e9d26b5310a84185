//! Updates of GPU virtual addresses in the model, good and bad ones, beside work that the GPU has not done yet.

use std::sync::atomic::Ordering;

use crate::rig::{NO_ACCESS, ZERO, copy_operation, map_operation, protect_operation, unmap_operation};
use wddm_ddi::kmt::{D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION as Operation, D3DKMT_UPDATEGPUVIRTUALADDRESS_Flags};

use super::*;

/// One change. Numbers of pages are now and then more than there is.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Map { page: u64, times: u64, allocation: usize, first: u64, part: u64, write: Option<bool> },
    Unmap { page: u64, pages: u64, zero: bool },
    Copy { page: u64, pages: u64, region: usize, from: u64 },
}

fn number(usual: u64) -> impl Strategy<Value = u64> {
    let hostile = prop_oneof![Just(0), Just(u64::MAX / PAGE), Just(u64::MAX), Just(1 << 40), 33..300u64];
    prop_oneof![80 => 1..usual, 1 => hostile]
}

pub(super) fn change() -> impl Strategy<Value = Change> {
    let write = prop::option::of(any::<bool>());
    prop_oneof![
        3 => (number(8), 1..4u64, 0..16usize, number(3), number(3), write).prop_map(
            |(page, times, allocation, first, part, write)| {
                let first = first.wrapping_sub(1);
                Change::Map { page, times, allocation, first, part, write }
            }
        ),
        2 => (number(11), number(6), any::<bool>()).prop_map(|(page, pages, zero)| Change::Unmap { page, pages, zero }),
        3 => (number(11), number(6), 0..16usize, number(11))
            .prop_map(|(page, pages, region, from)| Change::Copy { page, pages, region, from }),
    ]
}

fn bytes(pages: u64) -> u64 {
    pages.wrapping_mul(PAGE)
}

impl World<'_> {
    /// One of the ranges that may be updated, mostly.
    pub(super) fn region_to_update(&self, number: usize) -> Option<u64> {
        let zeros: Vec<u64> = self.zeros.iter().copied().filter(|base| self.regions.contains_key(base)).collect();
        if number.is_multiple_of(8) { self.region(number) } else { pick(zeros.into_iter(), number) }
    }

    /// The range that holds some pages as a whole, and which of its pages they are. Numbers that wrap around may lead to another range than
    /// the one they are counted from.
    fn part_at(&self, base: u64, page: u64, pages: u64) -> Option<(u64, std::ops::Range<usize>)> {
        let address = base.wrapping_add(bytes(page));
        let (start, shown) = self.regions.range(..=address).next_back()?;
        let (page, pages) = (usize::try_from((address - start) / PAGE).ok()?, usize::try_from(pages).ok()?);
        let end = page.checked_add(pages)?;
        (pages > 0 && end <= shown.len()).then_some((*start, page..end))
    }

    /// As [`World::part_at`], of a range that may be updated, where all others of a request are in `only`, once there was one.
    fn legal_part(&self, place: (u64, u64, u64), only: &mut Option<u64>) -> Option<(u64, std::ops::Range<usize>)> {
        let (start, pages) = self.part_at(place.0, place.1, place.2)?;
        (self.zeros.contains(&start) && *only.get_or_insert(start) == start).then_some((start, pages))
    }

    /// What a change asks for, and, if it is legal, what it does to the pages of its range.
    fn operation(&self, base: u64, change: &Change, ranges: &mut Ranges) -> (Operation, Option<Made>) {
        match *change {
            Change::Map { page, times, allocation, first, part, write } => {
                let handle = self.allocation(allocation).unwrap_or_default();
                let pages = part.wrapping_mul(times);
                let size = self.allocations.get(&handle).map_or(0, |model| model.words.len() as u64);
                let to = (base.wrapping_add(bytes(page)), bytes(pages));
                let (operation, part) = match write {
                    None => (map_operation(to, handle, bytes(first), bytes(part)), part),
                    Some(write) => {
                        let rights = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Write(write);
                        (protect_operation(to, handle, bytes(first), rights), pages)
                    }
                };
                let inside = part > 0 && first.checked_add(part).is_some_and(|end| end <= size);
                let to = self.legal_part((base, page, pages), &mut ranges.changed).filter(|_| inside && handle != 0);
                let shows = move |index: u64| Shown::Page {
                    allocation: handle,
                    page: (first + index % part) as usize,
                    write: write.unwrap_or(true),
                };
                let made = to.map(|to| Made { shown: (0..pages).map(shows).collect(), to, from: None });
                (operation, made)
            }
            Change::Unmap { page, pages, zero } => {
                let to = (base.wrapping_add(bytes(page)), bytes(pages));
                let operation = unmap_operation(to, if zero { ZERO } else { NO_ACCESS });
                let shown = if zero { Shown::Zero } else { Shown::Nothing };
                let to = self.legal_part((base, page, pages), &mut ranges.changed);
                let made = to.map(|to| Made { shown: vec![shown; to.1.len()], to, from: None });
                (operation, made)
            }
            Change::Copy { page, pages, region, from } => {
                let source = self.region(region).unwrap_or(base);
                let to = (base.wrapping_add(bytes(page)), bytes(pages));
                let operation = copy_operation(to, source.wrapping_add(bytes(from)));
                let to = self.legal_part((base, page, pages), &mut ranges.changed);
                let from = self.legal_part((source, from, pages), &mut ranges.copied);
                (operation, to.zip(from).map(|(to, from)| Made { shown: Vec::new(), to, from: Some(from) }))
            }
        }
    }

    /// Several changes of a range: all of them or none. Half of the requests wait for work of their context, which is queued first.
    pub(super) fn update(&mut self, base: u64, changes: &[Change]) -> Result<(), Failure> {
        let mut ranges = Ranges::default();
        let asked: Vec<_> = changes.iter().map(|change| self.operation(base, change, &mut ranges)).collect();
        let legal = asked.iter().all(|(_, made)| made.is_some());
        let operations: Vec<Operation> = asked.iter().map(|(operation, _)| *operation).collect();
        let value = self.fence.value.load();
        let waits = changes.len().is_multiple_of(2);
        let before = value + u64::from(waits);
        let mut request = self.rig.update_request(self.queue.context, (self.fence.handle, before), &operations);
        request.Flags = D3DKMT_UPDATEGPUVIRTUALADDRESS_Flags::new().with_DoNotWait(!waits);
        let status = self.rig.update(&request);
        if !legal {
            refused(status, &[STATUS_INVALID_PARAMETER, STATUS_INVALID_HANDLE, STATUS_NO_MEMORY], "a bad update")?;
            ensure_eq!(self.fence.value.load(), value, "value after a refused update");
            return Ok(());
        }
        granted(status, "D3DKMTUpdateGpuVirtualAddress")?;
        self.updated.fetch_add(1, Ordering::Relaxed);
        if waits {
            self.rig.execute(&mut self.queue, &[self.fence.signal(before)])?;
        }
        granted(self.rig.wait(&[self.fence.handle], &[before + 1], false), "the wait for the update")?;
        for (_, made) in asked {
            let Some(made) = made else { continue };
            let source = made.from.and_then(|(source, from)| Some(self.regions.get(&source)?.get(from)?.to_vec()));
            let shown = source.unwrap_or(made.shown);
            if let Some(part) = self.regions.get_mut(&made.to.0).and_then(|region| region.get_mut(made.to.1)) {
                part.copy_from_slice(&shown);
            }
        }
        Ok(())
    }
}

/// The ranges that the changes of a request are in, and that its copies come from, once there was one.
#[derive(Default)]
struct Ranges {
    changed: Option<u64>,
    copied: Option<u64>,
}

/// What a change makes of part of a range: pages of its own, or those of part of a range.
struct Made {
    to: (u64, std::ops::Range<usize>),
    shown: Vec<Shown>,
    from: Option<(u64, std::ops::Range<usize>)>,
}
