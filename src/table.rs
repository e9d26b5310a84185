//! Plain tables for a terminal: left column of names, the other columns aligned to the right.

/// Lays out rows of cells under a header, columns two blanks apart.
pub(crate) fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = header.len();
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (index, (cell, width)) in cells.zip(&widths).enumerate() {
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            if index == 0 {
                text.push_str(cell);
                text.push_str(&gap);
            } else {
                text.push_str("  ");
                text.push_str(&gap);
                text.push_str(cell);
            }
        }
        text.trim_end().to_owned()
    };
    let mut lines = Vec::with_capacity(rows.len() + 1);
    if header.iter().any(|cell| !cell.is_empty()) {
        lines.push(line(&mut header.iter().copied()));
    }
    for row in rows {
        lines.push(line(&mut row.iter().map(String::as_str).take(columns)));
    }
    lines.join("\n")
}

/// A number with blanks between groups of three digits.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_to_the_right() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "100".to_owned()]];
        assert_eq!(render(&["", ""], &rows), "a       1\nlong  100");
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1 000");
        assert_eq!(grouped(12_345_678), "12 345 678");
    }
}
