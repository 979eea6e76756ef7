"""Makes the runs that a table needs, and reads what they left behind. A run that is done as asked is used again."""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess

from experiments import method_words, shortened


@dataclasses.dataclass
class Workshop:
    """Where and how the runs are made."""
    program: str
    root: pathlib.Path
    size: str
    threads: int
    seeds: tuple = ()        # instead of the size's own
    words: tuple = ()        # KEY=VALUE for every run
    methods: tuple = ()      # of the comparison of all methods, these alone
    used: dict = dataclasses.field(default_factory=dict)  # what runs were asked for since take_used(), by their folders

    def data_words(self, application):
        """Simulates the data once; what points a run to them."""
        settings = application.sizes[self.size]
        if not settings.simulate:
            return []
        folder = self.root / application.name / "data"
        if application.name == "neuron":
            files = [folder / "neuron.h5"]
            output, names = files[0], [files]
        else:
            output, names = folder, None
        done = folder / "arguments.txt"
        wanted = " ".join(settings.simulate)
        if not done.exists() or done.read_text() != wanted:
            make_room(folder, done.name)
            done.write_text("not finished")
            self.call([self.program, "simulate", *settings.simulate, "--seed", "1", "--output", str(output),
                       "--threads", str(self.threads)], folder.parent / "simulate.log")
            done.write_text(wanted)
        if names is None:
            names = published_split(folder / "data.toml")
        words = [f"data.files={json.dumps([str(file) for file in names[0]])}"]
        if len(names) > 1:
            words.append(f"data.validation.files={json.dumps([str(file) for file in names[1]])}")
        return words

    def call(self, words, log):
        print("  " + " ".join(words), flush=True)
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        with open(log, "w") as out:
            status = subprocess.run(words, stdout=out, stderr=subprocess.STDOUT, env=environment).returncode
        if status != 0:
            raise SystemExit(f"reproduce: {words[0]} ended with {status}; the end of {log}:\n"
                             + "".join(log.read_text().splitlines(True)[-5:]))

    def launch(self, ranks):
        """Before the program's name, for so many ranks."""
        given = os.environ.get("MRMF_LAUNCH")
        if given:
            return given.format(ranks=ranks).split()
        if self.size == "paper":
            return ["srun", f"--ntasks={ranks}"]
        return [] if ranks == 1 else ["mpirun", "--bind-to", "none", "--oversubscribe", "-n", str(ranks)]

    def run(self, application, method, seed, ranks=None, extra=(), label=""):
        """One run, made unless it is there."""
        settings = application.sizes[self.size]
        ranks = ranks or settings.ranks[0]
        config, words = method_words(application, method, self.size)
        if self.size == "smoke":
            words = shortened(words)
        batch = settings.batch
        if application.keep_global_batch:
            batch = batch * settings.ranks[0] // ranks
        folder = self.root / application.name / f"{method}{label}-ranks{ranks}-seed{seed}"
        words = [*words, *self.data_words(application), f"training.batch={batch}", f"training.seed={seed}", *extra,
                 *self.words]
        wanted = "\n".join([config.read_text(), *words, *settings.simulate])
        asked = folder / "asked.txt"
        if not asked.exists() or not same_question(asked.read_text(), wanted):
            make_room(folder, asked.name)
            asked.write_text(wanted)
        if not (folder / "result.json").exists():  # an unfinished run continues
            command = [*self.launch(ranks), self.program, "train", str(config)]
            for word in [*words, f"run.folder={folder}", f"run.threads={self.threads}"]:
                command += ["--set", word]
            self.call(command, folder.parent / f"{folder.name}.log")
        run = Run(folder)
        self.used[folder] = (application, method + label, ranks, run)
        return run

    def take_used(self):
        """(application, method, ranks, run) for every run asked for since the last call."""
        used, self.used = self.used, {}
        return list(used.values())

    def one_fusion(self, application, coarse_batch):
        """One fusion with this batch for the coarse model; 0: as for the others."""
        other = coarse_batch not in (0, application.sizes[self.size].batch)
        return self.runs(application, "one-fusion", extra=(f"method.coarse.batch={coarse_batch}",) * other,
                         label=f"-coarse{coarse_batch}" * other)

    def rivals(self, application):
        """The methods that are compared, those asked for or all."""
        known = application.rivals(self.size)
        unknown = [method for method in self.methods if method not in known]
        if unknown:
            raise SystemExit(f"reproduce: {application.title} has no method '{unknown[0]}'; it has {', '.join(known)}")
        return [method for method in known if not self.methods or method in (*self.methods, "baseline")]

    def first_seed(self, application):
        return (self.seeds or application.sizes[self.size].seeds)[0]

    def runs(self, application, method, ranks=None, extra=(), label=""):
        """One run per seed, and per choice of the half resolution for two fusions."""
        settings = application.sizes[self.size]
        seeds = self.seeds or settings.seeds
        if ranks not in (None, settings.ranks[0]):
            seeds = seeds[:settings.seeds_on_more]
        choices = [((*extra, f"method.resolutions=[[2,2,2],{half},[1,1,1]]"), label + "-half" + half[1::2])
                   for half in settings.halves * (method == "two-fusions")] or [(extra, label)]
        return [self.run(application, method, seed, ranks, *choice) for seed in seeds for choice in choices]


