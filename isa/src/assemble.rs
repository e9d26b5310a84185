//! The assembler.

use crate::disassemble::{constant_type, letter, modifiers};
use crate::link::{Function, LinkError, Source, link};
use crate::{constant, name};
use campanile_hw::isa::{
    CODE_MAX, FORMS, FUNCTIONS_MAX, Form, Immediate, Instruction, NO_INSTRUCTION, Operand, Order, OrderWord,
    ProgramHeader, ProgramRule, REGISTERS_MAX, SCRATCH_MAX, SHARED_MAX, Scope, Type,
};
use std::fmt;

/// What the assembler does not understand, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssemblyError {
    /// Line of the text, from 1.
    pub line: usize,
    /// Column in the line, from 1.
    pub column: usize,
    /// The mistake, and the text that was expected in its place.
    pub message: String,
}

impl fmt::Display for AssemblyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for AssemblyError {}

/// A piece of a line and the column at which it begins.
#[derive(Clone, Copy, Debug)]
struct Piece<'a> {
    text: &'a str,
    line: usize,
    column: usize,
}

impl<'a> Piece<'a> {
    fn error(self, message: impl Into<String>) -> AssemblyError {
        AssemblyError { line: self.line, column: self.column, message: message.into() }
    }

    fn expected(self, what: &str) -> AssemblyError {
        let found = if self.text.is_empty() { "nothing".into() } else { format!("`{}`", self.text) };
        self.error(format!("expected {what}, found {found}"))
    }

    /// The part from byte `from` to byte `to`, without blanks around it.
    fn part(self, from: usize, to: usize) -> Self {
        let text = self.text.get(from..to).unwrap_or("");
        let start = text.len() - text.trim_start().len();
        let column = self.column + self.text.get(..from + start).unwrap_or("").chars().count();
        Piece { text: text.trim(), column, ..self }
    }

    /// The parts between separators.
    fn split(self, separator: char) -> Vec<Self> {
        let mut start = 0;
        let ends = self.text.match_indices(separator).map(|(at, _)| at).chain([self.text.len()]);
        let mut parts = Vec::new();
        for end in ends {
            parts.push(self.part(start, end));
            start = end + separator.len_utf8();
        }
        parts
    }

    fn number(self, what: &str) -> Result<u32, AssemblyError> {
        constant::parse(self.text, Type::None).map(|value| value as u32).ok_or_else(|| self.expected(what))
    }
}

/// A CALL whose function is not known yet.
struct Call<'a> {
    function: usize,
    instruction: usize,
    name: Piece<'a>,
}

struct Assembler<'a> {
    header: ProgramHeader,
    functions: Vec<Function>,
    /// The line of the text of each instruction.
    places: Vec<Vec<Piece<'a>>>,
    names: Vec<&'a str>,
    /// The name of each function where it begins.
    function_places: Vec<Piece<'a>>,
    calls: Vec<Call<'a>>,
    line: u32,
    /// The directives about the header, by their names.
    header_places: Vec<Piece<'a>>,
}

/// Reads the text of a program and gives its bytes, which are valid.
///
/// # Errors
/// The first line that is not understood, or the instruction that breaks a rule of the instruction set.
pub fn assemble(text: &str) -> Result<Vec<u8>, AssemblyError> {
    let mut assembler = Assembler {
        header: ProgramHeader::new(),
        functions: Vec::new(),
        places: Vec::new(),
        names: Vec::new(),
        function_places: Vec::new(),
        calls: Vec::new(),
        line: 0,
        header_places: Vec::new(),
    };
    // Some editors begin a file with a mark of the order of its bytes, which nobody sees.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, text) in text.lines().enumerate() {
        let whole = Piece { text, line: number + 1, column: 1 };
        let piece = whole.part(0, text.find(';').unwrap_or(text.len()));
        match piece.text.strip_prefix('.') {
            _ if piece.text.is_empty() => {}
            Some(_) => assembler.directive(piece)?,
            None => assembler.instruction(piece)?,
        }
    }
    assembler.finish()
}

