//! The brake in one exchange: reads and charges the ledgers, applies the decision of `baton_core::brake` to a request,
//! and answers the brake's chat commands.

use std::sync::Arc;

use http::HeaderMap;
use uuid::Uuid;

use super::context;
use super::value::Exchange;
use crate::app::App;
use crate::heavy;
use crate::proxy::RequestContext;
use crate::proxy::fault::{Code, Fault};
use crate::proxy::headers::{self, Sending};
use crate::proxy::response_body::AgentResponse;
use crate::state::session::{ledger_key, session_name};
use crate::state::store::StoreResult;
use crate::state::telemetry::{BudgetUse, Charge, ExchangeEvent};
use baton_core::brake::{
    self, Account, AccountKind, BrakeDecision, BrakeInput, BrakeOutcome, BrakePolicy, BrakeReason, DAY_MS,
    EndText,
};
use baton_core::commands::CommandReply;
use baton_core::plan::{is_model_call, opening};
use baton_core::record::{Amounts, EntryKind, Ledger, LedgerEntry, PlanWindow};
use baton_core::response::AnswerOpening;
use baton_core::transcript::Transcript;
use baton_core::wire::error::CREDENTIAL_HEADERS;
use baton_core::work::{SeenFacts, Whereabouts};

/// Cost of comparing the calls of a transcript, relative to rewriting it.
const COMPARING: usize = 20;

/// Outcome of a command that releases the brake.
pub(super) enum BrakeAnswer {
    Reply(CommandReply),
    /// The agent may continue. This is the reply if the request has nothing to send to the model.
    GoOn(CommandReply),
}

/// Charges an ended exchange to its ledgers, and its budgets.
pub(crate) fn charge(app: &App, event: &mut ExchangeEvent) {
    let Some(charge) = event.charge.clone() else {
        return;
    };
    let enter =
        |key: &str, kind: EntryKind| app.sessions.enter_soon(&charge.principal, key, entry(app, kind));
    if let Some(plan) = charge.plan.as_ref().filter(|_| !event.plan_windows.is_empty()) {
        enter(plan, EntryKind::Windows(event.plan_windows.clone()));
    }
    let upstream = app.config.upstreams.get(&event.upstream);
    let host = upstream.map(|upstream| upstream.host());
    let Some(kind) = event.charged(&app.prices, &host.unwrap_or_default()) else {
        return;
    };
    for key in &charge.keys {
        enter(key, kind.clone());
    }
    if let EntryKind::Spent { amounts, .. } = kind {
        event.budgets.iter_mut().for_each(|budget| budget.add(&amounts));
    }
}

/// Records the use of the subscription's windows that a response states.
pub(super) fn note_windows(exchange: &Exchange, stated: &HeaderMap) {
    let limits = headers::limits(stated, exchange.app.clock.now_ms());
    let windows: Vec<_> = limits.iter().filter_map(PlanWindow::from_limit).collect();
    if !windows.is_empty() {
        exchange.ctx.recorder.note(|e| e.plan_windows = windows);
    }
}

/// Records until when upstream refuses the account's requests, for `::status`.
pub(super) fn note_refusal(exchange: &Exchange, until_ms: u64) {
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    let refused = entry(app, EntryKind::Refused(until_ms));
    app.sessions.enter_soon(&ctx.principal, &plan_key(ctx), refused);
}

/// Whether a request is charged to ledgers.
pub(super) fn is_on(exchange: &Exchange) -> bool {
    !matches!(policy(exchange), Ok(None))
}

fn entry(app: &App, kind: EntryKind) -> LedgerEntry {
    LedgerEntry {
        id: Uuid::now_v7(),
        at_ms: app.clock.now_ms(),
        kind,
    }
}

