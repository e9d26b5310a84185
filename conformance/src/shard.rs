//! The part of a run that one of several machines takes.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One part of a run: part `index` of `of`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard {
    /// Number of the part, from 1 on.
    pub index: usize,
    /// Number of parts of the whole run.
    pub of: usize,
}

impl Shard {
    /// True for the positions of the whole run that this part runs. Neighbours go to different parts, so that a slow area is shared too.
    pub fn takes(self, position: usize) -> bool {
        position % self.of == self.index - 1
    }
}

impl Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index, of }),
            _ => Err(format!("`{text}` is not a part such as 1/4: the first of four")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_of_exactly_one_part() {
        for of in 1..=5 {
            for position in 0..40 {
                let takers = (1..=of).filter(|&index| Shard { index, of }.takes(position)).count();
                assert_eq!(takers, 1, "position {position} of {of} parts");
            }
        }
    }

    #[test]
    fn a_part_is_written_as_number_and_count() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, of: 3 }));
        for text in ["", "1", "0/3", "4/3", "1/0", "a/b", "1/2/3", "-1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
