#pragma once

#include <boost/program_options.hpp>
#include <boost/shared_ptr.hpp>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/train/config.hpp"

namespace lockstep::app {

/// A set of commands as a bit mask.
enum CommandSet : unsigned {
  cmd_train = 1,
  cmd_evaluate = 2,
  cmd_ladder = 4,
  cmd_allreduce = 8,
  cmd_plan = 16,
  cmd_info = 32,
  cmd_all = 63,
};

/// All options in groups for `--help`, bound to the fields of a configuration, and the commands
/// that use each option. Values are assigned by `boost::program_options::notify`.
class OptionTable {
 public:
  /// `config` must outlive the table.
  explicit OptionTable(train::Config& config);

  const boost::program_options::options_description& all() const { return all_; }
  /// Returns the options that `command` uses, by group in the order of the functions `add_...`
  /// below; groups without such an option are omitted.
  std::vector<boost::program_options::options_description> groups_of(
      std::string_view command) const;
  std::vector<std::string> names() const;
  /// Returns the names of the options that `command` uses.
  std::vector<std::string> names_of(std::string_view command) const;
  /// Returns true if `command` uses the option `name`; false for an unknown option.
  bool is_used(std::string_view command, std::string_view name) const;

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

  struct Titled {
    std::string title;
    std::vector<boost::shared_ptr<boost::program_options::option_description>> options;
  };
  std::vector<Titled> groups_;
  std::map<std::string, unsigned, std::less<>> users_;  ///< commands by option name
  boost::program_options::options_description all_;
};

}  // namespace lockstep::app
