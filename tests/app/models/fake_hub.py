"""A hub on the loopback that breaks off, lies and redirects where it is told to, and a proxy that wants a password."""
import hashlib
import http.server
import json
import re
import socket
import ssl
import threading

WEIGHTS = "fulmar-demo.safetensors"  # the file that tricks are about


class Hub(http.server.ThreadingHTTPServer):
    """One repository, owner/tiny; `trick` says how it misbehaves."""
    daemon_threads = True

    def __init__(self, files, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.trick, self.requests, self.broken, self.elsewhere = files, "", [], 0, None
        self.address = f"http{'s' if certificate else ''}://127.0.0.1:{self.server_port}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):  # a client that breaks off is part of the test
        pass

    def listing(self):
        entries = [{"type": "directory", "path": "folder"}]
        for path, data in self.files.items():
            entry = {"type": "file", "path": path, "size": len(data),
                     "oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
            if path.endswith(".safetensors"):
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 132}
                entry["size"] += {"listed too long": 1000, "listed too short": -1000}.get(self.trick, 0)
                entry["lfs"]["size"] = entry["size"]
                if self.trick == "wrong hash":
                    entry["lfs"]["oid"] = "0" * 64
            if self.trick == "hostile names":
                entry["path"] = "../" + path
            entries.append(entry)
        return entries


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        hub = self.server
        hub.requests.append((self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        if hub.trick == "needs a token" and self.headers.get("Authorization") != "Bearer sesame":
            return self.answer(401, b"who are you")
        if self.path.startswith("/api/models/owner/tiny/tree/main"):
            return self.answer_listing(hub)
        path = self.path.removeprefix("/owner/tiny/resolve/main/").removeprefix("/cdn/")
        if path not in hub.files or hub.trick == "gone":
            return self.answer(404, b"Entry not found")
        if hub.elsewhere and path == WEIGHTS and not self.path.startswith("/cdn/"):
            return self.answer(302, b"", ("Location", f"{hub.elsewhere.address}/cdn/{path}"))
        if hub.trick == "in circles":
            return self.answer(302, b"", ("Location", self.path))
        if path == WEIGHTS and hub.trick == "busy twice" and hub.broken < 2:
            hub.broken += 1
            return self.answer(503, b"later")
        self.send_file(hub, path, hub.files[path])

    def answer_listing(self, hub):
        """In one piece, or an entry a page."""
        entries, links = hub.listing(), []
        if hub.trick.startswith("pages"):
            page = int((re.findall(r"cursor=(\d+)", self.path) or ["0"])[0])
            home = hub.elsewhere.address if hub.trick == "pages elsewhere" else hub.address
            if page + 1 < len(entries) or hub.trick == "pages without end":
                links = [("Link", f'<{home}/api/models/owner/tiny/tree/main?cursor={page + 1}>; rel="next"')]
            entries = entries[page:page + 1]
        self.answer(200, json.dumps(entries).encode(), *links)

    def answer(self, status, body, *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, hub, path, data):
        begin = int(found.group(1)) if (found := re.match(r"bytes=(\d+)-", self.headers.get("Range") or "")) else 0
        if hub.trick == "ignores ranges" or begin == 0:
            begin = 0
            self.send_response(200)
        else:
            self.send_response(206)
            shown = 0 if hub.trick == "wrong range" else begin
            self.send_header("Content-Range", f"bytes {shown}-{len(data) - 1}/{len(data)}")
        rest = data[begin:]
        if path == WEIGHTS and hub.trick == "sends more":
            rest += b"x" * 5000
        breaks = path == WEIGHTS and hub.trick in ("breaks off", "ignores ranges", "wrong range", "never ends")
        if path == WEIGHTS and hub.trick == "ends early":  # and says that this is all
            rest = rest[:1000]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if breaks and (hub.broken < 3 or hub.trick == "never ends"):
            hub.broken += 1
            self.wfile.write(rest[:0 if hub.trick == "never ends" and hub.broken > 1 else len(rest) // 3])
            self.close_connection = True
            return
        self.wfile.write(rest)


class Proxy(http.server.ThreadingHTTPServer):
    """Forwards absolute requests and tunnels; wants ann:secret."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.asked = []
        self.address = f"http://ann:secret@127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def admits(self):
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization")))
        if self.headers.get("Proxy-Authorization") == "Basic YW5uOnNlY3JldA==":
            return True
        self.send_error(407)
        return False

    def do_CONNECT(self):
        if not self.admits():
            return
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as beyond:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=pump, args=(beyond, self.connection), daemon=True)
            back.start()
            pump(self.connection, beyond)
            back.join()
        self.close_connection = True

    def do_GET(self):
        if not self.admits():
            return
        host, port, path = re.fullmatch(r"http://([^:/]+):(\d+)(/.*)", self.path).groups()
        with socket.create_connection((host, int(port))) as beyond:
            kept = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items() if not name.startswith("Proxy"))
            beyond.sendall(f"GET {path} HTTP/1.1\r\n{kept}\r\n".encode())
            pump(beyond, self.connection)
        self.close_connection = True


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
