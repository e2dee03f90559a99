# SPDX-License-Identifier: BSD-3-Clause
"""Recipe of Lockstep for Spack 1.0 and newer (package API 2). packaging/spack/spack.yaml uses it
for this source tree."""

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import *


class Lockstep(CMakePackage):
    """Data-parallel training of ResNet-18 on CIFAR-10 over MPI ranks, with measurements of its
    scaling."""

    license("BSD-3-Clause")
    # The sources come from `develop` in spack.yaml.
    version("develop")

    variant(
        "cuda",
        default=False,
        description="GPU backend; run jobs/setup --cuda first, Spack has no cudnn-frontend",
    )
    variant("report", default=True, description="Dependencies of lockstep-report")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    generator("ninja")

    depends_on("mpi")
    depends_on("onednn@2.6:3")
    depends_on("hdf5@1.10.3: ~mpi+hl")
    depends_on("boost@1.74: +program_options")
    depends_on("fmt")
    depends_on("nlohmann-json")
    depends_on("xxhash@0.8:")
    with when("+report"):
        depends_on("python@3.9:", type="run")
        depends_on("py-numpy@1.24:", type="run")
        depends_on("py-h5py@3.7:", type="run")
        depends_on("py-matplotlib@3.6:", type="run")
    with when("+cuda"):
        depends_on("cuda@12:")
        depends_on("cudnn@9.10:")
        depends_on("nccl@2.27:")

    conflicts("%gcc@:11", msg="Lockstep needs C++20 as of GCC 12")

    def cmake_args(self):
        return [
            self.define("LOCKSTEP_CUDA", "on" if self.spec.satisfies("+cuda") else "off"),
            self.define("LOCKSTEP_TESTS", False),
            self.define("LOCKSTEP_BENCH", False),
        ]
