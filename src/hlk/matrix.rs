//! The machines of `--matrix` (pairwise testing) and of `--profiles`.
//!
//! A fault often takes two properties at once, such as one doorbell and page tables that the GPU writes; all combinations would be thousands of
//! machines. Of these few, each pair of properties that go together is on one at least. [pairwise testing]
//!
//! Beside them stand the machines of each subset of the features that the operating system may refuse.

use fastrand::Rng;

use testbed::setup::{Feature, FenceStorage, MachineOptions, VariantOptions};

/// What a GPU may be, one of each line: keys of a device variant.
const PROPERTIES: &[&[&str]] = &[
    &["", "doorbells=1", "global-doorbell", "notify-doorbells"],
    &["", "optimised-fence-interrupt", "one-fence-event", "delayed-log-writes"],
    &["", "non-coherent", "cached-host", "vram-in-d3=kept"],
    &["", "page-tables=gpu-virtual", "page-tables=gpu-physical"],
    &["", "idle=5us"],
    &["", "posted-writes"],
    &["", "interpreter"],
    &["", "preemption=buffer", "preemption=dispatch", "preemption=workgroup"],
    &["", LOCAL_FENCES],
    &["", "linked"],
];

/// Stands for `--fence-storage local`, which is no key of a variant.
const LOCAL_FENCES: &str = "local fences";

/// A property: its line, and its place there.
type Property = (usize, usize);

/// Two properties of different lines, the earlier line first.
type Pair = (Property, Property);

/// A place in each line.
type Choice = Vec<usize>;

fn pairs(choice: &Choice) -> impl Iterator<Item = Pair> {
    let properties: Vec<Property> = choice.iter().copied().enumerate().collect();
    (0..properties.len()).flat_map(move |second| {
        let properties = properties.clone();
        (0..second).map(move |first| (properties[first], properties[second]))
    })
}

/// Choices in which every pair of properties is there: each is the one of a few random ones that has most pairs which none before it has.
fn choices(seed: u64) -> Vec<Choice> {
    const TRIES: usize = 64;
    let mut random = Rng::with_seed(seed);
    let lines = || PROPERTIES.iter().map(|line| line.len());
    let mut missing: Vec<Pair> = (0..PROPERTIES.len())
        .flat_map(|second| (0..second).map(move |first| (first, second)))
        .flat_map(|(first, second)| {
            let places = move |line: usize| (0..PROPERTIES[line].len()).map(move |place| (line, place));
            places(first).flat_map(move |one| places(second).map(move |other| (one, other)))
        })
        .collect();
    let mut choices = Vec::new();
    while let Some(&((first, place), (second, other))) = missing.first() {
        let draw = |_| {
            let mut choice: Choice = lines().map(|count| random.usize(..count)).collect();
            (choice[first], choice[second]) = (place, other);
            choice
        };
        let gain = |choice: &Choice| pairs(choice).filter(|pair| missing.contains(pair)).count();
        let best = (0..TRIES).map(draw).max_by_key(gain).expect("there are tries");
        let met: Vec<Pair> = pairs(&best).collect();
        missing.retain(|pair| !met.contains(pair));
        choices.push(best);
    }
    choices
}

/// A machine of the matrix, and the options of `campanile hlk` that mean it.
pub(super) struct Machine {
    pub(super) options: MachineOptions,
    pub(super) words: Vec<String>,
}

/// The machines, which are `base` but for the properties; the same seed gives the same.
///
/// # Errors
/// A property that is no key of a variant.
pub(super) fn machines(base: &MachineOptions, seed: u64) -> Result<Vec<Machine>, String> {
    let machine = |choice: &Choice| {
        let properties = PROPERTIES.iter().zip(choice).map(|(line, place)| line[*place]).filter(|key| !key.is_empty());
        let (local, keys): (Vec<&str>, Vec<&str>) = properties.partition(|key| *key == LOCAL_FENCES);
        let text = if keys.is_empty() { "default".to_owned() } else { keys.join(",") };
        let variant: VariantOptions = text.parse()?;
        let (fences, storage) =
            if local.is_empty() { (FenceStorage::System, "system") } else { (FenceStorage::Local, "local") };
        let words = ["--device-variant", &text, "--fence-storage", storage].map(str::to_owned).to_vec();
        Ok(Machine { options: MachineOptions { variant, fences, ..base.clone() }, words })
    };
    choices(seed).iter().map(machine).collect()
}

/// The machines of each subset of features that the operating system may enable, the one with all of them first.
pub(super) fn profiles(base: &MachineOptions) -> Vec<Machine> {
    let machine = |without: Vec<Feature>| {
        let words =
            if without.is_empty() { Vec::new() } else { vec!["--without".to_owned(), Feature::names(&without)] };
        Machine { options: MachineOptions { without, ..base.clone() }, words }
    };
    Feature::subsets().map(machine).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_two_properties_are_on_a_machine_whatever_the_seed() {
        for seed in [0, 1, campanile_conformance::seed::DEFAULT] {
            let choices = choices(seed);
            assert!((16..32).contains(&choices.len()), "{} machines", choices.len());
            for (second, others) in PROPERTIES.iter().enumerate() {
                for (first, ones) in PROPERTIES.iter().enumerate().take(second) {
                    for (one, other) in (0..ones.len()).flat_map(|one| (0..others.len()).map(move |other| (one, other)))
                    {
                        let meet = choices.iter().any(|choice| (choice[first], choice[second]) == (one, other));
                        assert!(meet, "{} and {} with seed {seed}", ones[one], others[other]);
                    }
                }
            }
        }
    }

    #[test]
    fn profiles_are_every_subset_and_the_first_withholds_nothing() {
        let profiles = profiles(&MachineOptions::default());
        let words: Vec<String> = profiles.iter().map(|machine| machine.words.join(" ")).collect();
        assert!(words[0].is_empty() && words.len() == 8);
        assert!(words.contains(&"--without hardware-scheduling,user-mode-submission".to_owned()), "{words:?}");
        let mut different = words.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), 8, "{words:?}");
    }

    #[test]
    fn machines_are_the_same_for_the_same_seed_and_are_meant_by_their_words() {
        let base = MachineOptions::default();
        let words = |seed| -> Vec<Vec<String>> {
            machines(&base, seed).unwrap().into_iter().map(|machine| machine.words).collect()
        };
        assert!(words(1) == words(1) && words(1) != words(2));
        for machine in machines(&base, 1).unwrap() {
            assert_eq!(machine.words[1].parse::<VariantOptions>().unwrap(), machine.options.variant);
            assert_eq!(machine.words[3] == "local", machine.options.fences == FenceStorage::Local);
        }
    }
}
