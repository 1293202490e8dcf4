"""Where a program listens."""
import os


def port_of(pid):
    """The one port of TCP at which a process listens."""
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as table:
        inodes = {line.split()[9]: int(line.split()[1].split(":")[1], 16) for line in list(table)[1:] if line.split()[3] == "0A"}
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    (port,) = [inodes[n] for n in inodes if f"socket:[{n}]" in links]
    return port
