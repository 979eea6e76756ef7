"""Every command of docs/tutorial.md, as it stands there, from raw arrays to ONNX files that answer as `predict` does."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MRMF = os.path.abspath(os.environ.get("MRMF", os.path.join(ROOT, "build", "mrmf")))


def blocks():
    """The page's files, (name, text), and commands, (None, line), in their order."""
    with open(os.path.join(ROOT, "docs", "tutorial.md"), encoding="utf-8") as page:
        for head, body in re.findall(r"^```(.*)\n((?:.*\n)*?)```$", page.read(), re.MULTILINE):
            if head:
                yield head.split()[1], body
            else:
                for line in body.splitlines():
                    assert line.startswith("$ "), f"a block of the tutorial is no list of commands: {line}"
                    yield None, line[2:]


class Tutorial(unittest.TestCase):
    def test_word_for_word(self):
        with tempfile.TemporaryDirectory(prefix="mrmf-tutorial-") as folder:
            programs = os.path.join(folder, "bin")  # mrmf, and a python3 that has ONNX Runtime
            os.mkdir(programs)
            os.symlink(MRMF, os.path.join(programs, "mrmf"))
            os.symlink(sys.executable, os.path.join(programs, "python3"))
            work = os.path.join(folder, "work")
            os.mkdir(work)
            environment = dict(os.environ, PATH=f"{os.path.dirname(sys.executable)}:{programs}:{os.environ['PATH']}",
                               OMP_NUM_THREADS="1")
            said = ""
            for name, text in blocks():
                if name:
                    with open(os.path.join(work, name), "w", encoding="utf-8") as file:
                        file.write(text)
                    continue
                done = subprocess.run(text, shell=True, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}{done.stderr}")
                self.assertNotIn("warning", done.stderr, text)
                said += done.stdout
        for name in ("velocity", "direction"):
            difference = re.search(rf"{name}: 80 samples, largest difference (\S+)", said)
            self.assertLess(float(difference[1]), 1e-5)
        self.assertGreater(float(re.findall(r"^ +[01] .* (\S+)$", said, re.MULTILINE)[0]), 0.3)  # R^2 of the first label
        self.assertGreater(float(re.search(r"accuracy (\S+) of", said)[1]), 0.6)


if __name__ == "__main__":
    unittest.main()
