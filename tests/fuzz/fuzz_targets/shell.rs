//! A command line: never read-only with a destructive tail.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hermes::permit::shell::fuzz(bytes));
