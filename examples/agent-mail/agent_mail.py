#!/usr/bin/env python3
"""Agent Mail for baton's handoff files: README.md in this folder has the commands and variables.

    release for the old agent -> reserve for the new one -> done
                                   | conflict: give back what was granted, wait, try once more
                                   ` still, any other error, or cancelled: give back, reserve for the old agent

The clean-up after a failure has a deadline of its own, so that neither a hanging server nor a person's Ctrl-C leaves
the files reserved for nobody.
"""

import argparse
import datetime
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse

# Exit codes, as baton has them.
DATA, UNAVAILABLE, CONFIG = 65, 69, 78

CALL_SECONDS = 10
CLEAN_UP_SECONDS = 10
ANSWER_BYTES = 4 << 20

# For how long files are reserved anew, and the pause before the second try, in which a release spreads.
TTL_SECONDS = 900
GRACE_SECONDS = 2

# What a file gets of an inbox: messages that are requested, bytes of a subject.
INBOX = 10
SUBJECT_BYTES = 40

# The tool through which a server offers those that it does not list (`MCP_TOOLS_MODE=core`, the default of 0.1.0), and
# what it answers to their own names.
CALL_EXTENDED = "call_extended_tool"
UNKNOWN_TOOL = "Unknown tool"
PROTOCOL = "2025-06-18"


class MailError(Exception):
    """Why a call failed, in words."""


class AgentMail:
    """JSON-RPC over HTTP, as MCP has it (the streamable transport). Every call has a limit of ten seconds."""

    def __init__(self, url, token=None, agents=None):
        # Servers are mounted at a folder, and answer its name without a slash with a redirect.
        self.url = urllib.parse.urlsplit(url.rstrip("/") + "/")
        if self.url.scheme not in ("http", "https") or not self.url.hostname:
            raise MailError("the address of Agent Mail is no URL")
        self.port = self.url.port
        self.token = token
        self.agents = agents or {}
        self.session = None
        self.ids = 0
        # Whether the tools for reservations are called through another one.
        self.extended = False
        # When everything has to be done, and the call that is under way.
        self.until = self.call_until = float("inf")

    def call(self, tool, **arguments):
        """Calls a tool; returns its answer. Newer servers require the token that the agent registered with."""
        if arguments.get("agent_name") in self.agents:
            arguments["registration_token"] = self.agents[arguments["agent_name"]]
        self._begin()
        if not self.extended:
            try:
                return self._call_named(tool, tool, arguments)
            except MailError as error:
                if UNKNOWN_TOOL not in str(error):
                    raise
        try:
            answer = self._call_named(CALL_EXTENDED, tool, {"tool_name": tool, "arguments": arguments})
        except MailError as error:
            self.extended = False
            if UNKNOWN_TOOL in str(error):
                raise MailError(f"{tool}: Agent Mail has no such tool") from None
            raise
        self.extended = True
        return answer

    def inbox(self, project, agent):
        return listed(self.call("fetch_inbox", project_key=project, agent_name=agent, limit=INBOX))

    def reservations(self, project, agent):
        """The reservations of an agent: a resource, or in other versions a tool."""
        path = urllib.parse.quote(project, safe="")
        uri = f"resource://file_reservations/{path}?active_only=true&format=json"
        self._begin()
        try:
            result = self._request("resources/read", {"uri": uri})
            answer = json.loads(result["contents"][0]["text"])
        except (MailError, LookupError, TypeError, ValueError):
            answer = self.call("list_file_reservations", project_key=project, agent_name=agent)
        return [one for one in listed(answer) if (text_of(one, "agent") or text_of(one, "agent_name")) == agent]

    def _begin(self):
        self.call_until = min(self.until, time.monotonic() + CALL_SECONDS)

    def _call_named(self, name, meant, arguments):
        result = self._request("tools/call", {"name": name, "arguments": arguments})
        content = result.get("content")
        first = content[0] if isinstance(content, list) and content else None
        text = first.get("text") if isinstance(first, dict) else None
        if result.get("isError") is True:
            raise MailError(f"{meant}: {text or 'it failed without words'}")
        if result.get("structuredContent") is not None:
            return result["structuredContent"]
        if text is not None:
            try:
                return json.loads(text)
            except ValueError:
                raise MailError(f"{meant}: its answer is no JSON") from None
        # An empty list may come without content.
        return [] if content is not None else result

    def _request(self, method, params):
        """Sends a request; a server that requires a session first gets one."""
        message = {"jsonrpc": "2.0", "id": self._next_id(), "method": method, "params": params}
        status, headers, body = self._post(message)
        if status in (400, 404) and self.session is None:
            try:
                self._initialize()
            except MailError:
                pass
            else:
                status, headers, body = self._post(message)
        return result_of(message["id"], status, body)

    def _initialize(self):
        params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "baton", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": self._next_id(), "method": "initialize", "params": params}
        status, headers, body = self._post(message)
        result_of(message["id"], status, body)
        self.session = headers.get("mcp-session-id")
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _next_id(self):
        self.ids += 1
        return self.ids

    def _left(self):
        left = self.call_until - time.monotonic()
        if left <= 0:
            raise MailError(f"Agent Mail did not answer within {CALL_SECONDS} s")
        return left

    def _post(self, message):
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        if self.session:
            headers["mcp-session-id"] = self.session
        secure = self.url.scheme == "https"
        connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = connect(self.url.hostname, self.port, timeout=self._left())
        try:
            connection.request("POST", self.url.path, json.dumps(message).encode(), headers)
            response = connection.getresponse()
            body = bytearray()
            while piece := response.read1(1 << 16):
                body += piece
                self._left()
                if len(body) > ANSWER_BYTES:
                    raise MailError("Agent Mail: its answer is too long")
            return response.status, response.headers, bytes(body)
        except TimeoutError:
            raise MailError(f"Agent Mail did not answer within {CALL_SECONDS} s") from None
        except http.client.HTTPException:
            raise MailError("Agent Mail: its answer broke off") from None
        except OSError:
            raise MailError("Agent Mail: it cannot be reached") from None
        finally:
            connection.close()


