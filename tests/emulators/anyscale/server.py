"""The control plane on loopback, as the unmodified SDK talks to it."""

import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from .answers import Refusal
from .faults import Drop, Faults, Lost, Stall, Status
from .plane import Plane

TOKEN = "aph0_twin-FAKEFAKEFAKE"  # noqa: S105  a token of nobody
API, EXT = "/api/v2", "/ext/v0"
#: Method, path, what answers; a group of the path is its first argument.
ROUTES = [
    ("GET", f"{API}/userinfo/", "user"),
    ("POST", f"{API}/clouds/find_by_name", "find_cloud"),
    ("GET", f"{EXT}/clouds/default", "a_cloud"),
    ("GET", f"{EXT}/clouds/cld_1", "a_cloud"),
    ("POST", f"{API}/compute_templates/search", "search_templates"),
    ("GET", f"{API}/compute_templates/([^/]+)", "a_template"),
    ("GET", f"{EXT}/cluster_computes/([^/]+)", "a_template"),
    ("GET", f"{EXT}/projects/default_project", "default_project"),
    ("POST", f"{EXT}/projects/search", "search_projects"),
    ("GET", f"{API}/projects/find_by_name", "find_project"),
    ("GET", f"{API}/projects/prj_1", "default_project"),
    ("GET", f"{API}/workos/deployment_infra", "infra"),
    ("POST", f"{API}/builds/get_or_create_build_from_image_uri", "a_build"),
    ("GET", f"{EXT}/cluster_environment_builds/([^/]+)", "known_build"),
    ("GET", f"{EXT}/cluster_environments/([^/]+)", "environment"),
    ("POST", f"{API}/clouds/cld_1/generate_cloud_data_bucket_presigned_url", "presign"),
    ("POST", f"{API}/decorated_ha_jobs/create", "create"),
    ("POST", f"{API}/decorated_ha_jobs/job_runs/search", "search_runs"),
    ("GET", f"{API}/decorated_ha_jobs/", "list_jobs"),
    ("GET", f"{EXT}/production_jobs/([^/]+)", "a_job"),
    ("POST", f"{EXT}/production_jobs/([^/]+)/terminate", "terminate"),
    ("GET", f"{API}/logs/job_logs_download_v2/([^/]+)", "logs"),
    ("GET", f"{API}/tags/resource", "tags"),
    ("PUT", f"{API}/tags/resource", "put_tags"),
    ("POST", f"{API}/job_queues/", "job_queues"),
    ("PUT", "/bucket/([^/]+)", "write"),
    ("GET", "/logs/([^/]+)", "log_text"),
]
#: These come with a signature instead of a token.
SIGNED = ("write", "log_text")
#: What a method is given beside the group of its path.
TAKES = {
    **dict.fromkeys(
        ("find_cloud", "search_templates", "search_projects", "a_build", "presign"),
        ("body",),
    ),
    **dict.fromkeys(("create", "search_runs", "put_tags", "job_queues"), ("body",)),
    **dict.fromkeys(("find_project", "list_jobs", "tags", "log_text"), ("query",)),
    "write": ("query", "data"),
}


class Twin:
    """An Anyscale of one's own.

    Args:
        folder: For runs and logs.
        path: ``PATH`` of a run.
        **options: Of the :class:`.Plane`.
    """

    def __init__(self, folder, path, **options):
        self.plane = Plane(folder, path, **options)
        self.faults = Faults()
        self.requests = []
        self.token = TOKEN
        self.over = threading.Event()
        self._server = Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self._thread.start()
        self.plane.host = self.host

    @property
    def host(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def jobs(self):
        """All jobs, in the order in which they were made."""
        return list(self.plane.jobs.values())

    def sent(self, pattern):
        """Return the requests whose ``METHOD /path`` matches."""
        return [line for line in self.requests if re.search(pattern, line)]

    def close(self):
        self.over.set()
        self.plane.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method, url, headers, data):
        """Return status, headers and body."""
        parts = urlsplit(url)
        for verb, path, name in ROUTES:
            match = re.fullmatch(path, parts.path)
            if verb != method or match is None:
                continue
            if name not in SIGNED and f"cli_token={self.token}" != headers["Cookie"]:
                return 401, {}, b'{"error": {"detail": "Unauthorized"}}'
            given = {"query": parse_qs(parts.query), "data": data}
            given["body"] = json.loads(data) if data[:1] == b"{" else {}
            arguments = [*match.groups(), *(given[key] for key in TAKES.get(name, ()))]
            try:
                found = getattr(self.plane, name)(*arguments)
            except Refusal as refusal:
                return refusal.status, {}, json.dumps(refusal.body).encode()
            text = found if isinstance(found, bytes) else json.dumps(found).encode()
            return 200, {}, text
        return 404, {}, b'{"error": {"detail": "Not Found"}}'


class Server(ThreadingHTTPServer):
    """Serves one twin."""

    daemon_threads = True

    def __init__(self, twin):
        super().__init__(("127.0.0.1", 0), Handler)
        self.twin = twin


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # unbuffered, a reply waits 40 ms for the kernel
    disable_nagle_algorithm = True

    def _serve(self):
        self._data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        self.server.twin.requests.append(f"{self.command} {path}")
        fault = self.server.twin.faults.next(self.command, path)
        if fault is None:
            self._reply(*self._done())
        else:
            self._go_wrong(fault)

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815  http.server's names

    def _go_wrong(self, fault):
        match fault:
            case Status(code, headers, body):
                self._reply(code, headers, body.encode())
                return
            case Stall(does_it):
                self.server.twin.over.wait()
                if does_it:
                    self._done()
            case Lost(code, body):
                self._done()
                if code is not None:
                    self._reply(code, {}, body.encode())
                    return
            case Drop():
                pass
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _done(self):
        twin = self.server.twin
        return twin.answer(self.command, self.path, self.headers, self._data)

    def _reply(self, status, headers, body):
        self.send_response(status)
        sent = {"Content-Type": "application/json", **headers}
        for name, value in {**sent, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        del args
