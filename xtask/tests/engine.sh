#!/bin/sh
# Stands for the engine of `cargo xtask fuzz` in its tests: notes its arguments, and ends as its target is called, `exit-77` or `killed`.
echo "$@" > ran
case $CAMPANILE_FUZZ_TARGET in
    exit-*) exit "${CAMPANILE_FUZZ_TARGET#exit-}" ;;
    *) kill -KILL $$ ;;
esac