def result_of(message_id, status, body):
    """The result of a JSON-RPC answer, which may be the one event of a stream."""
    if not 200 <= status < 300:
        raise MailError(f"Agent Mail answered with status {status}")
    text = body.decode(errors="replace")
    message = parsed(text)
    if message is None:
        events = (parsed(line[len("data:"):]) for line in text.splitlines() if line.startswith("data:"))
        message = next((event for event in events if event and event.get("id") == message_id), None)
    if message is None:
        raise MailError("Agent Mail's answer is no JSON-RPC")
    if message.get("error") is not None:
        raise MailError(f"Agent Mail: {text_of(message['error'], 'message') or 'an error without words'}")
    if not isinstance(message.get("result"), dict):
        raise MailError("Agent Mail's answer has no result")
    return message["result"]


def parsed(text):
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def text_of(value, key):
    text = value.get(key) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def listed(answer):
    """A list, or the one in an object's `result` or `reservations`."""
    if isinstance(answer, dict):
        answer = answer.get("result", answer.get("reservations"))
    return [item for item in answer if isinstance(item, dict)] if isinstance(answer, list) else []


class Transfer:
    """Moves reservations of files from one agent to another, or leaves them where they were."""

    def __init__(self, mail, requested, to):
        self.mail = mail
        self.project = requested.get("project_key") or ""
        self.source = requested.get("from_agent") or ""
        self.to = to
        self.ttl = max(requested.get("ttl_seconds") or 0, 0) or TTL_SECONDS
        self.grace = max(requested.get("grace_period_seconds") or 0, 0) or GRACE_SECONDS
        # Each path once, sorted; one that is exclusive anywhere is exclusive.
        exclusive = {}
        for one in requested.get("reservations") or []:
            if path := one.get("path_pattern"):
                exclusive[path] = exclusive.get(path, False) or bool(one.get("exclusive"))
        self.exclusive = dict(sorted(exclusive.items()))
        self.paths = list(self.exclusive)
        self.granted = []
        self.conflicts = []
        self.outcome = {
            "from_agent": self.source,
            "to_agent": to,
            "requested_paths": self.paths,
            "granted_paths": [],
            "released_paths": [],
            "conflicts": [],
            "rolled_back": False,
            "success": False,
        }

    def run(self):
        """Returns the outcome. After any failure the old agent has its files again, as far as the server allows."""
        if not self.project:
            return self._failed("the file names no project (reservation_transfer.project_key)")
        if not self.source or not self.to:
            return self._failed("both agents need a name (reservation_transfer.from_agent, --to)")
        renews = self.source == self.to
        try:
            if self.paths:
                self._renew() if renews else self._move()
        except (Exception, KeyboardInterrupt) as error:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if not renews:
                self.outcome["conflicts"] = self.conflicts
                # A release that failed may have gone through all the same.
                self.outcome["rolled_back"] = self._put_back()
            return self._failed(str(error) or "cancelled")
        self.outcome["success"] = True
        self.outcome["granted_paths"] = self.granted
        return self.outcome

    def _failed(self, error):
        self.outcome["error"] = error
        return self.outcome

    def _renew(self):
        """The same agent continues: its reservations last longer."""
        arguments = {"project_key": self.project, "agent_name": self.to, "paths": self.paths}
        answer = self.mail.call("renew_file_reservations", extend_seconds=self.ttl, **arguments)
        self._check(count(answer, "renewed"), "reservations were renewed")
        self.granted = self.paths

    def _move(self):
        self._check(self._release(self.source, self.paths), "reservations were released")
        self.outcome["released_paths"] = self.paths
        self._reserve(self.to)
        if self.conflicts:
            # What was granted so far must not stand in the way of whoever waits for it.
            try:
                self._release(self.to, self.granted)
            except MailError:
                pass
            self.granted = []
            time.sleep(self.grace)
            self._reserve(self.to)
        if self.conflicts:
            raise MailError(f"{len(self.conflicts)} paths are reserved by others")
        self._check(len(self.granted), "paths were granted")

    def _check(self, number, what):
        if number < len(self.paths):
            raise MailError(f"{number} of {len(self.paths)} {what}")

    def _put_back(self):
        """Gives back what the new agent got, and reserves everything for the old one."""
        self.mail.until = time.monotonic() + CLEAN_UP_SECONDS
        try:
            self._release(self.to, self.granted)
        except Exception:
            pass
        try:
            self._reserve(self.source)
        except Exception:
            return False
        # Reservations are advice: one is granted in spite of another holder's, whose conflict was there before.
        granted, self.granted = set(self.granted), []
        return granted.issuperset(self.paths)

    def _release(self, agent, paths):
        if not paths:
            return 0
        arguments = {"project_key": self.project, "agent_name": agent, "paths": paths}
        return count(self.mail.call("release_file_reservations", **arguments), "released")

    def _reserve(self, agent):
        """Reserves everything for an agent: exclusive paths first, then shared ones."""
        self.granted, self.conflicts = [], []
        for exclusive in (True, False):
            paths = [path for path, is_exclusive in self.exclusive.items() if is_exclusive == exclusive]
            if not paths:
                continue
            before = self.granted
            # Whoever cuts this off, or gets no answer, does not know what was granted: it may be all of it.
            self.granted = before + paths
            answer = self.mail.call(
                "file_reservation_paths",
                project_key=self.project,
                agent_name=agent,
                paths=paths,
                ttl_seconds=self.ttl,
                # Left out, it is exclusive.
                exclusive=exclusive,
                reason=f"handoff transfer from {self.source}",
            )
            self.granted = before + names(answer, "granted")
            conflicts = answer.get("conflicts") if isinstance(answer, dict) else None
            for one in listed(conflicts):
                self.conflicts.append({"path": text_of(one, "path"), "holders": names(one, "holders")})


