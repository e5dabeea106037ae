#!/usr/bin/env python3
"""How long a small request takes while other agents send large ones: what `serve/exchange/heavy.rs` is for.

    benches/heavy.py target/release/baton [ANOTHER]     the programs take turns, three rounds

The program has core 0; agents and upstream have core 1. To measure without the layer, build with its HEAVY at usize::MAX.
"""
import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROUNDS, SECONDS, PAUSE = 3, 12, 0.01
ANSWER = json.dumps({
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 1, "output_tokens": 1},
}).encode()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


async def upstream(port):
    """Reads each request to its end and gives the same answer."""
    async def serve(reader, writer):
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
                lengths = [int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")]
                left = sum(lengths)
                while left > 0:
                    left -= len(await reader.read(min(left, 1 << 20)))
                writer.write(HEAD + ANSWER)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
    await (await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 22)).serve_forever()


def body(text, count):
    """`count` messages of this text."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n in range(count | 1)]
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    return json.dumps({"model": "m", "max_tokens": 9, "messages": messages, "tools": tools}).encode()


def send(connection, request):
    headers = {"content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"}
    connection.request("POST", "/v1/messages", request, headers)
    response = connection.getresponse()
    response.read()
    assert response.status == 200, response.status


def measure(program, large, agents):
    """The times of small requests, in milliseconds, in order."""
    above, port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/baton.toml", "w", encoding="utf-8") as config:
            config.write(f"server.listen = '127.0.0.1:{port}'\nadmin.listen = '127.0.0.1:0'\n"
                         f"upstreams.anthropic.base_url = 'http://127.0.0.1:{above}'\n")
        provider = subprocess.Popen(["taskset", "-c", "1", sys.executable, __file__, "--upstream", str(above)])
        baton = subprocess.Popen(
            ["taskset", "-c", "0", program, "serve", "--config", f"{folder}/baton.toml", "--state-dir", f"{folder}/state"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1.5)
        over = threading.Event()

        def load():
            connection = http.client.HTTPConnection("127.0.0.1", port)
            while not over.is_set():
                send(connection, large)
        threads = [threading.Thread(target=load) for _ in range(agents)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        connection, small, times = http.client.HTTPConnection("127.0.0.1", port), body("x" * 1800, 1), []
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            began = time.perf_counter()
            send(connection, small)
            times.append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE)
        over.set()
        for thread in threads:
            thread.join()
        for process in (baton, provider):
            process.terminate()
            process.wait()
    return sorted(times)


def main(programs):
    os.sched_setaffinity(0, {1})
    loads = [("two agents, 8 MB of prose each", body("and so on " * 400, 2076), 2),
             ("one agent, 4 MB in 120,000 messages", body("a", 123_000), 1)]
    for name, large, agents in loads:
        for _ in range(ROUNDS):
            for program in programs:
                times = measure(program, large, agents)
                half, most = times[len(times) // 2], times[len(times) * 99 // 100]
                print(f"{name}: {program}: median {half:.1f} ms, p99 {most:.1f} ms", flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--upstream", port]:
            asyncio.run(upstream(int(port)))
        case [] | ["-h" | "--help"]:
            print(__doc__)
        case programs:
            main(programs)
