#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| baton_fuzz::checks::returned::check(input));
