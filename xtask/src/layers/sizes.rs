//! How long files, functions and lists of parameters are.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ExprClosure, FnArg, ImplItemFn, ItemFn, Macro, Signature, TraitItemFn, Type};

use super::imports;

/// Largest sizes that are allowed without an exception.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    /// Lines of a file.
    file: usize,
    /// Lines of the body of a function.
    function: usize,
    /// Parameters of a function, without `self`. One whose type is a tuple counts as the members of the tuple.
    parameters: usize,
}

/// Something that does, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exception {
    /// The file, from the root of the repository.
    file: String,
    /// The function in it; none means the file itself.
    function: Option<String>,
    /// The most lines that it may have.
    lines: Option<usize>,
    /// The most parameters.
    parameters: Option<usize>,
    #[serde(rename = "why")]
    _why: String,
}

/// A function as it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    file: String,
    name: String,
    lines: usize,
    parameters: usize,
}

/// The sources as they are.
pub(super) struct Measured {
    /// Files and their lines.
    pub(super) files: Vec<(String, usize)>,
    pub(super) functions: Vec<Function>,
}

/// Measures every source file of the repository.
///
/// # Errors
/// Git does not list the files, or one cannot be read or is no Rust.
pub(super) fn measure(root: &Path) -> Result<Measured, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.rs"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git lists no files: {error}"))?;
    let names = String::from_utf8(output.stdout).map_err(|_| "names of files are UTF-8")?;
    let mut measured = Measured { files: Vec::new(), functions: Vec::new() };
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let path = root.join(name);
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        measured.files.push((name.to_owned(), text.lines().count()));
        let mut visitor = Functions { file: name, found: &mut measured.functions, inside: false };
        visitor.visit_file(&imports::parse(&path)?);
    }
    Ok(measured)
}

struct Functions<'a> {
    file: &'a str,
    found: &'a mut Vec<Function>,
    /// True in the body of a function: its closures and macros are a part of it.
    inside: bool,
}

/// The lines between the braces of a body.
fn lines_between(span: Span) -> usize {
    span.end().line.saturating_sub(span.start().line + 1)
}

/// What a parameter of a type counts for: a tuple, or a reference to one, for its members.
fn count(ty: &Type) -> usize {
    match ty {
        Type::Tuple(tuple) if !tuple.elems.is_empty() => tuple.elems.iter().map(count).sum(),
        Type::Reference(reference) => count(&reference.elem),
        Type::Paren(inner) => count(&inner.elem),
        _ => 1,
    }
}

impl Functions<'_> {
    fn note(&mut self, signature: &Signature, body: Option<&Block>) {
        let lines = body.map_or(0, |body| lines_between(body.span()));
        let of = |input: &FnArg| match input {
            FnArg::Typed(typed) => count(&typed.ty),
            FnArg::Receiver(_) => 0,
        };
        let parameters = signature.inputs.iter().map(of).sum();
        self.push(signature.ident.to_string(), lines, parameters);
    }

    fn push(&mut self, name: String, lines: usize, parameters: usize) {
        self.found.push(Function { file: self.file.to_owned(), name, lines, parameters });
    }

    /// Visits the body of a function.
    fn within(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.inside, true);
        visit(self);
        self.inside = before;
    }

    /// Notes the functions in the tokens of a macro: `fn`, a name or a variable of the macro, parameters, and a body.
    fn tokens(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            if let TokenTree::Group(group) = token {
                self.tokens(group.stream());
            }
            let is_fn = matches!(token, TokenTree::Ident(word) if word == "fn");
            let behind = tokens.get(at + 1..).unwrap_or_default();
            let name = behind.iter().take(2).find_map(|token| match token {
                TokenTree::Ident(name) => Some(name.to_string()),
                _ => None,
            });
            let (true, Some(name)) = (is_fn, name) else { continue };
            let signature =
                behind.iter().take_while(|token| !matches!(token, TokenTree::Punct(end) if end.as_char() == ';'));
            let groups = signature.filter_map(|token| match token {
                TokenTree::Group(group) => Some(group),
                _ => None,
            });
            let groups: Vec<_> = groups.collect();
            let delimited = |by: Delimiter| groups.iter().find(|group| group.delimiter() == by);
            let (Some(list), Some(body)) = (delimited(Delimiter::Parenthesis), delimited(Delimiter::Brace)) else {
                continue;
            };
            self.push(name, lines_between(body.span()), parameters_in(list.stream()));
        }
    }
}

