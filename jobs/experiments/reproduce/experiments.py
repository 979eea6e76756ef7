"""What is trained: the two applications at three sizes, their data, methods and rank counts."""
import dataclasses
import pathlib

EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent
METHODS = ("baseline", "mrt", "one-fusion", "two-fusions")
RIVALS = METHODS + ("interpolated", "progressive", "top-only")


HALVES = ("[2,1,1]", "[1,2,1]", "[1,1,2]")  # of a cube; the paper's is the mean over the three


@dataclasses.dataclass(frozen=True)
class Size:
    """One application at one size."""
    simulate: tuple = ()   # arguments of `mrmf simulate`; none: the published data must be there
    batch: int = 0         # per rank, on the fewer ranks
    ranks: tuple = (1, 2)  # the paper's two numbers of GPUs
    seeds: tuple = (1, 2, 3)
    seeds_on_more: int = 3  # how many of them on the larger number of ranks
    target: float = 0.0    # validation loss that counts as reached; 0: the baseline's last
    coarse_batches: tuple = ()
    stages_coarse_batch: int = 0  # of one fusion in Tables 3 and 7; 0: `batch`
    halves: tuple = ()     # two fusions: what the middle resolution may be; results are means over all of them


@dataclasses.dataclass(frozen=True)
class Application:
    name: str
    title: str
    gpus: tuple            # in the paper
    keep_global_batch: bool
    sizes: dict
    cheaper: tuple = ()    # of the rivals, once more at half the cost: their lines in methods.txt end in -half

    def rivals(self, size):
        return RIVALS + tuple(f"{method}-half" for method in self.cheaper if size == "workstation")

    def folder(self):
        return EXPERIMENTS / self.name


COSMOFLOW = Application("cosmoflow", "CosmoFlow", (32, 64), True, {
    "smoke": Size(("cosmology", "--samples", "10", "--size", "32", "--box", "256", "--method", "lpt"), batch=4,
                  seeds=(1,), halves=HALVES),
    "workstation": Size(("cosmology", "--samples", "1280", "--size", "32", "--box", "256", "--method", "lpt"), batch=16,
                        seeds_on_more=1, target=0.20, halves=HALVES),
    "paper": Size(batch=8, ranks=(32, 64), target=0.0025, halves=HALVES),
}, cheaper=("baseline", "mrt", "one-fusion", "interpolated"))

NEURON = Application("neuron", "Neuron Inverter", (16, 32), False, {
    "smoke": Size(("neuron", "--samples", "40", "--cells", "1"), batch=8, seeds=(1,), coarse_batches=(8, 16)),
    "workstation": Size(("neuron", "--samples", "4000", "--cells", "4"), batch=64, target=0.100,
                        coarse_batches=(64, 128, 256, 512)),
    "paper": Size(batch=512, ranks=(16, 32), target=0.0400, coarse_batches=(512, 1024, 2048, 4096),
                  stages_coarse_batch=2048),
})

APPLICATIONS = {application.name: application for application in (COSMOFLOW, NEURON)}


# Methods that are not the paper's, at its size: the paper's configuration that comes nearest, and what differs.
AS_IN_PAPER = {"interpolated": ("one-fusion", ["method.top=interpolated"]),
               "progressive": ("mrt", ["method.name=progressive"]),
               "top-only": ("one-fusion", ["method.bottom=fresh"])}


def method_words(application, method, size):
    """The configuration file of a method and what is set on top of it."""
    if size == "paper":
        like, words = AS_IN_PAPER.get(method, (method, []))
        return application.folder() / f"paper-{like}.toml", words
    table = application.folder() / "methods.txt"
    for line in table.read_text().splitlines():
        name, _, words = line.partition(":")
        if name == method:
            return application.folder() / "workstation.toml", words.split()
    raise SystemExit(f"reproduce: {table}: no method '{method}'")


def shortened(words):
    """The same method with one epoch a step, for the smoke size: it shows that all of it runs."""
    return [word.rsplit("=", 1)[0] + "=1" if word.startswith("method.stop.") and ".epochs=" in word else word
            for word in words if not word.startswith("method.stages=")]
