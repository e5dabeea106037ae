//! Access checks shared by the data listener and the admin listener. They do not depend on the requested
//! resource.

pub mod clients;
pub mod hosts;
pub mod peers;
