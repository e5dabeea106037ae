//! Access checks shared by the data listener and the admin listener. Independent of what is requested.

pub mod clients;
pub mod hosts;
