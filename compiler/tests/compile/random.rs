//! Programs at random, with arrays, loops and jumps, give what the same programs give on the host.

use crate::bench::{as_u32, glsl, in_ssa_form, interpret, u32s};

const ARRAYS: usize = 3;
const LENGTH: u32 = 4;
const VARIABLES: usize = 3;
const DEPTH: usize = 3;

enum Expression {
    Constant(u32),
    Variable(usize),
    /// Of the loop of this depth.
    Counter(usize),
    Element(usize, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
}

enum Statement {
    Set(usize, Expression),
    Put(usize, Expression, Expression),
    Copy(usize, usize),
    Call(usize, Expression),
    If(Expression, Vec<Statement>, Vec<Statement>),
    For(usize, u32, Vec<Statement>),
    Switch(Expression, Vec<Vec<Statement>>),
    Leave(Jump, Expression),
}

/// The way that control leaves a statement; `None` if it comes to the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Jump {
    None,
    Break,
    Continue,
    Return,
}

/// The function that programs call.
const FUNCTION: &str = "void f(inout uint x[4], uint n) {
    x[n % 4u] += x[(n + 1u) % 4u] ^ n;
    if (x[0] % 3u == 1u) return;
    for (uint k = 0u; k < 3u; k++) { x[k] ^= x[k + 1u] >> 1; if (x[k] % 5u == n) break; }
}";

fn call(x: &mut [u32; 4], n: u32) {
    x[(n % 4) as usize] = x[(n % 4) as usize].wrapping_add(x[(n.wrapping_add(1) % 4) as usize] ^ n);
    if x[0] % 3 == 1 {
        return;
    }
    for k in 0..3 {
        x[k] ^= x[k + 1] >> 1;
        if x[k] % 5 == n {
            break;
        }
    }
}

struct Writer<'r> {
    random: &'r mut fastrand::Rng,
    /// Statements that are left to write.
    left: u32,
}

impl Writer<'_> {
    fn index(&mut self, loops: usize) -> Expression {
        match self.random.u32(..10) {
            0..4 => Expression::Constant(self.random.u32(..LENGTH)),
            4..9 if loops > 0 => Expression::Counter(self.random.usize(..loops)),
            4..9 => Expression::Variable(self.random.usize(..VARIABLES)),
            _ => self.expression(loops, 1),
        }
    }

    fn expression(&mut self, loops: usize, deep: u32) -> Expression {
        match self.random.u32(..8) {
            0 => Expression::Constant(self.random.u32(..9)),
            1 => Expression::Variable(self.random.usize(..VARIABLES)),
            2 if loops > 0 => Expression::Counter(self.random.usize(..loops)),
            3..5 => Expression::Element(self.random.usize(..ARRAYS), Box::new(self.index(loops))),
            5.. if deep > 0 => {
                let op = ["+", "-", "*", "^", "&", ">>"][self.random.usize(..6)];
                let (a, b) = (self.expression(loops, deep - 1), self.expression(loops, deep - 1));
                Expression::Binary(op, Box::new(a), Box::new(b))
            }
            _ => Expression::Variable(self.random.usize(..VARIABLES)),
        }
    }

    fn block(&mut self, loops: usize, most: u32, jumps: bool) -> Vec<Statement> {
        let mut all = Vec::new();
        for _ in 0..self.random.u32(1..=most) {
            if self.left > 0 {
                self.left -= 1;
                all.push(self.statement(loops, jumps));
            }
        }
        all
    }

    fn statement(&mut self, loops: usize, jumps: bool) -> Statement {
        let array = self.random.usize(..ARRAYS);
        match self.random.u32(..16) {
            0..3 => Statement::Set(self.random.usize(..VARIABLES), self.expression(loops, 2)),
            3..7 => Statement::Put(array, self.index(loops), self.expression(loops, 2)),
            7 => Statement::Copy(array, self.random.usize(..ARRAYS)),
            8 => Statement::Call(array, self.index(loops)),
            9..11 => Statement::If(self.expression(loops, 1), self.block(loops, 3, jumps), self.block(loops, 2, jumps)),
            11 => {
                let cases = (0..3).map(|_| self.block(loops, 2, false)).collect();
                Statement::Switch(self.expression(loops, 1), cases)
            }
            12..15 if loops < DEPTH => {
                Statement::For(loops, self.random.u32(1..=LENGTH), self.block(loops + 1, 4, true))
            }
            15 if jumps => {
                let jump = [Jump::Break, Jump::Continue, Jump::Return][self.random.usize(..3)];
                Statement::Leave(jump, self.expression(loops, 1))
            }
            _ => Statement::Set(self.random.usize(..VARIABLES), self.expression(loops, 1)),
        }
    }
}

fn text(expression: &Expression) -> String {
    match expression {
        Expression::Constant(number) => format!("{number}u"),
        Expression::Variable(number) => format!("v{number}"),
        Expression::Counter(depth) => format!("k{depth}"),
        Expression::Element(array, index) => format!("a{array}[{} % 4u]", text(index)),
        Expression::Binary(">>", a, b) => format!("({} >> ({} & 31u))", text(a), text(b)),
        Expression::Binary(op, a, b) => format!("({} {op} {})", text(a), text(b)),
    }
}

fn texts(block: &[Statement]) -> String {
    block.iter().map(written).collect()
}

