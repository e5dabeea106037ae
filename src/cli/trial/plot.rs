//! The plot as SVG: what sessions would have saved and lost, by their length.

use std::fmt::Write;

use super::screen::{counted, length};
use crate::cli::savings::signed_dollars;
use baton_core::trial::TrialReport;

/// Height of a row, and where bars begin and how wide they are.
const ROW: usize = 28;
const LEFT: f64 = 190.0;
const WIDTH: f64 = 480.0;

pub(super) fn svg(report: &TrialReport) -> String {
    let most = report
        .lengths
        .iter()
        .map(|group| group.won.max(group.lost))
        .fold(0.0, f64::max);
    let height = 70 + ROW * report.lengths.len();
    let title = format!(
        "What `{}` would have saved, by the longest history of a session",
        report.verdict.arm
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 {height}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <title>{title}</title>\n<rect width=\"800\" height=\"{height}\" fill=\"#fff\"/>\n<text x=\"20\" y=\"30\" font-size=\"15\" font-weight=\"600\">{title}</text>\n"
    );
    for (n, group) in report.lengths.iter().enumerate() {
        let y = 50 + ROW * n;
        let width = |amount: f64| if most > 0.0 { amount / most * WIDTH } else { 0.0 };
        let (won, lost) = (width(group.won), width(group.lost));
        let name = length(group);
        _ = writeln!(
            svg,
            "<text x=\"20\" y=\"{}\">{name}, {}</text>\n<rect x=\"{LEFT}\" y=\"{y}\" width=\"{won:.1}\" height=\"10\" fill=\"#0f766e\"/>\n\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"{lost:.1}\" height=\"10\" fill=\"#be185d\"/>\n<text x=\"{:.0}\" y=\"{}\">{}</text>",
            y + 14,
            counted(group.sessions, "session"),
            y + 11,
            LEFT + won.max(lost) + 8.0,
            y + 14,
            signed_dollars(group.won - group.lost),
        );
    }
    svg.push_str("</svg>\n");
    svg
}
