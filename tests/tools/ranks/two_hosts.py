"""Two hosts on one: network namespaces, joined by a pair of interfaces, whose rate may be limited."""
import os
import shutil
import subprocess

ADDRESSES = ("10.77.0.1", "10.77.0.2")


def why_no_namespaces():
    """Empty where they are allowed."""
    probe = f"tandem-{os.getpid()}-probe"
    tried = ip("netns", "add", probe, check=False) if shutil.which("ip") else None
    if tried is None or tried.returncode != 0:
        return "no network namespaces here: " + (tried.stderr if tried else "ip is not installed")
    ip("netns", "delete", probe)
    return ""


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


class Hosts:
    """Two namespaces, joined by a pair of interfaces."""

    def __init__(self):
        self.names = [f"tandem-{os.getpid()}-{rank}" for rank in (0, 1)]

    def __enter__(self):
        for name in self.names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.names[0], "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", self.names[1])
        for name, address in zip(self.names, ADDRESSES):
            ip("-n", name, "address", "add", address + "/24", "dev", "wire")
            ip("-n", name, "link", "set", "wire", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            ip("netns", "delete", name, check=False)

    def set_link(self, state):
        ip("-n", self.names[1], "link", "set", "wire", state)

    def limit(self, rate):
        """Bits a second each way, as tc(8) writes them, such as 100mbit."""
        for name in self.names:
            subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "wire", "root", "tbf",
                            "rate", rate, "burst", "64kb", "latency", "200ms"], check=True)
