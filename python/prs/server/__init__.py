"""Jobs at a server of prs, over HTTP: no program is needed beside this Python.

| file | duty |
|---|---|
| `address` | where the server is, and which token it is shown |
| `connection` | requests, again where that does no harm |
| `lost`, `proxy` | connections that break; proxies |
| `problems` | what a server refuses, as exceptions |
| `packing` | what goes along with a job; the server says what that is |
| `files` | the files at a path, and an archive of them |
| `form` | a job with its files as one body |
| `uploads` | files that are sent before the job that needs them |
| `download` | files from there, checked |
| `job` | a job there |
| `server` | the server: hand in, find, call |
"""

from prs.server.job import ServerJob
from prs.server.server import Server, connect

__all__ = ["Server", "ServerJob", "connect"]
