//! Words of a command line that are passed on to another command.

/// The words of a command line of `hlk` without the options that select cases and reports, for the command that runs one case again.
pub(super) fn how_cases_run(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let flags = ["--list", "--json", "--json-lines", "--matrix", "--profiles"];
    without(words, &flags, &["--filter", "--junit", "--repeat", "--jobs", "--shard"])
}

/// The words of a command line of `bench` that are about the machine, for the one that another process serves beside it.
pub(super) fn what_is_measured(words: impl IntoIterator<Item = String>) -> Vec<String> {
    without(words, &["bench", "--json", "--quick"], &["--filter", "--machine", "--compare"])
}

/// The words of a command line without some of them, and without options and their values.
fn without(words: impl IntoIterator<Item = String>, flags: &[&str], options: &[&str]) -> Vec<String> {
    let mut words = words.into_iter().filter(|word| !flags.contains(&word.as_str()));
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let option = word.split('=').next().unwrap_or_default();
        if !options.contains(&option) {
            kept.push(word);
        } else if option == word {
            // Its value is a word of its own.
            words.next();
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_run_again_as_it_was_and_alone() {
        let words =
            "--filter Fence --json --driver pe --junit=a.xml --repeat 3 --jobs 2 --shard 1/2 --bus=vfio-user --timeout 5"
                .split(' ');
        let kept = how_cases_run(words.map(str::to_owned));
        assert_eq!(kept.join(" "), "--driver pe --bus=vfio-user --timeout 5");
    }

    #[test]
    fn the_machine_that_is_measured_beside_another_one_has_the_options_of_that() {
        let words =
            "--driver pe bench --quick --device-variant notify-doorbells --filter P1M --json --without=native-fence";
        let kept = what_is_measured(words.split(' ').map(str::to_owned));
        assert_eq!(kept.join(" "), "--driver pe --device-variant notify-doorbells --without=native-fence");
    }
}
