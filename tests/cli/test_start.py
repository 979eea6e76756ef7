"""docs/guide/start.md, as it stands there: its data, configuration and commands, and that its example saves what it says."""
import os
import re
import subprocess
import sys

import support

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "guide", "start.md")


def stable(line):
    """What of a printed line is the same on every machine: words and whole numbers, without times, losses and sizes."""
    return re.findall(r"[a-z]{3,}", re.sub(r"left:.*", "", line)) if line.strip() not in ("", "...") else None


class Start(support.MrmfTest):
    def test_the_page(self):
        with open(PAGE, encoding="utf-8") as page:
            text = page.read()
        self.write("make_data.py", re.search(r"^```python\n(.*?)^```", text, re.M | re.S)[1])
        self.write("waves.toml", re.search(r"^```toml\n(.*?)^```", text, re.M | re.S)[1])
        subprocess.run([sys.executable, "make_data.py"], cwd=self.folder, check=True)
        os.mkdir(self.path("bin"))
        os.symlink(support.MRMF, self.path("bin/mrmf"))
        environment = dict(support.environment(), PATH=f"{self.path('bin')}:{os.environ['PATH']}")
        said = {}
        for block in re.findall(r"^```\n(\$ .*?)^```", text, re.M | re.S):
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, shown = part.partition("\n")
                done = subprocess.run(command, shell=True, cwd=self.folder, env=environment, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stderr}")
                self.assertNotIn("warning", done.stdout + done.stderr)
                said[command] = done.stdout
                if command == "mrmf doctor":  # what a machine has
                    continue
                printed = [stable(line) for line in done.stdout.splitlines()]
                for line in shown.splitlines():
                    self.assertTrue(not stable(line) or line.startswith("1 rank,") or stable(line) in printed, f"{command}\n{line}")
        plan = said["mrmf plan waves.toml"].splitlines()
        self.assertIn(plan[-1], text)
        compared = said["mrmf compare runs/baseline runs/waves"]
        loss = re.search(r"validation loss +(\S+) +(\S+)", compared)
        self.assertLess(float(loss[2]), 0.9 * float(loss[1]))
        saved = re.search(r"^arithmetic saved against baseline .*$", compared, re.M)[0]
        self.assertIn(saved, text)
        self.assertGreater(float(saved.split()[-2]), 40)


if __name__ == "__main__":
    support.main()
