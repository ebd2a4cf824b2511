// The time of a step by its number of rows, measured while the engine runs. Pure: times are passed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fulmar {

class StepCost {
 public:
  // Records a step's time. The estimate stays near the least measured: other load makes steps longer, never
  // shorter.
  void record(int64_t rows, double seconds);

  // Returns the seconds of a step of `rows` rows, interpolated between measured sizes. Beyond them it is the
  // nearest one's, so that unknown sizes look cheap and are tried. 0: nothing was measured.
  double of(int64_t rows) const;

  // Returns the steps since this size was last measured; a very large number if never.
  int64_t age(int64_t rows) const;

 private:
  struct TimedRows {
    double seconds = 0;  // 0: not measured
    int64_t step = 0;    // of the last measurement
  };

  std::vector<TimedRows> entries_;  // by rows
  int64_t steps_ = 0;
};

}  // namespace fulmar
