"""Networks of several parts: the preset "jag" against PyTorch, parts in turns and together, shared weights and frozen
copies, an adversarial pair, stops and kills, ranks, tournaments, and bad input."""
import json
import os
import sys
import tomllib

import h5py
import numpy as np

import support

PEERS = os.path.join(os.path.dirname(__file__), "..", "peers", "torch")
sys.path.insert(0, PEERS)
from golden_formula import formula  # noqa: E402


def make_implosions(path, train=8, val=4, shape=(12,)):
    pixels = int(np.prod(shape))
    with h5py.File(path, "w") as file:
        for split, rows, salt in (("train", train, 11), ("val", val, 21)):
            for name, width, extra in (("inputs", 5, 0), ("scalars", 15, 1), ("images", pixels, 2)):
                values = formula(rows * width, salt + extra, 2.0, 0.0).reshape(rows, width).astype(np.float32)
                file[f"{split}_{name}"] = values.reshape(rows, *shape) if name == "images" else values


JAG = """
[data]
files = ["implosions.h5"]
train = { samples = "train_inputs", labels = ["train_scalars", "train_images"] }
validation = { samples = "val_inputs", labels = ["val_scalars", "val_images"] }
[model]
preset = "jag"
outputs = 27
[training]
optimizer = { name = "adam", learning_rate = 2e-3, beta2 = 0.99, epsilon = 1e-3 }
batch = 8
seed = 7
epochs = 6
[run]
folder = "run"
threads = 1
"""

# A generator of answers from inputs and noise, and a discriminator that sees both. In turns or together.
PAIR = """
[data]
files = ["implosions.h5"]
train = {{ samples = "train_inputs", labels = "train_scalars" }}
validation = {{ samples = "val_inputs", labels = "val_scalars" }}
[training]
optimizer = {{ name = "adam", learning_rate = 1e-3 }}
batch = 4
seed = 3
epochs = 3
terms = [
  {{ name = "real", output = "critic", target = 1, loss = "binary_cross_entropy" }},
  {{ name = "fake", output = "judge", target = 0, loss = "binary_cross_entropy" }},
  {{ name = "fool", output = "{fooled}", target = 1, loss = "binary_cross_entropy", weight = 0.1 }},
  {{ name = "near", output = "generator", target = "truth", loss = "mse" }},
]
parts = [
  {{ name = "generator", layers = ["generator*"] }},
  {{ name = "critic", layers = ["critic*"], optimizer = "sgd", learning_rate = 0.01, momentum = 0.5 }},
]
{turns}
[run]
folder = "run"
threads = 1
[model]
layers = [
  {{ type = "labels", name = "truth", units = 15 }},
  {{ type = "noise", name = "seed", units = 3 }},
  {{ type = "concat", name = "inputs", from = ["input", "seed"] }},
  {{ type = "dense", name = "generator1", units = 12 }},
  {{ type = "relu", name = "generator_relu" }},
  {{ type = "dense", name = "generator", units = 15 }},
  {{ type = "concat", name = "true_pair", from = ["input", "truth"] }},
  {{ type = "dense", name = "critic1", units = 8 }},
  {{ type = "leaky_relu", name = "critic_relu", slope = 0.2 }},
  {{ type = "dense", name = "critic", units = 1 }},
  {{ type = "stop_gradient", name = "made", from = "generator" }},
  {{ type = "concat", name = "made_pair", from = ["input", "made"] }},
  {{ type = "dense", name = "judge1", units = 8, weights_of = "critic1" }},
  {{ type = "leaky_relu", name = "judge_relu", slope = 0.2 }},
  {{ type = "dense", name = "judge", units = 1, weights_of = "critic" }},
  {{ type = "concat", name = "open_pair", from = ["input", "generator"] }},
  {{ type = "dense", name = "frozen1", units = 8, weights_of = "critic1", every = 2 }},
  {{ type = "leaky_relu", name = "frozen_relu", slope = 0.2 }},
  {{ type = "dense", name = "frozen", units = 1, weights_of = "critic", every = 2 }},
  {{ type = "slice", name = "answer", from = "generator", channels = 15 }},
]
"""
TURNS = """turns = [
  { parts = ["critic"], terms = ["real", "fake"], steps = 2 },
  { parts = ["generator"], terms = ["fool", "near"] },
]"""


