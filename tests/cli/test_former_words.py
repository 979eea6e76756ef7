"""Words of earlier versions: a configuration that has them trains as ever, and runs that have them are read like others."""
import json

import support

FORMER = """name = "mrmf"
top = "front"
handover = "last"
resolutions = [[2], [1]]
stop = { coarse = { epochs = 2 }, finetune = { epochs = 1 } }"""
TODAY = FORMER.replace('"front"', '"stem"').replace("handover", "transfer")


class FormerWords(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))

    def train(self, method, folder):
        layout = "transpose" if method == FORMER else "as_stored"
        self.config(replace=[('name = "baseline"', method), ('layout = "as_stored"', f'layout = "{layout}"')])
        return self.mrmf("train", "config.toml", "--set", f"run.folder={folder}")

    def test_a_configuration_of_an_earlier_version_trains_the_same_with_a_warning_for_each_word(self):
        said = self.train(FORMER, "former") + self.read("former/log.txt")
        for line in ('method.top = "front" is called "stem" now', 'data.layout = "transpose" is called "as_stored" now', "method.handover is called method.transfer now"):
            self.assertIn(line, said)
        self.assertNotIn("is called", self.train(TODAY, "today"))
        self.same_models("former", "today")
        self.assertEqual(self.read("former/config.toml").replace("former", "today"), self.read("today/config.toml"))

    def test_a_run_of_an_earlier_version_is_read_like_another(self):
        self.train(TODAY, "run")
        self.train(TODAY, "other")
        self.write("run/config.toml", self.read("run/config.toml").replace('top = "stem"', 'top = "front"')
                   .replace("transfer = ", "handover = ").replace('layout = "as_stored"', 'layout = "transpose"'))
        self.assertIn("handover", self.read("run/config.toml"))
        result = json.loads(self.read("run/result.json"))
        result["top"] = "front"
        self.write("run/result.json", json.dumps(result))
        said = self.mrmf("evaluate", "run")
        self.assertIn("40 samples", said)
        self.assertNotIn("is called", said)  # what a run wrote is nobody's to correct
        columns = json.loads(self.mrmf("compare", "run", "other", "--json"))["columns"]
        self.assertEqual(len(columns), 1)  # they differ in nothing
        self.assertEqual(columns[0]["top"], "stem")


if __name__ == "__main__":
    support.main()
