# Builds branch main of the repository that this file lies in, as committed, whatever is checked out beside it:
#   spack repo add jobs/packaging/spack/spack_repo/mrmf && spack install mrmf        (Spack 1.0 or newer)
#   spack install mrmf@git.COMMIT=main                                     (another commit, by its full hash)
import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *

SOURCES = pathlib.Path(__file__).resolve().parents[7]


class Mrmf(CMakePackage, CudaPackage):
    """Trains convolutional networks on n-dimensional HDF5 data by multi-resolution model fusion."""

    homepage = "https://arxiv.org/abs/2510.25170"
    git = SOURCES.as_uri()

    version("main", branch="main")

    build_system("cmake", default="cmake")
    variant("cuda", default=False, description="Build the CUDA module: cuDNN, cuBLASLt and NCCL")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("git", type="build")

    depends_on("mpi")
    depends_on("hdf5+mpi")
    depends_on("onednn@2.7: cpu_runtime=omp")
    depends_on("fftw+mpi precision=float")
    depends_on("fmt@9:")
    depends_on("xxhash")
    depends_on("eigen@3.4:3")
    depends_on("onnx")
    depends_on("protobuf")
    depends_on("cli11@2.1:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("tomlplusplus@3:", type="build")
    depends_on("doctest", type=("build", "test"))

    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-numpy", type="run")
    depends_on("py-h5py", type="run")
    depends_on("py-matplotlib", type="run")

    with when("+cuda"):
        depends_on("cuda@13:")
        depends_on("cudnn@9:")
        depends_on("nccl@2:")
        conflicts("cuda_arch=none", msg="name the GPUs to build for, such as cuda_arch=90")

    conflicts("%gcc@:11", msg="the sources are C++20")

    def cmake_args(self):
        args = [
            self.define_from_variant("MRMF_CUDA", "cuda"),
            self.define("MRMF_TESTS", self.run_tests),
            self.define("MRMF_WERROR", False),
            self.define("MRMF_PYTHON", self.spec["python"].command.path),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args