/// Enters a request into its ledgers. Returns the response if the brake ends the turn, so that nothing is sent.
pub(super) async fn check(exchange: &mut Exchange) -> Option<AgentResponse> {
    if !is_model_call(exchange.ctx.operation) {
        return None;
    }
    let policy = match policy(exchange) {
        Ok(policy) => policy?,
        Err(fault) => return Some(exchange.ctx.refuse(fault)),
    };
    let (app, ctx) = (Arc::clone(&exchange.app), &exchange.ctx);
    let view = exchange.offered.view();
    let tags = app.config.note_search().tags;
    let is_own = headers::is_of_subagent(&ctx.headers) || brake::continues_own_work(view, tags);
    // A command that the user typed while the agent worked must be answered, so the request does not count as the agent's own
    // work. A doubtful one may be output of a tool.
    let typed = &exchange.offered.pin.interjected;
    let continues = is_own && typed.iter().all(|typed| typed.is_doubtful);
    let accounts = accounts(exchange, &policy);
    // Charged even if the brake must not end the turn here, because the request costs the same.
    charge_at_end(exchange, &accounts, continues);
    if !exchange.plan().may_end_here() {
        return None;
    }
    let accounts = match entered(exchange, accounts, continues).await {
        Ok(accounts) => accounts,
        Err(error) => {
            tracing::error!(exchange = ctx.id, %error, "failed to read the ledgers of the brake; sending the request");
            return None;
        }
    };
    let weight = exchange.offered.weight.saturating_mul(COMPARING);
    // The turn with a sentinel also has the calls after it.
    let kept_from = exchange.offered.pin.kept_from().saturating_sub(1);
    let repeat = (policy.stops_loops() && continues)
        .then(|| heavy::work(weight, || brake::repeated_call(view, tags, kept_from)))
        .flatten();
    ctx.recorder
        .note(|e| e.budgets = BudgetUse::of_accounts(&accounts));
    let decision = brake::decide(&BrakeInput {
        accounts: &accounts,
        continues,
        repeat,
        request: exchange.offered.hash(),
    });
    match decision {
        BrakeDecision::Pass => None,
        BrakeDecision::TellUser(reason) => {
            let text = brake::user_notice(&reason, &app.config.commands.prefix, policy.may_raise());
            ctx.recorder.note(|e| e.brake = Some(BrakeOutcome::Passed));
            exchange.opening = AnswerOpening::notice(&text);
            None
        }
        BrakeDecision::TellModel(reason) => {
            let text = brake::model_notice(&reason, exchange.tooled(), seen(exchange).as_ref());
            let kind = matches!(reason, BrakeReason::Budget(..)).then_some(EntryKind::Told);
            tell_model(exchange, &accounts, &text, kind).await;
            None
        }
        BrakeDecision::End(reason) => Some(end(exchange, &accounts, &reason, &policy).await),
    }
}

/// Ends the turn with a response in place of the model's.
async fn end(
    exchange: &Exchange,
    accounts: &[Account],
    reason: &BrakeReason<'_>,
    policy: &BrakePolicy,
) -> AgentResponse {
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    let outcome = match reason {
        BrakeReason::Budget(..) => BrakeOutcome::StoppedBudget,
        BrakeReason::Repeat(_) | BrakeReason::SameRequest(_) => BrakeOutcome::StoppedLoop,
        BrakeReason::Halted => BrakeOutcome::StoppedUser,
    };
    // Recorded, so that after `go` the same repetition passes.
    if let (BrakeReason::Repeat(repeat), Some(session)) = (reason, accounts.first()) {
        let stopped = entry(app, EntryKind::StoppedAt(repeat.mark));
        if let Err(error) = app.sessions.enter(&ctx.principal, &session.key, stopped).await {
            tracing::warn!(exchange = ctx.id, %error, "failed to store that the agent was stopped; `go` will not release it");
        }
    }
    let text = brake::ends(
        reason,
        accounts,
        &EndText {
            prefix: &app.config.commands.prefix,
            is_subagent: headers::is_of_subagent(&ctx.headers),
            may_go_on: policy.may_raise() || !matches!(reason, BrakeReason::Budget(..)),
            seen: seen(exchange).as_ref(),
        },
    );
    ctx.recorder.note(|e| e.brake = Some(outcome));
    tracing::info!(
        exchange = ctx.id,
        outcome = outcome.name(),
        "the brake stopped the agent"
    );
    exchange.reply(&CommandReply::new(text)).await
}

/// Appends a notice for the model to the request, and enters that into the ledgers.
async fn tell_model(exchange: &mut Exchange, accounts: &[Account], text: &str, kind: Option<EntryKind>) {
    match context::append(exchange, text).await {
        Ok(true) => {}
        // This request has no room for the notice, but the next one may have.
        Ok(false) => return,
        Err(error) => {
            tracing::error!(exchange = exchange.ctx.id, %error, "failed to store the brake's notice; sending the request without it");
            return;
        }
    }
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    ctx.recorder.note(|e| e.brake = Some(BrakeOutcome::Told));
    let is_nearly_used_up = |account: &&Account| account.nearly_used_up().is_some();
    for account in accounts.iter().filter(is_nearly_used_up) {
        if let Some(kind) = kind.clone() {
            app.sessions
                .enter_soon(&ctx.principal, &account.key, entry(app, kind));
        }
    }
}

