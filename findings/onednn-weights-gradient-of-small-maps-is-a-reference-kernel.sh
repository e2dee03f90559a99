#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The gradient of the weights of a 3x3 convolution in oneDNN on processors with AVX2, in the layout nChw8c that its AVX2 kernels want.
#
# Expected: the kernel jit:avx2 computes maps of every size, as it does forward and backward by data; if not, a product of matrices
# (x64:gemm:jit) takes over, as it does for maps in nchw and nhwc. A map of fewer pixels takes less time.
# Seen: maps of 4x4 and 3x3 pixels use jit:avx2. Maps of 2x2 and 1x1, smaller than the kernel with its padding of 1, use the reference
# kernel (ref:any) without a message. A map of 2x2 then takes hundreds of times longer than one of 3x3. Only the weights are affected, and
# the kernel with a product is offered for nchw, nhwc and the layout `any` alone. The same with oneDNN 2.6 (Debian 12), and with 3.13.2
# (onednn 2026.1.0 of PyPI) by hand.
# Consequences: a network that keeps one layout from layer to layer, such as VGG-11 on CIFAR-10, whose last maps have 2x2 pixels, spends
# its time there, also a program that only times this kernel beside others. Look for "ref" in impl_info_str(), and choose the layout
# `any` for the gradient of the weights or another algorithm.
#
# Needs: bash, g++ with OpenMP, Python 3.9 or newer with pip, x86-64 with AVX2, 200 MB for temporary files.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=2023.2.0
python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "onednn-cpu-gomp==$version" \
  "onednn-devel-cpu-gomp==$version"
for wheel in "$work"/*.whl; do # their files are in NAME.data/data
  python3 -m zipfile -e "$wheel" "$work/unpacked"
done
mkdir "$work/root"
cp -r "$work"/unpacked/*.data/data/* "$work/root"

cat >"$work/gradient.cpp" <<'CPP'
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>

using dnnl::memory;

int main() {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const dnnl_version_t* version = dnnl_version();
  std::printf("oneDNN %d.%d.%d, AVX2\n", version->major, version->minor, version->patch);
  const int images = 4, channels = 256;
  std::map<int, double> seconds;  // of nChw8c
  for (const auto& [name, tag] : {std::pair{"nChw8c", memory::format_tag::nChw8c}, std::pair{"nchw", memory::format_tag::nchw},
                                  std::pair{"nhwc", memory::format_tag::nhwc}, std::pair{"any", memory::format_tag::any}}) {
    for (const int size : {4, 3, 2, 1}) {
      const memory::desc map({images, channels, size, size}, memory::data_type::f32, tag);
      const memory::desc filter({channels, channels, 3, 3}, memory::data_type::f32, memory::format_tag::any);
      const auto direct = dnnl::algorithm::convolution_direct;
      const memory::dims one{1, 1};
      const dnnl::convolution_forward::primitive_desc forward(engine, dnnl::prop_kind::forward_training, direct, map, filter, map,
                                                              one, one, one);
      const dnnl::convolution_backward_data::primitive_desc data(engine, direct, map, filter, map, one, one, one, forward);
      const dnnl::convolution_backward_weights::primitive_desc weights(engine, direct, map, filter, map, one, one, one, forward);
      std::printf("%-6s %dx%d  data %s  weights %s\n", name, size, size,
                  std::string(data.impl_info_str()).substr(0, 3).c_str(), weights.impl_info_str());
      if (tag != memory::format_tag::nChw8c) continue;
      memory source(weights.src_desc(), engine), gradient(weights.diff_dst_desc(), engine);
      memory result(weights.diff_weights_desc(), engine);
      const dnnl::convolution_backward_weights primitive(weights);
      double shortest = 1e9;
      for (int run = 0; run < 3; ++run) {
        const auto begin = std::chrono::steady_clock::now();
        primitive.execute(stream, {{DNNL_ARG_SRC, source}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_WEIGHTS, result}});
        stream.wait();
        shortest = std::min(shortest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      }
      seconds[size] = shortest;
    }
  }
  std::fprintf(stderr, "nChw8c: 2x2 takes %.0f times as long as 3x3\n", seconds[2] / seconds[3]);
  std::printf("2x2 takes more than 20 times as long as 3x3: %s\n", seconds[2] > 20 * seconds[3] ? "yes" : "no");
}
CPP
g++ -std=c++17 -O1 -fopenmp "$work/gradient.cpp" -I"$work/root/include" -L"$work/root/lib" -ldnnl -Wl,--allow-shlib-undefined \
  -o "$work/gradient"
OMP_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=AVX2 LD_LIBRARY_PATH="$work/root/lib" "$work/gradient" | tee "$work/seen"

cat >"$work/expected" <<'SEEN'
oneDNN 3.2.0, AVX2
nChw8c 4x4  data jit  weights jit:avx2
nChw8c 3x3  data jit  weights jit:avx2
nChw8c 2x2  data jit  weights ref:any
nChw8c 1x1  data jit  weights ref:any
nchw   4x4  data x64  weights x64:gemm:jit
nchw   3x3  data x64  weights x64:gemm:jit
nchw   2x2  data x64  weights x64:gemm:jit
nchw   1x1  data x64  weights x64:gemm:jit
nhwc   4x4  data brg  weights jit:avx2
nhwc   3x3  data brg  weights jit:avx2
nhwc   2x2  data brg  weights x64:gemm:jit
nhwc   1x1  data brg  weights x64:gemm:jit
any    4x4  data jit  weights jit:avx2
any    3x3  data jit  weights jit:avx2
any    2x2  data jit  weights x64:gemm:jit
any    1x1  data jit  weights x64:gemm:jit
2x2 takes more than 20 times as long as 3x3: yes
SEEN
diff "$work/expected" "$work/seen" || { echo "the behaviour has changed" && exit 1; }
