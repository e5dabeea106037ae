//! The plot as SVG: recorded cost by the length of sessions, and the share that the best setting would have
//! saved.

use super::layout::{money, percent, saving};
use super::screen::{length_name, sessions, span};
use crate::cli::output::{plural, xml_text};
use baton_core::trial::{ArmSum, TrialReport};

/// The picture's width and margins, and the height of a row and of a bar.
const WIDTH: f64 = 800.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 190.0;
const TOP: usize = 96;
const ROW: usize = 34;
const BAR: usize = 18;

pub(super) fn svg(report: &TrialReport) -> String {
    let whole: f64 = report.lengths.iter().map(|length| length.paid).sum();
    let best = report.arm(&report.verdict.best.arm);
    let title = title(report, best, whole);
    let setting = best.map_or("", |sum| sum.title.as_str());
    let about = format!("{}, {} (UTC): {setting}", sessions(report), span(report));
    let height = TOP + ROW * report.lengths.len() + 52;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"14\">\n\
         <title>{0}</title>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"24\" y=\"40\" font-size=\"24\" font-weight=\"700\" fill=\"#0f172a\">{0}</text>\n\
         <text x=\"24\" y=\"66\" fill=\"#475569\">{1}</text>\n",
        xml_text(&title),
        xml_text(&about)
    );
    let paid = report.lengths.iter().map(|length| length.paid);
    // Not zero, because the scale divides by it.
    let most = paid.fold(f64::MIN_POSITIVE, f64::max);
    let has_dollars = report.with_dollars > 0;
    for (n, length) in report.lengths.iter().enumerate() {
        let top = TOP + ROW * n;
        let text = top + BAR - 4;
        let net = length.won - length.lost;
        let scale = (WIDTH - LEFT - RIGHT) / most;
        let paid = length.paid * scale;
        // A loss may exceed the amount paid, but its bar must not.
        let changed = (net.abs() * scale).min(paid);
        let colour = if net < 0.0 { "#be185d" } else { "#0d9488" };
        let name = format!("{} ({})", length_name(length), length.sessions);
        let amount = match has_dollars {
            true => format!("{} of {}", saving(net), money(length.paid)),
            false => percent(net, length.paid),
        };
        svg.push_str(&format!(
            "<text x=\"24\" y=\"{text}\" fill=\"#0f172a\">{name}</text>\n\
             <rect x=\"{LEFT}\" y=\"{top}\" width=\"{paid:.1}\" height=\"{BAR}\" rx=\"3\" fill=\"#cbd5e1\"/>\n\
             <rect x=\"{:.1}\" y=\"{top}\" width=\"{changed:.1}\" height=\"{BAR}\" rx=\"3\" fill=\"{colour}\"/>\n\
             <text x=\"{:.0}\" y=\"{text}\" fill=\"#0f172a\">{}</text>\n",
            LEFT + paid - changed,
            LEFT + paid + 10.0,
            xml_text(&amount)
        ));
    }
    let y = TOP + ROW * report.lengths.len() + 26;
    let total = has_dollars.then(|| format!(" Total paid: {}.", money(report.paid)));
    let total = total.unwrap_or_default();
    let legend = format!(
        "Sessions by their longest history in tokens (number of sessions).{total} Grey: paid; green: less; red: more. baton try"
    );
    svg.push_str(&format!(
        "<text x=\"24\" y=\"{y}\" font-size=\"12\" fill=\"#64748b\">{}</text>\n</svg>\n",
        xml_text(&legend)
    ));
    svg
}

/// `14 sessions, 2 weeks: up to 25 % less`.
fn title(report: &TrialReport, best: Option<&ArmSum>, whole: f64) -> String {
    let days = (report.ended_ms.saturating_sub(report.started_ms))
        .div_ceil(86_400_000)
        .max(1);
    let time = match days {
        0..14 => plural(days, "day"),
        14..60 => plural(days / 7, "week"),
        _ => plural(days / 30, "month"),
    };
    let saved = best.map_or(0.0, |sum| sum.saved);
    let what = match saved / whole.max(f64::MIN_POSITIVE) {
        // A smaller share would read as 0 %.
        share if share >= 0.005 => format!("up to {} less", percent(saved, whole)),
        share if share <= -0.005 => format!("{} more", percent(-saved, whole)),
        _ => "no difference".to_owned(),
    };
    format!("{}, {time}: {what}", plural(report.sessions as u64, "session"))
}