/// Returns the facts about the work that the transcript proves.
fn seen(exchange: &Exchange) -> Option<SeenFacts> {
    let rope = exchange.plan().first(exchange.tooled()).rope;
    let weight = exchange.offered.weight.saturating_mul(COMPARING);
    heavy::work(weight, || exchange.of_view(rope, SeenFacts::of_work))
}

/// Lets a stopped agent continue (`::go`), with a higher limit if a budget is used up.
pub(super) async fn go(exchange: &Exchange, words: &str) -> StoreResult<BrakeAnswer> {
    let reply = |text: String| Ok(BrakeAnswer::Reply(CommandReply::new(text)));
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    let prefix = &app.config.commands.prefix;
    let Ok(Some(policy)) = policy(exchange) else {
        return reply(brake::off());
    };
    let dollars = match words {
        "" => None,
        words => match brake::parse_dollars(words) {
            Ok(dollars) => Some(dollars),
            Err(why) => {
                return reply(format!(
                    "nothing was changed: {why}. `{prefix}go` without an amount continues with as much again."
                ));
            }
        },
    };
    let mut accounts = entered(exchange, accounts(exchange, &policy), false).await?;
    let is_used_up = accounts.iter().any(|account| account.used_up().is_some());
    let is_stopped = accounts.first().is_some_and(|account| account.is_stopped());
    if !is_used_up && !is_stopped {
        return reply(brake::nothing_braked(&accounts));
    }
    if is_used_up && !policy.may_raise() {
        return reply(
            "nothing was changed: this budget is the config's, and brake.may_raise is off.".to_owned(),
        );
    }
    for account in &mut accounts {
        let granted = EntryKind::Granted(account.grant(dollars));
        // Other budgets have room left and keep their limits.
        if account.used_up().is_some() || account.is_stopped() {
            let granted = entry(app, granted);
            account.ledger = app.sessions.enter(&ctx.principal, &account.key, granted).await?;
        }
    }
    ctx.recorder.note(|e| e.brake = Some(BrakeOutcome::Released));
    Ok(BrakeAnswer::GoOn(CommandReply::new(brake::go_on(&accounts))))
}

/// Stops the agent's own work until the user lets it continue (`::stop`).
pub(super) async fn stop(exchange: &Exchange) -> StoreResult<CommandReply> {
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    let Some(accounts) = of_command(exchange).await? else {
        return Ok(CommandReply::new(brake::off()));
    };
    if let Some(session) = accounts.first() {
        let halted = entry(app, EntryKind::Halted);
        app.sessions.enter(&ctx.principal, &session.key, halted).await?;
    }
    Ok(CommandReply::new(brake::halted(&app.config.commands.prefix)))
}

/// Returns the lines about the budgets and the provider's limit for `::status`.
pub(super) async fn status(exchange: &Exchange) -> StoreResult<Option<String>> {
    let accounts = of_command(exchange).await?.unwrap_or_default();
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    let plan = app.sessions.store().conversation(&plan_key(ctx)).await?;
    let refused_until = plan.and_then(|record| Some(record.ledger?.refused_until_ms));
    let refused_until = refused_until.filter(|until| *until > app.clock.now_ms());
    let refused = refused_until.map(|until| {
        format!(
            "Upstream refuses requests: {}.",
            brake::provider_limit(Some(until))
        )
    });
    let lines: Vec<_> = brake::status_line(&accounts).into_iter().chain(refused).collect();
    Ok((!lines.is_empty()).then(|| lines.join("\n- ")))
}

/// Returns the accounts of a command with their ledgers, or `None` if the brake is off.
async fn of_command(exchange: &Exchange) -> StoreResult<Option<Vec<Account>>> {
    let Ok(Some(policy)) = policy(exchange) else {
        return Ok(None);
    };
    let entered = entered(exchange, accounts(exchange, &policy), false);
    entered.await.map(Some)
}

