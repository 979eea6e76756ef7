"""OpenMP binds threads to cores in many jobs on clusters: then each has its own core, and what the program starts beside
them has all."""
import json
import os
import re
import subprocess
import sys
import unittest

import h5py
import support

CORES = sorted(os.sched_getaffinity(0))
BOUND = {"OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}
MEMBER = """
import os, sys, h5py
with h5py.File(sys.argv[1], "w") as file:
    file["cores"] = [float(len(os.sched_getaffinity(0)))]
    file["bound"] = [float("OMP_PROC_BIND" in os.environ or "OMP_PLACES" in os.environ)]
"""
SIMULATE = """
ensemble = { folder = "ens", side_by_side = 2 }
simulate = { simulator = "heat", size = 96 }
design = { kind = "sobol", members = 400, keys.velocity_x = [-0.1, 0.1] }
"""
SPEC = """
ensemble = {{ folder = "ens", side_by_side = 2 }}
command = {{ line = "{python} {member} {{output}} {{a}}", collect = {{ cores = [1], bound = [1] }} }}
design = {{ kind = "grid", keys.a = {{ values = [1, 2] }} }}
"""


def busy_threads(pid):
    """Cores of each thread but the first that has computed for 30 ms."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/stat") as stat:
                ticks = int(stat.read().rsplit(")", 1)[1].split()[11])
            if int(thread) != pid and ticks >= 0.03 * os.sysconf("SC_CLK_TCK"):
                found[thread] = tuple(sorted(os.sched_getaffinity(int(thread))))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


class BoundThreads(support.MrmfTest):
    def ran(self, *words, cores=CORES, **variables):
        """stdout and stderr, on these cores, with no other variables of OpenMP: so the program starts itself again."""
        free = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_"))}
        done = subprocess.run([support.MRMF, *words], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env={**free, "MRMF_CPU_KERNELS": "fixed", **variables},
                              preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def test_all_cores_are_found(self):
        free, bound = (json.loads(self.ran("doctor", "--json", **variables)[0]) for variables in ({}, BOUND))
        self.assertEqual(free["cores"], len(CORES))
        self.assertEqual([bound["cores"], bound["threads"]], [free["cores"], free["threads"]])

    def test_cores_of_a_launcher_are_found(self):
        for variables in {}, BOUND:
            one, _ = self.ran("doctor", "--json", cores=CORES[-1:], **variables)
            self.assertEqual(json.loads(one)["cores"], 1)

    @unittest.skipIf(len(CORES) < 2, "OpenMP tells no place of a single thread")
    def test_each_thread_has_a_core_of_its_own(self):
        _, errors = self.ran("bench", "training", "--length", "160", "--batch", "8", "--steps", "1",
                             "--threads", str(len(CORES)), **BOUND, OMP_DISPLAY_AFFINITY="true",
                             OMP_AFFINITY_FORMAT="thread %n of %N on %A")
        found = set(re.findall(rf"thread (\d+) of {len(CORES)} on (\S+)", errors))
        self.assertEqual(sorted(int(number) for number, _ in found), list(range(len(CORES))), errors)
        self.assertEqual(sorted(int(core) for _, core in found), CORES, errors)

    def test_members_of_an_ensemble_are_not_bound(self):
        self.write("member.py", MEMBER)
        self.write("spec.toml", SPEC.format(python=sys.executable, member=self.path("member.py")))
        self.ran("ensemble", "spec.toml", **BOUND)
        with h5py.File(self.path("ens/data.h5")) as file:
            self.assertEqual(file["cores"][()].ravel().tolist(), [len(CORES)] * 2)
            self.assertEqual(file["bound"][()].ravel().tolist(), [0, 0])

    def test_simulations_of_an_ensemble_are_not_bound(self):
        self.write("spec.toml", SIMULATE)
        free = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_"))}
        process = subprocess.Popen([support.MRMF, "ensemble", "spec.toml"], cwd=self.folder, stdout=subprocess.DEVNULL,
                                   env={**free, **BOUND})
        seen = {}
        while process.poll() is None:
            seen.update(busy_threads(process.pid))
        self.assertEqual(process.returncode, 0)
        self.assertTrue(seen)
        self.assertEqual(set(seen.values()), {tuple(CORES)}, seen)


if __name__ == "__main__":
    unittest.main()
