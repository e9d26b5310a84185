//! Leaves out boxes and marks that are too small to be seen, so that the page of any trace stays small.

use super::data::Picture;

/// Keeps about `share` of what the picture holds: the longest operations and spans, and points evenly. How many went.
pub(super) fn thin(picture: &mut Picture, share: f64) -> u64 {
    let before = picture.len();
    let keep = |count: usize| ((count as f64 * share.clamp(0.0, 1.0)) as usize).min(count);
    let limit = keep(picture.operations.len());
    let kept = longest(
        picture.operations.iter().map(|operation| operation.done.unwrap_or(u64::MAX) - operation.start()),
        limit,
    );
    // Signals that released a wait are found again at their new place; those that went release nobody.
    let mut moved = vec![None; kept.len()];
    let mut next = 0;
    for (place, kept) in moved.iter_mut().zip(&kept) {
        if *kept {
            *place = Some(next);
            next += 1;
        }
    }
    retain(&mut picture.operations, &kept);
    for operation in &mut picture.operations {
        operation.released_by = operation.released_by.and_then(|by| moved.get(by as usize).copied().flatten());
    }
    let limit = keep(picture.spans.len());
    let kept = longest(picture.spans.iter().map(|event| event.kind.duration().unwrap_or(0)), limit);
    retain(&mut picture.spans, &kept);
    let limit = keep(picture.points.len());
    let count = picture.points.len().max(1);
    let kept: Vec<bool> = (0..picture.points.len()).map(|at| (at + 1) * limit / count != at * limit / count).collect();
    retain(&mut picture.points, &kept);
    (before - picture.len()) as u64
}

fn retain<T>(items: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    items.retain(|_| kept.next().copied().unwrap_or(true));
}

/// Marks the `limit` longest.
fn longest(lengths: impl Iterator<Item = u64>, limit: usize) -> Vec<bool> {
    let lengths: Vec<u64> = lengths.collect();
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    if limit < order.len() {
        order.select_nth_unstable_by_key(limit, |&index| (u64::MAX - lengths[index], index));
        order.truncate(limit);
    }
    let mut kept = vec![false; lengths.len()];
    for index in order {
        kept[index] = true;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::synthetic;

    #[test]
    fn the_longest_stay_and_links_still_lead_to_signals() {
        use crate::trace::operation::Side;
        let mut picture = Picture::new(&synthetic(5000));
        let before = picture.clone();
        let gone = thin(&mut picture, 0.5);
        assert_eq!(before.len() as u64, picture.len() as u64 + gone);
        assert!(picture.len() * 2 <= before.len() + 3 && picture.len() * 2 > before.len() - 6);
        let links: Vec<_> = picture.operations.iter().filter(|operation| operation.released_by.is_some()).collect();
        assert!(!links.is_empty());
        for wait in links {
            let signal = picture.operations[wait.released_by.unwrap() as usize];
            assert_eq!((signal.side, signal.target.fence), (Side::Signal, wait.target.fence));
        }
    }

    #[test]
    fn all_or_nothing_is_possible() {
        let mut picture = Picture::new(&synthetic(100));
        let all = picture.len();
        assert_eq!(thin(&mut picture, 1.0), 0);
        assert_eq!(picture.len(), all);
        assert_eq!(thin(&mut picture, 0.0), all as u64);
        assert_eq!(picture.len(), 0);
    }
}