class Parts(support.MrmfTest):
    def setUp(self):
        super().setUp()
        make_implosions(self.path("implosions.h5"), train=24, val=8)

    def pair(self, turns=TURNS, fooled="frozen", replace=()):
        text = PAIR.format(turns=turns, fooled=fooled)
        for old, new in replace:
            self.assertIn(old, text)
            text = text.replace(old, new)
        self.write("pair.toml", text)

    def train(self, config, run="run", *words, ranks=0, code=0):
        settings = [part for word in words for part in ("--set", word)]
        return self.mrmf("train", config, "--set", f"run.folder={run}", *settings, ranks=ranks, code=code)

    def arrays(self, run):
        return self.model_arrays(run + "/checkpoints/final.h5")

    def epochs(self, run="run"):
        return self.lines(run + "/epochs.jsonl")

    def same(self, one, other):
        a, b = self.arrays(one), self.arrays(other)
        self.assertEqual(a.keys(), b.keys())
        for name, values in a.items():
            np.testing.assert_array_equal(values, b[name], name)
        keys = ("epoch", "train_loss", "validation_loss", "terms")
        self.assertEqual(*([[e[key] for key in keys] for e in self.epochs(run)] for run in (one, other)))


class Peer(Parts):
    def test_the_preset_is_the_network_written_out_in_pytorch(self):
        with open(os.path.join(PEERS, "golden_parts.json")) as file:
            golden = json.load(file)
        make_implosions(self.path("implosions.h5"), train=golden["rows"], val=golden["validation"])
        self.write("jag.toml", JAG)
        self.train("jag.toml")
        for epoch, expected in zip(self.epochs(), golden["epochs"], strict=True):
            computed = {name: loss for name, loss in epoch["terms"].items() if loss is not None}
            self.assertEqual(computed.keys(), expected["terms"].keys())
            for name, loss in expected["terms"].items():
                self.assertAlmostEqual(computed[name], loss, delta=2e-5 * max(1, abs(loss)), msg=f"{name} {epoch['epoch']}")
            self.assertAlmostEqual(epoch["train_loss"], sum(expected["terms"].values()), delta=1e-4)
            self.assertAlmostEqual(epoch["validation_loss"], expected["validation_loss"], delta=2e-5)
        arrays = self.arrays("run")
        for name, expected in golden["parameters"].items():
            values = arrays["parameters/" + name].reshape(-1).astype(np.float64)
            self.assertAlmostEqual(np.linalg.norm(values), expected["norm"], delta=2e-5 * max(1, expected["norm"]), msg=name)
            np.testing.assert_allclose(values[:8], expected["first"], atol=2e-5, err_msg=name)

    def test_labels_with_positions_beside_scalars_are_numbers_in_a_row(self):
        make_implosions(self.path("flat.h5"), train=8, val=4)
        make_implosions(self.path("implosions.h5"), train=8, val=4, shape=(2, 3, 2))
        self.write("jag.toml", JAG)
        self.train("jag.toml", "positions")
        self.train("jag.toml", "flat", 'data.files=["flat.h5"]')
        self.same("positions", "flat")

    def test_scalars_are_normalised_and_pixels_are_left(self):
        make_implosions(self.path("implosions.h5"), train=8, val=4, shape=(2, 3, 2))
        self.write("jag.toml", JAG)
        self.train("jag.toml", "run", 'data.normalise.labels="mean_std"')
        self.predictions_are_of_the_validation_loss()
        self.mrmf("export", "run", "-o", "run.onnx")

    def test_one_scalar_is_normalised_alone(self):
        make_implosions(self.path("implosions.h5"), train=8, val=4)
        with h5py.File(self.path("implosions.h5"), "a") as file:
            for split in "train", "val":
                file[split + "_first"] = 100 + file[split + "_scalars"][:, :1]
        text = """
[data]
files = ["implosions.h5"]
train = { samples = "train_inputs", labels = ["train_first", "IMAGES"] }
validation = { samples = "val_inputs", labels = ["val_first", "val_images"] }
normalise.labels = "mean_std"
[training]
batch = 4
epochs = 2
[run]
folder = "run"
threads = 1
[[model.layers]]
type = "dense"
units = 13
"""
        with h5py.File(self.path("implosions.h5"), "a") as file:
            for split in "train", "val":
                images = file[split + "_images"][:]
                del file[split + "_images"]
                file[split + "_images"] = images.reshape(-1, 2, 3, 2)
        self.write("one.toml", text.replace("IMAGES", "train_images"))
        self.train("one.toml")
        self.predictions_are_of_the_validation_loss(("first", "images"))
        # What has positions comes last, or is not normalised; there is no common logarithm.
        self.write("turned.toml", text.replace('"train_first", "IMAGES"', '"train_images", "train_first"')
                   .replace('"val_first", "val_images"', '"val_images", "val_first"'))
        self.fails(2, "train", "turned.toml", message="name the sets without positions first")
        self.fails(2, "train", "one.toml", "--set", 'data.normalise.labels="log1p"', "--overwrite", message="common logarithm")

    def predictions_are_of_the_validation_loss(self, names=("scalars", "images")):
        """Predictions are in the labels' own units, and in the network's units they have the loss that validation had."""
        with open(self.path("run/config.toml"), "rb") as file:
            units = tomllib.load(file)["data"]["normalise"]
        self.mrmf("predict", "run", "--output", "answers.h5", "--split", "validation", "--overwrite")
        with h5py.File(self.path("answers.h5")) as answers, h5py.File(self.path("implosions.h5")) as data:
            made = answers["prediction"][:].reshape(4, -1)
            true = np.concatenate([data["val_" + name][:].reshape(4, -1) for name in names], axis=1)
        scale = np.ones(made.shape[1])
        scale[:len(units["label_std"])] = units["label_std"]
        loss = np.mean(((made - true) / scale) ** 2)
        best = min(epoch["validation_loss"] for epoch in self.epochs())
        self.assertAlmostEqual(loss, best, delta=1e-4 * best)

    def test_lists_of_labels_with_the_same_positions_stay_labels_with_positions(self):
        """A set without an axis of channels beside one that has it, and channels that come first."""
        rng = np.random.default_rng(1)
        a, b = rng.normal(size=(8, 6, 5)).astype("f4"), rng.normal(size=(8, 6, 5, 2)).astype("f4")
        with h5py.File(self.path("fields.h5"), "w") as file:
            file["x"], file["a"], file["b"] = rng.normal(size=(8, 6, 5, 1)).astype("f4"), a, b
            file["cx"], file["ca"], file["cb"] = np.moveaxis(file["x"][:], -1, 1), a[:, None], np.moveaxis(b, -1, 1)
        losses = []
        for prefix, axes in ("", ""), ("c", 'axes = "n c h w"'):
            self.write("fields.toml", f"""
[data]
files = ["fields.h5"]
train = {{ samples = "{prefix}x", labels = ["{prefix}a", "{prefix}b"] }}
split = {{ by = "rows", validation = 0.25 }}
{axes}
[training]
batch = 2
epochs = 1
[run]
folder = "fields"
threads = 1
[[model.layers]]
type = "conv"
filters = 3
kernel = [3, 3]
padding = "same"
""")
            self.mrmf("train", "fields.toml", "--overwrite")
            losses.append(self.epochs("fields")[0]["validation_loss"])
        self.assertAlmostEqual(*losses, places=6)