/// The first word of a piece and the rest.
fn head(piece: Piece<'_>) -> (Piece<'_>, Piece<'_>) {
    let end = piece.text.find(char::is_whitespace).unwrap_or(piece.text.len());
    (piece.part(0, end), piece.part(end, piece.text.len()))
}

fn numbers<const N: usize>(rest: Piece<'_>, what: &str) -> Result<[u32; N], AssemblyError> {
    let parts = rest.split(',');
    let found: Vec<u32> = parts.iter().map(|part| part.number(what)).collect::<Result<_, _>>()?;
    found.try_into().map_err(|_| rest.expected(what))
}

impl<'a> Assembler<'a> {
    fn directive(&mut self, piece: Piece<'a>) -> Result<(), AssemblyError> {
        let (directive, rest) = head(piece);
        if matches!(directive.text, ".workgroup" | ".registers" | ".shared" | ".scratch") {
            if self.header_places.iter().any(|earlier| earlier.text == directive.text) {
                return Err(directive.error(format!("`{}` is there already", directive.text)));
            }
            self.header_places.push(directive);
        }
        match directive.text {
            ".workgroup" => {
                let size = numbers(rest, "three numbers of lanes, such as `64, 1, 1`")?;
                [self.header.workgroup_x, self.header.workgroup_y, self.header.workgroup_z] = size;
            }
            ".registers" => {
                let what = "three numbers of registers up to 256: words, doubles, predicates";
                let counts: [u32; 3] = numbers(rest, what)?;
                if counts.iter().any(|count| *count > 256) {
                    return Err(rest.expected(what));
                }
                let [words, doubles, predicates] = counts.map(|count| count as u16);
                (self.header.words, self.header.doubles, self.header.predicates) = (words, doubles, predicates);
            }
            ".shared" => self.header.shared = rest.number("a number of bytes")?,
            ".scratch" => self.header.scratch = rest.number("a number of bytes")?,
            ".line" => self.line = rest.number("a line number")?,
            ".function" => {
                let is_name = |text: &str| {
                    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
                };
                if !is_name(rest.text) {
                    return Err(rest.expected("the name of a function"));
                }
                if self.names.contains(&rest.text) {
                    return Err(rest.error(format!("the function `{}` is there already", rest.text)));
                }
                self.begin(rest.text, rest)?;
            }
            _ => {
                let what = "`.workgroup`, `.registers`, `.shared`, `.scratch`, `.line` or `.function`";
                return Err(directive.expected(what));
            }
        }
        Ok(())
    }

    fn begin(&mut self, name: &'a str, place: Piece<'a>) -> Result<(), AssemblyError> {
        if self.functions.len() == FUNCTIONS_MAX as usize {
            return Err(place.error(format!("there are more than {FUNCTIONS_MAX} functions")));
        }
        self.functions.push(Vec::new());
        self.places.push(Vec::new());
        self.names.push(name);
        self.function_places.push(place);
        Ok(())
    }

    fn instruction(&mut self, piece: Piece<'a>) -> Result<(), AssemblyError> {
        if self.functions.is_empty() {
            self.begin("main", piece)?;
        }
        let (operation, rest) = head(piece);
        let mut instruction = mnemonic(operation)?;
        let mut parts = if rest.text.is_empty() { Vec::new() } else { rest.split(',') };
        parts.reverse();
        let end = rest.part(rest.text.len(), rest.text.len());
        for place in 0..4 {
            operand(&mut instruction, place, &mut parts, end)?;
        }
        match instruction.op.form().immediate {
            Immediate::Stride => {
                instruction.immediate = u64::from(parts.pop().unwrap_or(end).number("the stride in bytes")?);
            }
            Immediate::Function => {
                let name = parts.pop().filter(|name| !name.text.is_empty());
                let name = name.ok_or_else(|| end.expected("the name of a function"))?;
                let function = self.functions.len().saturating_sub(1);
                let instruction = self.functions.last().map_or(0, Vec::len);
                self.calls.push(Call { function, instruction, name });
            }
            Immediate::Operand | Immediate::Offset | Immediate::Target => {}
        }
        if let Some(more) = parts.pop() {
            return Err(more.expected("the end of the line"));
        }
        instruction.check().map_err(|bad| operation.error(format!("the instruction breaks the rule {bad:?}")))?;
        if let (Some(function), Some(places)) = (self.functions.last_mut(), self.places.last_mut()) {
            function.push(Source { instruction, line: self.line });
            places.push(operation);
        }
        Ok(())
    }