fn written(statement: &Statement) -> String {
    match statement {
        Statement::Set(to, from) => format!("v{to} = {};\n", text(from)),
        Statement::Put(array, index, from) => format!("a{array}[{} % 4u] = {};\n", text(index), text(from)),
        Statement::Copy(to, from) => format!("a{to} = a{from};\n"),
        Statement::Call(array, n) => format!("f(a{array}, {});\n", text(n)),
        Statement::If(cond, then, otherwise) => {
            format!("if ({} % 3u == 1u) {{ {} }} else {{ {} }}\n", text(cond), texts(then), texts(otherwise))
        }
        Statement::For(depth, count, body) => {
            format!("for (uint k{depth} = 0u; k{depth} < {count}u; k{depth}++) {{ {} }}\n", texts(body))
        }
        Statement::Switch(selector, cases) => format!(
            "switch ({} % 4u) {{ case 0u: {} case 1u: {} break; default: v2 ^= 1u; {} }}\n",
            text(selector),
            texts(&cases[0]),
            texts(&cases[1]),
            texts(&cases[2])
        ),
        Statement::Leave(jump, cond) => {
            let word = match jump {
                Jump::Break => "break",
                Jump::Continue => "continue",
                _ => "{ o[i] = v0; return; }",
            };
            format!("if ({} % 5u == 2u) {word};\n", text(cond))
        }
    }
}

struct Lane {
    variables: [u32; VARIABLES],
    arrays: [[u32; LENGTH as usize]; ARRAYS],
    counters: [u32; DEPTH],
}

impl Lane {
    fn value(&self, expression: &Expression) -> u32 {
        match expression {
            Expression::Constant(number) => *number,
            Expression::Variable(number) => self.variables[*number],
            Expression::Counter(depth) => self.counters[*depth],
            Expression::Element(array, index) => self.arrays[*array][(self.value(index) % LENGTH) as usize],
            Expression::Binary(op, a, b) => {
                let (a, b) = (self.value(a), self.value(b));
                match *op {
                    "+" => a.wrapping_add(b),
                    "-" => a.wrapping_sub(b),
                    "*" => a.wrapping_mul(b),
                    "^" => a ^ b,
                    "&" => a & b,
                    _ => a >> (b & 31),
                }
            }
        }
    }

    fn block(&mut self, block: &[Statement]) -> Jump {
        block.iter().map(|statement| self.run(statement)).find(|jump| *jump != Jump::None).unwrap_or(Jump::None)
    }

    fn run(&mut self, statement: &Statement) -> Jump {
        match statement {
            Statement::Set(to, from) => self.variables[*to] = self.value(from),
            Statement::Put(array, index, from) => {
                let (at, value) = ((self.value(index) % LENGTH) as usize, self.value(from));
                self.arrays[*array][at] = value;
            }
            Statement::Copy(to, from) => self.arrays[*to] = self.arrays[*from],
            Statement::Call(array, n) => {
                let n = self.value(n);
                call(&mut self.arrays[*array], n);
            }
            Statement::If(cond, then, otherwise) => {
                return self.block(if self.value(cond) % 3 == 1 { then } else { otherwise });
            }
            Statement::For(depth, count, body) => {
                for turn in 0..*count {
                    self.counters[*depth] = turn;
                    match self.block(body) {
                        Jump::Break => break,
                        Jump::Return => return Jump::Return,
                        _ => {}
                    }
                }
            }
            Statement::Switch(selector, cases) => {
                let taken = match self.value(selector) % 4 {
                    0 => 0..2,
                    1 => 1..2,
                    _ => {
                        self.variables[2] ^= 1;
                        2..3
                    }
                };
                return cases[taken]
                    .iter()
                    .map(|case| self.block(case))
                    .find(|jump| *jump != Jump::None)
                    .unwrap_or(Jump::None);
            }
            Statement::Leave(jump, cond) => {
                if self.value(cond) % 5 == 2 {
                    return *jump;
                }
            }
        }
        Jump::None
    }
}

/// The word that lane `i` stores.
fn on_the_host(program: &[Statement], i: u32) -> u32 {
    let arrays = core::array::from_fn(|n| core::array::from_fn(|k| i + n as u32 * 4 + k as u32));
    let mut lane = Lane { variables: [i, 1, 2], arrays, counters: [0; DEPTH] };
    if lane.block(program) == Jump::Return {
        return lane.variables[0];
    }
    let words = lane.arrays.iter().flatten().chain(&lane.variables);
    words.fold(0u32, |sum, word| sum.wrapping_mul(31).wrapping_add(*word))
}

#[test]
fn programs_at_random_compute_what_they_do_on_the_host() {
    let mut random = fastrand::Rng::with_seed(41);
    for number in 0..40 {
        let program = Writer { random: &mut random, left: 25 }.block(0, 12, false);
        let source = format!(
            "layout(local_size_x = 64) in;
            layout(set = 0, binding = 0) buffer Output {{ uint o[]; }};
            {FUNCTION}
            void main() {{
                uint i = gl_LocalInvocationIndex, v0 = i, v1 = 1u, v2 = 2u;
                uint a0[4] = uint[](i, i + 1u, i + 2u, i + 3u);
                uint a1[4] = uint[](i + 4u, i + 5u, i + 6u, i + 7u);
                uint a2[4] = uint[](i + 8u, i + 9u, i + 10u, i + 11u);
                {}
                uint r = 0u;
                for (uint k = 0u; k < 4u; k++) r = r * 31u + a0[k];
                for (uint k = 0u; k < 4u; k++) r = r * 31u + a1[k];
                for (uint k = 0u; k < 4u; k++) r = r * 31u + a2[k];
                o[i] = ((r * 31u + v0) * 31u + v1) * 31u + v2;
            }}",
            texts(&program)
        );
        let module = glsl(&source);
        let expected: Vec<u32> = (0..64).map(|i| on_the_host(&program, i)).collect();
        for (form, module) in [("as it is", &module), ("in SSA form", &in_ssa_form(&module))] {
            let result = as_u32(&interpret(module, [1, 1, 1], &[u32s(&[0xdead; 64])])[0]);
            assert_eq!(result, expected, "program {number} {form}: {source}");
        }
    }
}
