"""The recipes for Spack and Apptainer, and CITATION.cff, as far as they can be checked without those programs."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPACK = ROOT / "jobs/packaging/spack/spack_repo/mrmf"
DEFINITION = ROOT / "jobs/packaging/apptainer/mrmf.def"

# Spack's packages for what CMakeLists.txt looks for.
SPACK_NAMES = {"MPI": "mpi", "HDF5": "hdf5", "fmt": "fmt", "nlohmann_json": "nlohmann-json", "CLI11": "cli11",
               "doctest": "doctest", "OpenMP": None, "dnnl": "onednn", "fftw3f": "fftw", "fftw3f_mpi": "fftw",
               "xxhash": "xxhash", "toml++/toml.h": "tomlplusplus", "onnx_proto": "onnx", "protobuf": "protobuf", "python3": "python"}


class SpackRecipe:
    """Loads the recipe with stand-ins for Spack's directives, which keep what they were told."""

    def __init__(self):
        self.told = []
        self.package = types.ModuleType("spack.package")
        for name in ("version", "variant", "depends_on", "conflicts", "build_system", "maintainers", "license"):
            setattr(self.package, name, lambda *words, _name=name, **more: self.told.append((_name, words, more)))
        self.package.when = lambda condition: self.Scope()
        modules = {"spack": types.ModuleType("spack"), "spack.package": self.package}
        for place in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
            modules[place] = types.ModuleType(place)
        for system in ("cmake", "cuda"):
            module = types.ModuleType(f"spack_repo.builtin.build_systems.{system}")
            setattr(module, {"cmake": "CMakePackage", "cuda": "CudaPackage"}[system], type(system, (), {}))
            modules[module.__name__] = module
        with unittest.mock.patch.dict(sys.modules, modules):
            spec = importlib.util.spec_from_file_location("recipe", SPACK / "packages/mrmf/package.py")
            self.module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self.module)

    class Scope:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            return False

    def dependencies(self):
        return {re.match(r"[\w-]+", words[0])[0]: (words[0], more) for name, words, more in self.told if name == "depends_on"}


class Spack(unittest.TestCase):
    def setUp(self):
        self.recipe = SpackRecipe()

    def test_the_repository_is_named_as_its_folder(self):
        text = (SPACK / "repo.yaml").read_text(encoding="utf-8")
        self.assertRegex(text, rf"(?m)^  namespace: {SPACK.name}$")
        self.assertRegex(text, r"(?m)^  api: v2\.\d+$")

    def test_it_builds_these_sources(self):
        self.assertEqual(self.recipe.module.SOURCES, ROOT)
        self.assertEqual(self.recipe.module.Mrmf.git, ROOT.as_uri())
        (version,) = [(words, more) for name, words, more in self.recipe.told if name == "version"]
        self.assertEqual(version, (("main",), {"branch": "main"}))
        text = (SPACK / "packages/mrmf/package.py").read_text(encoding="utf-8")
        self.assertTrue(text.startswith("# Builds branch main of the repository that this file lies in"), text[:80])

    def test_languages_are_dependencies(self):
        dependencies = self.recipe.dependencies()
        for language in re.search(r"project\(mrmf .*LANGUAGES ([\w ]+)\)", (ROOT / "CMakeLists.txt").read_text())[1].split():
            self.assertEqual(dependencies[language.lower()][1], {"type": "build"})

    def test_everything_that_cmake_looks_for_is_a_dependency(self):
        text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        found = re.findall(r"find_package\((\w+)", text) + re.findall(r"find_library\(\w+ (\w+)", text)
        found += re.findall(r"find_path\(\w+ (toml\S+)", text) + re.findall(r"find_program\(MRMF_PYTHON (\w+)", text)
        self.assertGreaterEqual(len(set(found)), 12)
        dependencies = self.recipe.dependencies()
        for name in found:
            self.assertIn(name, SPACK_NAMES, f"CMakeLists.txt looks for {name}: add it to the recipe in jobs/packaging/spack, and here")
            if SPACK_NAMES[name] is not None:
                self.assertIn(SPACK_NAMES[name], dependencies)
        least = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", text)[1]
        self.assertEqual(dependencies["cmake"][0], f"cmake@{least}:")

    def test_its_cmake_options_are_ours(self):
        class Package(self.recipe.module.Mrmf):
            run_tests = False
            define = staticmethod(lambda name, value: f"-D{name}={value}")
            define_from_variant = staticmethod(lambda name, variant: f"-D{name}={variant}")
            spec = unittest.mock.MagicMock()
        options = {re.match(r"-D(\w+)=", word)[1] for word in Package().cmake_args()}
        known = (ROOT / "CMakeLists.txt").read_text() + (ROOT / "kernels/cuda/cuda.cmake").read_text()
        self.assertIn("MRMF_CUDA", options)
        for option in options:
            self.assertRegex(known, rf"\b{option}\b")


