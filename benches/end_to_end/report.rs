//! The report: tables.

use crate::goal::Goal;
use crate::stats::Figure;

/// All measurements so far.
#[derive(Default)]
pub(crate) struct Report {
    goals: Vec<Goal>,
}

impl Report {
    /// Prints a table. The first column names the row.
    pub(crate) fn table(&self, title: &str, columns: &[&str], rows: &[(String, Vec<Figure>)]) {
        let mut lines = vec![
            std::iter::once("")
                .chain(columns.iter().copied())
                .map(str::to_owned)
                .collect(),
        ];
        lines.extend(rows.iter().map(|(name, figures)| {
            let shown = figures
                .iter()
                .map(|f| if f.0.is_empty() { String::new() } else { f.show() });
            std::iter::once(name.clone()).chain(shown).collect::<Vec<_>>()
        }));
        println!("\n## {title}\n");
        print_lines(&lines);
    }

    /// Stores a figure with its bound for the final table.
    pub(crate) fn goal(&mut self, goal: Goal) {
        self.goals.push(goal);
    }

    /// Prints the figures with a bound, beginning with those of the program as shipped.
    pub(crate) fn goals(&self) {
        let (shipped, others): (Vec<_>, Vec<_>) = self.goals.iter().partition(|goal| goal.is_shipped());
        for (title, goals) in [
            ("As shipped: the journal on, one core for the proxy", shipped),
            ("Other bounds", others),
        ] {
            if goals.is_empty() {
                continue;
            }
            let head = ["", "measured", "bound", "met"].map(str::to_owned).to_vec();
            let lines: Vec<_> = std::iter::once(head)
                .chain(goals.into_iter().map(Goal::row))
                .collect();
            println!("\n## {title}\n");
            print_lines(&lines);
        }
    }
}

fn print_lines(lines: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|l| l.get(column));
        cells.map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    for (i, line) in lines.iter().enumerate() {
        let cells = line
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell}{}", " ".repeat(width - cell.chars().count())));
        println!("| {} |", cells.collect::<Vec<_>>().join(" | "));
        if i == 0 {
            let rule = widths.iter().map(|&w| "-".repeat(w)).collect::<Vec<_>>();
            println!("| {} |", rule.join(" | "));
        }
    }
}
