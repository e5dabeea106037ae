//! A plot of the figures with a bound, each as a fraction of its bound.

use std::fmt::Write as _;

use crate::goal::Goal;

const ROW: usize = 22;
const LABELS: f64 = 400.0;
/// Length in pixels of a bar that reaches its bound.
const BOUND: f64 = 120.0;
/// Maximum length of a bar, in multiples of the bound.
const MOST: f64 = 3.0;

const STYLE: &str = "text{font:13px sans-serif;fill:#333}.yes{fill:#4a9a6a}.no{fill:#c8694e}.over{font-size:11px}.bound{stroke:#333;stroke-dasharray:4 3}.spread{stroke:#333;stroke-opacity:.5;stroke-width:2}";

/// Draws a bar for each figure, a line through all of them as the bound, and a stroke from minimum to
/// maximum.
pub(crate) fn svg(goals: &[Goal]) -> String {
    let (width, height) = (LABELS + BOUND * MOST + 60.0, ROW * goals.len() + 40);
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"><style>{STYLE}</style><rect width="100%" height="100%" fill="white"/>"#
    );
    for (i, goal) in goals.iter().enumerate() {
        bar(&mut out, goal, (i * ROW + 10) as f64);
    }
    let (x, end) = (LABELS + BOUND, height - 26);
    let _ = writeln!(
        out,
        r#"<line class="bound" x1="{x}" y1="4" x2="{x}" y2="{end}"/><text x="{x}" y="{}" text-anchor="middle">bound</text></svg>"#,
        height - 10
    );
    out
}

fn bar(out: &mut String, goal: &Goal, y: f64) {
    let [least, median, most] = goal.shares();
    let x = |share: f64| LABELS + share.clamp(0.0, MOST) * BOUND;
    let class = if goal.is_met() { "yes" } else { "no" };
    let (text, middle) = (y + 13.0, y + 9.0);
    let _ = write!(
        out,
        r#"<text x="{:.0}" y="{text}" text-anchor="end">{}</text><rect class="{class}" x="{LABELS}" y="{y}" width="{:.1}" height="17"/><line class="spread" x1="{:.1}" y1="{middle}" x2="{:.1}" y2="{middle}"/>"#,
        LABELS - 8.0,
        goal.what(),
        x(median) - LABELS,
        x(least),
        x(most)
    );
    let beside = x(median.max(most)) + 6.0;
    let _ = writeln!(
        out,
        r#"<text class="over" x="{beside:.1}" y="{text}">{median:.2}</text>"#
    );
}