class Trained(Parts):
    def test_shared_weights_are_the_same_and_frozen_ones_follow(self):
        self.pair()
        self.train("pair.toml")
        arrays = self.arrays("run")
        for name in ("1/weight", "1/bias", "/weight", "/bias"):
            np.testing.assert_array_equal(arrays["parameters/critic" + name], arrays["parameters/judge" + name])
        # 18 steps: the last copy was taken after the 18th.
        np.testing.assert_array_equal(arrays["parameters/critic/weight"], arrays["parameters/frozen/weight"])
        self.train("pair.toml", "odd", "training.epochs=3", "training.batch=8")  # 9 steps; the last copy after the 8th
        arrays = self.arrays("odd")
        # The 9th step is the generator's, so the critic has not moved since; the copy was taken after the 8th.
        np.testing.assert_array_equal(arrays["parameters/critic/weight"], arrays["parameters/frozen/weight"])
        self.pair(replace=[("every = 2", "every = 5")])
        self.train("pair.toml", "rare", "training.epochs=1", "training.batch=8")  # 3 steps: never taken anew
        arrays = self.arrays("rare")
        self.assertFalse(np.array_equal(arrays["parameters/critic/weight"], arrays["parameters/frozen/weight"]))

    def test_a_turn_moves_its_parts_alone(self):
        self.pair(turns='turns = [{ parts = ["critic"], terms = ["real", "fake"] }]')
        self.train("pair.toml", "none", "training.epochs=1", "training.optimizer.learning_rate=1e-30",
                   "training.parts=[{ name = \"generator\", layers = [\"generator*\"] }, { name = \"critic\", layers = "
                   "[\"critic*\"] }]")
        self.train("pair.toml", "critic", "training.epochs=1")
        before, after = self.arrays("none"), self.arrays("critic")
        for name in before:
            moved = not np.allclose(before[name], after[name], atol=1e-12)
            self.assertEqual(moved, "generator" not in name and name.startswith("parameters"), name)
        terms = self.epochs("critic")[0]["terms"]
        self.assertIsNone(terms["fool"])
        self.assertIsNotNone(terms["real"])

    def test_the_generator_learns_beside_its_adversary(self):
        self.pair()
        self.train("pair.toml", "run", "training.epochs=30", "training.optimizer.learning_rate=5e-3")
        first, last = self.epochs()[0], self.epochs()[-1]
        self.assertLess(last["terms"]["near"], 0.9 * first["terms"]["near"])
        for epoch in self.epochs():
            self.assertTrue(all(np.isfinite(loss) for loss in epoch["terms"].values()))

    def test_a_network_whose_terms_are_its_loss_trains_as_without(self):
        plain = """
[model]
layers = [
  { type = "dense", name = "a", units = 9 },
  { type = "tanh", name = "b" },
  { type = "dense", name = "c", units = 15 },
LABELS]
"""
        head = PAIR.format(turns="", fooled="frozen")
        head = head[:head.index("terms = [")] + head[head.index("[run]"):head.index("[model]")]
        self.write("plain.toml", head + plain.replace("LABELS", ""))
        terms = '[training]\nterms = [{ output = "c", target = "truth", loss = "mse" }]\n'
        layers = plain.replace('  { type = "dense", name = "a"', '  { type = "labels", name = "truth", units = 15 },\n'
                               '  { type = "dense", from = "input", name = "a"').replace("LABELS", "")
        self.write("terms.toml", head.replace("[training]\n", terms) + layers)
        self.train("plain.toml", "plain")
        self.train("terms.toml", "terms")
        plain, terms = self.epochs("plain"), self.epochs("terms")
        # First parameters differ by the layer's place in the list; so do the losses, but not much.
        self.assertEqual(len(plain), len(terms))
        for one in terms:
            self.assertAlmostEqual(one["train_loss"], one["terms"]["term1"], places=6)

    def test_evaluate_predict_export_and_plan(self):
        self.pair()
        self.train("pair.toml")
        scores = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--json"))[0]
        self.assertAlmostEqual(scores["mse"], min(e["validation_loss"] for e in self.epochs()), places=5)
        self.mrmf("predict", "run", "--output", "answers.h5", "--split", "validation")
        with h5py.File(self.path("answers.h5")) as file:
            self.assertEqual([v.shape for v in file.values() if isinstance(v, h5py.Dataset)][0], (8, 15))
        self.mrmf("plan", "pair.toml")
        self.mrmf("inspect", "pair.toml")


