"""What every client of a chaos run shares: requests that are counted, violations, and a watch over a server's health."""
import asyncio
import collections
import json
import re
import time

from soak_http import Answer, Cut, ErrorEvent, Peer, Wrong, as_bytes, head_of

# Routes with a name in them, as the server counts them: the first that fits.
STARRED = ("/v1/sessions/*/state", "/v1/sessions/*/fork", "/v1/sessions/*", "/v1/responses/*/cancel",
           "/v1/responses/*/input_items", "/v1/responses/*", "/v1/requests/*", "/v1/models/*")
SAMPLE = re.compile(r'fulmar_requests_total\{outcome="([^"]*)",route="([^"]*)"\}')
UNCOUNTED = {"/metrics", "/health"}  # asked for by the checks themselves


def route_of(path):
    path = path.split("?")[0]
    return next((route for route in STARRED if re.fullmatch(re.escape(route).replace(r"\*", ".+"), path)), path)


class Refused(Exception):
    """The server is full, drains, or has no model: the request changed nothing and may come again."""

    def __init__(self, status, text):
        super().__init__(f"HTTP {status}: {text}")
        self.status = status


class Violations:
    """What must not happen, with the step that reproduces it."""

    def __init__(self, seed):
        self.seed, self.step, self.found = seed, "start", []

    def add(self, text):
        text = text if len(text) < 1500 else text[:700] + " ... " + text[-700:]
        self.found.append((self.step, text))
        print(f"VIOLATION seed {self.seed} step {self.step}: {text}", flush=True)


class Tally:
    """Requests by route as their clients saw them, to be compared with a server's own counters."""

    def __init__(self):
        self.answered = collections.Counter()  # by route: a head came
        self.refused = collections.Counter()   # of these, 400 to 499
        self.unsure = collections.Counter()    # sent in part or in whole; nobody waited for the head
        self.drawn = 0                         # tokens that whole answers say they have

    def head(self, path, status):
        self.answered[route_of(path)] += 1
        self.refused[route_of(path)] += 400 <= status < 500

    def problems(self, metrics, begin):
        """`metrics` against what was sent since `begin`, both of an idle server."""
        total, refused = collections.Counter(), collections.Counter()
        for name, value in metrics.items():
            if found := SAMPLE.match(name):
                grown = round(value - begin.get(name, 0))
                total[found[2]] += grown
                refused[found[2]] += grown if found[1] == "client_error" else 0
        for route in sorted((set(total) | set(self.answered)) - UNCOUNTED):
            least, most = self.answered[route], self.answered[route] + self.unsure[route]
            if not least <= total[route] <= most:
                yield f"{route}: {total[route]} requests counted; clients sent {least} to {most}"
            least, most = self.refused[route], self.refused[route] + self.unsure[route]
            if not least <= refused[route] <= most:
                yield f"{route}: {refused[route]} client errors counted; clients saw {least} to {most}"
        drawn = metrics["fulmar_generated_tokens_total"] - begin.get("fulmar_generated_tokens_total", 0)
        if drawn < self.drawn:
            yield f"fulmar_generated_tokens_total grew by {drawn:.0f}; answers hold {self.drawn}"


