//! A file, an old and a new text: an edit changes nothing outside its places, or is refused.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hermes::tools::edit::matching::fuzz(bytes));