def same_question(asked, wanted):
    """Wherever the folder lies, and however it is written: data made here lie in a folder `data` inside it."""
    place = re.compile(r'"[^"]*/(?:neuron|cosmoflow)/data/')
    return place.sub('"', asked) == place.sub('"', wanted)


def make_room(folder, mark):
    """An empty folder but for the file `mark`, which tells that the rest was made here and for what. What was made for
    something else goes; the mark stays to the last, so that this can be cut short. A folder without it is not ours."""
    folder.mkdir(parents=True, exist_ok=True)
    others = [path for path in folder.iterdir() if path.name != mark]
    if others and not (folder / mark).exists():
        raise SystemExit(f"reproduce: {folder} holds files that were not made here (it has no {mark}); move it away, or "
                         "give another --folder")
    for path in others:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def published_split(path):
    """Training and validation files, beside the simulator's `path`, of the [data] section in it."""
    lines = path.read_text().splitlines()
    training = next(line for line in lines if line.startswith("files = "))
    validation = next(line for line in lines if line.startswith("validation = "))
    read = lambda text: [path.parent / pathlib.Path(name).name for name in json.loads(text[text.index("["):text.index("]") + 1])]
    return read(training), read(validation)


class Run:
    """The records of one finished run."""

    def __init__(self, folder):
        self.folder = folder
        self.result = json.loads((folder / "result.json").read_text())
        self.epochs = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
        before = 0.0
        for epoch in self.epochs:
            before += epoch["gflop"]
            epoch["total_gflop"] = before

    def after(self):
        return [epoch for epoch in self.epochs if epoch["role"] in ("baseline", "finetune")]

    def count(self, role):
        return sum(epoch["role"] == role for epoch in self.epochs)

    def before(self, measure, stage):
        """Seconds or GFLOP of a fusion stage."""
        return sum(epoch[measure] for epoch in self.epochs if epoch["stage"] == stage
                   and epoch["role"] in ("coarse", "dense"))

    def reached(self, target):
        """The epoch after fusion that first reached the target, and whether one did; else the last."""
        for number, epoch in enumerate(self.after(), 1):
            if epoch["validation_loss"] is not None and epoch["validation_loss"] <= target:
                return Reached(number, epoch, True)
        return Reached(len(self.after()), self.epochs[-1], False)

    def mean_epoch(self, at_last_resolution):
        """Seconds of an epoch by part, means over the epochs without each step's first: that one loads and builds."""
        last = self.epochs[-1]["resolution"]
        chosen = [e for e in self.epochs if (e["resolution"] == last) == at_last_resolution]
        chosen = [e for e in chosen if e["epoch"] > 1] or chosen
        return {part: mean_part(chosen, part) for part in ("io", "compute", "communication")} | {
            "epoch": Part(statistics.fmean(e["seconds"] for e in chosen))}


@dataclasses.dataclass
class Part:
    """Seconds of an epoch: the mean over the ranks and, where there are several, what the least and the most busy had."""
    mean: float
    least: float | None = None
    most: float | None = None


def mean_part(epochs, part):
    mean = statistics.fmean(epoch[f"{part}_seconds"] for epoch in epochs)
    if all(epoch["ranks"] == 1 for epoch in epochs):
        return Part(mean)
    return Part(mean, *(statistics.fmean(epoch[f"{part}_range"][end] for epoch in epochs) for end in (0, 1)))


@dataclasses.dataclass
class Reached:
    epochs: int
    record: dict
    done: bool
