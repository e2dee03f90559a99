#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A program of g++ -fopenmp with a oneDNN that was built for OpenMP, but with Intel's OpenMP library.
#
# Expected: both are "OpenMP" (dnnl_version()->cpu_runtime is the same), libiomp5 also has the functions of libgomp, and a process
# has each function once. So omp_set_num_threads of the program limits oneDNN, or mixed functions of both libraries give wrong results.
# Seen: neither. The symbols of libgomp have the version OMP_1.0, those that Intel's compiler refers to have the version VERSION, and
# the loader keeps them apart: the program uses libgomp, oneDNN uses libiomp5. Results are right, but oneDNN uses all threads of
# OMP_NUM_THREADS (or all cores) although the program asked for one; each library has threads of its own.
# With LD_PRELOAD=libiomp5.so both use libiomp5, which has the symbols with both versions, and one thread is one thread. The reverse
# is impossible, because libgomp has no symbols with VERSION.
# Consequences: the runtime that oneDNN states does not suffice; compare the addresses of omp_get_max_threads that the program and
# the library find (dlvsym), or look at the threads of the process.
#
# Needs: bash, g++ with OpenMP, Python 3.9 or newer with pip, x86-64, 600 MB for temporary files.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=2023.2.0
for kind in gomp iomp; do
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work/$kind" "onednn-cpu-$kind==$version" \
    "onednn-devel-cpu-$kind==$version"
done
python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work/iomp" "intel-openmp==$version" \
  "intel-cmplr-lib-rt==$version"
for wheel in "$work"/*/*.whl; do # their files are in NAME.data/data
  python3 -m zipfile -e "$wheel" "$work/unpacked"
  mkdir -p "$(dirname "$wheel")/root"
  cp -r "$work"/unpacked/*.data/data/* "$(dirname "$wheel")/root"
  rm -r "$work/unpacked"
done

cat >"$work/convolution.cpp" <<'CPP'
#include <omp.h>

#include <cstdio>
#include <filesystem>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

using dnnl::memory;

int main() {
  omp_set_num_threads(1);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const int images = 8, channels = 32, size = 16;
  const memory::desc map({images, channels, size, size}, memory::data_type::f32, memory::format_tag::nhwc);
  const memory::desc filter({channels, channels, 1, 1}, memory::data_type::f32, memory::format_tag::oihw);
  const dnnl::convolution_forward::primitive_desc description(engine, dnnl::prop_kind::forward_training,
      dnnl::algorithm::convolution_direct, map, filter, memory::desc(), map, {1, 1}, {0, 0}, {0, 0});
  const std::size_t elements = std::size_t(images) * channels * size * size;
  std::vector<float> x(elements, 0.5f), w(channels * channels, 2.0f), y(elements);
  memory source(map, engine, x.data()), weights(filter, engine, w.data()), destination(map, engine, y.data());
  dnnl::convolution_forward(description).execute(stream, {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights},
                                                          {DNNL_ARG_DST, destination}});
  std::size_t wrong = 0;
  for (const float value : y) wrong += value != channels;
  int threads = 0;
  for ([[maybe_unused]] const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) ++threads;
  const dnnl_version_t* version = dnnl_version();
  std::printf("oneDNN %d.%d.%d, runtime %s: asked for 1 thread, %d threads, %zu of %zu values wrong\n", version->major,
              version->minor, version->patch, version->cpu_runtime == DNNL_RUNTIME_OMP ? "OpenMP" : "other", threads, wrong,
              elements);
}
CPP
run() { # gomp or iomp, further assignments
  local root=$work/$1/root
  g++ -std=c++17 -O1 -fopenmp "$work/convolution.cpp" -I"$root/include" -L"$root/lib" -ldnnl -Wl,--allow-shlib-undefined \
    -o "$work/convolution"
  env OMP_NUM_THREADS=5 LD_LIBRARY_PATH="$root/lib" "${@:2}" "$work/convolution" | tee -a "$work/seen"
}
run gomp
run iomp
run iomp LD_PRELOAD="$work/iomp/root/lib/libiomp5.so"

cat >"$work/expected" <<'SEEN'
oneDNN 3.2.0, runtime OpenMP: asked for 1 thread, 1 threads, 0 of 65536 values wrong
oneDNN 3.2.0, runtime OpenMP: asked for 1 thread, 5 threads, 0 of 65536 values wrong
oneDNN 3.2.0, runtime OpenMP: asked for 1 thread, 1 threads, 0 of 65536 values wrong
SEEN
diff "$work/expected" "$work/seen" || { echo "the behaviour has changed" && exit 1; }
