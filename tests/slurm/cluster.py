"""A real Slurm of one node in a folder of its own: munged, slurmctld and slurmd, without systemd, on ports and sockets
of their own, so that a Slurm that is already on the machine neither helps nor suffers."""
import getpass
import os
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time

CORES = 8  # Slurm is told so and does not count the machine's own

CONF = """
ClusterName=mrmf-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits until its old credential has expired, by default two minutes.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
MpiDefault=none
# PMIx and Open MPI name what they put into /tmp and /dev/shm by job: another Slurm's jobs must have other numbers.
FirstJobId={first_job}
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=0,batch_sched_delay=0,sched_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} Boards=1 SocketsPerBoard=1 CoresPerSocket={cores} ThreadsPerCore=1 RealMemory=1000
PartitionName=batch Nodes=ALL Default=YES MaxTime=60 State=UP PriorityTier=1 GraceTime=60
PartitionName=steady Nodes=ALL MaxTime=60 State=UP PriorityTier=1 PreemptMode=OFF
PartitionName=urgent Nodes=ALL MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Use as a context: the daemons are gone when it ends, whatever happened inside, even where this process is killed."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mrmf-slurm-"))
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))
        self.daemons = []
        self.janitor = None

    def __enter__(self):
        # A child of a shell that ends at once: who kills this process and its children does not find it.
        janitor = pathlib.Path(__file__).with_name("janitor.py")
        self.janitor = subprocess.Popen(["sh", "-c", 'exec 3<&0; "$@" <&3 3<&- &', "sh", sys.executable, janitor, self.folder],
                                        stdin=subprocess.PIPE)
        self.janitor.wait()
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        controller_port, node_port = free_ports(2)
        (self.folder / "slurm.conf").write_text(CONF.format(
            host=socket.gethostname().split(".")[0], folder=self.folder, user=getpass.getuser(), cores=CORES,
            controller_port=controller_port, node_port=node_port, first_job=1000000 + secrets.randbelow(50000000)))
        # --force: the key and its folder are nobody's but this test's.
        self.spawn("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                   f"--seed-file={self.folder}/munged.seed")
        self.wait("munged answers", lambda: (self.folder / "munge.socket").exists())
        self.spawn("slurmctld", "-D")
        self.wait("slurmctld answers", lambda: self.run("scontrol", "ping").returncode == 0)
        self.spawn("slurmd", "-D")
        self.wait("the node is idle", lambda: self.run("sinfo", "-h", "-p", "batch", "-o", "%T").stdout.strip() == "idle")

    def spawn(self, name, *options):
        program = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
        with open(self.folder / f"{name}.out", "w") as out:
            self.daemons.append(subprocess.Popen([program, *options], env=self.environment, stdout=out, stderr=out,
                                                 stdin=subprocess.DEVNULL))

    def run(self, *command, **options):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, **options)

    def job(self, job):
        """The fields that scontrol shows of a job, such as JobState, Restarts and ExitCode."""
        text = self.run("scontrol", "show", "job", "--oneliner", job).stdout
        return dict(re.findall(r"(\S+?)=(\S*)", text.splitlines()[0] if text else ""))

    def wait(self, what, condition, seconds=180, pause=0.1):  # of a busy machine
        end = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds} s: {what}\n{self.logs()}")
            time.sleep(pause)
        return value

    def logs(self):
        texts = []
        for path in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")]):
            texts.append(f"== {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-30:]))
        return "\n".join(texts)

    def stop(self):
        self.janitor.stdin.close()
        for daemon in self.daemons:
            daemon.wait(120)
        end = time.monotonic() + 20
        while self.folder.exists() and time.monotonic() < end:
            time.sleep(0.05)