class Apptainer(unittest.TestCase):
    def sections(self):
        parts = re.split(r"(?m)^%(\w+)\n", DEFINITION.read_text(encoding="utf-8"))
        return parts[0], dict(zip(parts[1::2], parts[2::2]))

    def test_head_and_sections(self):
        head, sections = self.sections()
        self.assertRegex(head, r"(?m)^Bootstrap: docker\nFrom: debian:12")
        known = {"files", "post", "environment", "runscript", "test", "labels", "help", "setup", "startscript", "arguments"}
        self.assertLessEqual(set(sections), known)
        self.assertLessEqual({"files", "post", "runscript", "test", "help"}, set(sections))

    def test_scripts_are_sound(self):
        for name in ("post", "environment", "runscript", "test"):
            script = "#!/bin/sh\n" + self.sections()[1][name]
            with self.subTest(section=name):
                done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                if shutil.which("shellcheck"):
                    done = subprocess.run(["shellcheck", "--shell=sh", "-"], input=script, capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stdout)

    def test_what_it_copies_and_makes_is_there(self):
        head, sections = self.sections()
        archive = re.search(r"-o (\S+) HEAD", head)[1]
        self.assertIn(f"{archive} /opt/{archive}", sections["files"])
        self.assertIn("install:", (ROOT / "Makefile").read_text(encoding="utf-8"))


class Citation(unittest.TestCase):
    def setUp(self):
        self.text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")

    def test_it_names_this_version_and_the_paper(self):
        version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")
        self.assertRegex(self.text, rf"(?m)^version: {re.escape(version)}$")
        for key in ("cff-version: 1.2.0", "title: mrmf", "message: ", "authors:", "references:"):
            self.assertRegex(self.text, rf"(?m)^{key}")
        # The authors in the order of README.md.
        readme = re.sub(r"\s+", " ", (ROOT / "README.md").read_text(encoding="utf-8"))
        named = re.search(r"model fusion \(MRMF; (.*?)\)", readme)[1].split(", ")
        cited = re.findall(r"family-names: (\w+), given-names: (\w)", self.text)
        self.assertEqual([name.replace("W.-k.", "W.") for name in named], [f"{given}. {family}" for family, given in cited])

    def test_it_is_yaml(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("PyYAML is not installed")
        self.assertEqual(yaml.safe_load(self.text)["authors"], [{"name": "The mrmf developers"}])


class Versions(unittest.TestCase):
    """src/system/git_version.cmake, in a repository of its own."""

    def setUp(self):
        import tempfile
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-version-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "VERSION").write_text("0.7.0\n")
        (self.folder / "print.cmake").write_text(
            f"include({ROOT}/src/system/git_version.cmake)\nmrmf_version(found ${{FOLDER}})\nmessage(STATUS \"${{found}}\")\n")

    def version(self, folder=None):
        script = str(self.folder / "print.cmake")
        command = [os.environ.get("CMAKE", "cmake"), f"-DFOLDER={folder or self.folder}", "-P", script]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip().removeprefix("-- ")

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.folder, check=True,
                       capture_output=True)

    def test_an_archive_has_its_file(self):
        self.assertEqual(self.version(), "0.7.0")

    def test_a_clone_has_its_newest_tag(self):
        self.git("init", "-q")
        self.git("add", "VERSION")
        self.git("commit", "-q", "-m", "one")
        self.assertEqual(self.version(), "0.7.0")
        self.git("tag", "paper")  # no version
        self.assertEqual(self.version(), "0.7.0")
        self.git("tag", "v1.2.3")
        self.assertEqual(self.version(), "1.2.3")
        self.git("commit", "-q", "--allow-empty", "-m", "two")
        self.assertRegex(self.version(), r"^1\.2\.3-1-g[0-9a-f]+$")
        inside = self.folder / "unpacked"  # an archive inside somebody's repository
        inside.mkdir()
        (inside / "VERSION").write_text("0.8.0\n")
        self.assertEqual(self.version(inside), "0.8.0")


if __name__ == "__main__":
    unittest.main(verbosity=1)
