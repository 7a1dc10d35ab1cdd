//! A stream: where it is cut makes no difference.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hermes::model::sse::fuzz(bytes));
