"""A client of the tutorial's server: sends each line that you type, and prints the answer. Argument: the port, 7000 without one."""

import socket
import sys


def talk(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        server = connection.makefile("rw", encoding="utf-8", newline="\n")
        for line in sys.stdin:
            server.write(line)
            server.flush()
            answer = server.readline()
            if not answer:
                sys.exit("talk.py: the server is gone")
            print(answer, end="", flush=True)


text = sys.argv[1] if len(sys.argv) > 1 else "7000"
if not text.isdecimal() or not 0 < int(text) < 65536:
    sys.exit("talk.py: '%s' is no port" % text)
try:
    talk(int(text))
except ConnectionRefusedError:
    sys.exit("talk.py: no server listens on port %s; start one: ./step1" % text)
except ConnectionError:
    sys.exit("talk.py: the server is gone")
except KeyboardInterrupt:
    sys.exit(130)