def count(answer, name):
    number = answer.get(name) if isinstance(answer, dict) else None
    return number if isinstance(number, int) else 0


def names(value, key):
    """Agents or paths, each a text or an object that has one."""
    found = []
    items = value.get(key) if isinstance(value, dict) else None
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            named = (item.get(name) for name in ("agent", "agent_name", "path_pattern", "path"))
            item = next((name for name in named if isinstance(name, str)), None)
        if isinstance(item, str):
            found.append(item)
    return found


def add(mail, file, project, now):
    """Adds threads and reservations of the file's agent; what the file has already stays, what fails adds nothing."""
    agent = file.get("agent_id")
    if not agent:
        return
    messages = tried(mail.inbox, project, agent)
    held = [one for one in tried(mail.reservations, project, agent) if holds(one, now)]
    if messages and not file.get("agent_mail_threads"):
        file["agent_mail_threads"] = threads(messages)
    if not held:
        return
    findings = file.get("findings") or {}
    findings.setdefault("file_reservations", described(held, now))
    file["findings"] = findings
    transfer = {"from_agent": agent, "project_key": project, "created_at": rfc3339(now)}
    transfer["reservations"] = [snapshot(one) for one in held]
    file["reservation_transfer"] = transfer | (file.get("reservation_transfer") or {})


def tried(query, *arguments):
    try:
        return query(*arguments)
    except MailError as error:
        print(f"warning: {visible(str(error))}", file=sys.stderr)
        return []


def threads(messages):
    """The threads of an inbox, newest first, each once: `[thread] subject (from: NAME)`, urgent ones marked."""
    ages = [(when(text_of(message, "created_ts")), message) for message in messages]
    # Unreadable times are last, in their order.
    dated = sorted((age for age in ages if age[0]), key=lambda age: age[0], reverse=True)
    seen, lines = set(), []
    for _, message in dated + [age for age in ages if not age[0]]:
        thread = text_of(message, "thread_id")
        if thread in seen:
            continue
        seen.update([thread] if thread else [])
        subject = text_of(message, "subject").encode()[:SUBJECT_BYTES].decode(errors="ignore").rstrip()
        urgent = "⚠️ " if message.get("importance") == "urgent" else ""
        lines.append(f"{urgent}{f'[{thread}] ' if thread else ''}{subject} (from: {text_of(message, 'from')})")
    return lines[:INBOX]


