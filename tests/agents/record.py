"""The recorded table: a part of docs/dev/tested.md between two marks. It is what a new run is compared with."""

import re

from agents import HERE, ROOT

PAGE = ROOT / "docs" / "dev" / "tested.md"
VERSIONS = HERE / "versions.toml"
# The heading of the second table.
FLOWS = "| flow | what holds | agents |"
BEGIN, END = "<!-- agents: begin -->", "<!-- agents: end -->"


class Row:
    """A line of the table: an agent's version and cells, and the notes below the table for it."""

    def __init__(self, name, version, cells, notes=()):
        self.name, self.version, self.cells, self.notes = name, version, cells, list(notes)

    @classmethod
    def of(cls, agent, outcomes):
        cells, notes = {}, []
        for scenario, found in outcomes.items():
            detail = found["detail"]
            if found["outcome"] == "ok":
                cells[scenario] = "ok" if detail is None else f"ok ({detail})"
            else:
                cells[scenario] = {"impossible": "—", "open": "not yet"}.get(found["outcome"], "**failed**")
                notes.append(f"{scenario}: {detail}")
        return cls(agent.name, agent.version, cells, notes)

    def over(self, old):
        """With the cells that were not run this time, of the same version."""
        if old is None or old.version != self.version:
            return self
        kept = [note for note in old.notes if note.split(":")[0] not in self.cells]
        return Row(self.name, self.version, old.cells | self.cells, kept + self.notes)


def render(rows, tried, scenarios, flows):
    lines = [f"The versions of {tried}:", "", f"| agent | version | {' | '.join(scenarios)} |", "|---|---|" + "---|" * len(scenarios)]
    for row in rows:
        cells = " | ".join(row.cells.get(scenario, "") for scenario in scenarios)
        lines.append(f"| {row.name} | {row.version} | {cells} |")
    lines += ["", FLOWS, "|---|---|---|"]
    for name, (flow, *_) in flows.items():
        outcomes = "; ".join(f"{row.name}: {row.cells[name]}" for row in rows if name in row.cells)
        lines.append(f"| {name} | {flow.__doc__.strip()} | {outcomes} |")
    notes = [f"* {row.name}, {note}" for row in rows for note in row.notes]
    return "\n".join(lines + ([""] + notes if notes else [])) + "\n"


def section():
    return PAGE.read_text().split(BEGIN)[1].split(END)[0]


def read():
    """The recorded rows by the agent's name."""
    first, _, second = section().partition(FLOWS)
    table, rows = cells_of(first), {}
    if not table:
        return {}
    header = table[0]
    for name, version, *rest in table[2:]:
        notes = [line[len(f"* {name}, ") :] for line in section().splitlines() if line.startswith(f"* {name}, ")]
        rows[name] = Row(name, version, dict(zip(header[2:], rest)), notes)
    for flow, _, outcomes in cells_of(second)[1:]:
        for name, outcome in (one.split(": ", 1) for one in outcomes.split("; ") if one):
            rows[name].cells[flow] = outcome
    return rows


def cells_of(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def write(rows, tried, scenarios, flows):
    """Puts these rows into the page and their versions into versions.toml; other agents keep theirs."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{render(rows, tried, scenarios, flows)}\n{END}{rest.split(END)[1]}")
    versions = re.sub(r'^tried = ".*"', f'tried = "{tried}"', VERSIONS.read_text(), flags=re.M)
    for row in rows:
        known = rf'(name = "{re.escape(row.name)}"\npackage = ".*"\nversion = )".*"'
        versions = re.sub(known, rf'\1"{row.version}"', versions)
    VERSIONS.write_text(versions)


def differences(old, new):
    """What a row has that the recorded one had not, in words, and whether a cell got worse."""
    if old is None:
        return [f"{new.name} is not recorded"], False
    changed = [scenario for scenario, cell in new.cells.items() if cell != old.cells.get(scenario, "")]
    same = "" if changed else ", and each cell as recorded"
    moved = [f"{new.name}: version {old.version} -> {new.version}{same}"] if old.version != new.version else []
    worse = any(new.cells[scenario] == "**failed**" for scenario in changed) or any(
        old.cells.get(scenario, "").startswith("ok") and not new.cells[scenario].startswith("ok") for scenario in changed
    )
    cells = [f"{new.name}, {scenario}: {old.cells.get(scenario) or 'nothing'} -> {new.cells[scenario]}" for scenario in changed]
    return moved + cells, worse


def problems(agents, tried, scenarios, flows):
    """Where the page differs from versions.toml, the scenarios and the flows, or records a failure."""
    rows, found = read(), []
    if f"The versions of {tried}:" not in section():
        found.append(f"the date is not {tried}")
    for agent in agents:
        row = rows.get(agent.name)
        if row is None or row.version != agent.version:
            found.append(f"{agent.name} {agent.version} is missing")
            continue
        found += [f"{agent.name} lacks {scenario}" for scenario in [*scenarios, *flows.of(agent)] if not row.cells.get(scenario)]
        found += [f"{agent.name} fails {scenario}" for scenario, cell in row.cells.items() if cell == "**failed**"]
    return found
