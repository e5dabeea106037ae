//! `baton demo`: a scripted agent and provider through the real proxy. Not wired yet.
