"""Slurm on this host alone, with all its files in a folder: a controller and a node, ended with the test."""
import os
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ("slurmctld", "slurmd")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def is_there():
    return all(shutil.which(program, path=PATH) for program in PROGRAMS) and os.getuid() == 0


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class DoesNotStart(RuntimeError):
    pass


class OneNodeSlurm:
    """`with OneNodeSlurm(folder) as environment:` the variables by which srun, sbatch and scontrol find it."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.daemons = []

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("state", "spool"):
            os.makedirs(os.path.join(self.folder, name))
        host = socket.gethostname().split(".")[0]
        controller, node = free_ports(2)
        configuration = os.path.join(self.folder, "slurm.conf")
        lines = {
            "ClusterName": "one", "SlurmctldHost": f"{host}(127.0.0.1)", "SlurmUser": "root", "SlurmdUser": "root",
            "AuthType": "auth/none", "CredType": "cred/none", "SlurmctldPort": controller, "SlurmdPort": node,
            "StateSaveLocation": f"{self.folder}/state", "SlurmdSpoolDir": f"{self.folder}/spool",
            "SlurmctldPidFile": f"{self.folder}/controller.pid", "SlurmdPidFile": f"{self.folder}/node.pid",
            "ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none", "MpiDefault": "none",
            "SelectType": "select/linear", "ReturnToService": 2, "MinJobAge": 300,
        }
        with open(configuration, "w", encoding="utf-8") as file:
            file.writelines(f"{key}={value}\n" for key, value in lines.items())
            file.write(f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN\n"
                       "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n")
        environment = dict(os.environ, SLURM_CONF=configuration, PATH=PATH)
        for program in PROGRAMS:
            with open(os.path.join(self.folder, program + ".log"), "wb") as log:
                self.daemons.append(subprocess.Popen([program, "-D", "-f", configuration], stdin=subprocess.DEVNULL,
                                                     stdout=log, stderr=log, env=environment, start_new_session=True))
        end = time.monotonic() + 60
        while "idle" not in subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True,
                                           check=False).stdout:
            if time.monotonic() > end:
                self.__exit__()
                raise DoesNotStart(f"Slurm does not start: see {self.folder}/*.log")
            time.sleep(0.2)
        return environment

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
