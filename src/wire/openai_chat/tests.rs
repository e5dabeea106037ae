//! What golden files do not show.
