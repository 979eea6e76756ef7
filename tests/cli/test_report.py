"""`mrmf report`: one page that needs nothing else, read as a browser reads it."""
import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta", "br", "hr", "img", "input", "link"}
# Asks the browser itself: is the page wider than its window, is a letter of a picture outside of it?
PROBE = """<script>
const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
let outside = 0;
for (const text of document.querySelectorAll("svg text")) {
  const box = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
  if (box.width && (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1)) outside++;
}
document.body.dataset.probe = `wide=${wide} outside=${outside} charts=${document.querySelectorAll("svg.chart").length}`;
</script>"""


class Page(html.parser.HTMLParser):
    """The texts of a page by where they are; every element must be closed as it was opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.references, self.tags = [], [], [], {}
        self.feed(text)
        self.close()
        if self.open:
            raise AssertionError(f"never closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.references += [value for name, value in attributes if name in ("src", "href", "data", "xlink:href", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing at {self.getpos()}")

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


class Report(support.MrmfTest):
    made = None  # a folder with the runs, made by the first test

    def setUp(self):
        super().setUp()
        if Report.made is None:
            scratch = tempfile.TemporaryDirectory(prefix="mrmf-test-report-")
            self.addClassCleanup(scratch.cleanup)
            self.make_runs()
            shutil.copytree(self.folder, scratch.name, dirs_exist_ok=True)
            Report.made = scratch.name
        shutil.copytree(Report.made, self.folder, dirs_exist_ok=True)

    def make_runs(self):
        support.make_data(self.path("data.h5"))
        for name, seed, method in (("two <b>&amp;", 1, [support.MRMF_METHOD]), ("base1", 1, []), ("base2", 2, [])):
            self.config(replace=method)
            self.mrmf("train", "config.toml", "--set", f"run.folder='{name}'", "--set", f"training.seed={seed}", "--set",
                      "training.metric=r2")

    def report(self, *runs, words=()):
        self.mrmf("report", *runs, "-o", "report.html", "--overwrite", *words)
        return self.read("report.html")

    def test_the_page_needs_nothing_else_and_says_what_was_run(self):
        text = self.report("base1", "base2", "two <b>&amp;", words=("--title", "Waves & <more>"))
        page = Page(text)
        self.assertEqual([r for r in page.references if not r.startswith("#")], [])
        for outside in ("http:", "https:", "url(", "@import", "<script", "<b>&amp;/"):
            self.assertNotIn(outside, text)
        for words in ("Waves & <more>", "In short", "two <b>&amp;", "Against the baseline:", "baseline, [1]",
                      "MRMF, 2 fusions, [4] [2] [1], top dense", "plan: mrmf, 2 fusions", "validation loss over arithmetic (GFLOP)",
                      "training loss over epochs of all models", "validation r2 over epochs of all models",
                      "Seconds of training, stage by stage", "arithmetic saved against baseline", "batch = 16",
                      "processor", "backend", "What was run", "a quarter of the numbers",
                      "data: data.h5: train_frames with labels train_unitStar_par; val_frames with labels val_unitStar_par "
                      "validate"):
            self.assertIn(words, page.text)
        # Two losses, a metric and the rate, over two costs; the times; and of the first run of each method two labels.
        self.assertEqual(page.tags["svg"], 13)
        self.assertEqual(page.tags["details"], 2)

    def test_its_numbers_are_those_of_the_records_and_of_compare(self):
        page = Page(self.report("base1", "base2", "two <b>&amp;"))
        for run in ("base1", "base2", "two <b>&amp;"):
            self.assertIn(f"{self.lines(run + '/epochs.jsonl')[-1]['validation_loss']:.5f}", page.text)
            self.assertIn(f"{self.lines(run + '/epochs.jsonl')[-1]['train_loss']:.5f}", page.text)
        table = self.mrmf("compare", "base1", "base2", "two <b>&amp;")
        rows = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]
        for row in (row for row in rows if row[0] in ("validation loss", "total arithmetic (GFLOP)", "epochs after fusion",
                                                      "arithmetic saved against baseline")):
            self.assertIn(" ".join(row).replace("+-", "±"), page.text)
        page = Page(self.report("base1", "two <b>&amp;", words=("--target", "10")))
        self.assertIn("arithmetic to loss 10 (GFLOP)", page.text)
        # Every point of the run that counts is drawn.
        points = max((len(p.split()) for p in re.findall(r'points="([^"]*)"', self.read("report.html"))))
        self.assertEqual(points, len(self.lines("base1/epochs.jsonl")))

    def test_warnings_stand_on_top(self):
        self.config()
        self.mrmf("train", "config.toml", "--set", "run.folder=other", "--set", "data.validation.samples=train_frames", "--set",
                  "data.validation.labels=train_unitStar_par", "--set", "data.duplicates=allow")
        self.assertRegex(Page(self.report("base1", "other")).text, r"Take care: the runs differ in data: .* What was run")

    def test_a_split_by_rows_and_runs_without_a_metric(self):
        self.assertNotIn("mrmf evaluate", Page(self.report("base1", words=("--no-models",))).text)
        self.config(replace=[('validation = { samples = "val_frames", labels = "val_unitStar_par" }',
                              'split = { by = "rows", validation = 0.25 }')])
        self.mrmf("train", "config.toml", "--set", "run.folder=parts")
        text = Page(self.report("parts")).text
        self.assertIn("data: data.h5: train_frames with labels train_unitStar_par; 25 % of the rows, at random, validate", text)
        self.assertIn("mrmf evaluate parts prints the mean absolute error and R² of each label", text)

    def test_bad_input(self):
        for code, words, message in ((3, ("nowhere",), "nowhere: there is no such run folder"),
                                     (2, ("base1", "--target", "x"), "--target"),
                                     (3, ("base1", "--baselines", "none.csv"), "none.csv")):
            self.fails(code, "report", *words, "-o", "no.html", message=message)
            self.assertFalse(os.path.exists(self.path("no.html")))
        self.write("there.html", "precious")
        self.fails(2, "report", "base1", "-o", "there.html", message="there.html: is there already")
        self.assertEqual(self.read("there.html"), "precious")
        good = self.read("base1/config.toml")
        self.write("base1/config.toml", good.replace("batch = 16", "batch = many"))
        self.fails(2, "report", "base1", "-o", "no.html", message="base1/config.toml")
        self.write("base1/config.toml", good)
        # A loss that is no number is a gap in a curve, not a broken picture.
        lines = self.read("base1/epochs.jsonl")
        self.write("base1/epochs.jsonl", re.sub(r'"train_loss":[^,]*', '"train_loss":null', lines, count=1))
        self.assertNotRegex(self.report("base1"), r'points="[^"]*nan')

    def test_in_a_browser(self):
        if not CHROMIUM:
            print("\nNOT DONE: there is no chromium here, so no browser has looked at the report page.", file=sys.stderr)
            self.skipTest("no chromium")
        text = self.report("base1", "base2", "two <b>&amp;")
        self.write("probed.html", text.replace("</body>", PROBE + "</body>"))
        for width in (360, 1280):
            done = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
                 f"--user-data-dir={self.path('profile')}", f"--window-size={width},900", "--virtual-time-budget=2000",
                 "--dump-dom", "file://" + self.path("probed.html")],
                capture_output=True, text=True, timeout=180, env=dict(os.environ, HOME=self.folder))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("CONSOLE", done.stderr)
            self.assertIn('data-probe="wide=false outside=0 charts=13"', done.stdout, f"at {width} pixels")
            for words in ("In short", "two &lt;b&gt;&amp;amp;", "Where the time went", "arithmetic saved against baseline"):
                self.assertIn(words, done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=1)
