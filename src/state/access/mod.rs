//! Access checks shared by the data listener and the admin listener. Independent of what is requested.

pub(crate) mod clients;
pub(crate) mod hosts;