    /// The place at which a rule is broken that is not one of an instruction.
    fn place_of(&self, rule: ProgramRule) -> Option<&Piece<'a>> {
        let named = |name: &str| self.header_places.iter().find(|place| place.text == name);
        let beyond = |size: u32, most: u32| size > most || !size.is_multiple_of(8);
        match rule {
            ProgramRule::Workgroup => named(".workgroup"),
            ProgramRule::Limit if beyond(self.header.shared, SHARED_MAX) => named(".shared"),
            ProgramRule::Limit if beyond(self.header.scratch, SCRATCH_MAX) => named(".scratch"),
            // The first instruction that is too much.
            ProgramRule::Limit => self.places.iter().flatten().nth(CODE_MAX as usize),
            ProgramRule::Functions => {
                let empty = self.functions.iter().position(Vec::is_empty)?;
                self.function_places.get(empty)
            }
            _ => None,
        }
    }

    fn finish(mut self) -> Result<Vec<u8>, AssemblyError> {
        for call in &self.calls {
            let number = self.names.iter().position(|name| *name == call.name.text);
            let number = number.ok_or_else(|| call.name.expected("the name of a function"))?;
            if let Some(source) = self.functions.get_mut(call.function).and_then(|code| code.get_mut(call.instruction))
            {
                source.instruction.immediate = number as u64;
            }
        }
        let nowhere = AssemblyError { line: 1, column: 1, message: String::new() };
        let at = |place: Option<&Piece<'_>>, message: String| match place {
            Some(place) => place.error(message),
            None => AssemblyError { message, ..nowhere.clone() },
        };
        if self.functions.is_empty() {
            return Err(at(None, "the program has no instruction".into()));
        }
        link(&self.header, &self.functions).map_err(|error| match error {
            LinkError::Nesting { function, instruction } => {
                let place = self.places.get(function).and_then(|places| places.get(instruction));
                at(place, "this does not match the block around it, or its block has no end".into())
            }
            LinkError::Program(bad) => {
                let all: Vec<&Piece<'_>> = self.places.iter().flatten().collect();
                let place = match bad.instruction {
                    NO_INSTRUCTION => self.place_of(bad.rule),
                    number => all.get(number as usize).copied(),
                };
                let doc = ProgramRule::ALL.iter().find(|(number, ..)| *number == bad.rule as u8);
                let doc = doc.map_or("", |(_, _, doc)| doc.trim());
                at(place, format!("the program breaks the rule {:?}: {doc}", bad.rule))
            }
        })
    }
}

