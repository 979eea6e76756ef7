"""The manual page and the completion, which the program writes itself."""
import os
import re
import shutil
import subprocess
import unittest

import support


class Manual(support.MrmfTest):
    def setUp(self):
        super().setUp()
        self.write("mrmf.1", self.mrmf("manual"))

    @unittest.skipIf(shutil.which("groff") is None, "groff is not installed")
    def test_groff_finds_nothing_to_warn_of(self):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-rCHECKSTYLE=3", "mrmf.1"], cwd=self.folder,
                              capture_output=True, text=True, env=dict(os.environ, LC_ALL="C.UTF-8"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        shown = re.sub(".\x08", "", done.stdout)  # bold and underlined
        for text in ("multi-resolution model fusion", "COMMANDS", "mrmf simulate fields", "--overwrite"):
            self.assertIn(text, shown)

    def test_it_has_every_command_and_option(self):
        page = self.read("mrmf.1").replace("\\-", "-")
        for command in (["train"], ["evaluate"], ["simulate", "fields"], ["bench", "scaling"]):
            head = f'.SS "mrmf {" ".join(command)} '
            self.assertIn(head, page)
            part = page.split(head)[1].split(".SS")[0]
            for word in self.mrmf(*command, "--help").split():
                if word.startswith("--") and word.isascii() and word[2:].isalpha() and word != "--help":
                    self.assertIn(word, part)
            self.assertIn("Example:", part)

    def test_no_line_of_text_is_taken_for_a_request(self):
        requests = (".TH", ".SH", ".SS", ".TP", ".PP", ".EX", ".EE", ".B", ".I", ".RI", '.\\"')
        for line in self.read("mrmf.1").splitlines():
            if line.startswith((".", "'")):
                self.assertIn(line.split()[0], requests)


COMPLETE = r"""
set -eu
. ./mrmf.bash
# As bash does when Tab is pressed behind these words.
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { :; }  # which bash allows only while it completes
_mrmf
printf '%s\n' "${COMPREPLY[@]}"
"""


class Completion(support.MrmfTest):
    def setUp(self):
        super().setUp()
        self.write("mrmf.bash", self.mrmf("completion", "bash"))
        self.write("complete.sh", COMPLETE)

    def offers(self, *words):
        """What is offered for the last of the words; "=" is a word of its own, as bash splits them."""
        done = subprocess.run(["bash", "complete.sh", "mrmf", *words], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_commands(self):
        self.assertEqual(self.offers("tr"), ["train"])
        self.assertLessEqual({"train", "compare", "simulate", "bench"}, set(self.offers("")))
        self.assertEqual(sorted(self.offers("simulate", "")), ["cosmology", "fields", "implosion", "neuron", "volumes"])
        self.assertEqual(self.offers("bench", "sc"), ["scaling"])

    def test_options(self):
        self.assertEqual(self.offers("train", "mine.toml", "--over"), ["--overwrite"])
        self.assertIn("--kind", self.offers("simulate", "fields", "-"))
        self.assertNotIn("--kind", self.offers("simulate", "neuron", "-"))
        self.assertIn("--version", self.offers("--v"))

    def test_words_of_an_option(self):
        self.assertEqual(self.offers("simulate", "fields", "--kind", ""), ["heat", "texture"])
        self.assertEqual(self.offers("simulate", "fields", "--kind", "=", "te"), ["texture"])
        self.assertEqual(self.offers("completion", ""), ["bash"])

    def test_files_are_left_to_bash(self):
        self.assertEqual(self.offers("train", ""), [])
        self.assertEqual(self.offers("simulate", "fields", "--output", ""), [])
        self.assertEqual(self.offers("evaluate", "simulate", ""), [])  # a folder of a command's name

    def test_keys_and_their_words(self):
        self.assertEqual(self.offers("train", "mine.toml", "--set", "training.epo"), ["training.epochs="])
        self.assertEqual(self.offers("train", "mine.toml", "--set", "=", "training.epo"), ["training.epochs="])
        self.assertEqual(self.offers("train", "mine.toml", "--set", "training.optimizer.name", "=", "ad"), ["adam", "adamw"])
        self.assertEqual(self.offers("train", "mine.toml", "--set", "training.optimizer.name", "="), ["adam", "adamw", "sgd", "lion"])
        self.assertEqual(self.offers("train", "mine.toml", "--set", "training.batch", "=", ""), [])
        keys = {key.strip() for key in self.mrmf("presets", "--keys").splitlines() if key.startswith("  ") and key[2] != " "}
        offered = {key.rstrip("=") for key in self.offers("plan", "mine.toml", "--set", "")}
        self.assertGreater(len(offered), 80)
        self.assertLessEqual(offered, keys)

    def test_an_unknown_shell_is_refused(self):
        self.fails(2, "completion", "tcsh", message="tcsh")

    @unittest.skipIf(shutil.which("shellcheck") is None, "shellcheck is not installed")
    def test_the_script_is_sound(self):
        done = subprocess.run(["shellcheck", "--shell=bash", "--severity=warning", "mrmf.bash"], cwd=self.folder,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    support.main()
