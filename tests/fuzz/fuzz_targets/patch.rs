//! A patch and files: its changes can be written one after the other, or it is refused.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hermes::tools::patch::fuzz(bytes));
