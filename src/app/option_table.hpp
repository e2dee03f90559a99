#pragma once

#include <boost/program_options.hpp>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/train/config.hpp"

namespace lockstep::app {

/// Every option there is, in groups for `--help`, tied to the fields of a configuration. Values
/// take effect with `boost::program_options::notify`.
class OptionTable {
 public:
  /// `config` outlives the table.
  explicit OptionTable(train::Config& config);

  const boost::program_options::options_description& all() const { return all_; }
  /// The same by groups, which stand in the order of `add_...` below.
  const std::vector<std::shared_ptr<boost::program_options::options_description>>& groups() const {
    return groups_;
  }
  std::vector<std::string> names() const;

 private:
  class Group;
  void add_run(train::Config& config);
  void add_network(train::Config& config);
  void add_data(train::Config& config);
  void add_optimiser(train::Config& config);
  void add_communication(train::Config& config);
  void add_device(train::Config& config);
  void add_checkpoints(train::Config& config);
  void add_output(train::Config& config);
  void add_commands(train::Config& config);

  std::vector<std::shared_ptr<boost::program_options::options_description>> groups_;
  boost::program_options::options_description all_;
};

}  // namespace lockstep::app
