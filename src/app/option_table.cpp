#include "option_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/models.hpp"
#include "values.hpp"

namespace lockstep::app {

namespace po = boost::program_options;

namespace {
constexpr unsigned line_length = 100;
}

/// Collects one group of options and adds it to the table at its end.
class OptionTable::Group {
 public:
  Group(OptionTable& table, const std::string& title)
      : table_(table),
        options_(std::make_shared<po::options_description>(title, line_length, line_length / 2)) {}
  ~Group() {
    table_.all_.add(*options_);
    table_.groups_.push_back(options_);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// An option whose text `take` turns into a value. An empty `shown_default`: it has none.
  template <class Take>
  Group& value(const char* name, const char* value_name, const std::string& shown_default,
               const std::string& description, Take take) {
    auto* semantic = po::value<std::string>()
                         ->value_name(value_name)
                         ->notifier([name, take](const std::string& text) { take(name, text); });
    const std::string suffix = shown_default.empty() ? "" : fmt::format(" [{}]", shown_default);
    options_->add_options()(name, semantic, (description + suffix).c_str());
    return *this;
  }

  Group& text(const char* name, const char* value_name, std::string& target,
              const std::string& description) {
    return value(name, value_name, target, description,
                 [&target](const char*, const std::string& text) { target = text; });
  }

  template <class Integer>
  Group& integer(const char* name, const char* value_name, Integer& target,
                 const std::string& description) {
    return integer(name, value_name, target, fmt::format("{}", target), description);
  }

  template <class Integer>
  Group& integer(const char* name, const char* value_name, Integer& target,
                 const std::string& shown_default, const std::string& description) {
    return value(name, value_name, shown_default, description,
                 [&target](const char* option, const std::string& text) {
                   const std::int64_t number = parse_integer(option, text);
                   target = static_cast<Integer>(number);
                   if (static_cast<std::int64_t>(target) == number) return;
                   core::fail(core::ExitStatus::usage,
                              fmt::format("--{} {}: is too large", option, text));
                 });
  }

  Group& real(const char* name, const char* value_name, double& target,
              const std::string& shown_default, const std::string& description) {
    return value(name, value_name, shown_default, description,
                 [&target](const char* option, const std::string& text) {
                   target = parse_real(option, text);
                 });
  }

  Group& real(const char* name, const char* value_name, double& target,
              const std::string& description) {
    return real(name, value_name, target, fmt::format("{}", target), description);
  }

  Group& bytes(const char* name, std::uint64_t& target, const std::string& shown_default,
               const std::string& description) {
    return value(name, "BYTES", shown_default, description,
                 [&target](const char* option, const std::string& text) {
                   target = parse_bytes(option, text);
                 });
  }

  template <class Enum>
  Group& choice(const char* name, Enum& target, const std::string& description) {
    const auto names = choice_names<Enum>();
    return value(name, "WHICH", std::string(train::choice_name(target)),
                 fmt::format("{}: {}", description, fmt::join(names, ", ")),
                 [&target](const char* option, const std::string& text) {
                   target = parse_choice<Enum>(option, text);
                 });
  }

  Group& flag(const char* name, bool& target, const char* description) {
    options_->add_options()(name, po::bool_switch(&target), description);
    return *this;
  }

 private:
  OptionTable& table_;
  std::shared_ptr<po::options_description> options_;
};

OptionTable::OptionTable(train::Config& config) : all_(line_length, line_length / 2) {
  add_run(config);
  add_network(config);
  add_data(config);
  add_optimiser(config);
  add_communication(config);
  add_device(config);
  add_checkpoints(config);
  add_output(config);
  add_commands(config);
}

std::vector<std::string> OptionTable::names() const {
  std::vector<std::string> names;
  for (const auto& option : all_.options()) names.push_back(option->long_name());
  return names;
}

void OptionTable::add_run(train::Config& config) {
  Group(*this, "Size of the run")
      .integer("batch-per-rank", "B", config.batch_per_rank, "",
               "images per rank and step (fixed for weak scaling)")
      .integer("global-batch", "B", config.global_batch, "",
               "images per step over all ranks (fixed for strong scaling); exactly one of the two")
      .integer("epochs", "E", config.epochs, "2", "passes over the training set")
      .integer("steps", "S", config.steps, "", "stop after S steps instead")
      .value("evaluate-every", "E", "1",
             "epochs between evaluations; 0: once, at the end; never: not at all",
             [&config](const char* option, const std::string& text) {
               config.evaluate_every = text == "never" ? -1 : parse_integer(option, text);
               if (config.evaluate_every >= 0 || text == "never") return;
               core::fail(core::ExitStatus::usage,
                          fmt::format("--{} {}: must be at least 0, or never", option, text));
             })
      .value("seed", "S", fmt::format("{}", config.seed),
             "of initial weights, order, augmentation and synthetic images",
             [&config](const char* option, const std::string& text) {
               config.seed = parse_seed(option, text);
             })
      .flag("deterministic", config.deterministic,
            "the same bits in every run: no choices by timing, no sums in changing orders");
}

void OptionTable::add_network(train::Config& config) {
  Group(*this, "Network")
      .text("model", "NAME", config.model, fmt::format("{}", fmt::join(graph::model_names(), ", ")))
      .integer("classes", "N", config.classes, "as the data", "outputs of the network")
      .real("label-smoothing", "S", config.label_smoothing,
            "share of the label given to all classes")
      .text("init-from", "FILE", config.init_from,
            "start from the weights of an HDF5 file with PyTorch's names under /state");
}

void OptionTable::add_data(train::Config& config) {
  Group(*this, "Data")
      .text("data", "SOURCE", config.data,
            "cifar10:DIR (the binary files as published) or synthetic[:N]")
      .integer("train-samples", "N", config.train_samples, "all",
               "only the first N training images")
      .integer("test-samples", "N", config.test_samples, "all", "only the first N test images")
      .choice("augment", config.augment, "augmentation of training images")
      .choice("last-batch", config.last_batch, "what becomes of a last batch that is not full")
      .choice("data-residency", config.data_residency,
              "where the images are while a GPU trains: on the host, or all on the device")
      .integer("loader-threads", "N", config.loader_threads,
               "threads per rank that prepare batches");
}

void OptionTable::add_optimiser(train::Config& config) {
  Group(*this, "Optimiser")
      .real("lr", "RATE", config.learning_rate, "learning rate before scaling")
      .real("momentum", "M", config.momentum, "momentum")
      .real("weight-decay", "W", config.weight_decay, "weight decay, on all parameters")
      .flag("nesterov", config.nesterov, "Nesterov's momentum")
      .choice("lr-schedule", config.schedule, "course of the rate over the run")
      .real("warmup-epochs", "W", config.warmup_epochs, "epochs of linear warm-up")
      .choice("lr-scaling", config.scaling, "scale the rate with the global batch")
      .integer("lr-reference-batch", "B", config.reference_batch, "batch that --lr is meant for");
}

void OptionTable::add_communication(train::Config& config) {
  Group(*this, "Communication")
      .choice("reducer", config.reducer,
              "how gradients are summed (none: independent replicas, the baseline)")
      .choice("all-reduce", config.all_reduce,
              "how a sum travels; auto times what can be had at the start and takes the fastest")
      .choice("transport", config.transport, "by what gradients travel between devices")
      .flag("allow-gpu-sharing", config.allow_gpu_sharing,
            "several ranks of a host may use one GPU; for tests")
      .real("bucket-mib", "MIB", config.bucket_mib, "MiB of gradients summed at a time")
      .choice("gradient-dtype", config.gradient_type, "type of the gradients that travel")
      .choice("bn", config.batch_norm,
              "running statistics of batch norm to evaluate with (sync: statistics over all ranks)")
      .real("link-gbit", "RATE", config.link_gbit, "not known",
            "rate of the link in Gbit/s, kept for the report")
      .integer("watchdog", "SECONDS", config.watchdog_seconds,
               "end a rank that makes no progress for so long; 0: never");
}

void OptionTable::add_device(train::Config& config) {
  Group(*this, "Device of each rank")
      .choice("device", config.device, "what computes (reference: plain loops, for checking)")
      .choice("precision", config.precision, "of activations and products")
      .value("loss-scale", "S", "dynamic", "of fp16: a number, or dynamic: found while training",
             [&config](const char* option, const std::string& text) {
               config.loss_scale = text == "dynamic" ? 0 : parse_real(option, text);
             })
      .integer("threads", "N", config.threads, "cores / ranks", "CPU threads per rank")
      .choice("conv-algorithm", config.convolution_algorithm, "algorithm of convolutions on CPUs")
      .choice("bn-fusion", config.batch_norm_fusion,
              "what of batch norm a GPU computes in the convolutions around it")
      .bytes("memory-limit", config.memory_limit, "what is free",
             "memory one rank may take, for example 8GB");
}

void OptionTable::add_checkpoints(train::Config& config) {
  Group(*this, "Checkpoints")
      .text("checkpoint-dir", "DIR", config.checkpoint_dir, "save checkpoints there")
      .value("checkpoint-every", "WHEN", fmt::format("{}s", config.checkpoint_seconds),
             "for example 180s, 10min or 200-steps",
             [&config](const char* option, const std::string& text) {
               const Interval interval = parse_interval(option, text);
               config.checkpoint_seconds = interval.seconds;
               config.checkpoint_steps = interval.steps;
             })
      .integer("keep", "N", config.keep, "newest checkpoints that are kept")
      .text("resume", "WHAT", config.resume,
            "none; auto: the newest of the directory, if any; or a file");
}

void OptionTable::add_output(train::Config& config) {
  Group(*this, "Output")
      .text("output", "FILE", config.output,
            "write the run file there (HDF5); without, none is kept")
      .value("config", "FILE", "", "read options from there, lines such as: batch-per-rank = 32",
             [](const char*, const std::string&) {})
      .flag("overwrite", config.overwrite, "replace a run file that exists")
      .flag("json", config.json, "print one JSON object with the results and nothing else")
      .flag("quiet", config.quiet, "print nothing but warnings and errors")
      .flag("dry-run", config.dry_run, "check everything, say what would be done, and stop");
}

void OptionTable::add_commands(train::Config& config) {
  Group(*this, "Of single commands")
      .flag("measure", config.measure,
            "plan: run some steps, compare each operation with what the machine allows")
      .text("for", "GPU", config.planned_for,
            "plan: a GPU that is not here: a100, h100, h200, l40s, b200 or rtx8000")
      .text("write-device-description", "FILE", config.device_description,
            "info: write the GPU's description there, for planning where it is not")
      .integer("ladder-start", "B", config.ladder_start, "ladder: first batch per rank")
      .bytes("min-bytes", config.min_bytes, "1K", "allreduce: smallest message")
      .bytes("max-bytes", config.max_bytes, "64M", "allreduce: largest message")
      .integer("repeats", "N", config.repeats, "allreduce: timed sums of each size");
}

}  // namespace lockstep::app
