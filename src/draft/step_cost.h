// What a step takes by its number of rows, as measured while it runs. Pure: times are handed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fulmar {

class StepCost {
 public:
  // A step of so many rows has taken so long. Near the least of what was measured: others' use of the machine
  // makes steps longer, never shorter.
  void record(int64_t rows, double seconds);

  // Seconds of a step of so many rows; between measured numbers in proportion, beyond them as the nearest, so
  // that what is not known looks cheap and is tried. 0: nothing was measured.
  double of(int64_t rows) const;

  // Steps since one of so many rows was last measured; very many where there was none.
  int64_t age(int64_t rows) const;

 private:
  struct Entry {
    double seconds = 0;  // 0: not measured
    int64_t step = 0;    // of the last measurement
  };

  std::vector<Entry> entries_;  // by rows
  int64_t steps_ = 0;
};

}  // namespace fulmar
