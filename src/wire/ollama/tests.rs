//! Unit tests of the whole wire.
