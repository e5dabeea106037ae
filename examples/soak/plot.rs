//! Memory and descriptors as a picture: a line for each process, and a tick for each disturbance.

use std::fmt::Write as _;

use crate::ledger::Ledger;
use crate::watch::Sample;

const COLOURS: [&str; 6] = ["#1d4ed8", "#b45309", "#0f766e", "#7c3aed", "#be185d", "#57534e"];
const LEFT: f64 = 60.0;
const WIDTH: f64 = 740.0;

/// One of the two panels: its title, top, height, and value.
struct Panel {
    title: &'static str,
    top: f64,
    height: f64,
    value: fn(&Sample) -> f64,
    /// A second value, drawn pale, which is never smaller.
    whole: fn(&Sample) -> f64,
}

const PANELS: [Panel; 2] = [
    Panel {
        title: "resident memory, MiB (pale: with pages of mapped files)",
        top: 40.0,
        height: 190.0,
        value: |sample| sample.own_mib,
        whole: |sample| sample.rss_mib,
    },
    Panel {
        title: "open descriptors",
        top: 280.0,
        height: 150.0,
        value: |sample| sample.descriptors as f64,
        whole: |sample| sample.descriptors as f64,
    },
];

pub fn svg(samples: &[Sample], ledger: &Ledger, seconds: f64) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 490\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <title>Memory and descriptors of each process during the soak</title>\n<rect width=\"960\" height=\"490\" fill=\"#fff\"/>\n",
    );
    let x = |at: f64| LEFT + WIDTH * at / seconds.max(1.0);
    let mut names: Vec<&str> = Vec::new();
    for sample in samples {
        if !names.contains(&sample.process.as_str()) {
            names.push(&sample.process);
        }
    }
    for panel in &PANELS {
        frame(&mut svg, panel, samples);
        for (name, colour) in names.iter().zip(COLOURS) {
            lines(&mut svg, panel, samples, name, colour, x);
        }
    }
    for (at, _) in &ledger.entries().events {
        let at = x(*at);
        _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"432\" x2=\"{at:.1}\" y2=\"440\" stroke=\"#c8694e\"/>"
        );
    }
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (at, minutes) = (x(seconds * share), seconds * share / 60.0);
        _ = writeln!(
            svg,
            "<text x=\"{at:.0}\" y=\"456\" text-anchor=\"middle\">{minutes:.1}</text>"
        );
    }
    for (n, (name, colour)) in names.iter().zip(COLOURS).enumerate() {
        let at = 60 + 20 * n;
        _ = writeln!(
            svg,
            "<line x1=\"815\" y1=\"{at}\" x2=\"835\" y2=\"{at}\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"841\" y=\"{}\">{name}</text>",
            at + 4
        );
    }
    svg.push_str("<text x=\"430\" y=\"476\" text-anchor=\"middle\">minutes; each tick is a kill, a stop, a reload, a storm, an outage, a full disk or a clock jump</text>\n</svg>\n");
    svg
}

/// The largest value of the panel's axis.
fn most(panel: &Panel, samples: &[Sample]) -> f64 {
    let most = samples.iter().map(panel.whole).fold(1.0, f64::max);
    let step = if most > 80.0 { 50.0 } else { 20.0 };
    (most / step).ceil() * step
}

fn frame(svg: &mut String, panel: &Panel, samples: &[Sample]) {
    let most = most(panel, samples);
    _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"600\">{}</text>",
        panel.top - 10.0,
        panel.title
    );
    for share in [0.0, 0.5, 1.0] {
        let y = panel.top + panel.height * (1.0 - share);
        _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.0}\" x2=\"{}\" y2=\"{y:.0}\" stroke=\"#e7e5e4\"/><text x=\"{}\" y=\"{:.0}\" text-anchor=\"end\">{:.0}</text>",
            LEFT + WIDTH,
            LEFT - 8.0,
            y + 4.0,
            most * share
        );
    }
}

/// One line for each process of this name, since a restarted one begins anew.
fn lines(
    svg: &mut String,
    panel: &Panel,
    samples: &[Sample],
    name: &str,
    colour: &str,
    x: impl Fn(f64) -> f64,
) {
    let most = most(panel, samples);
    let of_name: Vec<&Sample> = samples.iter().filter(|sample| sample.process == name).collect();
    for run in of_name.chunk_by(|one, next| one.pid == next.pid) {
        for (value, opacity) in [(panel.whole, 0.3), (panel.value, 1.0)] {
            let points: Vec<String> = run
                .iter()
                .map(|sample| {
                    let y = panel.top + panel.height * (1.0 - value(sample) / most);
                    format!("{:.1},{y:.1}", x(sample.seconds))
                })
                .collect();
            let points = points.join(" ");
            _ = writeln!(
                svg,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-opacity=\"{opacity}\"/>"
            );
        }
    }
}
