//! The inspector's JSON API: what is only read. `docs/inspector-api.md` documents it.

use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, HeaderValue};
use serde_json::{Value, json};

use super::peers::Scope;
use super::question::{Asked, Told, Unanswered, read, shown};
use super::responses::{FullResponse, TEXT, error, respond};
use super::{Inspector, api_drafts, api_handoffs, everywhere};
use crate::journal::{Filter, Query, Side};

/// Answers `/api/{path}?{query}`: for all replicas, where there are peers and none is named.
pub(super) async fn answer(inspector: &Inspector, path: &str, query: Option<&str>) -> FullResponse {
    let asked = Asked::of(query.unwrap_or_default());
    let peers = &inspector.peers;
    match peers.scope(asked.text("replica").as_deref()) {
        Scope::Here => here(inspector, path, &asked).await,
        Scope::All => {
            let own = here(inspector, path, &asked).await;
            everywhere::answer(peers, path, &asked, own).await
        }
        Scope::Peer(peer) => everywhere::of_one(peer, path, &asked).await,
        Scope::Unknown => error(
            StatusCode::NOT_FOUND,
            "not_found",
            "there is no replica of this name (admin.peers)",
        ),
    }
}

/// This replica's own answer.
async fn here(inspector: &Inspector, path: &str, asked: &Asked) -> FullResponse {
    let told = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["status"] => status(inspector).await,
        ["conversations"] => conversations(inspector, asked).await,
        ["conversations", key] => conversation(inspector, key).await,
        ["exchanges"] => exchanges(inspector, asked).await,
        ["exchanges", id] => exchange(inspector, id).await,
        ["exchanges", id, "message"] => message(inspector, id, asked).await,
        ["exchanges", id, "har"] => har(inspector, id).await,
        ["exchanges", id, side] => body(inspector, id, side, asked).await,
        ["handoffs"] => api_handoffs::list(inspector, asked).await,
        ["handoffs", id] => api_handoffs::one(inspector, id).await,
        ["drafts"] => api_drafts::list(inspector),
        ["drafts", id] => api_drafts::one(inspector, id),
        ["search"] => search(inspector, asked).await,
        _ => Err(Unanswered::NotFound("there is nothing at this path")),
    };
    told.unwrap_or_else(Unanswered::answer)
}

async fn status(inspector: &Inspector) -> Told {
    let totals = read(inspector, Query::totals).await?.unwrap_or_default();
    let handoffs = api_handoffs::all(inspector, None, 0).await?;
    shown(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": inspector.started.elapsed().as_secs(),
        "store": inspector.store.kind(),
        "journal": {
            "enabled": inspector.journal.is_on(),
            "exchanges": totals.exchanges,
            "bytes": totals.bytes,
            "dropped": inspector.journal.dropped(),
        },
        "data_listener": inspector.data_listener.to_string(),
        "conversations": totals.conversations,
        "handoffs": handoffs.len(),
        "drafts": api_drafts::open(inspector),
    }))
}

async fn conversations(inspector: &Inspector, asked: &Asked) -> Told {
    let limit = asked.limit()?;
    let all = read(inspector, move |q| q.conversations(None, limit)).await?;
    shown(&json!({"conversations": all.unwrap_or_default()}))
}

async fn conversation(inspector: &Inspector, key: &str) -> Told {
    let wanted = key.to_owned();
    let found = read(inspector, move |q| {
        let filter = Filter {
            conversation: Some(wanted.clone()),
            ..Filter::default()
        };
        Ok((q.conversations(Some(&wanted), 1)?.pop(), q.list(&filter)?))
    });
    let Some((Some(conversation), mut exchanges)) = found.await? else {
        return Err(Unanswered::NotFound(
            "there is no such conversation in the journal",
        ));
    };
    exchanges.reverse();
    let handoffs = api_handoffs::all(inspector, Some(key), 0).await?;
    let draft = inspector.drafting.open_in(key);
    shown(&json!({
        "conversation": conversation,
        "exchanges": exchanges,
        "handoffs": handoffs,
        "draft": draft.as_ref().map(api_drafts::value),
    }))
}

async fn exchanges(inspector: &Inspector, asked: &Asked) -> Told {
    let filter = Filter {
        conversation: asked.text("conversation"),
        before: asked.text("before"),
        limit: asked.limit()?,
    };
    let rows = read(inspector, move |q| q.list(&filter)).await?;
    shown(&json!({"exchanges": rows.unwrap_or_default()}))
}

/// The error for an unknown exchange.
const NO_EXCHANGE: Unanswered = Unanswered::NotFound("there is no such exchange in the journal");

async fn exchange(inspector: &Inspector, id: &str) -> Told {
    let wanted = id.to_owned();
    let found = read(inspector, move |q| q.exchange(&wanted)).await?.flatten();
    let exchange = found.ok_or(NO_EXCHANGE)?;
    let event = &exchange.exchange.event;
    let ids: Vec<_> = event.pinned.iter().chain(&event.fired).cloned().collect();
    let handoffs = api_handoffs::named(inspector, &ids).await?;
    let mut value = serde_json::to_value(&exchange).map_err(|e| Unanswered::Unavailable(e.to_string()))?;
    if let Value::Object(members) = &mut value {
        members.insert("handoffs".to_owned(), json!(handoffs));
    }
    shown(&value)
}

async fn message(inspector: &Inspector, id: &str, asked: &Asked) -> Told {
    let side = match asked.text("side").as_deref() {
        Some("received") => Side::Received,
        Some("sent") => Side::Sent(asked.leg()?),
        _ => return Err(Unanswered::Bad("side is received or sent".to_owned())),
    };
    let i = asked
        .number("i")?
        .ok_or_else(|| Unanswered::Bad("i is missing".to_owned()))?;
    let wanted = id.to_owned();
    let envelope = asked.text("of").as_deref() == Some("envelope");
    let found = read(inspector, move |q| match envelope {
        true => q.envelope_row(&wanted, side, i),
        false => q.message(&wanted, side, i),
    })
    .await?
    .flatten();
    shown(&found.ok_or(Unanswered::NotFound("there is no such message in the journal"))?)
}

async fn body(inspector: &Inspector, id: &str, side: &str, asked: &Asked) -> Told {
    let side = match side {
        "received" => Side::Received,
        "sent" => Side::Sent(asked.leg()?),
        "response" => Side::Response(asked.leg()?),
        "shown" => Side::Shown,
        _ => return Err(Unanswered::NotFound("there is nothing at this path")),
    };
    let wanted = id.to_owned();
    let found = read(inspector, move |q| q.body(&wanted, side)).await?.flatten();
    let body = found.ok_or(Unanswered::NotFound("the journal has no such body"))?;
    Ok(respond(StatusCode::OK, TEXT, body))
}

async fn har(inspector: &Inspector, id: &str) -> Told {
    let wanted = id.to_owned();
    let found = read(inspector, move |q| q.har(&wanted)).await?.flatten();
    let mut answer = shown(&found.ok_or(NO_EXCHANGE)?)?;
    // Without the id, which is untrusted text from the path.
    let file = HeaderValue::from_static("attachment; filename=\"exchange.har\"");
    answer.headers_mut().insert(CONTENT_DISPOSITION, file);
    Ok(answer)
}

async fn search(inspector: &Inspector, asked: &Asked) -> Told {
    let Some(wanted) = asked.text("q") else {
        return Err(Unanswered::Bad("q is missing".to_owned()));
    };
    let limit = asked.limit()?;
    let found = read(inspector, move |q| q.search(&wanted, limit)).await?;
    shown(&found.unwrap_or_default())
}
