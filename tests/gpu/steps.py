"""The check on a GPU as data: the steps of its two calls, in their order, with the seconds that each may take.

A first call of five minutes tells the most and leaves time for one mend and for a second call. So the most telling comes
first, and the limits of a call add up to MOST_SECONDS of it at most (tests/gpu/test_check.py holds them to that).

Command lines hold the places {mrmf}, {unit}, {mpirun}, {python} (which has PyTorch), {python3}, {here} (this folder),
{tool} (the program that the step needs), {card}, {trace}, {seconds} (the step's limit), and those of SIZES.
Several lines under one name run one after the other until one fails.
"""
import dataclasses

MOST_SECONDS = {"first": 285, "second": 300}
NETWORKS = ("neuron_inverter", "cosmoflow")


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    seconds: int  # limit of the whole step
    why: str
    commands: dict = dataclasses.field(default_factory=dict)  # name: a command line, or several
    cases: str = ""  # instead of commands: a process for each test case that this filter of doctest passes
    but: str = ""  # and that this one does not
    at_once: int = 1  # commands side by side
    judge: str = "plain"  # judges.py: what a command's end means
    needs: str = ""  # a program without which the step is skipped


# On a GPU: the sizes of real training, and those at which the bounds of the gradients were found (docs/gpu.md). For a
# trial, on an emulated device: as small as the networks allow, and another one in CosmoFlow's place.
SIZES = {
    False: {"neuron_inverter": "--preset neuron_inverter --batch 512",
            "cosmoflow": "--preset cosmoflow --batch 8",
            "small_neuron_inverter": "--preset neuron_inverter --batch 128",
            "small_cosmoflow": "--preset cosmoflow --sample 64x64x64x4 --batch 2",
            "parity_neuron_inverter": "--preset neuron_inverter --batch 64 --steps 20",
            "parity_cosmoflow": "--preset cosmoflow --sample 64x64x64x4 --batch 2 --steps 10",
            "first": "--first 20", "few": "--steps 10", "steps": "--steps 100", "samples": "640", "batch": "64", "half_batch": "32"},
    True: {"neuron_inverter": "--preset neuron_inverter --length 400 --batch 2",
           "cosmoflow": "{here}/trial_cubes.toml --sample 32x32x32x4 --batch 1",
           "small_neuron_inverter": "--preset neuron_inverter --length 400 --batch 8 --steps 1",
           "parity_neuron_inverter": "--preset neuron_inverter --length 400 --batch 1 --steps 3",
           "first": "--first 2", "few": "--steps 1", "steps": "--steps 1", "samples": "80", "batch": "8", "half_batch": "4"},
}
TRIAL_CUBES = (("first steps", "cosmoflow bf16"), ("kernels", "cosmoflow bf16"))


def in_trial(step, command):
    """Whether a trial runs this command: of CosmoFlow's, few."""
    return not command.startswith("cosmoflow") or (step.name, command) in TRIAL_CUBES


# What every backend does, and what only this one does: lower precisions, captured steps, batches in flight.
CASES = "operations:*,layers:*,values:*,batch norm:*,dropout:*,NaN:*,cuda:*"
# All convolutions in lower precisions; "cuda: a dozen convolutions" tells the same of some.
LONG_CASES = "cuda: tf32 multiplies*,cuda: bf16 rounds*,cuda: products are exact*,cuda: any factors*"
# Kernels of our own, for compute-sanitizer; the second has the fused ones in bf16. A block synchronises in reductions.
KERNEL_CASES = "layers: pooling,layers: batch norm"
FUSED_CASE = "cuda: gradients of fused layers in low precision"

BENCH = "{mrmf} bench training --overwrite --device cuda"
COMPARE = "{python3} {here}/compare.py"
PRECISIONS = ("bf16", "tf32")


def each(line, networks=NETWORKS, precisions=PRECISIONS):
    """{"NETWORK PRECISION": line with both filled in}; a line may be several."""
    def filled(text, network, precision):
        return text.replace("NETWORK", network).replace("PRECISION", precision)

    return {f"{network} {precision}": (filled(line, network, precision) if isinstance(line, str)
                                       else tuple(filled(one, network, precision) for one in line))
            for precision in precisions for network in networks}