def holds(reservation, now):
    """Whether it holds at a time. One whose end cannot be read counts as valid."""
    end = when(text_of(reservation, "expires_ts"))
    return not text_of(reservation, "released_ts") and (end is None or end > now)


def described(reservations, now):
    """Reservations as a finding: `path (expires: 12m, exclusive)`, one after the other."""
    lines = []
    for one in reservations:
        end = when(text_of(one, "expires_ts"))
        left = int((end - now).total_seconds()) if end else 0
        text = "expired" if left <= 0 else f"{left // 60}m" if left <= 3600 else f"{left / 3600:.1f}h"
        exclusive = ", exclusive" if one.get("exclusive") is True else ""
        lines.append(f"{text_of(one, 'path_pattern')} (expires: {text}{exclusive})")
    return "; ".join(lines)


def snapshot(reservation):
    end = when(text_of(reservation, "expires_ts"))
    return {
        "path_pattern": text_of(reservation, "path_pattern"),
        "exclusive": reservation.get("exclusive") is True,
        "reason": text_of(reservation, "reason"),
        # Without a zone it would be no time of the format's.
        "expires_at": rfc3339(end) if end else "",
    }


def when(text):
    """A time; one without a zone is UTC, as Agent Mail writes some."""
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)


def rfc3339(moment):
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def visible(text):
    """A text without what controls a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_outcome(outcome):
    source = visible(outcome["from_agent"])
    if outcome["success"]:
        number = len(outcome["granted_paths"])
        print(f"{number} path{'' if number == 1 else 's'} went from {source} to {visible(outcome['to_agent'])}")
        return
    print(f"not transferred: {visible(outcome['error'])}")
    for conflict in outcome["conflicts"]:
        print(f"  {visible(conflict['path'])} is held by {visible(', '.join(conflict['holders']))}")
    lost = f"{source} may have lost its files: look at Agent Mail"
    print(f"{source} holds its files" if outcome["rolled_back"] else lost)


def transfer_file(mail, args):
    show = [os.environ.get("BATON", "baton"), "handoffs", "show", args.file, "--format", "json"]
    shown = subprocess.run(show + (["--dir", args.dir] if args.dir else []), stdout=subprocess.PIPE)
    if shown.returncode:
        return shown.returncode
    file = json.loads(shown.stdout)
    requested = file.get("reservation_transfer") or {}
    requested["from_agent"] = requested.get("from_agent") or file.get("agent_id")
    outcome = Transfer(mail, requested, args.to).run()
    if args.json:
        print(json.dumps(outcome, indent=2))
    else:
        print_outcome(outcome)
    return 0 if outcome["success"] else UNAVAILABLE


def add_to_input(mail, args):
    text = sys.stdin.read()
    # A hook with nothing to hand off writes no file.
    if not text.strip():
        return 0
    file = parsed(text)
    if file is None:
        print("standard input is no handoff file as JSON", file=sys.stderr)
        return DATA
    add(mail, file, args.project, datetime.datetime.now(datetime.timezone.utc))
    print(json.dumps(file, ensure_ascii=False, indent=2))
    return 0


def from_environment():
    """The server and the tokens; each agent's as `NAME=TOKEN`, separated by commas."""
    url = os.environ.get("AGENT_MAIL_URL")
    if not url:
        raise MailError("no server of Agent Mail is set up: set AGENT_MAIL_URL")
    agents = (pair.partition("=") for pair in os.environ.get("AGENT_MAIL_AGENTS", "").split(","))
    agents = {name.strip(): token.strip() for name, _, token in agents if token.strip()}
    return AgentMail(url, os.environ.get("AGENT_MAIL_TOKEN"), agents)


def main():
    parser = argparse.ArgumentParser(description="Agent Mail beside baton's handoff files")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("transfer", help="give the reservations of a handoff file to another agent")
    command.add_argument("file", metavar="FILE", help="a path, or SESSION/NAME.yaml in the folder of handoff files")
    command.add_argument("--to", required=True, metavar="AGENT", help="the agent that gets them")
    command.add_argument("--dir", metavar="DIR", help="folder of the handoff files")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=transfer_file)
    command = commands.add_parser("add", help="add threads and reservations to a handoff file, JSON in and out")
    command.add_argument("--project", default=os.getcwd(), metavar="KEY", help="the project, as Agent Mail knows it")
    command.set_defaults(run=add_to_input)
    args = parser.parse_args()
    # A shell starts what runs in the background with the signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        mail = from_environment()
    except (MailError, ValueError) as error:
        print(error, file=sys.stderr)
        return CONFIG
    return args.run(mail, args)


if __name__ == "__main__":
    sys.exit(main())
