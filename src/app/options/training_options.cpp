// SPDX-License-Identifier: BSD-3-Clause
// Options of the training itself: size of the run, network, data, optimiser.

#include "training_options.hpp"

#include "command_set.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/data/dataset.hpp"
#include "lockstep/graph/models.hpp"

namespace lockstep::app {

using train::Config;

std::vector<Option> run_options() {
  return {
      {.name = "batch-per-rank",
       .value_name = "B",
       .value = integer(training(&Config::batch_per_rank), from_to(1, limits::images)),
       .common = cmd_all,
       .effect = Affects::both,
       .help = "images per rank and step (fixed for weak scaling)",
       .details = "Exactly one of `--batch-per-rank` and `--global-batch` is required",
       .shown_default = "",
       .alternative = "global-batch"},
      {.name = "global-batch",
       .value_name = "B",
       .value = integer(training(&Config::global_batch), from_to(1, limits::images)),
       .common = cmd_all,
       .effect = Affects::both,
       .help = "images per step over all ranks (fixed for strong scaling); a multiple "
               "of the number of ranks",
       .shown_default = "",
       .alternative = "batch-per-rank"},
      {.name = "epochs",
       .value_name = "E",
       .value = integer(training(&Config::epochs), from_to(1, limits::epochs)),
       .commands = cmd_training,
       .common = cmd_all,
       .effect = Affects::results,
       .help = "passes over the training images",
       .shown_default = "2",
       .alternative = "steps"},
      {.name = "steps",
       .value_name = "S",
       .value = integer(training(&Config::steps), from_to(1, limits::steps)),
       .commands = cmd_training,
       .common = cmd_all,
       .effect = Affects::results,
       .help = "steps to train instead of --epochs",
       .shown_default = "",
       .alternative = "epochs"},
      {.name = "evaluate-every",
       .value_name = "E",
       .value =
           integer(training(&Config::evaluate_every), from_to(0, limits::epochs), {"never", -1}),
       .effect = Affects::results,
       .help = "epochs between evaluations; 0: one evaluation, at the end; never: none"},
      {.name = "seed",
       .value_name = "S",
       .value = seed(training(&Config::seed)),
       .commands = cmd_training | cmd_evaluate | cmd_layer,
       .effect = Affects::results,
       .help = "seed of initial weights, image order, augmentation and synthetic images"},
      {.name = "deterministic",
       .value = flag(training(&Config::device, &backend::DeviceOptions::deterministic)),
       .commands = cmd_training | cmd_evaluate | cmd_layer,
       .effect = Affects::both,
       .help = "bitwise identical results in every run with the same number of ranks and threads",
       .details =
           "No implementation is selected by timing. Convolutions use the first "
           "algorithm that supports them in the order amx, winograd-int16, "
           "winograd-bf16, avx512-bf16, winograd, direct; `--all-reduce auto` uses direct, and "
           "`--all-reduce mpi` is as reproducible as the MPI library; GPUs use "
           "reproducible cuDNN kernels"},
  };
}

std::vector<Option> network_options() {
  return {
      {.name = "model",
       .value = one_of(in(&Options::network, &graph::NetworkOptions::model), graph::model_names()),
       .common = cmd_all,
       .effect = Affects::both,
       .help = "network architecture"},
      {.name = "classes",
       .value = integer(in(&Options::network, &graph::NetworkOptions::classes),
                        from_to(0, limits::classes)),
       .effect = Affects::both,
       .help = "number of classes (outputs of the network)",
       .shown_default = "as the data"},
      {.name = "label-smoothing",
       .value_name = "S",
       .value = real(in(&Options::network, &graph::NetworkOptions::label_smoothing),
                     from_to_below(0, 1)),
       .effect = Affects::results,
       .help = "weight of the uniform distribution in the target"},
      {.name = "swap-relu-pool",
       .value = flag(in(&Options::network, &graph::NetworkOptions::swap_relu_pool)),
       .effect = Affects::time,
       .help = "compute max-pool before ReLU where ReLU precedes it",
       .details = "Losses and gradients are equal"},
      {.name = "init-from",
       .value = path(training(&Config::init_from)),
       .common = cmd_evaluate,
       .may_differ = true,  // only rank 0 reads the file
       .effect = Affects::results,
       .help = "initial weights: HDF5 file with one dataset per tensor under /state",
       .details = "[lockstep-weights](pytorch.md#weights) converts those of PyTorch",
       .shown_default = "random weights"},
  };
}

std::vector<Option> data_options() {
  static const std::string data_help =
      fmt::format("dataset: {}", fmt::join(data::source_syntaxes(), "; "));
  return {
      {.name = "data",
       .value_name = "SOURCE",
       .value = data_source(training(&Config::data, &data::DataOptions::source)),
       .commands = cmd_training | cmd_evaluate,
       .common = cmd_all,
       .may_differ = true,  // the digests of the images are compared instead
       .effect = Affects::both,
       .help = data_help,
       .details = "The network is built for the images and classes of the dataset. Parts "
                  "after `synthetic` may be left out, as in `synthetic:5000` or "
                  "`synthetic@3x224x224/1000`"},
      {.name = "train-samples",
       .value = integer(training(&Config::data, &data::DataOptions::train_samples),
                        from_to(0, limits::images)),
       .commands = cmd_training | cmd_evaluate,
       .effect = Affects::both,
       .help = "training images: the first N of the data",
       .shown_default = "all"},
      {.name = "test-samples",
       .value = integer(training(&Config::data, &data::DataOptions::test_samples),
                        from_to(0, limits::images)),
       .commands = cmd_training | cmd_evaluate,
       .effect = Affects::results,
       .help = "test images: the first N of the data",
       .shown_default = "all"},
      {.name = "augment",
       .value = choice(training(&Config::data, &data::DataOptions::augmentation)),
       .effect = Affects::both,
       .help = "augmentation of training images"},
      {.name = "last-batch",
       .value = choice(training(&Config::data, &data::DataOptions::last_batch)),
       .effect = Affects::both,
       .help = "handling of an incomplete last batch"},
      {.name = "data-residency",
       .value = choice(training(&Config::data, &data::DataOptions::residency)),
       .effect = Affects::time,
       .help = "memory that holds the images while a GPU trains"},
      {.name = "loader-threads",
       .value = integer(training(&Config::data, &data::DataOptions::loader_threads),
                        from_to(0, limits::loader_threads)),
       .may_differ = true,
       .effect = Affects::time,
       .help = "data-loading threads per rank; 0: the training thread prepares the "
               "batches"},
  };
}

std::vector<Option> optimiser_options() {
  return {
      {.name = "optimizer",
       .value = choice(training(&Config::optimiser, &optim::Options::kind)),
       .effect = Affects::both,
       .help = "optimiser",
       .details = "[Formulas](accuracy.md#optimisers)"},
      {.name = "lr",
       .value_name = "RATE",
       .value = real(training(&Config::optimiser, &optim::Options::learning_rate),
                     from_to(0, limits::rate), {"auto", optim::Options::automatic}),
       .common = cmd_train,
       .effect = Affects::results,
       .help = "peak learning rate before scaling",
       .shown_default = "0.1 (sgd), 2 (lars), 0.001 (adamw)"},
      {.name = "momentum",
       .value_name = "M",
       .value = real(training(&Config::optimiser, &optim::Options::momentum), from_to_below(0, 1),
                     {"auto", optim::Options::automatic}),
       .effect = Affects::results,
       .help = "momentum of sgd and lars",
       .shown_default = "0.9"},
      {.name = "weight-decay",
       .value_name = "W",
       .value = real(training(&Config::optimiser, &optim::Options::weight_decay),
                     from_to(0, limits::rate), {"auto", optim::Options::automatic}),
       .effect = Affects::results,
       .help = "weight decay; with adamw decoupled from the gradient",
       .shown_default = "0.0005 (sgd, lars), 0.01 (adamw)"},
      {.name = "decay-batch-norm",
       .value = choice(training(&Config::optimiser, &optim::Options::vector_decay)),
       .effect = Affects::both,
       .help = "weight decay (and local learning rates of lars) of biases and of "
               "weights of batch and group norm"},
      {.name = "trust-coefficient",
       .value_name = "ETA",
       .value = real(training(&Config::optimiser, &optim::Options::trust), from_to(0, limits::rate),
                     {"auto", optim::Options::automatic}),
       .effect = Affects::results,
       .help = "factor of the local learning rates of lars",
       .shown_default = "0.001"},
      {.name = "nesterov",
       .value = flag(training(&Config::optimiser, &optim::Options::nesterov)),
       .effect = Affects::both,
       .help = "Nesterov momentum of sgd"},
      {.name = "lr-schedule",
       .value = choice(training(&Config::optimiser, &optim::Options::schedule)),
       .effect = Affects::results,
       .help = "learning-rate schedule"},
      {.name = "warmup-epochs",
       .value_name = "W",
       .value = real(training(&Config::optimiser, &optim::Options::warmup_epochs),
                     from_to(0, limits::epochs)),
       .effect = Affects::results,
       .help = "epochs of linear warm-up to the peak learning rate"},
      {.name = "lr-scaling",
       .value = choice(training(&Config::optimiser, &optim::Options::scaling)),
       .effect = Affects::results,
       .help = "scaling of the learning rate with global batch / reference batch"},
      {.name = "lr-reference-batch",
       .value_name = "B",
       .value = integer(training(&Config::optimiser, &optim::Options::reference_batch),
                        from_to(1, limits::images)),
       .effect = Affects::results,
       .help = "global batch for which --lr is given"},
      {.name = "grad-clip",
       .value_name = "NORM",
       .value = real(training(&Config::plan, &backend::PlanOptions::max_gradient_norm),
                     from_to(0, limits::norm), {"none", 0}),
       .effect = Affects::both,
       .help = "maximum of the global gradient norm, as `clip_grad_norm_` of PyTorch; "
               "larger gradients are scaled down to it",
       .details = "The update starts after the all-reduce of the last bucket"},
  };
}

}  // namespace lockstep::app
