//! How long files, functions and lists of parameters are.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, FnArg, ImplItemFn, ItemFn, Signature, TraitItemFn};

use super::imports;

/// Largest sizes that are allowed without an exception.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    /// Lines of a file.
    file: usize,
    /// Lines of the body of a function.
    function: usize,
    /// Parameters of a function, without `self`.
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
        // Who writes a file by a program does not read it.
        if text.lines().take(3).any(|line| line.contains("@generated")) {
            continue;
        }
        measured.files.push((name.to_owned(), text.lines().count()));
        let mut visitor = Functions { file: name, found: &mut measured.functions };
        visitor.visit_file(&imports::parse(&path)?);
    }
    Ok(measured)
}

struct Functions<'a> {
    file: &'a str,
    found: &'a mut Vec<Function>,
}

impl Functions<'_> {
    fn note(&mut self, signature: &Signature, body: Option<&Block>) {
        let lines = body.map_or(0, |body| {
            let (start, end) = (body.span().start().line, body.span().end().line);
            // The lines between the braces.
            end.saturating_sub(start + 1)
        });
        // The interface of a foreign function is not ours to choose.
        let parameters = match signature.abi {
            Some(_) => 0,
            None => signature.inputs.iter().filter(|input| matches!(input, FnArg::Typed(_))).count(),
        };
        let (file, name) = (self.file.to_owned(), signature.ident.to_string());
        self.found.push(Function { file, name, lines, parameters });
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.note(&function.sig, Some(&function.block));
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.note(&function.sig, Some(&function.block));
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.note(&function.sig, function.default.as_ref());
        visit::visit_trait_item_fn(self, function);
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
        Functions { file: "a.rs", found: &mut found }.visit_file(&syn::parse_file(source).unwrap());
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
        assert_eq!(found, [is("f", 2, 2), is("g", 0, 0), is("h", 0, 0)]);
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
