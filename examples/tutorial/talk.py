"""A client of the tutorial's server: sends each line that you type, and prints the answer. Argument: the port, 7000 without one."""

import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7000)) as connection:
    server = connection.makefile("rw", encoding="utf-8", newline="\n")
    for line in sys.stdin:
        server.write(line)
        server.flush()
        answer = server.readline()
        if not answer:
            sys.exit("talk.py: the server is gone")
        print(answer, end="", flush=True)
