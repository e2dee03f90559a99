#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::record {

using Attributes = std::vector<std::pair<std::string, std::string>>;

/// One row of /ranks.
struct RankInfo {
  int rank = 0;
  int local_rank = 0;
  std::string hostname;
  std::string cpu_list;     ///< processors this rank may run on: "0-3,8"
  std::string device_name;  ///< processor or GPU model
  std::string device_uuid;  ///< empty on CPUs
  std::string pci_bus_id;   ///< empty on CPUs
  std::uint64_t memory_bytes = 0;
  int host = 0;  ///< index of the rank's host, from 0; several hosts may have the same name
};

/// What is known when a run starts.
struct RunHeader {
  std::string command_line;
  Attributes config;       ///< every option as resolved, by its name without dashes in front
  Attributes environment;  ///< versions, build, allow-listed variables
  std::vector<RankInfo> ranks;
  std::vector<std::uint64_t> bucket_bytes;  ///< empty where nothing is reduced

  std::string run_id;                ///< equal in all parts of a run; empty: create a new one
  std::int64_t part = 1;             ///< 1 for a new run; 2, 3, ... for the parts that resume it
  std::int64_t first_step = 0;       ///< steps of the run done before the first step of this file
  std::int64_t steps_per_epoch = 0;  ///< of a complete epoch; 0 if the command does not train
  std::int64_t images_per_epoch =
      0;  ///< trained on in a complete epoch, over all ranks; 0 likewise
};

/// The steps of one epoch on all ranks, and its results. Arrays are flat, last index fastest.
struct EpochRecord {
  std::int64_t epoch = 0;                    ///< from 1, as people count
  std::vector<double> learning_rate, loss;   ///< (step); loss is the mean over the global batch
  std::vector<std::int64_t> images;          ///< (step), over all ranks
  std::vector<double> phase_seconds;         ///< (step, rank, phase)
  std::vector<double> bucket_start_seconds;  ///< (step, rank, bucket), since the step's start
  std::vector<double> bucket_end_seconds;    ///< (step, rank, bucket)
  std::vector<double> energy_joules;  ///< (rank), that the device took in the steps; NaN: unknown
  std::vector<double> utilisation;    ///< (rank), of the device at their end, 0 to 1; NaN: unknown
  std::vector<double> memory_used_bytes;  ///< (rank), of the device at their end; NaN: unknown
  double seconds = 0;                     ///< wall clock of the epoch's steps, without evaluation
  double evaluation_seconds = 0;
  double train_loss = 0,
         train_accuracy = 0;  ///< means over the epoch's images, augmented, as they were trained on
  double test_loss = 0, test_accuracy = 0;  ///< NaN where the epoch was not evaluated
  std::string parameter_hash;               ///< of the replicas' parameters, equal on all ranks
};

/// One row of a sweep of the all-reduce.
struct AllReduceRow {
  std::string way;  ///< "mpi", "pieces", ...
  std::uint64_t bytes = 0;
  std::vector<double>
      seconds;  ///< (repeat), maximum over ranks; the same number of repeats in each row
  std::uint64_t wrong = 0;  ///< elements with a wrong sum
};

/// One point of the batch ladder. Times are NaN if the point was not measured.
struct LadderRow {
  std::int64_t batch_per_rank = 0;
  std::string status;           ///< "ok" or "out_of_memory"
  double epoch_seconds = 0;     ///< of an epoch, the slowest rank of each step
  double training_seconds = 0;  ///< the same without the phase `data_wait`
  double images_per_second = 0;
  std::uint64_t predicted_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::int64_t steps = 0;        ///< steps that were timed
  bool is_extrapolated = false;  ///< scaled from fewer steps than an epoch has
};

/// Returns an identifier for a new run: time, host, process and, under Slurm, the job.
std::string new_run_id();

enum class RunStatus { running, complete, preempted, failed };
enum class Existing { refuse, replace };

/// The HDF5 run file (format "lockstep-run", version 2; docs/run-file.md). Written by one rank as
/// the run goes, into PATH.partial, closed after each epoch and each point of a ladder: a killed
/// run leaves what it had measured. `finish` gives it its final name. Every failed write throws
/// `Error` (output); nothing that was there before is touched until `finish` replaces it.
class RunFile {
 public:
  /// Throws `Error` (output) where `path` exists and `existing` is refuse, or cannot be written.
  RunFile(const std::filesystem::path& path, Existing existing, const RunHeader& header);
  ~RunFile();
  RunFile(RunFile&&) noexcept;
  RunFile& operator=(RunFile&&) noexcept;

  void append(const EpochRecord& epoch);
  void append(const LadderRow& point);

  /// All rows of a sweep at once; at most once in a file.
  void write_allreduce(const std::vector<AllReduceRow>& rows);

  /// A result of the whole run, as an attribute of /results: "last_test_accuracy",
  /// "best_test_accuracy", ... Reaches the disk with `finish`.
  void write_result(const std::string& name, double value);

  /// Completes a copy of PATH.partial (status, results), syncs it, reads it through, renames it to
  /// PATH, and only then deletes PATH.partial. `failure`: the one line of a failed run.
  void finish(RunStatus status, const std::string& failure = {});

  /// Finishes the file of a run that failed. Does nothing if a write to the file has failed before.
  /// An error is only logged, because `failure` is what the caller reports.
  void finish_failed(const std::string& failure);

  const std::string& run_id() const;
  const std::filesystem::path& path() const;  ///< after `finish`

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws the errors that constructing a `RunFile` would throw, without leaving anything behind;
/// for checking before work begins.
void check_writable(const std::filesystem::path& path, Existing existing);

/// The same for a run that is resumed and may write beside `path` (`next_part`): what exists there
/// is not looked at.
void check_writable_beside(const std::filesystem::path& path);

}  // namespace lockstep::record