/// The operation with its type, modifier, scope and order.
fn mnemonic(piece: Piece<'_>) -> Result<Instruction, AssemblyError> {
    let mut parts = piece.split('.').into_iter();
    let first = parts.next().unwrap_or(piece);
    let form: &Form = FORMS
        .iter()
        .find(|form| name::text_of(form.name) == first.text)
        .ok_or_else(|| first.expected("an operation, such as `add` or `load`"))?;
    let mut next = |what: &str, fits: &dyn Fn(u8) -> bool, table: &[(u8, &str, &str)]| {
        let legal = || table.iter().filter(|(number, ..)| fits(*number)).map(|(_, text, _)| name::text_of(text));
        let part = parts.next();
        let number = part.and_then(|part| name::to_number(table, part.text)).filter(|number| fits(*number));
        number.ok_or_else(|| {
            let list = legal().collect::<Vec<_>>().join(", ");
            match part {
                Some(part) => part.expected(&format!("{what} of `{}`: {list}", first.text)),
                None => piece.error(format!("expected {what} of `{}` behind it: {list}", first.text)),
            }
        })
    };
    let mut instruction = Instruction::new(form.op, Type::None);
    if !form.types.contains(Type::None) {
        let fits = |number| Type::from_number(number).is_some_and(|ty| form.types.contains(ty));
        instruction.ty = Type::from_number(next("the type", &fits, Type::ALL)?).unwrap_or(Type::None);
    }
    if let Some(table) = modifiers(form.modifier) {
        let order = OrderWord::new();
        let fits = |modifier| {
            let tried = Instruction { modifier, order, ..instruction };
            // The other fields of an instruction without operands are legal.
            tried.check().is_ok()
        };
        instruction.modifier = next("the modifier", &fits, table)?;
    }
    if form.ordered {
        let scope = Scope::from_number(next("the scope", &|_| true, Scope::ALL)?).unwrap_or(Scope::System);
        let order = Order::from_number(next("the order", &|_| true, Order::ALL)?).unwrap_or(Order::Relaxed);
        instruction.order = OrderWord::of(scope, order);
    }
    match parts.next() {
        Some(more) => Err(more.expected("nothing more behind the operation")),
        None => Ok(instruction),
    }
}

/// Reads the operand of field `place`, if the instruction has one.
fn operand<'a>(
    instruction: &mut Instruction,
    place: usize,
    parts: &mut Vec<Piece<'a>>,
    end: Piece<'a>,
) -> Result<(), AssemblyError> {
    let form = instruction.op.form();
    let (file, _, count) = instruction.registers()[place];
    let Some(letter) = letter(file) else { return Ok(()) };
    let part = parts.pop().unwrap_or(end);
    let number = if form.immediate == Immediate::Offset && place == 1 {
        let (register, offset) = address(part, letter)?;
        instruction.immediate = offset as u64;
        register
    } else {
        let can_be_constant = matches!(form.operands[place], Operand::SameOrConstant | Operand::WordOrConstant);
        match register(part.text, letter) {
            Some(number) => number,
            None if can_be_constant => {
                let ty = constant_type(instruction);
                let value = constant::parse(part.text, ty);
                let constant =
                    if ty == Type::None { "a constant from 0 to 4294967295" } else { "a constant of the type" };
                let what = format!("a register {letter}0 to {letter}255 or {constant}");
                instruction.immediate = value.ok_or_else(|| part.expected(&what))?;
                instruction.constant = true;
                return Ok(());
            }
            None => return Err(part.expected(&format!("a register {letter}0 to {letter}255"))),
        }
    };
    let last = u32::from(number) + count - 1;
    if last >= u32::from(REGISTERS_MAX) {
        return Err(part.error(format!(
            "the registers {letter}{number} to {letter}{last} are meant, and {letter}255 is the last"
        )));
    }
    match place {
        0 => instruction.dst = number,
        1 => instruction.a = number,
        2 => instruction.b = number,
        _ => instruction.c = number,
    }
    Ok(())
}

fn register(text: &str, letter: char) -> Option<u8> {
    let digits = text.strip_prefix(letter)?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// A register in brackets, with or without an offset.
fn address(part: Piece<'_>, letter: char) -> Result<(u8, i64), AssemblyError> {
    let what = format!("an address such as [{letter}0 + 16]");
    let wrong = || part.expected(&what);
    let inside = part.text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or_else(wrong)?;
    let split = inside.find(['+', '-']);
    let (base, offset) = inside.split_at(split.unwrap_or(inside.len()));
    let number = register(base.trim(), letter).ok_or_else(wrong)?;
    if offset.is_empty() {
        return Ok((number, 0));
    }
    let (sign, digits) = offset.split_at(1);
    let size = constant::integer(digits.trim()).filter(|size| *size >= 0).ok_or_else(wrong)?;
    let offset = if sign == "-" { -size } else { size };
    let offset = i32::try_from(offset).map_err(|_| part.error("the offset does not fit into 32 bits"))?;
    Ok((number, i64::from(offset)))
}
