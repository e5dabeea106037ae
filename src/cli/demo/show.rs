//! Prints the demo as text: a bar for each leg, a summary, and the last carry-over prompt.

use anstyle::{AnsiColor, Style};

use super::story::{DemoRun, DemoTotals};
use crate::cli::exit::CliResult;
use crate::cli::output::{Out, size, visible};
use baton_core::text::words::grouped;

/// Width of an output without a terminal.
const COLUMNS: usize = 100;

/// Minimum width of a bar that still shows something.
const LEAST_BAR: usize = 12;

/// Columns before a bar.
const BEFORE_BAR: usize = 36;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const SENT: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));
const FIRED: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));

/// Prints the whole report.
pub(super) fn print(story: &DemoRun, out: &mut Out) -> CliResult {
    let columns = out.width().unwrap_or(COLUMNS);
    out.lines(chart(story, columns))?;
    out.lines(summary(story))?;
    if let Some(handoff) = story.handoffs.last() {
        let (count, prompt) = (story.handoffs.len(), visible(&handoff.prompt));
        out.line(format_args!(
            "\n{BOLD}The model's history after handoff {count}{BOLD:#}\n\n{prompt}"
        ))?;
    }
    out.line("\nTry it with an agent: `baton run claude`")
}

fn chart(story: &DemoRun, columns: usize) -> Vec<String> {
    let turns = story.turns.iter();
    let most = turns.flat_map(|turn| turn.sent_bytes.iter().chain([&turn.received_bytes]));
    let scale = Scale {
        most: most.max().copied().unwrap_or(1),
        room: columns.saturating_sub(BEFORE_BAR + 1).max(LEAST_BAR),
    };
    let mut lines = vec![
        "A scripted agent and a scripted provider, the real proxy between them. Each request of the agent"
            .to_owned(),
        "holds its whole history; the solid bar is what the model sees.".to_owned(),
        String::new(),
        format!(
            "{DIM} turn  agent sends     upstream    {DIM:#}{SENT}█{SENT:#} sent upstream  {DIM}░ history that is not sent{DIM:#}"
        ),
    ];
    let mut handoffs = 0;
    for turn in &story.turns {
        let received = size(turn.received_bytes as u64);
        for (leg, &sent) in turn.sent_bytes.iter().enumerate() {
            let bar = scale.bar(sent, turn.received_bytes);
            let sent = size(sent as u64);
            lines.push(match leg {
                0 => format!("{:5}  {received:>11}  {sent:>11}    {bar}", turn.turn),
                _ => {
                    // A later leg follows a handoff.
                    handoffs += 1;
                    format!(
                        "{FIRED}{:>18}{FIRED:#}  {sent:>11}    {bar}",
                        format!("handoff {handoffs}")
                    )
                }
            });
        }
    }
    lines
}

struct Scale {
    most: usize,
    room: usize,
}

impl Scale {
    /// Draws the bytes sent upstream, to an eighth of a column, followed by the rest of the received bytes.
    fn bar(&self, sent: usize, received: usize) -> String {
        const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let eighths = (sent * self.room * 8).div_ceil(self.most.max(1));
        let solid = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
        let taken = eighths.div_ceil(8);
        let all = (received * self.room).div_ceil(self.most.max(1));
        let rest = "░".repeat(all.saturating_sub(taken));
        match rest.is_empty() {
            true => format!("{SENT}{solid}{SENT:#}"),
            false => format!("{SENT}{solid}{SENT:#}{DIM}{rest}{DIM:#}"),
        }
    }
}

fn summary(story: &DemoRun) -> Vec<String> {
    let totals = &story.totals;
    let minus = if totals.unsent_bytes < 0 { "-" } else { "" };
    let percent = totals.unsent_bytes * 100 / (totals.received_bytes.max(1) as i64);
    let requests = |bytes: usize, n: usize| format!("{:>9}  in {n} requests", size(bytes as u64));
    let rows = [
        ("agent sent", requests(totals.received_bytes, totals.requests)),
        ("sent upstream", requests(totals.sent_bytes, totals.legs)),
        (
            "not sent",
            format!(
                "{:>9}  {percent} %, about {} tokens of input",
                format!("{minus}{}", size(totals.unsent_bytes.unsigned_abs())),
                // Rounded, because it is an estimate.
                grouped(totals.unsent_tokens.unsigned_abs() / 1000 * 1000)
            ),
        ),
        ("input cost", cost(totals)),
        ("handoffs", format!("{:>9}", story.handoffs.len())),
        ("time", format!("{:.1} s", story.seconds)),
    ];
    let mut lines = vec![String::new()];
    lines.extend(rows.map(|(name, value)| format!("  {DIM}{name:<14}{DIM:#} {value}")));
    lines
}

/// Formats the cost of the requests, with handoffs and without.
fn cost(totals: &DemoTotals) -> String {
    let Some(cost) = &totals.cost else {
        return "the price table lacks the model".to_owned();
    };
    format!(
        "{:>9}  ${:.4} without handoffs (simulated: {}, one request a minute, cache warm)",
        format!("${:.4}", cost.with),
        cost.without,
        cost.model
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_share_one_scale() {
        let scale = Scale { most: 80, room: 10 };
        let plain = |sent, received| anstream::adapter::strip_str(&scale.bar(sent, received)).to_string();
        assert_eq!(plain(80, 80), "██████████");
        assert_eq!(plain(20, 80), "██▌░░░░░░░");
        assert_eq!(plain(41, 40), "█████▏");
        assert_eq!(plain(0, 0), "");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([7, 1000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
    }
}
