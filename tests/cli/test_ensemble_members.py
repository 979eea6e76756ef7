"""Members of `mrmf ensemble` that misbehave: programs that print without end, read, or leave others behind; full disks; two
starts at once; parts that were interrupted."""
import json
import os
import signal
import subprocess
import time
import unittest
import unittest.mock

import h5py
import numpy as np
import support

COMMAND = """
ensemble = {{ folder = "ens", retries = 0, side_by_side = 2 }}
command = {{ line = '''{line}''', collect = {{ x = [4] }} }}
design = {{ kind = "sobol", members = {members}, keys.a = [0, 1] }}
"""


class Members(support.MrmfTest):
    def setUp(self):
        super().setUp()
        with h5py.File(self.path("made.h5"), "w") as file:
            file["x"] = np.arange(4, dtype="f4")

    def spec(self, line, members=4):
        self.write("spec.toml", COMMAND.format(line=f": {{a}}; {line}", members=members))

    def made(self, folder="ens"):
        with h5py.File(self.path(folder + "/data.h5")) as file:
            return len(file["x"])

    def test_a_program_that_reads_prints_and_leaves_others_behind(self):
        copy = f"cp {self.path('made.h5')} {{output}}"
        self.spec(f"cat; seq 300000; sleep 1000 & echo $! >> {self.path('left')}/{{member}}; {copy}")
        os.mkdir(self.path("left"))
        self.write("spec.toml", self.read("spec.toml").replace("collect =", f"writable = [\"{self.path('left')}\"], collect ="))
        # Its standard input is not the terminal's: nobody waits for a word.
        read, write = os.pipe()
        done = subprocess.run(support.command(["ensemble", "spec.toml"]), cwd=self.folder, stdin=read, capture_output=True, text=True, timeout=100,
                              env=support.environment())
        os.close(read), os.close(write)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.made(), 4)
        for name in os.listdir(self.path("left")):
            pid = int(self.read("left/" + name))
            try:
                with open(f"/proc/{pid}/stat") as file:
                    self.assertIn(file.read().rsplit(")", 1)[1].split()[0], "ZX")
            except FileNotFoundError:
                pass
        # Of what a failed one prints, the last line is told.
        self.spec("seq 300000; printf 'the end\\twas: \\033[31mbad\\n\\n'; exit 3", members=1)
        self.write("spec.toml", self.read("spec.toml").replace('"ens"', '"bad"'))
        output = self.fails(4, "ensemble", "spec.toml", message="member 0: exit code 3: the end was:  [31mbad")
        self.assertNotIn("\033", output)

    def test_members_of_wrong_output_are_named(self):
        for number, (line, message) in enumerate((
                ("true", "member.h5"),
                ("echo no HDF5 > {output}", "member.h5"),
                (f"ln -s {self.path('made.h5')} {{output}}", "leads out of the member's folder"),
                (f"cp {self.path('made.h5')} other.h5", "member.h5"),
                ("kill -9 $$", "ended by signal 9"))):
            with self.subTest(line):
                self.spec(line, members=1)
                self.write("spec.toml", self.read("spec.toml").replace('"ens"', f'"ens{number}"'))
                self.fails(4, "ensemble", "spec.toml", message=message)
        self.spec(f"cp {self.path('made.h5')} {{output}}", members=1)
        self.write("spec.toml", self.read("spec.toml").replace("x = [4]", "x = [2, 2]"))
        self.fails(4, "ensemble", "spec.toml", message="its data set 'x' is [4], and command.collect says [2, 2]")

    def test_what_is_missing_is_found_before_any_member_is_made(self):
        self.spec("true")
        self.write("spec.toml", self.read("spec.toml").replace("collect =", 'writable = ["none"], collect ='))
        self.fails(2, "ensemble", "spec.toml", message="command.writable: none is no folder")
        self.write("spec.toml", 'ensemble = { folder = "ens", rounds = { count = 1, members = 5, config = "none.toml" } }\n'
                   'simulate = { simulator = "heat", size = 16 }\ndesign = { kind = "sobol", members = 10, keys.velocity_x = [-0.1, 0.1] }')
        self.fails(2, "ensemble", "spec.toml", message="none.toml: there is no such file")
        self.write("spec.toml", 'ensemble.folder = "ens"\nsimulate = { simulator = "cosmology", size = 17 }\n'
                   'design = { kind = "sobol", members = 10, keys.Omega_m = [0.2, 0.4] }')
        self.fails(2, "ensemble", "spec.toml", "--dry-run", message="17")
        self.assertFalse(os.path.exists(self.path("ens")))

    def test_a_folder_with_quotes_and_spaces(self):
        support.make_data(self.path("data.h5"))
        self.config()
        self.write("spec.toml", 'ensemble.folder = "it\'s \\\\ mine"\ntrain = { config = "config.toml", set = ["training.epochs=1"] }\n'
                   "design = { kind = \"grid\", keys.training.seed = { values = [1] } }")
        self.mrmf("ensemble", "spec.toml")
        self.assertTrue(os.path.exists(self.path("it's \\ mine/members/000000/result.json")))

    def test_a_part_that_was_interrupted_continues_in_the_whole(self):
        # Its training goes on from its checkpoint, though the ensemble's own call has another folder.
        support.make_data(self.path("data.h5"))
        self.config()
        self.write("spec.toml", 'ensemble = { folder = "ens", side_by_side = 1 }\ntrain = { config = "config.toml", set = ["training.epochs=400"] }\n'
                   "design = { kind = \"grid\", keys.training.seed = { values = [1, 2] } }")
        process = self.launch("ensemble", "spec.toml", "--part", "1/2")
        while process.poll() is None and self.epochs_written("ens/part-1/members/000001") < 3:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 75, output)
        before = self.epochs_written("ens/part-1/members/000001")
        process = self.launch("ensemble", "spec.toml")
        moved = lambda: os.path.exists(self.path("ens/members/000001")) and not os.path.exists(self.path("ens/part-1"))
        while process.poll() is None and not moved():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertGreaterEqual(self.epochs_written("ens/members/000001"), before)
        self.assertFalse(os.path.exists(self.path("ens/part-1")))

    def test_the_part_that_collects_names_members_that_failed_elsewhere(self):
        self.spec(f"[ {{member}} != 0 ] && cp {self.path('made.h5')} {{output}}")
        self.fails(4, "ensemble", "spec.toml", "--part", "0/2", message="1 of 2 members failed")
        self.fails(4, "ensemble", "spec.toml", "--part", "1/2", message="1 of 4 members failed after 1 try: 0;")
        self.assertEqual(self.made(), 3)

    def test_programs_get_the_users_settings_of_open_mpi_and_not_ours(self):
        self.spec('[ "$OMPI_MCA_btl_tcp_if_include" = lo ] && [ -z "$OMPI_MCA_ess_singleton_isolated$HWLOC_COMPONENTS" ] && '
                  f"cp {self.path('made.h5')} {{output}}")
        with unittest.mock.patch.dict(os.environ, OMPI_MCA_btl_tcp_if_include="lo"):
            self.mrmf("ensemble", "spec.toml")
        self.assertEqual(self.made(), 4)

    def test_what_a_program_has_started_has_time_to_end(self):
        os.mkdir(self.path("told"))
        self.spec(f"(trap 'sleep 0.5; touch {self.path('told')}/ended-{{member}}; exit' TERM; touch {self.path('told')}/{{member}}; "
                  "while :; do sleep 0.05; done) & wait", members=2)
        self.write("spec.toml", self.read("spec.toml").replace("collect =", f"writable = [\"{self.path('told')}\"], collect ="))
        process = self.launch("ensemble", "spec.toml")
        while process.poll() is None and len(os.listdir(self.path("told"))) < 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 75, output)
        self.assertEqual(sorted(os.listdir(self.path("told"))), ["0", "1", "ended-0", "ended-1"])

    def test_of_two_starts_at_once_one_works(self):
        self.spec(f"sleep 0.2; cp {self.path('made.h5')} {{output}}", members=4)
        started = [self.launch("ensemble", "spec.toml") for _ in range(3)]
        ends = [(process.communicate()[0], process.returncode) for process in started]
        self.assertLessEqual(sum(code == 0 for _, code in ends), 3)
        for output, code in ends:
            self.assertIn(code, (0, 2), output)
            if code == 2:
                self.assertIn("is being worked on by process", output)
        self.mrmf("ensemble", "spec.toml")
        with open(self.path("ens/journal.txt")) as file:
            done = [json.loads(line[17:])["member"] for line in file]
        self.assertEqual(sorted(done), [0, 1, 2, 3])

    def test_a_full_disk_costs_nothing_that_was_made(self):
        # A limit on the size of files stands for the disk: rows.bin is the largest.
        self.write("spec.toml", 'ensemble = { folder = "ens", side_by_side = 1 }\nsimulate = { simulator = "heat", size = 64 }\n'
                   "design = { kind = \"sobol\", members = 40, keys.velocity_x = [0, 0.1] }")
        words = " ".join(support.command(["ensemble", "spec.toml"]))
        limited = subprocess.run(["bash", "-c", f"ulimit -f 400; exec {words}"], cwd=self.folder, capture_output=True, text=True, timeout=100,
                                 env=support.environment())
        self.assertEqual(limited.returncode, 3, limited.stdout + limited.stderr)
        self.assertRegex(limited.stderr, r"mrmf: error: ens/(rows\.bin|data\.h5)[^\n]*ulimit -f")
        self.mrmf("ensemble", "spec.toml")
        with h5py.File(self.path("ens/data.h5")) as file:
            self.assertEqual(list(file["member"]), list(range(40)))


if __name__ == "__main__":
    support.main()
