//! The plot as SVG: what sessions would have saved and lost, by their length.

use super::screen::{counted, length};
use crate::cli::savings::signed_dollars;
use baton_core::trial::TrialReport;

/// Height of a row, and where bars begin and how wide they are.
const ROW: usize = 28;
const LEFT: f64 = 190.0;
const WIDTH: f64 = 480.0;

pub(super) fn svg(report: &TrialReport) -> String {
    let most = report.most().max(f64::MIN_POSITIVE);
    let height = 70 + ROW * report.lengths.len();
    let arm = report.verdict.arm;
    let title = format!("What `{arm}` would have saved, by the longest history of a session");
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 {height}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <title>{title}</title>\n<rect width=\"800\" height=\"{height}\" fill=\"#fff\"/>\n<text x=\"20\" y=\"30\" font-size=\"15\" font-weight=\"600\">{title}</text>\n"
    );
    for (n, group) in report.lengths.iter().enumerate() {
        let (top, below) = (50 + ROW * n, 61 + ROW * n);
        let (won, lost) = (group.won / most * WIDTH, group.lost / most * WIDTH);
        let (name, sessions) = (length(group), counted(group.sessions, "session"));
        let (text, right) = (top + 14, LEFT + won.max(lost) + 8.0);
        let net = signed_dollars(group.won - group.lost);
        svg.push_str(&format!(
            "<text x=\"20\" y=\"{text}\">{name}, {sessions}</text>\n<rect x=\"{LEFT}\" y=\"{top}\" width=\"{won:.1}\" height=\"10\" fill=\"#0f766e\"/>\n\
             <rect x=\"{LEFT}\" y=\"{below}\" width=\"{lost:.1}\" height=\"10\" fill=\"#be185d\"/>\n<text x=\"{right:.0}\" y=\"{text}\">{net}</text>\n"
        ));
    }
    svg.push_str("</svg>\n");
    svg
}
