//! Where the bodies of functions are in a source file, as far as that takes no compiler: comments, texts and braces are told apart, types are not. The operation
//! around an operator is looked up in the syntax tree.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The body of a function, with its braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) range: Range<usize>,
    /// It may run in the compiler, where nothing can be chosen at run time.
    pub(super) constant: bool,
}

/// All bodies of `text`, also of functions within functions, in the order in which they end.
pub(super) fn bodies(text: &str) -> Vec<Body> {
    let mut found = Vec::new();
    // Open brackets of all kinds; a brace that begins a body says so.
    let mut open: Vec<Option<(usize, bool)>> = Vec::new();
    // The head of a function whose body has not begun: how many brackets are open around it, and whether it is constant.
    let mut head: Option<(usize, bool)> = None;
    let (mut constant, mut after_fn) = (false, None);
    for token in tokens(text) {
        match token {
            Token::Word("fn") => after_fn = Some(constant),
            Token::Word(word) => {
                // Without a name it is a type.
                if let Some(constant) = after_fn.take() {
                    head = Some((open.len(), constant));
                }
                constant = word == "const" || constant && ["unsafe", "extern", "async"].contains(&word);
            }
            Token::Bracket(bracket, at) => {
                (constant, after_fn) = (false, None);
                match bracket {
                    b'{' => {
                        open.push(head.take_if(|(depth, _)| *depth == open.len()).map(|(_, constant)| (at, constant)))
                    }
                    b'(' | b'[' => open.push(None),
                    _ => {
                        if let Some(Some((start, constant))) = open.pop() {
                            found.push(Body { range: start..at + 1, constant });
                        }
                    }
                }
            }
            Token::Semicolon => {
                head.take_if(|(depth, _)| *depth == open.len());
                constant = false;
            }
        }
    }
    found
}

/// The innermost body around `place`.
pub(super) fn around(bodies: &[Body], place: &Range<usize>) -> Option<Body> {
    let around = bodies.iter().filter(|body| body.range.start < place.start && place.end < body.range.end);
    around.min_by_key(|body| body.range.len()).cloned()
}

/// The operation, such as `a + b` or `!a`, whose operator is at `place`.
pub(super) fn operation(text: &str, place: &Range<usize>) -> Option<Range<usize>> {
    struct Search<'p> {
        place: &'p Range<usize>,
        found: Option<Range<usize>>,
    }
    impl<'ast> Visit<'ast> for Search<'_> {
        fn visit_expr(&mut self, expression: &'ast syn::Expr) {
            let operator = match expression {
                syn::Expr::Binary(binary) => Some(binary.op.span()),
                syn::Expr::Unary(unary) => Some(unary.op.span()),
                _ => None,
            };
            if operator.is_some_and(|operator| operator.byte_range() == *self.place) {
                self.found = Some(expression.span().byte_range());
            }
            visit::visit_expr(self, expression);
        }
    }
    let mut search = Search { place, found: None };
    search.visit_file(&syn::parse_file(text).ok()?);
    search.found
}

enum Token<'a> {
    Word(&'a str),
    Bracket(u8, usize),
    Semicolon,
}

/// What matters of `text`, without comments and literals.
fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(&byte) = bytes.get(at) {
            let start = at;
            let rest = &bytes[at..];
            at += 1;
            match byte {
                b'/' if rest.starts_with(b"//") => at = start + line(rest),
                b'/' if rest.starts_with(b"/*") => at = start + block(rest),
                b'"' => at = start + quoted(rest),
                b'\'' => at = start + character(rest),
                b'{' | b'}' | b'(' | b')' | b'[' | b']' => return Some(Token::Bracket(byte, start)),
                b';' => return Some(Token::Semicolon),
                _ if byte.is_ascii_alphabetic() || byte == b'_' => {
                    let end = rest.iter().position(|c| !c.is_ascii_alphanumeric() && *c != b'_').unwrap_or(rest.len());
                    at = start + end;
                    match raw(&text[start..at], &bytes[at..]) {
                        Some(length) => at += length,
                        None => return Some(Token::Word(&text[start..at])),
                    }
                }
                _ => {}
            }
        }
        None
    })
}