class Continued(Parts):
    def test_a_stopped_run_continues_with_the_same_bits(self):
        self.pair()
        self.train("pair.toml", "whole")
        self.kill_after(1, "train", "pair.toml", "--set", "run.folder=run", "--set", "run.checkpoint.epochs=1")
        self.train("pair.toml", "run", "run.checkpoint.epochs=1")
        self.same("whole", "run")

    def test_dropout_in_prediction_is_of_what_leads_to_the_output(self):
        self.pair(replace=[('"generator_relu" }', '"generator_relu" }, {type = "dropout", name = "drop", rate = 0.5}'),
                           ('"critic_relu", slope = 0.2 }', '"critic_relu", slope = 0.2 }, {type = "dropout", name = "d", rate = 0.5}')])
        self.train("pair.toml")
        self.mrmf("predict", "run", "--dropout", "8", "-o", "answers.h5", "--split", "validation")
        with h5py.File(self.path("answers.h5")) as file:
            self.assertTrue(np.all(file["deviation"][:] > 0))
        self.pair(replace=[('"critic_relu", slope = 0.2 }', '"critic_relu", slope = 0.2 }, {type = "dropout", name = "d", rate = 0.5}')])
        self.train("pair.toml", "critic")
        self.fails(2, "predict", "critic", "--dropout", "8", "-o", "none.h5", message="dropout")

    def test_several_ranks(self):
        self.pair()
        self.train("pair.toml", "one", "training.batch=8")
        self.train("pair.toml", "two", "training.batch=4", ranks=2)
        one, two = self.epochs("one")[-1], self.epochs("two")[-1]
        self.assertEqual(one["samples"], two["samples"])
        for term in one["terms"]:
            self.assertAlmostEqual(two["terms"][term], one["terms"][term], delta=0.25 * one["terms"][term])
        fixed = ("run.deterministic=true", "data.shards=4")
        self.train("pair.toml", "shards-1", "training.batch=8", *fixed)
        self.train("pair.toml", "shards-2", "training.batch=4", *fixed, ranks=2)
        self.same("shards-1", "shards-2")

    def test_gradients_in_parts_are_those_of_the_batch(self):
        self.pair()
        self.train("pair.toml", "whole", "training.batch=8")
        self.train("pair.toml", "parts", "training.batch=8", "training.accumulate=2")
        for a, b in zip(self.epochs("whole"), self.epochs("parts"), strict=True):
            for term, loss in a["terms"].items():
                self.assertAlmostEqual(b["terms"][term], loss, delta=1e-3 * max(1, loss))

    def test_generators_travel_and_discriminators_stay(self):
        self.pair()
        tournament = ('tournament.trainers=2', 'tournament.rounds=2', 'tournament.steps=2', 'tournament.held_out=0.25',
                      'tournament.exchange=["generator*"]', "training.batch=2")
        self.train("pair.toml", "run", *tournament, ranks=2)
        records = [r for r in self.lines("run/tournament.jsonl") if r["round"] > 0]
        self.assertEqual(len(records), 4)
        critics = [self.model_arrays(f"run/trainer-{t}/checkpoints/final.h5")["parameters/critic/weight"] for t in (0, 1)]
        self.assertFalse(np.array_equal(*critics))

    def test_a_start_gives_the_parts_that_it_has(self):
        self.pair()
        self.train("pair.toml", "first")
        self.pair(turns='turns = [{ parts = ["generator"], terms = ["fool", "near"] }]')
        self.train("pair.toml", "second", "model.start=first", "training.epochs=1")
        first, second = self.arrays("first"), self.arrays("second")
        np.testing.assert_array_equal(first["parameters/critic/weight"], second["parameters/critic/weight"])
        np.testing.assert_array_equal(second["parameters/judge/weight"], second["parameters/critic/weight"])
        self.assertFalse(np.array_equal(first["parameters/generator/weight"], second["parameters/generator/weight"]))


