#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| baton_state::store::redis::fuzzed::check(input));
