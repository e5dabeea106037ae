//! `baton replay CONVERSATION --arms …`: a journaled conversation, simulated once for each way to cut it.

use std::fmt::Write;

use serde::Serialize;

use super::resent::{ResentTurns, TurnSender};
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::log::{full_key, unread};
use crate::cli::output::{Out, plural, short, visible};
use crate::cli::replay_args::ReplayArgs;
use crate::cli::runtime;
use crate::cli::show::find_exchange;
use crate::state::clock::now_ms;
use crate::state::config::Config;
use crate::state::journal::JournalReader;
use baton_core::bill::{ArmBill, PriceQuery, PriceTable, Rates, SessionSizes};

/// The arms are simulated, and nothing is sent.
const SIMULATED: &str = "simulated";

/// Turns that an upstream is sent again.
const TURNS: u32 = 5;

/// The output of `--json`. The names are API.
#[derive(Serialize)]
struct ArmsOutput {
    conversation: String,
    /// How it was run.
    provider: String,
    calls: usize,
    session: SessionSizes,
    arms: Vec<ArmResult>,
}

/// One arm of the output.
#[derive(Serialize)]
struct ArmResult {
    arm: &'static str,
    #[serde(flatten)]
    bill: ArmBill,
    /// Cost against the first arm: negative where it is cheaper.
    difference: f64,
    /// The turns that an upstream was sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    resent: Option<ResentTurns>,
}

pub(super) fn run(
    args: &ReplayArgs,
    config: &Config,
    query: &JournalReader,
    table: &PriceTable,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let conversation = conversation(query, &args.exchange)?;
    let session = query.session_sizes(&conversation, table).map_err(unread)?;
    let journaled = session
        .ok_or_else(|| Exit::NO_INPUT.failure("the provider counted no tokens of that conversation"))?;
    let session = &journaled.sizes;
    let mut arms: Vec<ArmResult> = Vec::new();
    for arm in &args.arms {
        let bill = session.bill(*arm, &|model| rates(table, model));
        let bill = bill.ok_or_else(|| {
            let why = format!(
                "no price is known of a model of that conversation ({})",
                session.model
            );
            Exit::DATA
                .failure(why)
                .help("give a table of prices: bill.prices")
        })?;
        let difference = bill.cost - arms.first().map_or(bill.cost, |first| first.bill.cost);
        arms.push(ArmResult {
            arm: arm.name(),
            bill,
            difference,
            resent: None,
        });
    }
    let upstream = args.provider.as_deref().filter(|name| *name != SIMULATED);
    if let Some(upstream) = upstream {
        let sender = TurnSender {
            config,
            query,
            table,
            session: &journaled,
            upstream,
        };
        ask(&sender, &mut arms, args.turns.unwrap_or(TURNS) as usize)?;
    }
    let output = ArmsOutput {
        conversation,
        provider: upstream.unwrap_or(SIMULATED).to_owned(),
        calls: session.calls.len(),
        session: journaled.sizes,
        arms,
    };
    if let Some(file) = &args.plot {
        std::fs::write(file, plot(&output))
            .map_err(|error| Exit::CANNOT_CREATE.failure(format!("{}: {error}", file.display())))?;
    }
    if args.json {
        return Ok(out.json(&output)?);
    }
    Ok(out.lines(lines(&output, table))?)
}

/// Sends the turns after the first cut of any arm again, as each arm has them.
fn ask(sender: &TurnSender<'_>, arms: &mut [ArmResult], turns: usize) -> Result<(), CommandFailure> {
    let cuts = arms.iter().flat_map(|one| &one.bill.cuts);
    let Some(first) = cuts.map(|cut| cut.call).min() else {
        let why = "no arm cuts that conversation, so there is nothing to compare";
        return Err(Exit::DATA
            .failure(why)
            .help("leave --provider out, or name other arms"));
    };
    let runtime = runtime()?;
    for one in arms {
        one.resent = Some(runtime.block_on(sender.ask(&one.bill, first, turns))?);
    }
    Ok(())
}

/// The conversation of this key, or of this exchange.
fn conversation(query: &JournalReader, name: &str) -> Result<String, CommandFailure> {
    let unknown = match full_key(query, name) {
        Ok(key) => return Ok(key),
        Err(unknown) => unknown,
    };
    let exchange = find_exchange(query, name).ok();
    let exchange = exchange.and_then(|id| query.exchange(&id).ok().flatten());
    exchange
        .and_then(|exchange| exchange.exchange.conversation)
        .ok_or(unknown)
}

fn rates(table: &PriceTable, model: &str) -> Option<Rates> {
    table.rates(&PriceQuery {
        model,
        at_ms: now_ms(),
        ..PriceQuery::default()
    })
}