/// Returns the client's policy with the budget that the request declares; `None` if it limits nothing.
///
/// # Errors
/// The declared budget is not a number of dollars.
fn policy(exchange: &Exchange) -> Result<Option<BrakePolicy>, Fault> {
    let value = exchange.ctx.headers.get(headers::DECLARED_BUDGET);
    let declared = value.map(|value| brake::parse_dollars(value.to_str().unwrap_or_default()));
    let declared = declared.transpose().map_err(|_| Fault::from(Code::BUDGET))?;
    let own = exchange.app.config.brake_of(&exchange.ctx.principal);
    Ok(Some(own.declaring(declared)).filter(|policy| !policy.is_off()))
}

/// Has an exchange that the brake does not end charged to its ledgers: one in shadow mode, or of a command, which may
/// call the model for a handoff.
pub(super) fn charge_unchecked(exchange: &Exchange) {
    if let Ok(Some(policy)) = policy(exchange) {
        charge_at_end(exchange, &accounts(exchange, &policy), false);
    }
}

fn charge_at_end(exchange: &Exchange, accounts: &[Account], continues: bool) {
    let ctx = &exchange.ctx;
    let is_plan = |account: &&Account| account.kind == AccountKind::Plan;
    let (plan, counted): (Vec<_>, Vec<_>) = accounts.iter().partition(is_plan);
    let charge = Charge {
        principal: ctx.principal.clone(),
        keys: counted.iter().map(|account| account.key.clone()).collect(),
        plan: plan.first().map(|account| account.key.clone()),
        request: continues.then(|| exchange.offered.hash()),
        is_fetched: false,
    };
    ctx.recorder.note(|e| e.charge = Some(Arc::new(charge)));
}

/// Enters the request into its ledgers. Returns the accounts with the ledgers as they are then.
async fn entered(
    exchange: &Exchange,
    mut accounts: Vec<Account>,
    continues: bool,
) -> StoreResult<Vec<Account>> {
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    for account in &mut accounts {
        let began = entry(app, EntryKind::Began { continues });
        account.ledger = app.sessions.enter(&ctx.principal, &account.key, began).await?;
    }
    Ok(accounts)
}

/// Returns the accounts of a request, the session's first, with empty ledgers.
fn accounts(exchange: &Exchange, policy: &BrakePolicy) -> Vec<Account> {
    let view = exchange.offered.view();
    let header = |name: &str| headers::text(&exchange.ctx.headers, name).map(str::to_owned);
    // A subagent counts toward its parent's session, even if it has a session of its own.
    let session = header(headers::PARENT_SESSION)
        .or_else(|| session_name(header, view.facts.session.as_deref()))
        .or_else(|| brake::opening(view, exchange.app.config.note_search().tags))
        .unwrap_or_else(|| opening(view));
    let mut names = vec![(AccountKind::Session, policy.session, session)];
    let none = Amounts::default();
    if policy.day != none {
        let day = exchange.app.clock.now_ms() / DAY_MS;
        names.push((AccountKind::Day, policy.day, day.to_string()));
    }
    if policy.directory != none {
        let directory = Whereabouts::from_transcript(&Transcript::from_view(view));
        // A guessed directory could be charged for work in another one.
        let directory = directory.directory.filter(|_| directory.is_stated);
        names.extend(directory.map(|directory| (AccountKind::Directory, policy.directory, directory)));
    }
    if policy.plan != none {
        names.push((AccountKind::Plan, policy.plan, account_name(&exchange.ctx)));
    }
    let open = |(kind, limits, name): (AccountKind, Amounts, String)| Account {
        kind,
        limits,
        key: ledger_key(&exchange.ctx.principal, kind.name(), &name),
        ledger: Ledger::default(),
    };
    names.into_iter().map(open).collect()
}

/// Returns the key of the ledger of the client's subscription.
fn plan_key(ctx: &RequestContext) -> String {
    ledger_key(&ctx.principal, AccountKind::Plan.name(), &account_name(ctx))
}

/// Returns the account that upstream counts a request for: its id, or else its credential.
fn account_name(ctx: &RequestContext) -> String {
    let sent = ctx.onward(Sending::default());
    // A renewed credential begins a new ledger, which is complete after the first response.
    let mut names = ["chatgpt-account-id"].iter().chain(CREDENTIAL_HEADERS);
    let name = names.find_map(|name| headers::text(&sent, name));
    format!("{} {}", ctx.upstream.name, name.unwrap_or_default())
}