fn line(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

/// Length of the comment at the start, which may hold others.
fn block(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match rest.get(at..at + 2) {
            Some(b"/*") => (at, depth) = (at + 2, depth + 1),
            Some(b"*/") if depth == 1 => return at + 2,
            Some(b"*/") => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at
}

/// Length of the text at the start, with its quotes.
fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

/// Length of the character at the start; of the quote alone if it begins the name of a lifetime.
fn character(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', _, tail @ ..] => 3 + tail.iter().position(|byte| *byte == b'\'').map_or(0, |end| end + 1),
        [_, first, tail @ ..] => {
            // A character may have several bytes.
            let more = if first.is_ascii() { 0 } else { tail.iter().take_while(|byte| **byte & 0xC0 == 0x80).count() };
            if tail.get(more) == Some(&b'\'') { more + 3 } else { 1 }
        }
        _ => 1,
    }
}

/// Length of the text after the prefix `word`, if that is one of a raw text.
fn raw(word: &str, rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    if !["r", "br", "cr"].contains(&word) || rest.get(hashes) != Some(&b'"') {
        return None;
    }
    let end = [b"\"".as_slice(), &rest[..hashes]].concat();
    let body = rest.get(hashes + 1..)?;
    let length = body.windows(end.len()).position(|window| window == end).unwrap_or(body.len());
    Some((hashes + 1 + length + end.len()).min(rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(&str, bool)> {
        bodies(text).into_iter().map(|body| (&text[body.range], body.constant)).collect()
    }

    #[test]
    fn bodies_are_found_and_types_and_declarations_are_not() {
        let text = "trait T { fn a(x: [u8; 2]) -> fn(u8); fn b() { 1 } } const X: fn() = { y }; struct S { f: fn() }";
        assert_eq!(texts(text), [("{ 1 }", false)]);
        let text = "fn a<const N: usize>(x: [u8; 2]) -> [u8; 2] where T: U { match x { _ => {} } }";
        assert_eq!(texts(text), [("{ match x { _ => {} } }", false)]);
    }

    #[test]
    fn braces_in_texts_and_comments_do_not_count() {
        let text = r##"fn a() { "}\"}"; '}'; '\''; b'}'; r#"}"}"#; /* } /* } */ } */ 'a: loop {} } // }"##;
        let length = text.rfind("// }").unwrap() - 1;
        assert_eq!(texts(text), [(&text[7..length], false)]);
        assert_eq!(texts("fn f<'a>(x: &'a str) { '·'; x }"), [("{ '·'; x }", false)]);
    }

    #[test]
    fn functions_that_may_run_in_the_compiler_are_told() {
        assert_eq!(
            texts("pub(crate) const unsafe fn a() {} const B: u8 = 1; fn c() {}"),
            [("{}", true), ("{}", false)]
        );
    }

    #[test]
    fn the_operation_of_an_operator_is_found() {
        let text = "/// ·
fn a() -> impl I { x.map(|y| !y.b() && z < 1 % w); v += 1; }";
        let of = |operator: &str| {
            let at = text.find(operator).unwrap();
            operation(text, &(at..at + operator.len())).map(|range| &text[range])
        };
        let found = ["!", "&&", "<", "%", "+=", "map"].map(of);
        let expected = ["!y.b()", "!y.b() && z < 1 % w", "z < 1 % w", "1 % w", "v += 1"].map(Some);
        assert_eq!((&found[..5], found[5]), (&expected[..], None));
    }

    #[test]
    fn the_innermost_body_is_found() {
        let text = "fn a() { fn b() { x } y }";
        let bodies = bodies(text);
        let place = |word: &str| text.find(word).map(|at| at..at + 1).unwrap();
        assert_eq!(around(&bodies, &place("x")).map(|body| &text[body.range]), Some("{ x }"));
        assert_eq!(around(&bodies, &place("y")).map(|body| &text[body.range]), Some("{ fn b() { x } y }"));
        assert_eq!(around(&bodies, &(0..2)), None);
    }
}
