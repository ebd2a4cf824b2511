// What a device could reach at best: benchmarks put their figures beside it.
#pragma once

namespace fulmar {

// Measured in the same run as the figures compared with them; 0: not measured.
struct Ceilings {
  double read_gbs = 0;  // bytes read from memory per second, / 1e9
  double copy_gbs = 0;  // bytes read and written per second by a copy, both counted, / 1e9
  double gflops = 0;    // f32 (or the matrix units' type on a GPU) operations per second, / 1e9
};

}  // namespace fulmar
