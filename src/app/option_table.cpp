#include "option_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "lockstep/core/error.hpp"
#include "lockstep/graph/models.hpp"
#include "values.hpp"

namespace lockstep::app {

namespace po = boost::program_options;

namespace {

constexpr unsigned line_length = 100;
/// `plan` describes the run of a `train` command line, so it accepts every option of `train`.
constexpr unsigned cmd_training = cmd_train | cmd_ladder | cmd_plan;
constexpr unsigned cmd_run = cmd_train | cmd_plan;

struct CommandBit {
  std::string_view name;
  CommandSet bit;
};
constexpr std::array<CommandBit, 6> command_bits{{{"train", cmd_train},
                                                  {"evaluate", cmd_evaluate},
                                                  {"ladder", cmd_ladder},
                                                  {"allreduce", cmd_allreduce},
                                                  {"plan", cmd_plan},
                                                  {"info", cmd_info}}};

unsigned bit_of(std::string_view command) {
  const auto found = std::ranges::find(command_bits, command, &CommandBit::name);
  return found == command_bits.end() ? 0U : static_cast<unsigned>(found->bit);
}

}  // namespace

/// Collects one group of options and adds it to the table in its destructor.
class OptionTable::Group {
 public:
  Group(OptionTable& table, const std::string& title)
      : table_(table), title_(title), options_(title, line_length, line_length / 2) {}
  ~Group() {
    table_.all_.add(options_);
    table_.groups_.push_back({title_, options_.options()});
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Sets the commands that use the options added after this call, until the next call.
  Group& used_by(unsigned commands) {
    commands_ = commands;
    return *this;
  }

  /// Adds an option; `take` converts its text to a value. If `shown_default` is empty, the option
  /// has no default.
  template <class Take>
  Group& value(const char* name, const char* value_name, const std::string& shown_default,
               const std::string& description, Take take) {
    auto* semantic = po::value<std::string>()
                         ->value_name(value_name)
                         ->notifier([name, take](const std::string& text) { take(name, text); });
    const std::string suffix = shown_default.empty() ? "" : fmt::format(" [{}]", shown_default);
    options_.add_options()(name, semantic, (description + suffix).c_str());
    table_.users_.emplace(name, commands_);
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

  /// Adds an integer option with values of at least 1; 0 in the configuration means "not given".
  Group& positive(const char* name, const char* value_name, std::int64_t& target,
                  const std::string& shown_default, const std::string& description) {
    return value(name, value_name, shown_default, description,
                 [&target](const char* option, const std::string& text) {
                   target = parse_integer(option, text);
                   if (target >= 1) return;
                   core::fail(core::ExitStatus::usage,
                              fmt::format("--{} {}: must be at least 1", option, text));
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
    options_.add_options()(name, po::bool_switch(&target), description);
    table_.users_.emplace(name, commands_);
    return *this;
  }

 private:
  OptionTable& table_;
  std::string title_;
  po::options_description options_;
  unsigned commands_ = cmd_all;
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

bool OptionTable::is_used(std::string_view command, std::string_view name) const {
  const auto users = users_.find(name);
  return users != users_.end() && (users->second & bit_of(command)) != 0;
}

std::vector<std::string> OptionTable::names_of(std::string_view command) const {
  std::vector<std::string> found = names();
  std::erase_if(found, [&](const std::string& name) { return !is_used(command, name); });
  return found;
}

std::vector<po::options_description> OptionTable::groups_of(std::string_view command) const {
  std::vector<po::options_description> found;
  for (const Titled& group : groups_) {
    po::options_description used(group.title, line_length, line_length / 2);
    for (const auto& option : group.options) {
      if (is_used(command, option->long_name())) used.add(option);
    }
    if (!used.options().empty()) found.push_back(used);
  }
  return found;
}

void OptionTable::add_run(train::Config& config) {
  Group(*this, "Size of the run")
      .used_by(cmd_run)
      .positive("batch-per-rank", "B", config.batch_per_rank, "",
                "images per rank and step (fixed for weak scaling)")
      .positive("global-batch", "B", config.global_batch, "",
                "images per step over all ranks (fixed for strong scaling); exactly one of the two")
      .used_by(cmd_training)
      .positive("epochs", "E", config.epochs, "2", "passes over the training set")
      .positive("steps", "S", config.steps, "", "stop after S steps instead")
      .used_by(cmd_run)
      .value("evaluate-every", "E", "1",
             "epochs between evaluations; 0: one evaluation, at the end; never: none",
             [&config](const char* option, const std::string& text) {
               config.evaluate_every = text == "never" ? -1 : parse_integer(option, text);
               if (config.evaluate_every >= 0 || text == "never") return;
               core::fail(core::ExitStatus::usage,
                          fmt::format("--{} {}: must be at least 0, or never", option, text));
             })
      .used_by(cmd_training | cmd_evaluate)
      .value("seed", "S", fmt::format("{}", config.seed),
             "seed of initial weights, image order, augmentation and synthetic images",
             [&config](const char* option, const std::string& text) {
               config.seed = parse_seed(option, text);
             })
      .flag("deterministic", config.deterministic,
            "the same bits in every run: no choices by timing, fixed order of sums");
}

void OptionTable::add_network(train::Config& config) {
  Group(*this, "Network")
      .used_by(cmd_training | cmd_evaluate)
      .value("model", "NAME", config.model,
             fmt::format("{}", fmt::join(graph::model_names(), ", ")),
             [&config](const char* option, const std::string& text) {
               const auto names = graph::model_names();
               if (std::ranges::find(names, text) == names.end()) fail_choice(option, text, names);
               config.model = text;
             })
      .integer("classes", "N", config.classes, "as the data", "outputs of the network")
      .real("label-smoothing", "S", config.label_smoothing,
            "share of the label given to all classes")
      .text("init-from", "FILE", config.init_from,
            "start from the weights of an HDF5 file with PyTorch's names under /state");
}

void OptionTable::add_data(train::Config& config) {
  Group(*this, "Data")
      .used_by(cmd_training | cmd_evaluate)
      .text("data", "SOURCE", config.data,
            "cifar10:DIR (the binary files as published) or synthetic[:N]")
      .integer("train-samples", "N", config.train_samples, "all",
               "only the first N training images")
      .integer("test-samples", "N", config.test_samples, "all", "only the first N test images")
      .used_by(cmd_training)
      .choice("augment", config.augment, "augmentation of training images")
      .choice("last-batch", config.last_batch,
              "handling of an incomplete last batch: drop it, or pad it")
      .choice("data-residency", config.data_residency,
              "memory that holds the images while a GPU trains")
      .integer("loader-threads", "N", config.loader_threads,
               "number of data-loading threads per rank; 0: none");
}

void OptionTable::add_optimiser(train::Config& config) {
  Group(*this, "Optimiser")
      .used_by(cmd_training)
      .real("lr", "RATE", config.learning_rate, "learning rate before scaling")
      .real("momentum", "M", config.momentum, "momentum")
      .real("weight-decay", "W", config.weight_decay, "weight decay, on all parameters")
      .flag("nesterov", config.nesterov, "Nesterov's momentum")
      .choice("lr-schedule", config.schedule, "learning-rate schedule")
      .real("warmup-epochs", "W", config.warmup_epochs, "epochs of linear warm-up")
      .choice("lr-scaling", config.scaling, "scale the rate with the global batch")
      .integer("lr-reference-batch", "B", config.reference_batch,
               "global batch for which --lr is given");
}

void OptionTable::add_communication(train::Config& config) {
  Group(*this, "Communication")
      .used_by(cmd_training)
      .choice("reducer", config.reducer,
              "when gradients are summed (none: independent replicas, no communication)")
      .choice("all-reduce", config.all_reduce,
              "all-reduce algorithm for gradients in host memory; auto times them at the start")
      .used_by(cmd_training | cmd_allreduce)
      .choice("transport", config.transport, "gradient transport between ranks")
      .flag("allow-gpu-sharing", config.allow_gpu_sharing,
            "several ranks of a host may use one GPU; for tests")
      .choice("gradient-dtype", config.gradient_type, "data type of the gradients in communication")
      .real("link-gbit", "RATE", config.link_gbit, "not known",
            "rate of the link in Gbit/s, stored for the report")
      .used_by(cmd_training)
      .real("bucket-mib", "MIB", config.bucket_mib, "size of a gradient bucket in MiB of float32")
      .choice("bn", config.batch_norm,
              "running statistics of batch norm to evaluate with (sync: statistics over all ranks)")
      .used_by(cmd_all)
      .integer("watchdog", "SECONDS", config.watchdog_seconds,
               "abort if a rank makes no progress for this many seconds; 0 disables the watchdog");
}

void OptionTable::add_device(train::Config& config) {
  Group(*this, "Device of each rank")
      .choice("device", config.device, "device (reference: plain loops, for tests)")
      .used_by(cmd_training | cmd_evaluate | cmd_allreduce)
      .choice("precision", config.precision, "data type of activations and matrix products")
      .used_by(cmd_training)
      .value("loss-scale", "S", "dynamic", "loss scale of fp16: a number, or dynamic",
             [&config](const char* option, const std::string& text) {
               config.loss_scale = text == "dynamic" ? 0 : parse_real(option, text);
             })
      .used_by(cmd_all)
      .integer("threads", "N", config.threads, "cores / ranks", "CPU threads per rank")
      .used_by(cmd_training | cmd_evaluate)
      .choice("conv-algorithm", config.convolution_algorithm,
              "convolution algorithm on CPUs; auto times them")
      .used_by(cmd_training)
      .choice("bn-fusion", config.batch_norm_fusion,
              "parts of batch norm fused into adjacent convolutions on GPUs")
      .bytes("memory-limit", config.memory_limit, "all free memory",
             "memory limit per rank, for example 8GB");
}

void OptionTable::add_checkpoints(train::Config& config) {
  Group(*this, "Checkpoints")
      .used_by(cmd_run)
      .text("checkpoint-dir", "DIR", config.checkpoint_dir, "save checkpoints there")
      .value("checkpoint-every", "WHEN", fmt::format("{}s", config.checkpoint_seconds),
             "for example 180s, 10min or 200-steps",
             [&config](const char* option, const std::string& text) {
               const Interval interval = parse_interval(option, text);
               config.checkpoint_seconds = interval.seconds;
               config.checkpoint_steps = interval.steps;
             })
      .integer("keep", "N", config.keep, "number of newest checkpoints that are kept")
      .text("resume", "WHAT", config.resume,
            "none; auto: the newest checkpoint of the directory, if any; or a file");
}

void OptionTable::add_output(train::Config& config) {
  Group(*this, "Output")
      .used_by(cmd_training | cmd_allreduce)
      .text("output", "FILE", config.output,
            "write the run file there (HDF5); without this option none is written")
      .flag("overwrite", config.overwrite, "replace a run file that exists")
      .used_by(cmd_all)
      .value("config", "FILE", "", "read options from there, lines such as: batch-per-rank = 32",
             [](const char*, const std::string&) {})
      .flag("json", config.json, "print one JSON object with the results and nothing else")
      .flag("quiet", config.quiet, "print nothing but warnings and errors")
      .used_by(cmd_all & ~cmd_info)
      .flag("dry-run", config.dry_run, "check everything, say what would be done, and stop");
}

void OptionTable::add_commands(train::Config& config) {
  Group(*this, "Only for this command")
      .used_by(cmd_plan)
      .flag("measure", config.measure,
            "run some steps and compare each operation with what the machine allows")
      .text("for", "GPU", config.planned_for,
            "plan for a GPU that is not in this machine: a100, h100, h200, l40s, b200 or rtx8000")
      .used_by(cmd_info)
      .text("write-device-description", "FILE", config.device_description,
            "write the GPU's description to FILE, for planning on machines without it")
      .used_by(cmd_ladder)
      .integer("ladder-start", "B", config.ladder_start, "first batch per rank")
      .used_by(cmd_allreduce)
      .bytes("min-bytes", config.min_bytes, "1K", "smallest message")
      .bytes("max-bytes", config.max_bytes, "64M", "largest message")
      .integer("repeats", "N", config.repeats, "timed sums of each size");
}

}  // namespace lockstep::app
