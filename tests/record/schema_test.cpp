// SPDX-License-Identifier: BSD-3-Clause
#include "schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/core/error.hpp"
#include "lockstep/record/run_file.hpp"
#include "reading.hpp"
#include "samples.hpp"
#include "temporary_directory.hpp"

namespace lockstep::record {
namespace {

using testing::Each;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<std::string> paths_of(const std::vector<const DatasetSchema*>& datasets) {
  std::vector<std::string> paths;
  for (const DatasetSchema* dataset : datasets) paths.push_back(dataset->path);
  return paths;
}

TEST(Schema, HasThePhasesOfAStep) {
  EXPECT_THAT(run_file_schema().dataset("/phase").values, ElementsAreArray(phase_names));
}

TEST(Schema, SelectsDatasetsByGroupAndDimension) {
  const Schema& schema = run_file_schema();
  EXPECT_THAT(paths_of(schema.group("/buckets")),
              testing::ElementsAre("/buckets/bytes", "/buckets/start_seconds",
                                   "/buckets/end_seconds", "/buckets/call_seconds"));
  EXPECT_THAT(paths_of(schema.along("message")), SizeIs(4));
  EXPECT_THAT(paths_of(schema.along("message")), Each(HasSubstr("/allreduce/")));
  EXPECT_TRUE(schema.attributes.contains({"/", "run_id"}));
  EXPECT_FALSE(schema.attributes.contains({"/results", "run_id"}));
  EXPECT_THROW(schema.dataset("/steps/unknown"), core::Error);
}

class MeasurementsTest : public testing::Test {
 protected:
  /// Returns the message of the error with which `append` rejects an epoch with these values.
  std::string append(const std::string& path, std::vector<double> values) {
    EpochRecord epoch = samples::epoch(1, 4, header_);
    epoch.measurements = {{path, std::move(values)}};
    try {
      run_.append(epoch);
    } catch (const core::Error& error) {
      return error.what();
    }
    return "";
  }
  std::vector<double> stored(const char* path) const {
    return read_doubles(hdf5::open_file(directory_ / "run.h5.partial", hdf5::Access::read), path);
  }

  const TemporaryDirectory directory_;
  const RunHeader header_ = samples::header(3, 2);
  RunFile run_{directory_ / "run.h5", OverwriteMode::refuse, header_};
};

TEST_F(MeasurementsTest, AreStoredByPath) {
  EXPECT_EQ(append("/epochs/utilisation", {0.25, 0.5, 1}), "");
  EXPECT_THAT(stored("/epochs/utilisation"), testing::ElementsAre(0.25, 0.5, 1));
}

TEST_F(MeasurementsTest, AreMissingValuesIfNotGiven) {
  EXPECT_EQ(append("/epochs/utilisation", {0.25, 0.5, 1}), "");
  EXPECT_THAT(stored("/epochs/energy_joules"), SizeIs(3));
  EXPECT_THAT(stored("/epochs/energy_joules"), Each(testing::IsNan()));
}

TEST_F(MeasurementsTest, MustBeInTheSchemaAndFitIt) {
  EXPECT_THAT(append("/epochs/unknown", {1, 2, 3}), HasSubstr("has no dataset /epochs/unknown"));
  EXPECT_THAT(append("/epochs/utilisation", {1, 2}), HasSubstr("do not fit the dataset"));
  EXPECT_THAT(append("/steps/images", {1, 2, 3, 4}), HasSubstr("have another type"));
  EXPECT_THAT(stored("/epoch"), SizeIs(0));
}

TEST_F(MeasurementsTest, ResultsMustBeInTheSchema) {
  EXPECT_NO_THROW(run_.write_result("last_test_accuracy", 0.5));
  EXPECT_THROW(run_.write_result("unknown", 0.5), core::Error);
}

}  // namespace
}  // namespace lockstep::record
