#!/usr/bin/env python3
"""Are two results of the GPU check the same? One line, and exit code 1 when not.

    compare.py graph EAGER.json GRAPH.json     results of `mrmf bench training --first N --json`: equal to the last bit
    compare.py loss FIXED.json TIMED.json      the same, with the first right plans and with the fastest: nearly equal
    compare.py runs ONE_RANK TWO_RANKS         run folders of `mrmf train`: equal final losses, but for rounding
"""
import json
import math
import pathlib
import statistics
import sys

# bfloat16 resolves 0.4 %; ranks sum gradients in another order, and sixteen steps of Adam carry the difference on.
RELATIVE = 0.02
# Of the mean loss of the last ten of twenty steps of Adam, which makes much of the rounding of small gradients: single
# losses of CosmoFlow in bfloat16 were 11 % apart, and their mean 2 %.
RELATIVE_LOSS = 0.1


def read(path):
    try:
        return json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"compare: {path} cannot be read: {error}")


def finite(loss):
    return loss is not None and math.isfinite(loss)


def unlike(a, b, kinds):
    """Why the losses of two runs of the same steps cannot be compared; None where they can."""
    if not a or len(a) != len(b):
        return f"{len(a)} {kinds[0]} and {len(b)} {kinds[1]}"
    return None if all(finite(loss) for loss in a + b) else "a loss is not finite"


def graph(eager_file, graph_file):
    """(equal?, line). Losses of every step, and the hash of the parameters after the last."""
    eager, captured = read(eager_file), read(graph_file)
    a, b = eager["losses"], captured["losses"]
    if why := unlike(a, b, ("eager steps", "captured ones")):
        return False, why
    for step, (x, y) in enumerate(zip(a, b), 1):
        if x != y:
            return False, f"losses of step {step} differ: eager {x!r}, graph {y!r}"
    if eager["parameters_hash"] != captured["parameters_hash"]:
        return False, f"losses of {len(a)} steps are equal, the parameters after them are not"
    return True, f"{len(a)} losses and the parameters after them are equal to the last bit"


def loss(fixed_file, timed_file):
    """(near?, line). The last losses, and the speed."""
    fixed, timed = read(fixed_file), read(timed_file)
    a, b = fixed["losses"], timed["losses"]
    if why := unlike(a, b, ("steps with fixed plans", "with timed ones")):
        return False, why
    x, y = (statistics.fmean(losses[len(losses) // 2:]) for losses in (a, b))
    difference = abs(x - y) / abs(x)
    return difference <= RELATIVE_LOSS, (
        f"{timed['samples_per_second']:,.0f} samples/s, {1e3 * timed['step_seconds']:.3f} ms a step; mean loss {y:.6g} in the "
        f"second half of {len(b)} steps, {x:.6g} with fixed plans: {100 * difference:.2g} % apart, allowed "
        f"{100 * RELATIVE_LOSS:g} %")


def runs(one, two):
    a, b = read(pathlib.Path(one) / "result.json"), read(pathlib.Path(two) / "result.json")
    if (a["ranks"], b["ranks"]) != (1, 2):
        return False, f"wanted runs of 1 and 2 ranks, got {a['ranks']} and {b['ranks']}"
    x, y = a["validation_loss"], b["validation_loss"]
    if not (finite(x) and finite(y)):
        return False, "a validation loss is not finite"
    difference = abs(x - y) / abs(x)
    return difference <= RELATIVE, (f"validation loss {x:.6g} on one rank, {y:.6g} on two: "
                                    f"{100 * difference:.2g} % apart, allowed {100 * RELATIVE:g} %")


def main():
    kinds = {"graph": graph, "loss": loss, "runs": runs}
    if len(sys.argv) != 4 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    try:
        equal, line = kinds[sys.argv[1]](*sys.argv[2:])
    except KeyError as error:
        equal, line = False, f"{sys.argv[2]} or {sys.argv[3]} lacks {error}"
    print(line)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
