//! Every case that this build can run.

use std::sync::LazyLock;

use crate::{CaseInfo, cases};

/// All tables: those over the thunks alone first, then those that look behind them.
fn tables() -> impl Iterator<Item = &'static [CaseInfo]> {
    let tables = cases::TABLES.iter();
    #[cfg(feature = "inside")]
    let tables = tables.chain(crate::inside::TABLES);
    tables.copied()
}

/// Every case, by area, in the order in which the areas first appear.
pub fn cases() -> impl Iterator<Item = &'static CaseInfo> {
    static CASES: LazyLock<Vec<CaseInfo>> = LazyLock::new(|| {
        let mut cases: Vec<CaseInfo> = tables().flatten().copied().collect();
        let mut areas: Vec<&str> = Vec::new();
        for case in &cases {
            if !areas.contains(&case.area) {
                areas.push(case.area);
            }
        }
        cases.sort_by_key(|case| areas.iter().position(|area| *area == case.area));
        cases
    });
    CASES.iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_read_like_the_kit() {
        let mut seen = HashSet::new();
        for case in cases() {
            assert!(seen.insert(case.name), "{} is there twice", case.name);
            assert!(case.name.starts_with("Device.Graphics.WDDM32."), "{}", case.name);
            assert_eq!(case.name.split('.').count(), 5, "{}", case.name);
            assert!(case.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.'), "{}", case.name);
        }
    }

    #[test]
    fn every_case_cites_a_page_and_states_a_requirement() {
        for case in cases() {
            assert!(!case.page.is_empty() && !case.page.contains(' '), "{}", case.name);
            assert!(case.requirement.ends_with('.') && case.requirement.len() > 30, "{}", case.name);
        }
    }
}
