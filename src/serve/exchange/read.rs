//! Parses an agent's request.

use std::borrow::Cow;

use crate::app::App;
use crate::heavy;
use crate::proxy::body::RequestBody;
use crate::proxy::{RequestContext, headers, route};
use crate::state::session::{ConversationKey, conversation_key};
use baton_core::plan::{self, AgentCall};
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::rewrite::{BodyScan, RequestReading};
use baton_core::wire::{Operation, Wire, wire};

/// Body of a request before it is parsed, scanned for baton's markers.
pub(super) struct ScannedBody {
    pub(super) body: RequestBody,
    scan: BodyScan,
    /// Cost of one pass over the body.
    pub(super) weight: usize,
}

impl ScannedBody {
    pub(super) fn new(body: RequestBody) -> Self {
        let text = body.text().map_or(&[][..], |text| text);
        let scan = BodyScan::new(text, *heavy::SAMPLE);
        Self {
            weight: heavy::weight(text.len(), scan.stems.len(), scan.braces),
            scan,
            body,
        }
    }
}

/// A parsed request with its body.
pub(super) struct ParsedRequest {
    pub(super) call: AgentCall,
    pub(super) body: RequestBody,
    /// Cost of one pass over the request.
    pub(super) weight: usize,
}

/// Parses a request. Returns `None` if the request must be relayed unchanged.
pub(super) fn receive(app: &App, ctx: &RequestContext, searched: &ScannedBody) -> Option<ParsedRequest> {
    let wire = wire(ctx.wire?);
    let reading = read(app, ctx, wire, searched);
    let unread = |why| ctx.recorder.note(|e| e.untooled = Some(why));
    let reading = reading.map_err(unread).ok()?;
    let ConversationKey { key, named } = key(ctx, &reading);
    ctx.recorder.note(|e| e.conversation = Some(key.clone()));
    let forbidden = match app.config.handoff.is_off() {
        true => Some(ToolOmission::OffByConfig),
        false => headers::is_off(&ctx.headers).then_some(ToolOmission::OffByHeader),
    };
    let call = AgentCall {
        operation: ctx.operation,
        principal: ctx.principal.clone(),
        key,
        named,
        declared_side: headers::is_side_call(&ctx.headers),
        forbidden,
        candidates: reading.candidates(),
        reading,
        edition: 0,
    };
    Some(ParsedRequest {
        call,
        body: searched.body.clone(),
        weight: searched.weight,
    })
}

/// Parses a request with its wire.
///
/// # Errors
/// The reason why the request is relayed unchanged.
fn read(
    app: &App,
    ctx: &RequestContext,
    wire: &'static Wire,
    searched: &ScannedBody,
) -> Result<RequestReading, ToolOmission> {
    let text = searched.body.text().ok_or(ToolOmission::UnreadCoding)?;
    let operation = ctx.operation.unwrap_or(Operation::Generate);
    let reading = RequestReading::scanned(wire, text, operation, &searched.scan);
    let mut reading = reading.map_err(|unread| {
        let (wire, why) = (wire.id().name(), unread.to_string());
        tracing::warn!(
            exchange = ctx.id,
            wire,
            why,
            "failed to parse a request; relaying it unchanged"
        );
        ToolOmission::from(unread)
    })?;
    let ours = app.tools.plain.names();
    // Usually another baton, between the agent and this one, has added the tool, and calls belong to that one.
    if reading.view.has_tool_named(ours) {
        return Err(ToolOmission::NameTaken);
    }
    // Some wires have these facts in the path instead of the body.
    let facts = &mut reading.view.facts;
    facts.stream |= route::streams(&ctx.target);
    facts.ours = ours;
    if facts.model.is_none() {
        facts.model = route::model(&ctx.target).map(str::to_owned);
    }
    // Redacted here, because log, metrics, spans, journal and handoffs all take the name from here. By mistake, an
    // agent's config may have a key in its place.
    if let Some(model) = &mut facts.model
        && let Cow::Owned(clean) = app.redactor.text(model)
    {
        *model = clean;
    }
    Ok(reading)
}

/// Conversation key by the agent's name for its session, else by the conversation's opening.
fn key(ctx: &RequestContext, reading: &RequestReading) -> ConversationKey {
    let header = |name: &str| headers::text(&ctx.headers, name).map(str::to_owned);
    let session = reading.view.facts.session.as_deref();
    let opening = || plan::opening(&reading.view);
    conversation_key(&ctx.principal, reading.view.wire, header, session, &opening)
}
