"""`make release` refuses what is not ready, and then changes nothing; else it makes the tag and the archive. In a small
repository of its own."""
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = "jobs/packaging/release.py"
FILES = {
    "VERSION": "1.2.3\n",
    "CHANGELOG.md": "# Changes\n\n## 1.2.3 (2031-04-05)\n\n* A line.\n\n## 1.2.2 (2031-01-01)\n",
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\ndate-released: 2031-04-05\n",
    "README.md": "# mrmf\n",
    "docs/guide/start.md": "$ mrmf doctor\nmrmf       1.2.3 (1d04406ec40d)\n\n`find_package(mrmf 1.2)`\n",
    ".gitignore": "/build*/\n",
    "Makefile": "test-all:\n\t@touch build-was-tested; test ! -e build/broken\nrelease:\n\t@" + SCRIPT + ' --tests "$(TESTS)"\n',
}


class Release(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for name, text in FILES.items():
            self.write(name, text)
        self.write(SCRIPT, (ROOT / SCRIPT).read_text(encoding="utf-8"))
        (self.folder / SCRIPT).chmod(0o755)
        self.git("init", "-q")
        for key, value in (("user.name", "Somebody"), ("user.email", "somebody@example.org")):
            self.git("config", key, value)
        self.commit()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def git(self, *words):
        return subprocess.run(["git", "-C", str(self.folder), *words], check=True, capture_output=True, text=True).stdout

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change", "--allow-empty")

    def release(self, *words):
        return subprocess.run([sys.executable, str(self.folder / SCRIPT), *words], capture_output=True, text=True, check=False)

    def refused(self, *lines):
        done = self.release("--tests", "passed")
        self.assertEqual(done.returncode, 1, done.stdout)
        told = done.stderr.splitlines()
        self.assertEqual(len(told), len(lines), done.stderr)
        for line, wanted in zip(told, lines):
            self.assertTrue(line.startswith("release: "), line)
            self.assertIn(wanted, line)
        self.assertEqual(list(self.folder.glob("build/*")), [])

    def test_it_makes_the_tag_and_the_archive(self):
        done = self.release("--tests", "passed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.git("tag").split(), ["v1.2.3"])
        self.assertEqual(self.git("describe", "--exact-match").strip(), "v1.2.3")
        with tarfile.open(self.folder / "build/mrmf-1.2.3.tar.gz") as archive:
            names = set(archive.getnames())
            self.assertEqual(archive.extractfile("mrmf-1.2.3/VERSION").read(), b"1.2.3\n")
        self.assertLessEqual({f"mrmf-1.2.3/{name}" for name in FILES}, names)
        self.assertEqual(len(list(self.folder.glob("build/*"))), 1)

    def test_a_check_makes_nothing(self):
        done = self.release("--check")
        self.assertEqual((done.returncode, done.stdout), (0, "release: mrmf 1.2.3 can be released\n"))
        self.assertEqual(self.git("tag"), "")

    def test_other_versions_elsewhere_are_each_told(self):
        self.write("VERSION", "1.3.0\n")
        self.commit()
        self.refused("CITATION.cff has version 1.2.3", "docs/guide/start.md:2 shows mrmf 1.2.3", "docs/guide/start.md:4 has find_package",
                     "CHANGELOG.md:3: the newest heading is '1.2.3 (2031-04-05)'; write '1.3.0 (YYYY-MM-DD)'")

    def test_a_version_that_is_none(self):
        self.write("VERSION", "1.2\n")
        self.commit()
        self.refused("VERSION holds '1.2' and not a version")

    def test_changes_of_no_release_and_days_that_are_none(self):
        for heading, told in (("Unreleased", ("the newest heading is 'Unreleased'",)), ("1.2.3", ("newest heading is '1.2.3'",)),
                              ("1.2.3 (2031-02-30)", ("2031-02-30 is no day", "date-released 2031-04-05")),
                              ("1.2.3 (2031-04-06)", ("date-released 2031-04-05, and CHANGELOG.md 2031-04-06",))):
            with self.subTest(heading=heading):
                self.write("CHANGELOG.md", f"# Changes\n\n## {heading}\n")
                self.commit()
                self.refused(*told)

    def test_a_tree_that_is_not_clean(self):
        self.write("README.md", "# another\n")
        self.write("new.txt", "not added\n")
        self.refused("not committed: README.md, new.txt")

    def test_a_tag_that_is_there(self):
        self.git("tag", "v1.2.3")
        self.refused("there is a tag v1.2.3 already")

    def test_no_repository(self):
        shutil.rmtree(self.folder / ".git")
        self.refused("no git repository")

    def test_tests_run_first_and_must_pass(self):
        self.write("build/broken", "")
        done = self.release()
        self.assertEqual(done.returncode, 1)
        self.assertIn("tests fail; nothing was tagged", done.stderr)
        self.assertEqual(self.git("tag"), "")

    def test_what_tests_leave_behind_is_refused(self):
        done = self.release()  # make test-all writes a file that git does not ignore
        self.assertEqual(done.returncode, 1)
        self.assertIn("not committed: build-was-tested", done.stderr)
        self.assertEqual(self.git("tag"), "")


class Here(unittest.TestCase):
    """The repository that this test lies in."""

    def test_its_version_is_the_same_everywhere(self):
        sys.path.insert(0, str((ROOT / SCRIPT).parent))
        self.addCleanup(sys.path.pop, 0)
        import release
        self.assertEqual(list(release.other_versions(release.the_version())), [])

    def test_make_calls_the_script(self):
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        self.assertRegex(makefile, r"(?m)^release: ## .*\n\t@" + re.escape(SCRIPT))


if __name__ == "__main__":
    unittest.main()