FIRST = (
    Step("facts", 15, "the card, its driver and its libraries; the check ends here where the GPU cannot be used",
         judge="facts"),
    Step("first steps", 25, "does it train at all? 20 steps of both networks, with the first right plans, captured",
         each(BENCH + " --deterministic {first} {few} {NETWORK} --precision PRECISION "
              "--json first-NETWORK-PRECISION.json", precisions=("tf32", "bf16"))),
    Step("cases", 40, "every operation beside the reference, a process for each test case", cases=CASES, but=LONG_CASES,
         at_once=6, judge="case"),
    Step("gradients", 15, "each layer's gradients beside the CPU's",
         each("{mrmf} bench gradients --overwrite --device cuda {small_NETWORK} --precision PRECISION "
              "--json gradients-NETWORK-PRECISION.json", precisions=("bf16", "tf32", "fp32")), at_once=3, judge="gradients"),
    Step("recorded equals eager", 15, "a replayed step gives the bits of one made call by call",
         each((BENCH + " --deterministic {first} {few} --graph off {NETWORK} --precision PRECISION "
               "--json eager-NETWORK-PRECISION.json",
               COMPARE + " graph eager-NETWORK-PRECISION.json first-NETWORK-PRECISION.json"), precisions=("bf16",))),
    Step("parity", 15, "the same steps on the CPU have the same losses",
         each("{mrmf} bench parity --overwrite --device cuda {parity_NETWORK} --precision PRECISION "
              "--json parity-NETWORK-PRECISION.json", precisions=("bf16", "fp32")), at_once=4),
    Step("speed", 60, "our step's time with the fastest plans; the losses of 20 steps beside those with the first plans",
         each((BENCH + " {first} {steps} {NETWORK} --precision PRECISION --json ours-NETWORK-PRECISION.json",
               COMPARE + " loss first-NETWORK-PRECISION.json ours-NETWORK-PRECISION.json"))),
    Step("PyTorch", 85, "its three best variants, once for each card", {
        "best": "{python} {here}/torch_bench.py --set best --limit {seconds} --card {card} --json peers.json"}),
    Step("kernels", 15, "where the time of a replayed step goes",
         each(("env CUDA_INJECTION64_PATH={trace} MRMF_KERNEL_TABLE=kernels-NETWORK-PRECISION.tsv "
               "MRMF_EMULATED_KERNELS=kernels-NETWORK-PRECISION.tsv " + BENCH +
               " --deterministic {few} {NETWORK} --precision PRECISION",
               "{python3} {here}/results.py --kernels kernels-NETWORK-PRECISION.tsv"), precisions=("bf16",))),
)

# One eager step after all plans are chosen; nothing before it is measured.
NCU = ("{tool} --set none --metrics gpu__time_duration.sum,dram__bytes.sum,lts__t_bytes.sum --clock-control none "
       "--profile-from-start off --target-processes all --csv --log-file ncu-NETWORK-PRECISION.csv ")
SANITIZER = "{tool} --target-processes all --report-api-errors no --error-exitcode 99 "
TRAIN = "train {here}/two_ranks.toml --overwrite --set run.ranks_share_gpu=true"
ON_ONE_CARD = "{mpirun} --oversubscribe -n 2 {mrmf} " + TRAIN

SECOND = (
    Step("facts", 15, "as in the first call", judge="facts"),
    Step("one step under ncu", 60, "each kernel's time and the bytes that it moves through DRAM and L2",
         each(NCU + BENCH + " --graph off --steps 1 --profile {NETWORK} --precision PRECISION", precisions=("bf16",)),
         judge="ncu", needs="ncu"),
    Step("sanitizers", 75, "accesses outside of a tensor, and races inside a block", {
        "memcheck": SANITIZER + f"--tool memcheck {{unit}} '--test-case={KERNEL_CASES}'",
        "memcheck of the fused kernels in bf16": SANITIZER + f"--tool memcheck {{unit}} '--test-case={FUSED_CASE}'",
        "racecheck": SANITIZER + f"--tool racecheck {{unit}} '--test-case=layers: batch norm,{FUSED_CASE}'"},
         at_once=3, judge="sanitizer", needs="compute-sanitizer"),
    # A batch is a rank's own, so that of two ranks is half as large: then both learn from the same mini-batches.
    Step("two ranks on one card", 35, "they learn what one rank learns", {
        "two ranks": ("{mrmf} simulate neuron --samples {samples} --cells 2 --seed 1 --output neuron.h5 --overwrite",
                      "{mrmf} " + TRAIN + " --set training.batch={batch} --set run.folder=one-rank",
                      ON_ONE_CARD + " --set training.batch={half_batch} --set run.folder=two-ranks",
                      COMPARE + " runs one-rank two-ranks")}),
    # A grid's batch is that of its group.
    Step("two ranks that share samples on one card", 30, "a half of each sample on each, and messages between them", {
        "grid": (ON_ONE_CARD + " --set training.batch={batch} --set run.folder=grid --set run.grid=[2]",
                 COMPARE + " runs one-rank grid")}),
    Step("long cases", 45, "all convolutions in tf32 and bf16", cases=LONG_CASES, at_once=6, judge="case"),
    Step("PyTorch, compiled", 40, "its compiled variants, which take long to start", {
        "compiled": "{python} {here}/torch_bench.py --set compiled --limit {seconds} --card {card} --json peers.json"}),
)

CALLS = {"first": FIRST, "second": SECOND}
