//! A scripted provider that enforces the rules of the real APIs.
