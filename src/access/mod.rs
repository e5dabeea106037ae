//! Who may ask a listener: the parts that the data listener and the admin listener share. Nothing here knows what is
//! asked for.

pub(crate) mod clients;
pub(crate) mod hosts;
pub(crate) mod percent;
