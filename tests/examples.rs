//! The examples in Rust, run. Those in C are run by the tests of the library that they are linked with.

#[path = "../examples/squares.rs"]
mod squares;

#[test]
fn a_program_runs_through_the_user_mode_driver_in_sixty_lines() {
    assert_eq!(squares::squares().expect("the example"), 640);
    for (name, text) in
        [("squares.rs", include_str!("../examples/squares.rs")), ("squares.c", include_str!("../examples/c/squares.c"))]
    {
        assert!(text.lines().count() <= 60, "{name} has {} lines", text.lines().count());
    }
}
