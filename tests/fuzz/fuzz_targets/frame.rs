//! A line of input: one thing, its id echoed as it was.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hermes_protocol::frame::fuzz(bytes));