fn lines(output: &ArmsOutput, table: &PriceTable) -> Vec<String> {
    let tokens: u64 = output.session.calls.iter().map(|call| call.new).sum();
    let mut lines = vec![
        format!(
            "conversation {}, {}, simulated with its own sizes and pauses ({} tokens at its end; prices of {})",
            visible(&output.conversation),
            plural(output.calls as u64, "call"),
            short(output.session.prefix + tokens),
            table.date
        ),
        String::new(),
    ];
    for ArmResult {
        arm,
        bill,
        difference,
        resent,
    } in &output.arms
    {
        let share = match bill.cost - difference {
            0.0 => 0.0,
            first => difference / first * 100.0,
        };
        let mut line = format!(
            "  {arm:<16} ${:<9.4} {share:>+7.1} %  {:<10} {}",
            bill.cost,
            plural(bill.cuts.len() as u64, "cut"),
            plural(u64::from(bill.requests), "request")
        );
        if bill.compactions > 0 {
            let _ = write!(
                line,
                ", {} of the agent",
                plural(u64::from(bill.compactions), "compaction")
            );
        }
        if bill.unused_drafts > 0.0 {
            let _ = write!(line, ", ${:.4} for drafts that were not used", bill.unused_drafts);
        }
        lines.push(line);
        lines.extend(resent.as_ref().map(resent_line));
        lines.extend(bill.cuts.iter().map(|cut| {
            format!(
                "    before call {:<5} {:>8} tokens  {}",
                cut.call + 1,
                short(cut.tokens),
                cut.reason
            )
        }));
    }
    lines.push(String::new());
    lines.push(
        "Counted against each cut and each compaction: 20,000 tokens that are read again (docs/savings.md)."
            .to_owned(),
    );
    lines
}

fn resent_line(resent: &ResentTurns) -> String {
    let cost = resent.cost.map_or(String::new(), |cost| format!(", ${cost:.4}"));
    format!(
        "    sent again: {}, {} of the {} that the recorded answers used{cost}",
        plural(resent.turns as u64, "turn"),
        resent.known,
        plural(resent.facts as u64, "name")
    )
}

/// Dollars over the calls, a line for each arm.
fn plot(output: &ArmsOutput) -> String {
    const COLOURS: [&str; 5] = ["#57534e", "#1d4ed8", "#0f766e", "#b45309", "#be185d"];
    const WIDTH: f64 = 640.0;
    const HEIGHT: f64 = 300.0;
    let most = output.arms.iter().map(|one| one.bill.cost).fold(0.01, f64::max);
    let x = |call: usize| 60.0 + (call + 1) as f64 / output.calls.max(1) as f64 * WIDTH;
    let y = |cost: f64| 20.0 + HEIGHT - cost / most * HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 380\" role=\"img\" font-family=\"system-ui, sans-serif\" \
         font-size=\"12\">\n<title>Cost of a conversation over its calls, by when it is cut</title>\n<rect width=\"860\" height=\"380\" \
         fill=\"#ffffff\"/>\n<path d=\"M60 {b}H{r}M60 20V{b}\" stroke=\"#a8a29e\" fill=\"none\"/>\n",
        b = 20.0 + HEIGHT,
        r = 60.0 + WIDTH
    );
    // Writing into memory cannot fail.
    for share in [0.0, 0.5, 1.0] {
        let _ = writeln!(
            svg,
            "<text x=\"54\" y=\"{:.0}\" text-anchor=\"end\">${:.2}</text>",
            y(most * share) + 4.0,
            most * share
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"60\" y=\"345\">call 1</text><text x=\"{:.0}\" y=\"345\" text-anchor=\"end\">{}</text>",
        60.0 + WIDTH,
        output.calls
    );
    for (ArmResult { arm, bill, .. }, colour) in output.arms.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<String> = bill
            .after
            .iter()
            .enumerate()
            .map(|(call, cost)| format!("{:.1},{:.1}", x(call), y(*cost)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" fill=\"{colour}\">{arm}</text>",
            66.0 + WIDTH,
            y(bill.cost) + 4.0
        );
        for cut in &bill.cuts {
            let before = cut.call.checked_sub(1).and_then(|call| bill.after.get(call));
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(cut.call),
                y(before.copied().unwrap_or_default())
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::bill::{Arm, SessionCall};

    fn output() -> ArmsOutput {
        let table = crate::state::prices::table(None).unwrap();
        let call = |n: u64| SessionCall {
            pause_ms: if n == 90 { 3_600_000 } else { 60_000 },
            new: 1_500,
            output: 400,
            ..SessionCall::default()
        };
        let session = SessionSizes {
            model: "claude-opus-5-5".to_owned(),
            prefix: 21_000,
            calls: (0..100).map(call).collect(),
            ..SessionSizes::default()
        };
        let arms = [Arm::None, Arm::Free].map(|arm| {
            let bill = session.bill(arm, &|model| rates(&table, model)).unwrap();
            ArmResult {
                arm: arm.name(),
                difference: 0.0,
                resent: None,
                bill,
            }
        });
        ArmsOutput {
            conversation: "c".to_owned(),
            provider: SIMULATED.to_owned(),
            calls: session.calls.len(),
            session,
            arms: arms.into(),
        }
    }

    #[test]
    fn each_arm_has_its_line_and_its_cuts() {
        let output = output();
        let table = crate::state::prices::table(None).unwrap();
        let text = lines(&output, &table).join("\n");
        assert!(
            text.contains("100 calls") && text.contains("171.0 k tokens"),
            "{text}"
        );
        assert!(
            text.contains("before call 91") && text.contains("the cache had gone cold: 60 minutes"),
            "{text}"
        );
    }

    #[test]
    fn the_plot_has_a_line_for_each_arm_and_a_dot_for_each_cut() {
        let svg = plot(&output());
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(svg.ends_with("</svg>\n"));
    }
}