class BadInput(Parts):
    def refused(self, message, replace=(), words=(), **options):
        self.pair(replace=replace, **options)
        self.fails(2, "train", "pair.toml", *[part for word in words for part in ("--set", word)], message=message)

    def test_names(self):
        self.refused("no layer has that name", [('output = "judge"', 'output = "jugde"')])
        self.refused("no layer has that name", [('target = "truth"', 'target = "lies"')])
        self.refused("which stands for no layer", [('layers = ["critic*"]', 'layers = ["kritik*"]')])
        self.refused("no part names the layer", [('layers = ["generator*"]', 'layers = ["generator1"]')])
        self.refused("is in generator and in critic", [('layers = ["critic*"]', 'layers = ["critic*", "generator"]')])
        self.refused("which is no part", turns='turns = [{ parts = ["critics"] }]')
        self.refused("which is no term", turns='turns = [{ terms = ["reel"] }]')
        self.refused("weights_of names", [('weights_of = "critic1", every', 'weights_of = "critic9", every')])
        self.refused("they must be alike", [('units = 8, weights_of = "critic1" }', 'units = 9, weights_of = "critic1" }')])
        self.refused("no later layer reads its output", [('output = "judge"', 'output = "critic"')])

    def test_sizes(self):
        self.refused("as many numbers", [('target = "truth"', 'target = "critic"')])
        head = PAIR.format(turns="", fooled="frozen")
        start, end, model = (head.index(word) for word in ("terms = [", "[run]", "[model]"))
        self.write("few.toml", head[:start] + 'terms = [{ output = "some", target = "truth", loss = "mse" }]\n' +
                   head[end:model] + """
[model]
layers = [
  { type = "labels", name = "truth", units = 14 },
  { type = "dense", name = "all", from = "input", units = 15 },
  { type = "slice", name = "some", channels = 14 },
  { type = "slice", name = "answer", from = "all", channels = 15 },
]
""")
        self.fails(2, "train", "few.toml", message="truth gives 14 labels, and the data have 15 per sample")
        self.refused("takes channels", [('from = "generator", channels = 15', 'from = "generator", channels = 16')])

    def test_turns(self):
        self.refused("nobody's turn in epoch 3", turns='turns = [{ until = 2 }]')
        self.refused("nobody's turn in epoch 1", turns='turns = [{ since = 1 }]')
        self.refused("begins after it", turns='turns = [{ since = 2, until = 2 }]')
        self.refused('no term of it depends on the weights of the part "critic"',
                     turns='turns = [{ parts = ["critic"], terms = ["near"] }, { parts = ["generator"] }]')

    def test_values(self):
        self.refused("of yes or no it is from 0 to 1", [("target = 0,", "target = 2,")])
        self.refused("is of classes", [('loss = "mse"', 'loss = "cross_entropy"')])
        self.refused("has no loss", [(', loss = "mse" }', " }")])
        self.refused("unknown key", [('loss = "mse"', 'loss = "mse", wait = 1')])

    def test_what_parts_do_not_go_with(self):
        for word, message in (('method.name="mrmf"', "method.name"), ("training.precise_batch_norm=2", "precise_batch_norm"),
                              ('training.communication="bf16"', "communication"), ("run.grid=[2]", "run.grid"),
                              ('method.finetune.communication="bf16"', "communication")):
            self.pair()
            words = ["--set", word] + (["--set", "method.resolutions=[[2],[1]]"] if "mrmf" in word else [])
            self.fails(2, "train", "pair.toml", *words, message=message)
        self.fails(2, "train", "pair.toml", "--set", 'tournament={trainers=2,exchange=["judge"]}', ranks=2, message="name that layer")
        text = PAIR.format(turns="", fooled="frozen")
        start, end = text.index("terms = ["), text.index("parts = [")
        self.write("pair.toml", text[:start] + text[end:])
        self.fails(2, "train", "pair.toml", message="no later layer reads its output")


if __name__ == "__main__":
    support.main()
