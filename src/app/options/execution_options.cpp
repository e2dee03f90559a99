// Options of the execution: communication between ranks and the device of each rank.

#include "limits.hpp"
#include "option_rows.hpp"

namespace lockstep::app {

using train::Config;

std::vector<Option> communication_options() {
  constexpr double float_mib = 4.0 / (1 << 20);  // one float32 value
  return {
      {.name = "reducer",
       .value_name = "NAME",
       .value = choice(in(&Config::reducer, &comm::ReducerOptions::kind)),
       .commands = cmd_training,
       .common = cmd_all,
       .effect = with_several_ranks(Affects::both),
       .help = "when and where gradients are reduced"},
      {.name = "all-reduce",
       .value_name = "NAME",
       .value = choice(in(&Config::reducer, &comm::ReducerOptions::algorithm)),
       .commands = cmd_training,
       .effect = with_several_ranks(Affects::both),
       .help = "all-reduce algorithm for gradients in host memory"},
      {.name = "transport",
       .value_name = "NAME",
       .value = choice(in(&Config::transport, &comm::TransportOptions::kind)),
       .commands = cmd_training | cmd_allreduce,
       .common = cmd_allreduce,
       .effect = with_several_ranks(Affects::both),
       .help = "gradient transport between ranks"},
      {.name = "allow-gpu-sharing",
       .value = flag(in(&Config::transport, &comm::TransportOptions::allow_sharing)),
       .commands = cmd_training | cmd_allreduce | cmd_stack,
       .effect = with_several_ranks(Affects::time),
       .help = "allow several ranks of a host to use one GPU; for tests"},
      {.name = "gradient-dtype",
       .value_name = "NAME",
       .value = choice(in(&Config::reducer, &comm::ReducerOptions::gradient_type)),
       .commands = cmd_training | cmd_allreduce,
       .common = cmd_allreduce,
       .effect = with_several_ranks(Affects::both),
       .help = "data type of gradients in communication",
       .details = "fp16 requires `--precision fp16`. Sums in host memory are computed in float32. "
                  "Ranks that sum in shared memory (`--all-reduce shared-memory`) communicate "
                  "fp32; the other algorithms except direct and "
                  "hierarchical support only fp32"},
      {.name = "link-gbit",
       .value_name = "RATE",
       .value = real(&Config::link_gbit, from_to(0, 1e6)),
       .commands = cmd_training | cmd_allreduce,
       .common = cmd_allreduce,
       .effect = with_several_ranks(Affects::time),
       .help = "rate of the link in Gbit/s, for the bandwidth utilisation in the report",
       .shown_default = "not known"},
      {.name = "bucket-mib",
       .value_name = "MIB",
       .value = real(&Config::bucket_mib, from_to(float_mib, 1 << 20), {"auto", 0}),
       .commands = cmd_training,
       .effect = with_several_ranks(Affects::both),
       .help = "size of a gradient bucket in MiB of float32",
       .shown_default = "6 on CPUs, 16 on GPUs"},
      {.name = "bn",
       .value_name = "NAME",
       .value = choice(&Config::batch_norm),
       .commands = cmd_training,
       .effect = with_several_ranks(Affects::both),
       .help = "statistics of batch norm"},
      {.name = "pipeline-stages",
       .value_name = "N",
       .value = integer(in(&Config::pipeline, &train::PipelineOptions::stages), from_to(1, 1024)),
       .commands = cmd_run,
       .effect = Affects::both,
       .help = "number of pipeline stages into which the network is cut, one rank each",
       .details = "The number of ranks is a multiple of it: ranks = stages x replicas. Rank r "
                  "computes stage r mod N. `--batch-per-rank` counts the images of a replica"},
      {.name = "stage-cuts",
       .value_name = "CUTS",
       .value = text(in(&Config::pipeline, &train::PipelineOptions::cuts)),
       .commands = cmd_run,
       .effect = Affects::both,
       .help =
           "cuts between the stages: auto (balances measured times), flops (balances FLOPs), or "
           "the first layers of the second stage, the third stage, ..., such as layer2,layer4",
       .details = "A cut inside a residual block is not possible, because only one value passes "
                  "between two stages. For auto, rank 0 trains the whole network for some steps "
                  "of one micro-batch; use flops if it does not fit in memory"},
      {.name = "micro-batches",
       .value_name = "M",
       .value = integer(in(&Config::pipeline, &train::PipelineOptions::micro_batches),
                        from_to(1, limits::images)),
       .commands = cmd_run,
       .effect = Affects::both,
       .help = "gradient accumulation: number of micro-batches into which each replica divides its "
               "batch; a divisor of the batch per rank",
       .details = "One rank needs no pipeline for it. `--batch-per-rank` counts the images of all "
                  "micro-batches of a step, of which only one has its activations in memory. The "
                  "gradients are summed and applied once per step. The statistics of batch norm "
                  "are those of each micro-batch, so its results differ from those of the whole "
                  "batch"},
      {.name = "pipeline-schedule",
       .value_name = "NAME",
       .value = choice(in(&Config::pipeline, &train::PipelineOptions::schedule)),
       .commands = cmd_run,
       .effect = Affects::both,
       .help = "order of the passes of the micro-batches"},
      {.name = "watchdog",
       .value_name = "SECONDS",
       .value = integer(&Config::watchdog_seconds, from_to(0, limits::seconds)),
       .effect = Affects::neither,
       .help = "abort if a rank makes no progress for this many seconds; 0 disables the watchdog",
       .details = "The exit status is 70. The watchdog observes the program from its start to its "
                  "end. Each completed operation counts as progress; waiting for another rank does "
                  "not"},
  };
}

std::vector<Option> device_options() {
  return {
      {.name = "device",
       .value_name = "NAME",
       .value = choice(in(&Config::device, &backend::DeviceOptions::kind)),
       .common = cmd_all,
       .effect = Affects::both,
       .help = "device of each rank"},
      {.name = "precision",
       .value_name = "NAME",
       .value = choice(in(&Config::plan, &backend::PlanOptions::precision)),
       .commands = cmd_training | cmd_evaluate | cmd_allreduce | cmd_layer,
       .common = cmd_all,
       .effect = Affects::both,
       .help = "data type of activations and matrix products",
       .details = "Master weights, momentum and statistics are always float32"},
      {.name = "loss-scale",
       .value_name = "S",
       .value = real(in(&Config::plan, &backend::PlanOptions::loss_scale), from_to(0, 0x1p24),
                     {"dynamic", 0}),
       .commands = cmd_training,
       .effect = Affects::both,
       .help = "loss scale of fp16: a fixed number, or dynamic",
       .details = "A dynamic scale starts at 65536, is halved if a gradient overflows (all ranks "
                  "skip the update of that step), and is doubled after 2,000 steps without "
                  "overflow"},
      {.name = "threads",
       .value_name = "N",
       .value = integer(in(&Config::device, &backend::DeviceOptions::threads),
                        from_to(0, limits::threads)),
       .common = cmd_all,
       .ranks = AcrossRanks::may_differ,
       .effect = Affects::both,
       .help = "number of CPU threads per rank",
       .details = "The default is OMP_NUM_THREADS if it is set (of a list such as 4,2, the first "
                  "number). Otherwise it is the number of physical cores that the rank may use, "
                  "divided by the number of ranks of its host with the same processors, or the "
                  "share of the rank in a CPU quota of its control groups if that is less. "
                  "OMP_THREAD_LIMIT is an upper limit",
       .shown_default = "OMP_NUM_THREADS, else cores / ranks"},
      {.name = "binding",
       .value_name = "NAME",
       .value = choice(&Config::binding),
       .effect = Affects::time,
       .help = "processors on which the ranks of a host compute, on CPUs"},
      {.name = "conv-algorithm",
       .value_name = "NAME",
       .value = choice(in(&Config::plan, &backend::PlanOptions::convolution_algorithm)),
       .commands = cmd_training | cmd_evaluate | cmd_layer,
       .effect = Affects::both,
       .help = "convolution algorithm on CPUs",
       .details = "A convolution that the named algorithm does not support uses direct"},
      {.name = "bn-fusion",
       .value_name = "NAME",
       .value = choice(in(&Config::plan, &backend::PlanOptions::batch_norm_fusion)),
       .commands = cmd_training,
       .effect = Affects::both,
       .help = "part of batch norm fused into the preceding convolution on GPUs",
       .details = "Layers that cuDNN cannot fuse use separate kernels"},
      {.name = "engines",
       .value_name = "NAME",
       .value = choice(in(&Config::device, &backend::DeviceOptions::engines)),
       .commands = cmd_training | cmd_evaluate | cmd_layer,
       .effect = Affects::both,
       .help = "selection of kernels on GPUs",
       .details = "`quick` is for debugging and for first runs: steps are expected to be slower"},
      {.name = "cuda-graph",
       .value_name = "NAME",
       .value = choice(&Config::cuda_graph),
       .commands = cmd_training,
       .effect = Affects::time,
       .help = "execution of training steps on GPUs"},
      {.name = "batch-norm-sms",
       .value_name = "N",
       .value = integer(in(&Config::device, &backend::DeviceOptions::batch_norm_multiprocessors),
                        from_to(0, 1024), {"auto", -1}),
       .commands = cmd_training,
       .effect = Affects::both,
       .help = "number of multiprocessors that cuDNN's batch norm uses on GPUs; 0: all",
       .details =
           "The rest remains free for all-reduces that overlap with it. `auto` leaves 16 free "
           "if several ranks use `--reducer overlap` (not measured on a GPU), otherwise none"},
      {.name = "engine-log",
       .value_name = "FILE",
       .value = path(in(&Config::device, &backend::DeviceOptions::engine_log)),
       .commands = cmd_training | cmd_evaluate | cmd_layer,
       .ranks = AcrossRanks::may_differ,
       .effect = Affects::neither,
       .help = "file for the candidates of each kernel selection on GPUs, as JSON lines",
       .details = "Rank 0 writes FILE, rank N writes FILE.rankN. "
                  "[performance.md](performance.md#engine-selection) describes the lines",
       .shown_default = "none is written"},
      {.name = "memory-limit",
       .value_name = "BYTES",
       .value = bytes(&Config::memory_limit, from_to(0, limits::bytes)),
       .commands = cmd_training | cmd_layer,
       .common = cmd_ladder | cmd_layer,
       .effect = Affects::results,
       .help = "memory limit per rank, for example 8GB",
       .details = "`ladder` stops at the first batch whose estimated memory exceeds it (on GPUs "
                  "without this option: at the first batch for which a lower bound from the shapes "
                  "exceeds the free memory, or whose allocation fails)",
       .shown_default = "all free memory"},
  };
}

}  // namespace lockstep::app
