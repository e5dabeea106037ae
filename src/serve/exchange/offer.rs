//! A planned request, of which the upstream requests are built.

use super::read::AgentRequest;
use crate::serve::exchange::app::App;
use baton_core::plan::{Pin, Places, Planned, ToolOffer};
use baton_core::record::HandoffId;

/// A request with all that is known of it before it is sent.
#[derive(Clone)]
pub(super) struct Offered {
    pub(super) agent: AgentRequest,
    pub(super) pin: Pin,
    pub(super) places: Places,
    pub(super) offer: ToolOffer,
}

impl Offered {
    /// The plan, under the present policy.
    pub(super) fn plan<'a>(&'a self, app: &'a App) -> Planned<'a> {
        Planned {
            wire: self.agent.wire,
            reading: self.agent.request.reading(),
            call: self.agent.call,
            pin: &self.pin,
            places: &self.places,
            offer: &self.offer,
            policy: app.policy(),
        }
    }

    /// The handoff that the request is cut at.
    pub(super) fn active_id(&self) -> Option<HandoffId> {
        self.pin.active_id()
    }
}