/// The parameters in a list of tokens: colons that are no part of a path.
fn parameters_in(list: TokenStream) -> usize {
    let mut joined = false;
    let mut found = 0;
    for token in list {
        let TokenTree::Punct(punct) = token else {
            joined = false;
            continue;
        };
        let joins = punct.spacing() == Spacing::Joint;
        found += usize::from(punct.as_char() == ':' && !joined && !joins);
        joined = joins && punct.as_char() == ':';
    }
    found
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.note(&function.sig, Some(&function.block));
        self.within(|inner| visit::visit_item_fn(inner, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.note(&function.sig, Some(&function.block));
        self.within(|inner| visit::visit_impl_item_fn(inner, function));
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.note(&function.sig, function.default.as_ref());
        self.within(|inner| visit::visit_trait_item_fn(inner, function));
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        if !self.inside {
            self.push("a closure".to_owned(), lines_between(closure.body.span()), closure.inputs.len());
        }
        self.within(|inner| visit::visit_expr_closure(inner, closure));
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        if !self.inside {
            self.tokens(call.tokens.clone());
        }
    }
}

impl Limits {
    /// What is too long, and exceptions that nothing needs.
    pub(super) fn check(self, measured: &Measured, exceptions: &[Exception]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut needed = BTreeSet::new();
        let allowed = |file: &str, function: Option<&str>, of: fn(&Exception) -> Option<usize>| {
            let fits = |exception: &&Exception| exception.file == file && exception.function.as_deref() == function;
            exceptions
                .iter()
                .enumerate()
                .find(|(_, exception)| fits(exception) && of(exception).is_some())
                .map(|(place, exception)| (place, of(exception).unwrap_or_default()))
        };
        let mut held = |what: String, is: usize, limit: usize, exception: Option<(usize, usize)>| {
            if is > limit {
                needed.extend(exception.map(|(place, _)| place));
                let limit = exception.map_or(limit, |(_, allowed)| allowed);
                if is > limit {
                    wrong.push(format!("{what}, {limit} allowed"));
                }
            }
        };
        for (file, lines) in &measured.files {
            held(format!("{file}: {lines} lines"), *lines, self.file, allowed(file, None, |exception| exception.lines));
        }
        for Function { file, name, lines, parameters } in &measured.functions {
            let exception = allowed(file, Some(name), |exception| exception.lines);
            held(format!("{file}: {name} has {lines} lines"), *lines, self.function, exception);
            let exception = allowed(file, Some(name), |exception| exception.parameters);
            held(format!("{file}: {name} has {parameters} parameters"), *parameters, self.parameters, exception);
        }
        for (place, exception) in exceptions.iter().enumerate() {
            if !needed.contains(&place) {
                let Exception { file, function, .. } = exception;
                wrong.push(format!("{file}: the exception for {} is not needed", function.as_deref().unwrap_or("it")));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { file: 10, function: 3, parameters: 2 };

    fn functions(source: &str) -> Vec<Function> {
        let mut found = Vec::new();
        Functions { file: "a.rs", found: &mut found, inside: false }.visit_file(&syn::parse_file(source).unwrap());
        found
    }

    #[test]
    fn lines_are_those_between_the_braces_and_self_is_no_parameter() {
        let found = functions(
            "fn f(a: u8, b: u8) {\n    1;\n    2;\n}\nimpl X { fn g(&self) {} }\nextern \"C\" fn h(a: u8) {}",
        );
        let is = |name: &str, lines, parameters| Function {
            file: "a.rs".to_owned(),
            name: name.to_owned(),
            lines,
            parameters,
        };
        assert_eq!(found, [is("f", 2, 2), is("g", 0, 0), is("h", 0, 1)]);
    }

    /// Names, lines and parameters of the functions of a source.
    fn sizes(source: &str) -> Vec<(String, usize, usize)> {
        functions(source).into_iter().map(|function| (function.name, function.lines, function.parameters)).collect()
    }

    #[test]
    fn an_interface_in_c_counts_its_parameters() {
        let found = sizes("extern \"C\" fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8) {}");
        assert_eq!(found, [("f".to_owned(), 0, 10)]);
    }

    #[test]
    fn a_tuple_counts_as_its_members() {
        let found = sizes("fn f((a, b): (u8, (u16, u32)), c: &(u8, u8), d: ()) {}");
        assert_eq!(found, [("f".to_owned(), 0, 6)]);
    }

    #[test]
    fn closures_outside_functions_have_a_length() {
        let found = sizes("static S: L = L::new(|| {\n1;\n2;\n3;\n4;\n});\nfn f() {\n|| {\n1;\n};\n}");
        assert_eq!(found, [("a closure".to_owned(), 4, 0), ("f".to_owned(), 3, 0)]);
    }

    #[test]
    fn functions_in_macros_are_measured() {
        let source = "macro_rules! m { ($n:ident) => {\nfn $n(&self, a: a::B, b: u8) -> u8 {\n1;\n2;\n3;\n4;\n}\n}; }\n\
                      proptest! { fn g(a in 0..1) {\n1;\n} }\nm! { x: fn(u8), y; }";
        assert_eq!(sizes(source), [("n".to_owned(), 4, 2), ("g".to_owned(), 1, 0)]);
    }

    #[test]
    fn no_comment_hides_a_file() {
        let root = std::env::temp_dir().join(format!("layers-sizes-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("a.rs"), "// not @generated\nfn f() {}\n").unwrap();
        let git = Command::new("git").args(["init", "--quiet"]).current_dir(&root).status().unwrap();
        let measured = measure(&root).map(|measured| measured.files);
        std::fs::remove_dir_all(&root).unwrap();
        assert!(git.success());
        assert_eq!(measured, Ok(vec![("a.rs".to_owned(), 2)]));
    }

    #[test]
    fn what_is_too_long_needs_an_exception_that_covers_it() {
        let measured = Measured {
            files: vec![("a.rs".to_owned(), 11)],
            functions: functions("fn f(a: u8, b: u8, c: u8) {\n1;\n2;\n3;\n4;\n}"),
        };
        let wrong = LIMITS.check(&measured, &[]);
        assert_eq!(
            wrong,
            ["a.rs: 11 lines, 10 allowed", "a.rs: f has 4 lines, 3 allowed", "a.rs: f has 3 parameters, 2 allowed"]
        );
        let exception = |function: Option<&str>, lines, parameters| Exception {
            file: "a.rs".to_owned(),
            function: function.map(str::to_owned),
            lines,
            parameters,
            _why: String::new(),
        };
        let all =
            [exception(None, Some(11), None), exception(Some("f"), Some(4), None), exception(Some("f"), None, Some(3))];
        assert!(LIMITS.check(&measured, &all).is_empty());
        let tight = [exception(None, Some(10), None)];
        assert!(LIMITS.check(&measured, &tight).contains(&"a.rs: 11 lines, 10 allowed".to_owned()));
        let needless = [exception(Some("g"), Some(9), None)];
        assert!(LIMITS.check(&measured, &needless).contains(&"a.rs: the exception for g is not needed".to_owned()));
    }
}
