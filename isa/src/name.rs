//! Names of the tables as they are written in text: `EndIf` is `end_if`.

/// The name of a variant in text.
pub(crate) fn text_of(name: &str) -> String {
    let mut text = String::new();
    for (place, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && place != 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// The text of a number in a table of numbers.
pub(crate) fn of_number(table: &[(u8, &str, &str)], number: u8) -> String {
    table
        .iter()
        .find(|(other, ..)| *other == number)
        .map_or_else(|| format!("{number:#x}"), |(_, name, _)| text_of(name))
}

/// The number that a text names in a table of numbers.
pub(crate) fn to_number(table: &[(u8, &str, &str)], text: &str) -> Option<u8> {
    table.iter().find(|(_, name, _)| text_of(name) == text).map(|(number, ..)| *number)
}
