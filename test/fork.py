"""Stands for the tool that it is named after: a fork made by `forks.py` runs it on this process's arguments and streams."""

import _socket  # `socket` takes longer to import than all the rest
import marshal
import os
import sys

folder, name = os.path.split(sys.argv[0])
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
server.connect(f"{folder}/socket")
streams = b"".join(n.to_bytes(4, sys.byteorder) for n in range(3))
request = marshal.dumps((name, sys.argv[1:], os.getcwd(), dict(os.environ)))  # noqa: PTH109
server.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
status = server.recv(1)
sys.exit(status[0] if status else f"{name} died")