class Crowd:
    """One server and the clients that talk to it. `patience`: seconds after which an answer counts as missing."""

    def __init__(self, server, violations, patience):
        self.server, self.violations, self.patience = server, violations, patience
        self.tally, self.count = Tally(), collections.Counter()
        self.absent = set()       # paths that are not served here
        self.ending = False       # the server has been told to go: connections may end and refusals come
        self.lost = False         # it answers nobody any more: there is no use in asking on
        self.refusals = {429, 503}  # statuses that a client takes for "come again"

    @property
    def port(self):
        return self.server.port

    def one_of(self, rng, *paths):
        return rng.choice([path for path in paths if path not in self.absent])

    @property
    def over(self):
        return self.ending or self.lost

    async def answer_to(self, method, path, body=b"", headers=()):
        """The head of an answer on a connection of its own. Refused, or an Answer of any other status."""
        self.tally.unsure[route_of(path)] += 1
        answer = await asyncio.wait_for(Answer.to(self.port, method, path, body, headers), self.patience)
        self.tally.unsure[route_of(path)] -= 1
        self.tally.head(path, answer.status)
        if answer.status in self.refusals:
            text = (await answer.bytes())[:300]
            answer.close()
            self.count[f"refused with {answer.status}"] += 1
            raise Refused(answer.status, text)
        return answer

    async def call(self, method, path, body=b"", wanted=200, headers=()):
        """The parsed body of an answer that comes in one piece."""
        answer = await self.answer_to(method, path, body, headers)
        try:
            content = await asyncio.wait_for(answer.bytes(), self.patience)
        finally:
            answer.close()
        if wanted is not None and answer.status != wanted:
            raise Wrong(f"{method} {path} {str(body)[:200]}: HTTP {answer.status} {content[:300]!r}; wanted {wanted}")
        parsed = json.loads(content) if "json" in answer.headers.get("content-type", "") else content
        if answer.status == 200 and isinstance(parsed, dict) and isinstance(parsed.get("usage"), dict):
            self.tally.drawn += parsed["usage"].get("completion_tokens") or 0
        return parsed

    async def send_and_leave(self, method, path, body, part, seconds, reset=False):
        """Sends so much of a request (a share from 0 to 1), waits, and goes without a word or with a reset."""
        data = as_bytes(body)
        whole = head_of(method, path, len(data)) + data
        self.tally.unsure[route_of(path)] += 1
        peer = await Peer.open(self.port)
        await peer.send(whole[:max(1, int(len(whole) * part))])
        await asyncio.sleep(seconds)
        peer.reset() if reset else peer.close()

    async def client(self, work):
        """Awaits one piece of work and judges how it ends."""
        name = work.__name__
        try:
            await work
            self.count[name] += 1
        except Refused:
            self.count["came again later"] += 1
            await asyncio.sleep(0.05)
        except Cut as failure:
            if not self.over:
                await asyncio.sleep(0.3)  # a process that dies takes a moment
                self.lost = self.server.process.poll() is not None
            if not self.over:
                self.violations.add(f"{name}: {failure}")
            self.count["cut by the server's end"] += 1
            await asyncio.sleep(0.05)
        except (TimeoutError, asyncio.TimeoutError):
            if not self.over:
                self.violations.add(f"{name}: no answer within {self.patience} s")
        except ErrorEvent as failure:
            if not self.over:
                self.violations.add(f"{name}: {failure}")
            self.count["ended by an error event"] += 1
        except Wrong as failure:
            self.violations.add(f"{name}: {failure}")
        except (ValueError, KeyError, IndexError, TypeError) as failure:  # an answer of another shape
            self.violations.add(f"{name}: an answer of another shape: {type(failure).__name__}: {failure}")

    async def watch(self):
        """Asks for /health until cancelled."""
        while True:
            begin = time.monotonic()
            try:
                answer = await asyncio.wait_for(Answer.to(self.port, "GET", "/health"), self.patience)
                answer.close()
            except (Cut, TimeoutError, asyncio.TimeoutError) as failure:
                if not self.ending:
                    self.lost = True
                    waited = time.monotonic() - begin
                    self.violations.add(f"/health: {type(failure).__name__} {failure} after {waited:.1f} s")
                return
            waited = time.monotonic() - begin
            self.count["slowest /health in ms"] = max(self.count["slowest /health in ms"], round(waited * 1000))
            await asyncio.sleep(0.3)

    async def run(self, clients):
        """Awaits all of them with a watch beside."""
        watch = asyncio.create_task(self.watch())
        try:
            await asyncio.gather(*clients)
        finally:
            while not watch.done():  # wait_for may swallow a cancellation that meets its answer
                watch.cancel()
                await asyncio.wait({watch}, timeout=1)
